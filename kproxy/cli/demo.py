"""``kproxy demo``: a cluster, kproxy in front of it, clients, and their traffic decoded, in one command."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console

from kproxy.cli.demo_proxy import Digest, Proxy
from kproxy.cli.demo_summary import Files, read_metrics, show_summary
from kproxy.errors import KproxyError
from kproxy.output.text.styles import cut

POLL_S = 0.2
WIDEST = 400  # columns of a line where standard output is no terminal
COUNT_EVERY_S = 5.0  # between two lines that count the requests not shown
LEAVING = "\nEnding: the consumers leave their group, which takes some seconds.\n"


@click.command()
@click.option("--seconds", metavar="N", type=click.FloatRange(min=1), help="End after N seconds; default: at Ctrl-C.")
def demo(seconds: float | None) -> None:
    """Run a cluster, kproxy and clients, and show their traffic.

    \b
    kproxy demo
    kproxy demo --seconds 30

    Three mock brokers run inside this process (librdkafka's mock cluster), kproxy forwards to them, and a producer and a
    consumer group connect to kproxy. The live page shows all of it; the terminal what is new, and a summary at the end. Log
    and capture stay in a temporary folder. Needs pip install 'kproxy-kafka[demo,page]', and neither Kafka nor a network.
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
        console.print(f"kproxy starts on {proxy.listen}, in front of {len(cluster.bootstrap)} mock brokers.")
        proxy.wait(ending)
        if ending.is_set():
            return
        _introduce(console, SCENE, proxy, seconds)
        terminal = _Terminal(console)
        digest = Digest(proxy.capture, terminal.show)
        stack.callback(digest.stop)
        begun = time.monotonic()
        workload = Workload(proxy.listen)
        workload.start()
        try:
            _wait(ending, terminal, digest, seconds)
            terminal.show(LEAVING)
        finally:
            counts = workload.stop()
        metrics = proxy.metrics()
        took = time.monotonic() - begun
        stack.pop_all()
        proxy.stop()
        digest.stop()
    if terminal.closed:
        return
    if not metrics:
        raise KproxyError(f"kproxy run ended before the demo did; see {proxy.log_file}")
    files = Files(str(proxy.decoded_log), str(proxy.capture))
    show_summary(console, counts, read_metrics(metrics), took, files)


def _introduce(console: Console, scene: tuple[str, ...], proxy: Proxy, seconds: float | None) -> None:
    page = proxy.page()
    end = "Ctrl-C ends the demo" if seconds is None else f"The demo ends after {seconds:g} s, or with Ctrl-C"
    for line in (
        f"Watch it in a browser: {page}" if page else "To watch it in a browser too: pip install 'kproxy-kafka[page]'",
        "",
        *scene,
        "Below is what is new: time, client → broker, latency, API and version,",
        "client id, topic or group. The mock cluster sends one byte after its Metadata,",
        "which clients ignore; kproxy says so.",
        f"{end}.",
        "",
    ):
        console.print(line, soft_wrap=True)
    sys.stdout.flush()


class _Terminal:
    """Standard output for lines of several threads."""

    def __init__(self, console: Console) -> None:
        self.closed = False  # by its reader
        self._width = console.width if console.is_terminal else WIDEST
        self._lock = threading.Lock()

    def show(self, line: str) -> None:
        """Print a line, cut to the width of the terminal."""
        with self._lock:
            try:
                print("\n".join(cut(part, self._width) for part in line.split("\n")), flush=True)
            except OSError:
                self.closed = True


def _wait(ending: threading.Event, terminal: _Terminal, digest: Digest, seconds: float | None) -> None:
    """Wait for the end, and say every COUNT_EVERY_S how many requests were not shown."""
    begun = counted = time.monotonic()
    while not ending.wait(POLL_S) and not terminal.closed:
        now = time.monotonic()
        if now >= counted + COUNT_EVERY_S:
            counted = now
            _count(terminal, digest)
        if seconds is not None and now >= begun + seconds:
            return


def _count(terminal: _Terminal, digest: Digest) -> None:
    left_out, digest.left_out = digest.left_out, Counter()
    if left_out:
        apis = ", ".join(f"{api} {count}" for api, count in left_out.most_common())
        terminal.show(f"{time.strftime('%H:%M:%S')}         and {left_out.total()} more alike: {apis}")


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
