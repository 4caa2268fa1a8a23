"""The live page's process under a stream of exchanges: CPU of both sides for each, and memory as they become more.

    python -m tests.bench.live_page [--exchanges 10000000] [--most 268435456] [--spill DIR] [--short] [--topics N] [--ask]

--short: each exchange on a connection of its own, which ends. --topics: Produce to so many topics with names of 200 characters in
place of the rest. --ask: at the end the CPU time of the first answer of each view, and of an analysis each.

The stream is what clients do most: Heartbeat, Fetch without and with records, Produce, OffsetCommit, with new times and
correlation ids, sent by the analyzer's end of a feed as fast as the process takes them. Printed are, at some numbers of them:
the CPU time of the process for each, that of the feed, its resident memory (RssAnon) and what it keeps (with memory files, which
RssAnon does not have).
What is wanted: 30 and 5 microseconds, 600 MB with what is kept, and no growth from a million exchanges on.
"""

import http.client
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kproxy.page.live.process import FEED, HTTP
from kproxy.pipeline.output import End, Source
from kproxy.proxy.analyzer.page_feed import PageFeed, connect
from kproxy.session import Connection, Direction, Event, Exchange, Session
from tests.bench import traffic
from tests.bench.measuring import cpu_of, options_of
from tests.support.kafka.processes import kib

TOKEN = "of-the-bench"
MARKS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0)
MANY_WAITING = 4 << 20


