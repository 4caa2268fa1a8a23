"""This machine: open files, space for outputs, free ports, certificates that clients are shown, and the clock.

Of a kproxy that runs already, what its admin pages say.
"""

import ctypes
import datetime
import email.utils
import json
import math
import os
import resource
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from kproxy import __version__
from kproxy.config.structs import NEARLY_ALL, Cluster, Config
from kproxy.doctor.broker import date_problems
from kproxy.doctor.cluster import CLOCK_S
from kproxy.doctor.findings import Finding, good, note, problem, warning
from kproxy.options import OptionMistakes, Rotated, read_options
from kproxy.output.times import render_size
from kproxy.protocol.addresses import as_reached_here
from kproxy.proxy.network.listening import advice_on_binding, check_addresses_are_free, check_admin_address_is_free

FILES_OF_A_CLIENT = 2  # the connection of the client, and the one to its broker
OWN_FILES = 64  # of kproxy itself: listeners, logs, pipes, shared memory
TRIED = 65_536  # bytes written to see whether there is space
FULL = 64 << 20  # bytes
STA_UNSYNC = 0x0040  # adjtimex(2)
MOST_PAGE = 64 << 20  # bytes
BEHIND_S = 5.0
FIRST_COUNTS_S = 6.0  # to wait for the counts of an analyzer that has just started; it sends them each second
PAUSE_S = 0.2


