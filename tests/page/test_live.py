"""Live: what an analyzer sends is shown while it comes, with the values of kproxy decode; a feed that breaks off is followed."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kproxy.page.live import FEED, HTTP, Live, listen
from kproxy.page.work import Work
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.pcapng_output import LivePcapng
from kproxy.pipeline.run import Options, Run
from kproxy.proxy.analyzer.page_feed import PageFeed, connect
from tests.support.kafka.processes import eventually
from tests.support.traffic import CAPTURES

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"
COLUMNS = ("apiName", "apiVersion", "clientId", "correlationId")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")  # short enough for the path of a socket


@pytest.fixture
def store(folder: Path) -> Iterator[Live]:
    listener = listen(folder, FEED)
    with listener, Live("a proxy", listener) as made:
        made.start()
        yield made


def send(folder: Path, cut: int | None = None) -> PageFeed:
    """Send a capture as the analyzer sends what it sees; *cut*: of the pieces, only so many bytes of the last."""
    feed = connect(str(folder / FEED))
    with Run(Options(), [LivePcapng(_Cut(feed, cut))]) as run, open_input(ORDERS) as source:
        for _ in run.read(source):
            pass
        run.flush()
        run.remove_output(run.outputs[0])
    return feed


class _Cut:
    """A feed that breaks off."""

    def __init__(self, feed: PageFeed, left: int | None, *, keep: bool = False) -> None:
        self._feed, self._left, self._keep = feed, left, keep
        self.begin_part = bytes

    def is_open(self) -> bool:
        self._feed.begin_part = self.begin_part
        return self._feed.is_open()

    def append(self, data: bytes) -> None:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._feed.append(data)

    def flush(self) -> None:
        self._feed.flush()

    def close(self, error: BaseException | None = None) -> None:
        if not self._keep:
            self._feed.close()


def decoded() -> list[dict[str, object]]:
    words = [sys.executable, "-m", "kproxy", "decode", "-q", "--format", "jsonl", str(ORDERS)]
    lines = [msgspec.json.decode(line) for line in subprocess.check_output(words).splitlines()]
    return [line for line in lines if line["event"] == "exchange"]


def test_exchanges_are_shown_while_the_feed_goes_on(store: Live, folder: Path) -> None:
    expected = decoded()
    feed = send(folder)
    assert eventually(lambda: store.last == len(expected), what="all exchanges")
    assert (store.live, store.loading, store.name, store.dropped) == (True, None, "a proxy", 0)
    rows = store.page(Work(), limit=500, columns=COLUMNS).rows
    assert sorted(map(str, rows)) == sorted(str([line[name] for name in COLUMNS]) for line in expected)
    produced = store.page(Work(), 'apiName == "Produce"', columns=COLUMNS)
    assert produced.total == sum(line["apiName"] == "Produce" for line in expected) > 0
    assert store.item(1) is not None
    feed.close()


def test_a_feed_that_breaks_off_is_followed_by_another(store: Live, folder: Path) -> None:
    expected = len(decoded())
    send(folder, cut=5_000).close()
    send(folder).close()
    assert eventually(lambda: store.last >= expected, what="the second feed")
    first = store.last
    send(folder).close()
    assert eventually(lambda: store.last == first + expected, what="the third feed")


def test_what_comes_behind_something_dropped_is_shown_too(store: Live, folder: Path) -> None:
    """The same connections as before, whose packets are the same in both captures."""
    busy = False
    feed = connect(str(folder / FEED), lambda: busy)
    counted = len(decoded())
    for is_busy in (False, True, False):
        busy = is_busy
        output = LivePcapng(_Cut(feed, None, keep=True))
        with Run(Options(), [output]) as run, open_input(ORDERS) as source:
            for _ in run.read(source):
                pass
            run.flush()
    assert eventually(lambda: store.last == 2 * counted, what="what was not dropped")
    assert feed.dropped >= counted
    feed.close()


def test_bytes_that_are_no_capture_end_their_feed_alone(store: Live, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as wrong:
        wrong.connect(str(folder / FEED))
        wrong.sendall(b"\xff" * 10_000)
    send(folder).close()
    assert eventually(lambda: store.last == len(decoded()), what="the feed behind it")


@pytest.mark.long
def test_the_process_ends_with_its_input(folder: Path) -> None:
    words = [sys.executable, "-m", "kproxy.page.live"]
    arguments = {"folder": str(folder), "name": "a proxy", "token": "t", "hosts": []}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(arguments) + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        assert {path.name for path in folder.iterdir()} == {FEED, HTTP}
        process.stdin.close()
        assert process.wait(60) == 0
