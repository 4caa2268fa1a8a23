"""``kproxy demo``: a cluster, kproxy in front of it, clients, and their traffic decoded, in one command."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console

from kproxy.cli.demo_proxy import Proxy, Scrolling
from kproxy.cli.demo_summary import Files, read_metrics, show_summary
from kproxy.errors import KproxyError

POLL_S = 0.2
LEAVING = "\nEnding: the consumers leave their group; the mock cluster takes some seconds for it.\n"


@click.command()
@click.option("--seconds", metavar="N", type=click.FloatRange(min=1), help="End after N seconds; default: at Ctrl-C.")
def demo(seconds: float | None) -> None:
    """Run a cluster, kproxy and clients, and show their traffic.

    \b
    kproxy demo
    kproxy demo --seconds 30

    Three mock brokers run inside this process (librdkafka's mock cluster), kproxy forwards to them, and a producer and a
    consumer group connect to kproxy. Each exchange is shown as one line, and a summary at the end. Log and capture
    stay in a temporary folder. Needs pip install 'kproxy-kafka[demo]', and neither Kafka nor a network.
    """
    with _until_signalled() as ending:
        console = Console(highlight=False)
        try:
            _show(console, ending, seconds)
        except (BrokenPipeError, SystemExit):  # the reader closed the pipe; Rich raises SystemExit for it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(console: Console, ending: threading.Event, seconds: float | None) -> None:
    from kproxy.cli.demo_workload import SCENE, MockCluster, Workload  # noqa: PLC0415 - UsageError without confluent-kafka

    cluster = MockCluster()
    folder = Path(tempfile.mkdtemp(prefix="kproxy-demo-"))
    with ExitStack() as stack:
        proxy = Proxy(folder, cluster.bootstrap)
        stack.callback(proxy.stop)
        _introduce(console, SCENE, proxy, folder, seconds)
        proxy.wait(ending)
        if ending.is_set():
            return
        scrolling = Scrolling(proxy.capture)
        stack.callback(scrolling.stop)
        begun = time.monotonic()
        workload = Workload(proxy.listen)
        workload.start()
        try:
            _wait(ending, scrolling, seconds)
            if not scrolling.ended:
                console.print(LEAVING)
        finally:
            counts = workload.stop()
        metrics = proxy.metrics()
        took = time.monotonic() - begun
        stack.pop_all()
        proxy.stop()
        scrolling.stop()
    if not metrics:
        raise KproxyError(f"kproxy run ended before the demo did; see {proxy.log_file}")
    files = Files(f"http://{proxy.admin}/metrics", str(proxy.decoded_log), str(proxy.capture))
    show_summary(console, counts, read_metrics(metrics), took, files)


def _introduce(console: Console, scene: tuple[str, ...], proxy: Proxy, folder: Path, seconds: float | None) -> None:
    end = "Ctrl-C ends the demo" if seconds is None else f"The demo ends after {seconds:g} s, or with Ctrl-C"
    for line in (
        f"kproxy listens on {proxy.listen}.",
        *scene,
        "",
        "Each line is one request with its response, decoded from what kproxy captures:",
        "time, client → broker, latency, API and version, client id, topic or group.",
        "Not shown: ApiVersions and telemetry. The mock cluster sends one byte after its",
        "Metadata, which clients ignore; kproxy says so.",
        "",
        f"Files: {folder}",
        f"Metrics: http://{proxy.admin}/metrics",
        f"{end}.",
        "",
    ):
        console.print(line, soft_wrap=True)
    sys.stdout.flush()


def _wait(ending: threading.Event, scrolling: Scrolling, seconds: float | None) -> None:
    until = None if seconds is None else time.monotonic() + seconds
    while not ending.wait(POLL_S):
        if scrolling.ended or (until is not None and time.monotonic() >= until):
            return


@contextmanager
def _until_signalled() -> Iterator[threading.Event]:
    """Provide an event that Ctrl-C or SIGTERM sets; a second Ctrl-C interrupts."""
    ending = threading.Event()

    def end(*_: object) -> None:
        if ending.is_set():
            raise KeyboardInterrupt
        ending.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