def examine_machine(config: Config, *, running: bool) -> Iterator[Finding]:
    """Do all checks that need no other machine.

    *running*: kproxy already runs with this configuration: its ports are in use, and its own limit of open files counts.
    """
    if not running:
        yield examine_open_files(config.limits.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    yield from _outputs(config)
    if not running:
        yield from _ports(config)
    for cluster in config.clusters:
        yield from _own_certificates(cluster)
    yield from _clock()


def examine_open_files(connections: int, most: float) -> Finding:
    """Check that the limit of open files allows so many clients.

    Args:
        connections: limits.connections.
        most: the limit of open files for each process; RLIM_INFINITY or infinity for none. If kproxy runs, its own limit; else
            this user's hard limit, to which kproxy run raises its own.
    """
    wanted = connections * FILES_OF_A_CLIENT + OWN_FILES
    if most in (resource.RLIM_INFINITY, math.inf) or most >= wanted:
        return good("open files", f"{_number(most)} allowed, {wanted:,} needed for {connections:,} clients")
    clients = int(max((most - OWN_FILES) // FILES_OF_A_CLIENT, 0))
    what = f"the limit of {most:,.0f} is enough for about {clients:,} clients, and limits.connections allows {connections:,}"
    if clients >= NEARLY_ALL * connections:
        return note("open files", what)
    advice = f"allow {wanted:,} (ulimit -Hn, LimitNOFILE= in systemd, --ulimit nofile= in Docker), or lower limits.connections"
    return (problem if clients < 1_000 else warning)("open files", what, advice)


def _number(limit: float) -> str:
    return "any number" if limit in (resource.RLIM_INFINITY, math.inf) else f"{limit:,.0f}"


def _outputs(config: Config) -> Iterator[Finding]:
    outputs = [rotated for rotated in (config.analysis.log, config.analysis.capture) if rotated and rotated.path]
    for rotated in outputs:
        yield _space(Path(rotated.path), rotated.most_size * rotated.keep)
    for cluster in config.clusters:
        for use in cluster.filters:
            file = _file_of(use.with_)
            if file:
                yield _space(Path(file.path), file.most_size * file.keep * config.workers)


def _file_of(options: dict[str, Any]) -> Rotated | None:
    """Return the file that a filter writes, as audit and deny do; None if it writes none."""
    file = options.get("file")
    try:
        return read_options(Rotated, file) if isinstance(file, dict) else None
    except OptionMistakes:  # a user's own filter, whose option "file" has another meaning
        return None


def _space(path: Path, wanted: int) -> Finding:
    """Check that the folder of *path* is writable and has room for *wanted* bytes, all rotated parts together."""
    subject = f"space for {path}"
    folder = path.parent
    try:
        free = shutil.disk_usage(folder).free
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(TRIED))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return problem(
            subject, f"nothing can be written to {folder}: {error.strerror}", "make space, or choose another folder"
        )
    parts = sum(part.stat().st_size for part in folder.glob(f"{path.stem}*") if part.is_file())
    if free < min(FULL, wanted):
        return problem(subject, f"{render_size(free)} are free in {folder}", "make space, or choose another folder")
    if free + parts < wanted:
        what = f"{render_size(free)} are free in {folder}, and the parts that are kept may have {render_size(wanted)}"
        return warning(subject, what, "lower most_size or keep, or make space")
    return good(subject, f"{render_size(free)} free, {render_size(wanted)} at the most")


def _ports(config: Config) -> Iterator[Finding]:
    """Check that the ports of the clusters and of the admin server are free, as kproxy run does before it starts."""
    taken = False
    for check, setting in ((check_addresses_are_free, "listen"), (check_admin_address_is_free, "admin, or off")):
        try:
            check(config)
        except OSError as error:
            taken = True
            what = f"{error.filename} cannot be listened on: {error.strerror}"
            yield problem("ports", what, advice_on_binding(error, setting))
    if not taken:
        yield good("ports", "all addresses to listen on are free")


def _own_certificates(cluster: Cluster) -> Iterator[Finding]:
    """Check when the certificates end that kproxy shows clients and brokers."""
    for side, tls in (("clients", cluster.listener_tls), ("brokers", cluster.broker_tls)):
        file = None if tls is None else tls.certificate
        if file is not None:
            for words in date_problems(Path(file).read_bytes(), datetime.datetime.now(datetime.UTC)):
                subject = f"{cluster.name}: certificate for {side}"
                yield (warning if words.startswith("expires") else problem)(subject, f"{file} {words}", "renew it")


class _Timex(ctypes.Structure):
    """The beginning of struct timex of adjtimex(2)."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    )


def _clock() -> Iterator[Finding]:
    """Report a clock that NTP does not keep, as the kernel tells (adjtimex(2)); in a container it is the host's clock."""
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):  # no Linux
        return
    if state >= 0 and timex.status & STA_UNSYNC:
        yield note("clock", "the kernel does not know of NTP keeping the clock", "see timedatectl or chronyc tracking")


class Running(NamedTuple):
    """The contents of the admin pages of a running kproxy."""

    address: str
    ready: dict[str, Any]
    config: dict[str, Any]
    values: dict[str, float]  # of metrics, summed over their labels
    version: str
    clock_ahead_s: float | None  # how far its machine's clock is ahead of ours


def look_for(address: str, patience: float) -> Running | None:
    """Fetch the admin pages; None if no kproxy answers at that address.

    If kproxy has just started, wait some seconds for the first counts of its analyzer.
    """
    until = time.monotonic() + FIRST_COUNTS_S
    while running := _read_admin_pages(as_reached_here(address), patience):
        is_analyzed = running.config.get("analysis", {}).get("enabled", True)
        if not is_analyzed or running.values.get("kproxy_analysis_up") or time.monotonic() >= until:
            break
        time.sleep(PAUSE_S)
    return running


def _read_admin_pages(address: str, patience: float) -> Running | None:
    try:
        ready, _ = _get(address, "/readyz?format=json", patience)
        config, _ = _get(address, "/config", patience)
        metrics, date = _get(address, "/metrics", patience)
        parsed, settings = json.loads(ready), json.loads(config)
    except (OSError, ValueError):
        return None
    values: dict[str, float] = {}
    version = ""
    for family in text_string_to_metric_families(metrics.decode("utf-8", "replace")):
        for sample in family.samples:
            values[sample.name] = values.get(sample.name, 0.0) + sample.value
            if sample.name == "kproxy_build_info":
                version = sample.labels.get("version", "")
    return Running(address, parsed, settings, values, version, _ahead(date))


def _get(address: str, path: str, patience: float) -> tuple[bytes, str]:
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": "text/plain, application/json"})
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({})
    )  # the page is near: no proxy of the environment
    try:
        with opener.open(request, timeout=patience) as response:
            return response.read(MOST_PAGE), response.headers.get("Date", "")
    except urllib.error.HTTPError as error:
        if error.code == 503:  # /readyz says why
            return error.read(MOST_PAGE), error.headers.get("Date", "")
        raise


