"""``kproxy demo``: a cluster, kproxy in front of it, clients, and their traffic decoded, in one command.

The cluster and the clients are in demo_workload.py, which needs confluent-kafka. kproxy is a kproxy.testing.Proxy that writes a
log and a capture; ``kproxy decode`` reads the capture while it is written (``Digest``).
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from kproxy.output.text.styles import cut
from kproxy.output.times import counted
from kproxy.testing.proxy import START_S, Proxy

if TYPE_CHECKING:
    from kproxy.cli.demo_workload import Counts

POLL_S = 0.2
END_S = 10.0  # for the decoder to read the rest
WIDEST = 400  # columns of a line where standard output is no terminal
NARROW = 120  # columns; narrower terminals get no addresses, as the client, topic and group say more
COUNT_EVERY_S = 5.0  # between two lines that count the requests not shown
LEAVING = "\nEnding: the consumers leave their group, which takes some seconds.\n"
READ_SIZE = 262_144
HIDDEN = ["ApiVersions", "GetTelemetrySubscriptions", "PushTelemetry"]  # how each connection begins
DECODER = (sys.executable, "-m", "kproxy", "decode", "--where", f"!(apiName in {json.dumps(HIDDEN)})", "-")
EXCHANGE = re.compile(r" (?P<api>[A-Z]\w+) v\d+ +(?P<client_id>\S+)  (?P<rest>.*)")  # in a line of kproxy decode
ERROR = re.compile(r"\b[A-Z]+_[A-Z_]+\b")
REBALANCE = {"JoinGroup", "SyncGroup", "LeaveGroup"}
MOST_OF_A_REBALANCE = 4  # lines for each client and API
MOST_APIS = 4  # that the summary names
PAGE_FILE = re.compile(r"/[^\s\"]*/kproxy-page-[^\s\"]+?\.url")  # in the log: the file that has the address of the page


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
    from kproxy.cli.demo_workload import MockCluster, Workload, scene  # noqa: PLC0415 - UsageError without confluent-kafka

    cluster = MockCluster()
    proxy = DemoProxy(Path(tempfile.mkdtemp(prefix="kproxy-demo-")), cluster.bootstrap)
    console.print(f"kproxy starts in front of {len(cluster.bootstrap)} mock brokers.")
    with ExitStack() as stack:
        stack.enter_context(proxy)
        if ending.is_set():
            return
        _introduce(console, scene(seconds), proxy, seconds)
        terminal = _Terminal(console)
        digest = Digest(proxy.capture, terminal.show, is_narrow=terminal.width < NARROW)
        stack.callback(digest.stop)
        begun = time.monotonic()
        workload = Workload(proxy.bootstrap)
        workload.start()
        try:
            _wait(ending, terminal, digest, proxy, seconds)
            terminal.show(LEAVING)
        finally:
            counts = workload.stop()
        took = time.monotonic() - begun
        proxy.close()
        digest.stop()
    if not terminal.closed:
        _summarize(console, counts, digest, took, proxy)


class DemoProxy(Proxy):
    """Writes its log and capture into *folder*."""

    def __init__(self, folder: Path, bootstrap: list[str]) -> None:
        super().__init__(bootstrap)
        self.decoded_log, self.capture = folder / "decoded.jsonl", folder / "trace.pcapng"

    def configuration(self) -> dict[str, Any]:
        analysis = {"log": {"path": str(self.decoded_log)}, "capture": {"path": str(self.capture)}}
        return {**super().configuration(), "analysis": analysis}

    def page(self) -> str:
        """Return the address of the live page; "" where the packages that it needs are missing."""
        if not all(map(find_spec, ("duckdb", "pyarrow"))):
            return ""
        self.wait_for("the page", START_S)
        file = PAGE_FILE.search("".join(self.log()))
        return Path(file[0]).read_text(encoding="ascii").strip() if file else ""


def _introduce(console: Console, scene: list[str], proxy: DemoProxy, seconds: float | None) -> None:
    page = proxy.page()
    columns = "time," if console.is_terminal and console.width < NARROW else "time, client → broker, latency,"
    end = "Ctrl-C ends the demo" if seconds is None else f"The demo ends after {seconds:g} s, or with Ctrl-C"
    for line in (
        f"Watch it in a browser: {page}" if page else "To watch it in a browser too: pip install 'kproxy-kafka[page]'",
        "",
        *scene,
        f"Below is what is new: {columns} API and version,",
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
        self.width = console.width if console.is_terminal else WIDEST
        self._lock = threading.Lock()

    def show(self, line: str) -> None:
        """Print a line, cut to the width of the terminal."""
        with self._lock:
            try:
                print("\n".join(cut(part, self.width) for part in line.split("\n")), flush=True)
            except OSError:
                self.closed = True


class Digest:
    """Decodes the capture while it is written, and passes on the lines that say something new.

    *show* gets the first request of each API and client, and the first four of each with an error or of a rebalance;
    ``left_out`` counts the others, and ``seen`` all.
    """

    def __init__(
        self, capture: Path, show: Callable[[str], None], decoder: Sequence[str] = DECODER, *, is_narrow: bool = False
    ) -> None:
        self.left_out: Counter[str] = Counter()  # by API
        self.seen: Counter[tuple[str, str]] = Counter()  # by client id and API
        self._capture = capture
        self._show = show
        self._is_narrow = is_narrow
        self._ending = threading.Event()
        self._decoder = subprocess.Popen(
            decoder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for the demo, which ends it in order
        )
        self._threads = [
            threading.Thread(target=self._copy, name="demo-capture"),
            threading.Thread(target=self._choose, name="demo-digest"),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Show what is left, and wait for it. Call this when the capture is complete."""
        self._ending.set()
        for thread in self._threads:
            thread.join(END_S)
        try:
            self._decoder.wait(END_S)
        except subprocess.TimeoutExpired:
            self._decoder.kill()
            self._decoder.wait()

    def _choose(self) -> None:
        lines = self._decoder.stdout
        assert lines is not None
        with contextlib.closing(lines):
            for data in lines:
                line = data.decode("utf-8", "replace").rstrip()
                exchange = EXCHANGE.search(line)
                if exchange is None:
                    self._show(line)
                    continue
                api, client_id, rest = exchange.groups()
                self.seen[client_id, api] += 1
                if self.seen[client_id, api] <= (MOST_OF_A_REBALANCE if api in REBALANCE or ERROR.search(rest) else 1):
                    self._show(_without_addresses(line, exchange) if self._is_narrow else line)
                else:
                    self.left_out[api] += 1

    def _copy(self) -> None:
        pipe = self._decoder.stdin
        assert pipe is not None
        with contextlib.suppress(OSError), contextlib.closing(pipe):
            while not self._ending.wait(POLL_S) and not self._capture.exists():
                pass
            while self._capture.exists():  # again for each part after a rotation
                if not self._copy_part(pipe):
                    break

    def _copy_part(self, pipe: IO[bytes]) -> bool:
        """Copy one part of the capture to its end; return whether another part has replaced it."""
        with self._capture.open("rb") as part:
            number = os.fstat(part.fileno()).st_ino
            while True:
                last = self._ending.is_set()  # before reading: then this read sees everything
                moved = not self._capture.exists() or self._capture.stat().st_ino != number
                while data := part.read(READ_SIZE):
                    pipe.write(data)
                pipe.flush()
                if moved or last:
                    return moved
                self._ending.wait(POLL_S)