class Page:
    """The process."""

    def __init__(self, folder: Path, most: int, spill: str = "") -> None:
        self._folder = folder
        words = [sys.executable, "-m", "kproxy.page.live"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        arguments = {"folder": str(folder), "name": "a bench", "token": TOKEN, "hosts": [], "most": most}
        arguments |= {"spill": spill, "most_spilled": 4 << 30}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"ready\n"

    def get(self, path: str) -> Any:
        """An answer of the page."""
        connection = http.client.HTTPConnection("127.0.0.1", timeout=600)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self._folder / HTTP))
        headers = {"Host": "127.0.0.1:9644", "Cookie": f"kproxy_token_9644={TOKEN}"}
        connection.request("GET", f"/page/api/{path}", headers=headers)
        try:
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return cpu_of([self.process.pid])

    def memory_mb(self) -> float:
        """RssAnon."""
        return kib(f"/proc/{self.process.pid}/status", "RssAnon:") / 1024**2

    def stop(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()


def exchanges() -> list[Exchange]:
    """One of each kind, as a session makes them; those that are empty are the most, as with clients that wait."""
    batch = traffic.record_batch(random.Random(1), 1_024)
    sent = [
        traffic.produce_v8(1, batch),
        traffic.heartbeat_v4(2),
        traffic.fetch_v11(3, b""),
        traffic.heartbeat_v4(4),
        traffic.fetch_v11(5, batch),
        traffic.offset_commit_v8(6),
        traffic.fetch_v11(7, b""),
        traffic.heartbeat_v4(8),
    ]
    session = Session(number=1, client="127.0.0.1:50000", broker="127.0.0.1:9092", is_kafka=True)
    events: list[Event] = []
    for at, (request, response) in enumerate(sent, 1):
        events += session.receive(Direction.REQUEST, request, at)
        events += session.receive(Direction.RESPONSE, response, at)
    found = [event for event in events if isinstance(event, Exchange)]
    assert len(found) == len(sent)
    return found


def to_topics(count: int) -> list[Exchange]:
    """Produce to as many topics, each with one record."""
    batch = traffic.record_batch(random.Random(1), 64)
    session = Session(number=1, client="127.0.0.1:50000", broker="127.0.0.1:9092", is_kafka=True)
    events: list[Event] = []
    for number in range(count):
        request, response = traffic.produce_v8(1, batch, topic=b"topic-%06d" % number + b"x" * 188)
        events += session.receive(Direction.REQUEST, request, 1)
        events += session.receive(Direction.RESPONSE, response, 2)
    return [event for event in events if isinstance(event, Exchange)]


def _size(exchange: Exchange) -> int:
    return sum(len(frame.data) for frame in (exchange.request, exchange.response) if frame is not None)


def renewed(exchange: Exchange, number: int, at: int) -> Exchange:
    """The same, now."""
    request, response = exchange.request, exchange.response
    assert request is not None and response is not None
    took = 200_000 + number * 7_919 % 3_000_000
    return exchange.copy(
        at=at,
        correlation_id=number & 0x7FFFFFFF,
        request=request.copy(started_at=at, ended_at=at),
        response=response.copy(started_at=at + took, ended_at=at + took),
    )


def main() -> None:
    """Measure, and print a line a mark."""
    given = options_of(__doc__, exchanges=10_000_000, most=256 << 20, spill="", short=False, topics=0, ask=False)
    with tempfile.TemporaryDirectory(prefix="kproxy-") as folder:
        page = Page(Path(folder), given.most, given.spill)
        feed = connect(str(Path(folder) / FEED), dict, lambda: 0)
        feed.start_source(Source(1, "worker 0"))
        try:
            run(page, feed, given.exchanges, to_topics(given.topics) if given.topics else exchanges(), given.short)
            if given.ask:
                ask(page)
        finally:
            feed.close()
            page.stop()


def run(page: Page, feed: PageFeed, total: int, kinds: list[Exchange], is_short: bool) -> None:
    """Send them, and stop at the marks."""
    print(f"{sum(map(_size, kinds)) // len(kinds)} bytes an exchange; before: {page.memory_mb():.0f} MB")
    marks, spent, before, sent = [int(total * mark) for mark in MARKS], 0.0, page.cpu(), 0
    for mark in marks:
        spent += send(feed, range(sent + 1, mark + 1), kinds, is_short)
        sent = mark
        report(page, feed, mark, spent, page.cpu() - before)


def send(feed: PageFeed, numbers: range, kinds: list[Exchange], is_short: bool) -> float:
    """Send exchanges with these numbers; the CPU seconds of the feed."""
    spent = 0.0
    for number in numbers:
        exchange = renewed(kinds[number % len(kinds)], number, time.time_ns())
        began = time.thread_time()
        if is_short:
            connection = Connection(
                number, f"10.0.{number >> 8 & 255}.{number & 255}:{1024 + number % 60_000}", "127.0.0.1:9092"
            )
            exchange = exchange.copy(connection=connection)
        feed.write(exchange, None)
        if is_short:
            feed.end(End(number, exchange.at, None, "finished"))
        spent += time.thread_time() - began
        while feed.waiting > MANY_WAITING:
            time.sleep(0.002)
            feed.flush()
    return spent


def report(page: Page, feed: PageFeed, number: int, spent: float, cpu: float) -> None:
    """Wait until all is shown, and print."""
    feed.flush()
    while (source := page.get("source"))["seen"] < number:
        feed.flush()
        time.sleep(0.1)
    assert source["exchanges"] + source["left"] + source["dropped"] == number
    on_disk = f" and {source['spill']['bytes'] / 2**20:.0f} MB on disk" if source["spill"] else ""
    print(
        f"{number:>10,}  process {cpu / number * 1e6:5.1f} µs, feed {spent / number * 1e6:4.1f} µs;"
        f" RssAnon {page.memory_mb():4.0f} MB, keeps {source['bytes'] / 2**20:4.0f} MB"
        f"{on_disk}:"
        f" {source['exchanges']:,} here, {source['left']:,} left, {source['dropped']:,} dropped",
        flush=True,
    )


VIEWS = (
    "exchanges?limit=100",
    "exchanges?limit=100&sort=-latencyMs",
    "exchanges?limit=100&filter=apiName=='Produce'%26%26latencyMs>1.0",
    "exchanges?limit=100&filter=clientId.startsWith('c')",
    "exchanges?limit=100&filter=apiName=='OffsetCommit'%26%26size(request.topics)>0",
    "activity?by=api",
    "activity?by=topic",
    "heatmap",
)


def ask(page: Page) -> None:
    """The CPU seconds of each view's first answer, and of its second."""
    paths = [*VIEWS, *(f"analyses/{one['id']}" for one in page.get("analyses"))]
    for path in paths:
        spent = []
        for _ in range(2):
            before = page.cpu()
            answer = page.get(path)
            spent.append(page.cpu() - before)
        wrong = f"  {answer['error']}" if "error" in answer else ""
        print(f"{spent[0]:6.2f} s, again {spent[1]:6.2f} s  {path}{wrong}", flush=True)
    print(f"RssAnon {page.memory_mb():4.0f} MB")


if __name__ == "__main__":
    main()
