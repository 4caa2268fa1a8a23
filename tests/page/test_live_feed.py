"""LiveFeed: counts are exact over feeds and faults: what came is here, left, or dropped."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.page.live import FEED, Live
from kproxy.page.live_rows import LiveRows
from kproxy.page.work import Work
from kproxy.proxy.page_records import SIZE, Begun, Record, Shown, Side, Tally, encode
from kproxy.session import Exchange
from tests.page.feeding import live
from tests.support.kafka.processes import eventually

SENT = Side(b"\0\x12\0\0\0\0\0\1\xff\xff", 1_700_000_000_000_000_000, 1_700_000_000_000_000_001, 0, 10, 0)
BEGUN = Begun(1, 5, "127.0.0.1:1", "127.0.0.1:2", "orders")


def shown(connection: int = 1, correlation_id: int = 1) -> Shown:
    return Shown(connection, 6, 18, 0, correlation_id, "client", SENT, None, False, True, None, None)


class Analyzer:
    """What an analyzer sends, by hand."""

    def __init__(self, folder: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(folder / FEED))

    def send(self, *records: Record) -> None:
        piece = encode(list(records))
        self.socket.sendall(len(piece).to_bytes(SIZE, "big") + piece)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture
def store(folder: Path) -> Iterator[Live]:
    with live(folder) as made:
        yield made


def counts(store: Live) -> tuple[int, int, int]:
    return store.exchanges, store.left + store.dropped, store.seen


def test_counts_go_on_over_feeds(store: Live, folder: Path) -> None:
    first = Analyzer(folder)
    first.send(BEGUN, shown(), shown(), Tally(5, 3, 1, 0.5))
    eventually(lambda: counts(store) == (2, 4, 6), what="the first feed")
    assert store.share == 0.5
    first.socket.close()
    second = Analyzer(folder)
    second.send(BEGUN, shown(), Tally(1, 0, 0, 1.0))
    eventually(lambda: counts(store) == (3, 4, 7), what="the second feed")
    assert store.share == 1.0
    rows = store.page(Work(), columns=["connection"]).rows
    assert rows == [[1], [1], [2]], "connections of another analyzer are others"
    second.socket.close()


def test_an_exchange_of_an_unknown_connection_is_dropped_and_counted(store: Live, folder: Path) -> None:
    analyzer = Analyzer(folder)
    analyzer.send(BEGUN, shown(9), shown(), Tally(2, 0, 0, 1.0))
    eventually(lambda: counts(store) == (1, 1, 2), what="both")
    analyzer.socket.close()


def test_an_exchange_that_cannot_become_rows_harms_no_other(
    store: Live, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = LiveRows.add

    def failing(rows: LiveRows, number: int, exchange: Exchange) -> None:
        if exchange.correlation_id == 13:
            raise OverflowError
        add(rows, number, exchange)

    monkeypatch.setattr(LiveRows, "add", failing)
    analyzer = Analyzer(folder)
    analyzer.send(BEGUN, shown(1, 1), Tally(1, 0, 0, 1.0))
    eventually(lambda: counts(store) == (1, 0, 1), what="the first")
    analyzer.send(shown(1, 13), shown(1, 2), Tally(3, 0, 0, 1.0))
    eventually(lambda: counts(store) == (2, 1, 3), what="the others")
    assert store.page(Work(), columns=["correlationId"]).rows == [[1], [2]]
    analyzer.socket.close()
