"""``kproxy replay``: send the requests of a capture to a broker, and say where its answers differ from the recorded ones.

Ctrl-C, SIGTERM and a standard output whose reader is gone stop the sending, so that the report of what was done can be printed; a
second signal ends the process at once.
"""

import asyncio
import json
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from kproxy.cli.endings import DAMAGED, DONE, INTERRUPTED
from kproxy.cli.options import KEYLOG, SEPARATE, form_option, pop_condition, selection_options, source_path
from kproxy.config.structs import BrokerTls
from kproxy.errors import CaptureError, OutputClosed, UsageError
from kproxy.login.client_settings import ClientSettings, read_settings
from kproxy.pipeline.sink import Sink
from kproxy.protocol.addresses import Address, parse_address
from kproxy.replay.cluster import Cluster
from kproxy.replay.plan import Plan, make_plan
from kproxy.replay.player import Options, Player
from kproxy.replay.recording import read_recording
from kproxy.replay.report import folded, plan_lines, plan_object, result_lines, result_object

SIGNALS = (signal.SIGINT, signal.SIGTERM)
DIFFERS = 4  # exit status, see endings.py
AS_FAST_AS_IT_GOES = "max"
MANIFEST = "_kproxy.json"  # of a folder of tables
NARROWEST = 40  # columns
LEAST_SPEED, MOST_SPEED = 0.001, 100_000.0


class Speed(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in some releases of Click
    """A factor, or "max"."""

    name = "speed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == AS_FAST_AS_IT_GOES:
            return AS_FAST_AS_IT_GOES
        try:
            speed = float(value)
        except ValueError:
            speed = 0.0
        if not LEAST_SPEED <= speed <= MOST_SPEED:
            self.fail(f"{value} is no speed: a factor from {LEAST_SPEED:g} to {MOST_SPEED:,.0f}, or max", param, ctx)
        return speed


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=source_path)
@click.option("--to", metavar="HOST:PORT", required=True, help="A broker of the cluster that the requests are sent to.")
@click.option("--yes", is_flag=True, help="Send the requests; without it, only say what they would do.")
@selection_options
@SEPARATE
@click.option(
    "--speed",
    metavar="FACTOR|max",
    type=Speed(),
    default=1.0,
    help="1: at the times they had (default); 2: twice as fast; max: no waiting.",
)
@click.option("--create-topics", is_flag=True, help="First create topics that the requests use and the cluster lacks.")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(0.1, 3600), default=30.0, help="For each answer (30)."
)
@KEYLOG
@click.option(
    "--command-config",
    metavar="FILE",
    type=Path,
    help="Settings of a client, with its login, as Kafka's tools take them.",
)
@click.option("--tls", is_flag=True, help="TLS to the cluster, with the system's authorities.")
@click.option("--tls-ca", metavar="FILE", type=Path, help="TLS; the authorities that sign the brokers' certificates.")
@click.option("--tls-certificate", metavar="FILE", type=Path, help="TLS; the certificate that brokers are shown.")
@click.option("--tls-key", metavar="FILE", type=Path, help="The private key of that certificate, without a password.")
@click.option("--tls-server-name", metavar="NAME", help="TLS; the name expected in the brokers' certificates.")
@click.option("--tls-no-verify", is_flag=True, help="TLS; accept any certificate. For tests.")
@form_option("json: one object.")
def replay(
    sources: tuple[Path, ...],
    to: str,
    yes: bool,
    separate: bool,
    speed: float | str,
    create_topics: bool,
    timeout: float,
    keylog: Path | None,
    command_config: Path | None,
    form: str,
    **others: Any,  # --tls..., and what selects requests
) -> int:
    """Send the requests of captures to a cluster; compare answers.

    \b
    kproxy replay trace.pcapng --to localhost:9092
    kproxy replay trace.pcapng --to localhost:9092 --yes
    kproxy replay trace.pcapng --to test:9092 --yes --speed max --create-topics
    kproxy replay trace.pcapng --to test:9092 --client billing
    kproxy replay trace.pcapng --to test:9093 --tls-ca ca.pem --yes --format json

    Without --yes nothing is sent but ApiVersions and Metadata, which change nothing: it says what the requests would
    create, write, change and delete, which of them will not be sent, and why.

    Requests go out in the order of their times, each after the answers that had come before it when it was recorded.
    What a cluster hands out is replaced by what the new one hands out: topic ids, producer ids and epochs (in record
    batches, too), member ids and generations, fetch sessions, leader epochs, node ids; offsets, where the capture
    appends to a log that ends elsewhere now. Logins of the capture and what brokers say to each other are not sent.

    For an answer that differs, each field that differs is shown with both values, and the reason where one is known. What
    differs between any two clusters, such as ids and times, is only counted. A fresh cluster with the recorded one's
    settings answers best.

    With --command-config kproxy logs in (SASL: PLAIN or SCRAM) on every connection. It reads these settings of the file, and
    a PEM ssl.truststore.location:

    \b
    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-256
    sasl.jaas.config=\\
      org.apache.kafka.common.security.scram.ScramLoginModule required \\
      username="replay" password="${env:REPLAY_PASSWORD}";

    \b
    Exit status:
      0  done: a dry run, or all answers were as recorded
      1  the cluster cannot be reached, or refuses what is needed before the
         first request
      2  wrong usage
      3  a capture is damaged: everything before the damage was replayed
      4  answers differ, or did not come
    130  interrupted (Ctrl-C, SIGTERM, or nothing reads the output any more):
         it says what was sent until then, and what is left open
    """
    address = _address(to)
    settings = ClientSettings() if command_config is None else read_settings(command_config)
    where = pop_condition(others)
    broker_tls = _tls(settings, **others)
    _check(sources)
    try:
        recording = read_recording(sources, where=where, keylog=keylog, separate=separate)
    except CaptureError as error:
        raise UsageError(str(error)) from error
    for sentence in [*recording.notes, *recording.damages]:
        print(f"kproxy: {sentence}", file=sys.stderr)
    options = Options(None if speed == AS_FAST_AS_IT_GOES else float(speed), timeout)

    async def work() -> int:
        cluster = await Cluster.connect(address, broker_tls, timeout, settings.credentials)
        plan = make_plan(recording, cluster, create_topics=create_topics)
        return await _play(plan, options, form) if yes else _show_plan(plan, form)

    code = asyncio.run(work())
    return code or (DAMAGED if recording.damages else DONE)