def _without_addresses(line: str, exchange: re.Match[str]) -> str:
    """Shorten a line of kproxy decode for narrow terminals: its time, then all from the name of the API on, in single spaces."""
    time_of_day = line.partition(" ")[0]
    return " ".join([time_of_day, *line[exchange.start("api") :].split()])


def _wait(ending: threading.Event, terminal: _Terminal, digest: Digest, proxy: Proxy, seconds: float | None) -> None:
    """Wait for the end, and say every COUNT_EVERY_S how many requests were not shown. Raises KproxyError if kproxy ends."""
    begun = counted = time.monotonic()
    while not ending.wait(POLL_S) and not terminal.closed:
        proxy.check_running()
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


def _summarize(console: Console, counts: "Counts", digest: Digest, seconds: float, proxy: DemoProxy) -> None:
    """Print what the clients counted, what kproxy saw, and commands to go on with; only paths are wider than 80 columns."""
    failed = f", {counts.failed} failed" if counts.failed else ""
    records = (
        f"{counted(counts.produced, 'record')} produced, {counts.consumed:,} consumed by a group of {counts.consumers}"
    )
    apis: Counter[str] = Counter()
    for (_, api), count in digest.seen.items():
        apis[api] += count
    named = ", ".join(f"{count} {api}" for api, count in apis.most_common(MOST_APIS))
    console.print(f"\n{records}{failed} in {seconds:.0f} s", style="bold")
    console.print(f"{apis.total()} requests: {named} ...\n\nNext:")
    steps = {
        "the page": f"kproxy open {proxy.capture}",
        "findings": f"kproxy report {proxy.capture}",
        "all fields": f"kproxy decode -v --records {proxy.capture}",
        "Wireshark": f"wireshark {proxy.capture}",
        "decoded log": str(proxy.decoded_log),
        "your cluster": "kproxy run --listen :19092 --bootstrap your-broker:9092",
    }
    for name, text in steps.items():
        console.print(Text.assemble((f"{name:<14}", "dim"), text), soft_wrap=True)


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
