"""The live page's process under a stream of exchanges: CPU of both sides for each, and memory as they become more.

    python -m tests.bench.live_page [--exchanges 10000000] [--most 268435456]

The stream is what clients do most: Heartbeat, Fetch without and with records, Produce, OffsetCommit, with new times and
correlation ids, sent by the analyzer's end of a feed as fast as the process takes them. Printed are, at some numbers of them:
the CPU time of the process for each, that of the feed, its resident memory (RssAnon) and what it keeps (with memory files, which
RssAnon does not have).
What is wanted: 30 and 5 microseconds, 600 MB with what is kept, and no growth from a million exchanges on.
"""

import argparse
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kproxy.page.live.process import FEED, HTTP
from kproxy.pipeline.output import Source
from kproxy.proxy.analyzer.page_feed import PageFeed, connect
from kproxy.proxy.supervisor.live_page import MALLOC
from kproxy.session import Direction, Event, Exchange, Session
from tests.bench import traffic

TOKEN = "of-the-bench"
MARKS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0)
MANY_WAITING = 4 << 20


class Page:
    """The process."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        words = [sys.executable, "-m", "kproxy.page.live"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | MALLOC)
        arguments = {"folder": str(folder), "name": "a bench", "token": TOKEN, "hosts": [], "most": most}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"ready\n"

    def get(self, path: str) -> Any:
        """An answer of the page."""
        connection = http.client.HTTPConnection("127.0.0.1", timeout=120)
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
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self, what: str) -> float:
        """A line of /proc/PID/status."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what)) / 1024

    def stop(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


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
    parser = argparse.ArgumentParser()
    parser.add_argument("--exchanges", type=int, default=10_000_000)
    parser.add_argument("--most", type=int, default=256 << 20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kproxy-") as folder:
        page = Page(Path(folder), options.most)
        feed = connect(str(Path(folder) / FEED), dict, lambda: 0)
        feed.start_source(Source(1, "worker 0"))
        try:
            run(page, feed, options.exchanges)
        finally:
            feed.close()
            page.stop()


def run(page: Page, feed: PageFeed, total: int) -> None:
    """Send them, and stop at the marks."""
    kinds = exchanges()
    print(f"{sum(map(_size, kinds)) // len(kinds)} bytes an exchange; before: {page.memory_mb('RssAnon:'):.0f} MB")
    marks, spent, before = [int(total * mark) for mark in MARKS], 0.0, page.cpu()
    for number in range(1, total + 1):
        exchange = renewed(kinds[number % len(kinds)], number, time.time_ns())
        began = time.thread_time()
        feed.write(exchange, None)
        spent += time.thread_time() - began
        while feed.waiting > MANY_WAITING:
            time.sleep(0.002)
            feed.flush()
        if number in marks:
            report(page, feed, number, spent, page.cpu() - before)


def report(page: Page, feed: PageFeed, number: int, spent: float, cpu: float) -> None:
    """Wait until all is shown, and print."""
    feed.flush()
    while (source := page.get("source"))["seen"] < number:
        feed.flush()
        time.sleep(0.1)
    assert source["exchanges"] + source["left"] + source["dropped"] == number
    print(
        f"{number:>10,}  process {cpu / number * 1e6:5.1f} µs, feed {spent / number * 1e6:4.1f} µs;"
        f" RssAnon {page.memory_mb('RssAnon:'):4.0f} MB, keeps {source['bytes'] / 2**20:4.0f} MB:"
        f" {source['exchanges']:,} here, {source['left']:,} left, {source['dropped']:,} dropped",
        flush=True,
    )


if __name__ == "__main__":
    main()