def _show_plan(plan: Plan, form: str) -> int:
    if form == "json":
        _say([json.dumps({"dryRun": True, "plan": plan_object(plan)})])
        return DONE
    last = "Nothing was sent. With --yes, it is." if plan.recording.requests else "There is nothing to send."
    _say_folded([*plan_lines(plan, dry=True), last])
    return DONE


async def _play(plan: Plan, options: Options, form: str) -> int:
    """Replay, and report what was done, also after an interrupt."""
    player = Player(plan, options)
    result, began = player.result, time.monotonic()
    try:
        if form == "text":
            _say_folded(plan_lines(plan, dry=False))
        playing = asyncio.ensure_future(player.play())
        try:
            with interrupts(playing.cancel):
                await playing
        except asyncio.CancelledError:
            result.interrupted = True
        seconds = time.monotonic() - began
        if form == "json":
            done = {"dryRun": False, "plan": plan_object(plan), "result": result_object(result, seconds)}
            _say([json.dumps(done)])
        else:
            _say_folded(result_lines(result, seconds))
    except OutputClosed:
        result.interrupted |= bool(result.not_reached)
        if result.interrupted:
            lines = result_lines(result, time.monotonic() - began)
            print(
                "kproxy: nothing reads the output any more, so the replay was ended", *lines, sep="\n", file=sys.stderr
            )
    return INTERRUPTED if result.interrupted else DIFFERS if result.differs else DONE


def _say_folded(lines: Iterable[str]) -> None:
    """Print lines for people, folded on a terminal, but not in a file or a pipe."""
    if sys.stdout.isatty():
        lines = folded(lines, max(shutil.get_terminal_size().columns, NARROWEST))
    _say(lines)


def _say(lines: Iterable[str]) -> None:
    """Print lines. Raises OutputClosed."""
    with Sink(None, live=True) as output:
        for line in lines:
            output.write(f"{line}\n".encode(errors="replace"))


def _address(text: str) -> Address:
    try:
        address = parse_address(text)
    except ValueError as error:
        raise UsageError(f"--to {text}: {error}") from None
    return Address(address.host, address.port)


def _tls(settings: ClientSettings, **given: Any) -> BrokerTls | None:
    """Return the TLS settings from the options --tls... and the file; None for no TLS."""
    if not any(given.values()) and not settings.tls:
        return None
    certificate, key = given["tls_certificate"], given["tls_key"]
    if (certificate is None) != (key is None):
        raise UsageError("--tls-certificate and --tls-key belong together: give both")
    if given["tls_no_verify"] and given["tls_ca"]:
        raise UsageError("--tls-no-verify accepts any certificate, so --tls-ca says nothing: leave out one")
    return BrokerTls(
        ca=_text(given["tls_ca"]) or (None if given["tls_no_verify"] else settings.ca),
        certificate=_text(certificate),
        key=_text(key),
        server_name=given["tls_server_name"],
        verify=not given["tls_no_verify"],
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _check(sources: Sequence[Path]) -> None:
    for source in sources:
        if (source / MANIFEST).is_file() or source.suffix == ".parquet":
            raise UsageError(f"{source} has tables, in which are no bytes to send: replay needs captures")


@contextmanager
def interrupts(stop: Callable[[], object]) -> Iterator[None]:
    """Call *stop* once, in the running loop, at the first of them."""
    loop = asyncio.get_running_loop()
    pipe = _pipe()

    def leave() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        if pipe is not None:
            loop.remove_reader(pipe)

    def interrupt() -> None:
        leave()
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    if pipe is not None:
        # A pipe for writing becomes "readable" only by an error: its reading end was closed
        loop.add_reader(pipe, interrupt)
    try:
        yield
    finally:
        leave()


def _pipe() -> int | None:
    """Return the file descriptor of standard output if it is a pipe, else None."""
    try:
        descriptor = sys.stdout.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):  # it is closed, or no file
        return None
