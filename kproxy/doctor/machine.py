"""This machine: open files, space for outputs, free ports, certificates that clients are shown, and the clock."""

import ctypes
import datetime
import math
import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kproxy.config import Cluster, Config
from kproxy.doctor.findings import Finding, good, note, problem, warning
from kproxy.doctor.tls_words import date_problems
from kproxy.filters.options import OptionMistakes, Rotated, read_options
from kproxy.output.times import render_size
from kproxy.proxy.network.listening import advice_on_binding, check_addresses_are_free, check_admin_address_is_free

FILES_OF_A_CLIENT = 2  # the connection of the client, and the one to its broker
OWN_FILES = 64  # of kproxy itself: listeners, logs, pipes, shared memory
TRIED = 65_536  # bytes written to see whether there is space
FULL = 64 << 20  # bytes
STA_UNSYNC = 0x0040  # adjtimex(2)


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
        yield from _listener_certificate(cluster)
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


def _listener_certificate(cluster: Cluster) -> Iterator[Finding]:
    if cluster.listener_tls is None:
        return
    subject = f"{cluster.name}: certificate for clients"
    encoded = Path(cluster.listener_tls.certificate).read_bytes()
    for words in date_problems(encoded, datetime.datetime.now(datetime.UTC)):
        yield (warning if words.startswith("expires") else problem)(
            subject, f"{cluster.listener_tls.certificate} {words}", "renew it"
        )


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