def _ahead(date: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() - time.time()
    except ValueError:
        return None


def examine_running(running: Running, shown: dict[str, Any] | None) -> Iterator[Finding]:
    """Check what the pages say. *shown*: the given configuration as /config would show it; None if none was given."""
    subject = f"kproxy at {running.address}"
    yield good(subject, f"runs (version {running.version or 'unknown'})")
    if running.version and running.version != __version__:
        what = f"it is version {running.version}, and this is {__version__}"
        yield warning(subject, what, "restart it, if it was upgraded")
    if not running.ready.get("ready"):
        yield problem(
            f"{subject}: ready", str(running.ready.get("reason", "it is not")), "see the findings about its clusters"
        )
    if shown is not None and (changed := sorted(_differences(running.config, shown))):
        what = f"it runs with another configuration than the file: another {', '.join(changed[:5])}"
        advice = (
            "send it SIGHUP, and look in its log for mistakes; workers, admin and analysis.ring_size need a restart"
        )
        yield problem(f"{subject}: configuration", what, advice)
    if running.clock_ahead_s is not None and abs(running.clock_ahead_s) > CLOCK_S:
        what = f"its clock is {abs(running.clock_ahead_s):,.0f} s {'ahead of' if running.clock_ahead_s > 0 else 'behind'} ours"
        yield problem(f"{subject}: clock", what, "let NTP (chrony, timesyncd) set both clocks")
    limit = running.values.get("kproxy_open_files_limit")  # which can differ from that of this shell (systemd, Docker)
    connections = running.config.get("limits", {}).get("connections")
    if limit is None or connections is None:
        yield note("open files", "a kproxy of this version does not tell its limit", "see /proc/PID/limits")
    else:
        yield examine_open_files(connections, limit)
    yield from _examine_analyzer(running)


def _examine_analyzer(running: Running) -> Iterator[Finding]:
    subject = f"kproxy at {running.address}: analyzer"
    values = running.values
    if not running.config.get("analysis", {}).get("enabled", True):
        yield note(subject, "analysis is off: no log, no captures, no metrics by client")
        return
    if not values.get("kproxy_analysis_up"):
        yield problem(subject, "it does not run, or does not answer", "see the log of kproxy for why it ended")
        return
    left_out, requests = values.get("kproxy_exchanges_left_out_total", 0.0), values.get("kproxy_requests_total", 0.0)
    bodies = values.get("kproxy_bodies_left_out_total", 0.0)
    advice = "give it more CPU, analyze fewer APIs (analysis.api_name, snaplen, sample), or write less"
    if left_out:
        yield warning(
            subject, f"{left_out:,.0f} of {requests:,.0f} exchanges were left out: it does not keep up", advice
        )
    elif bodies:
        yield warning(subject, f"the ends of {bodies:,.0f} bodies were left out: it does not always keep up", advice)
    elif values.get("kproxy_analysis_lag_seconds", 0.0) > BEHIND_S:
        yield warning(subject, f"it is {values['kproxy_analysis_lag_seconds']:.0f} s behind", advice)
    else:
        yield good(subject, f"keeps up: nothing left out of {requests:,.0f} requests")
    if failures := values.get("kproxy_output_failures_total", 0.0):
        what = f"{failures:,.0f} writes of logs or captures failed"
        yield warning(subject, what, "is there space, and may it write there? See the log of kproxy")


def _differences(running: Any, given: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two configurations differ."""
    if isinstance(running, dict) and isinstance(given, dict):
        for name in running.keys() | given.keys():
            yield from _differences(running.get(name), given.get(name), f"{path}.{name}" if path else name)
    elif isinstance(running, list) and isinstance(given, list) and len(running) == len(given):
        for at, (one, other) in enumerate(zip(running, given, strict=True)):
            yield from _differences(one, other, f"{path}[{at}]")
    elif running != given:
        yield path
