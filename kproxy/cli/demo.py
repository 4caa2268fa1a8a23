"""``kproxy demo``: a cluster, a proxy, clients at work, and what they say to each other, in one command."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from kproxy.errors import KproxyError

if TYPE_CHECKING:
    from kproxy.cli.demo_proxy import Proxy, Scrolling
    from kproxy.cli.demo_workload import MockCluster

LOOK_S = 0.2


@click.command()
@click.option("--seconds", metavar="N", type=click.FloatRange(min=1), help="End after N seconds; default: at Ctrl-C.")
def demo(seconds: float | None) -> None:
    """Run a cluster, kproxy and clients, and show their traffic.

    \b
    kproxy demo
    kproxy demo --seconds 30

    Three mock brokers run inside this process (librdkafka's mock cluster), kproxy forwards to them, and a producer and a
    consumer group connect to kproxy. Each exchange is shown as one line, and a summary at the end. Log and capture
    stay in a temporary folder. Needs pip install 'kproxy[demo]', and neither Kafka nor a network.
    """
    from kproxy.cli.demo_workload import MockCluster  # noqa: PLC0415 - says what to install where it is missing

    with _until_signalled() as ending:
        console = Console(highlight=False)
        cluster = MockCluster()
        try:
            _show(console, ending, seconds, cluster)
        except (BrokenPipeError, SystemExit):  # who read has seen enough; Rich makes SystemExit of it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(console: Console, ending: threading.Event, seconds: float | None, cluster: "MockCluster") -> None:
    from kproxy.cli.demo_proxy import Proxy, Scrolling  # noqa: PLC0415
    from kproxy.cli.demo_summary import Places, read_metrics, show_summary  # noqa: PLC0415
    from kproxy.cli.demo_workload import Workload  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp(prefix="kproxy-demo-"))
    with ExitStack() as stack:
        proxy = Proxy(folder, cluster.bootstrap)
        stack.callback(proxy.stop)
        _introduce(console, proxy, folder, seconds)
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
        finally:
            counts = workload.stop()
        metrics = proxy.metrics()
        took = time.monotonic() - begun
        stack.pop_all()
        proxy.stop()
        scrolling.stop()
    if not metrics:
        raise KproxyError(f"kproxy run did not last; see {proxy.said}")
    places = Places(f"http://{proxy.admin}/metrics", str(proxy.log), str(proxy.capture))
    show_summary(console, counts, read_metrics(metrics), took, places)


def _introduce(console: Console, proxy: "Proxy", folder: Path, seconds: float | None) -> None:
    from kproxy.cli.demo_workload import BROKERS, GROUP, TOPIC  # noqa: PLC0415

    end = "Ctrl-C ends it" if seconds is None else f"Ends after {seconds:g} s, or with Ctrl-C"
    for line in (
        f"{BROKERS} mock brokers, kproxy in front of them on {proxy.listen}.",
        f'A shop produces to "{TOPIC}", the group "{GROUP}" consumes.',
        f"Metrics: http://{proxy.admin}/metrics",
        f"Files: {folder}",
        f"{end}.",
        "",
    ):
        console.print(line, soft_wrap=True)
    sys.stdout.flush()


def _wait(ending: threading.Event, scrolling: "Scrolling", seconds: float | None) -> None:
    until = None if seconds is None else time.monotonic() + seconds
    while not ending.wait(LOOK_S):
        if scrolling.ended or (until is not None and time.monotonic() >= until):
            return


@contextmanager
def _until_signalled() -> Iterator[threading.Event]:
    """An event that is set by Ctrl-C or SIGTERM; a second Ctrl-C interrupts."""
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
