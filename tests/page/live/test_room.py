"""Room: what is too much goes to the directory, and leaves where that cannot be; numbers stay what they were."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kproxy.page import exporting
from kproxy.page.live import files as live_files
from kproxy.page.live.process import FEED, listen
from kproxy.page.live.store import Live
from kproxy.page.work import Work
from kproxy.proxy.page_records import Begun, Ended, Shown, Tally
from tests.page.live.test_feed import BEGUN, Analyzer, shown
from tests.support.kafka.processes import eventually

EACH, PIECES = 250, 20
TOTAL = EACH * PIECES


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are final from fewer rows on, and blocks smaller."""
    monkeypatch.setattr(live_files, "ROWS", EACH)
    monkeypatch.setattr("kproxy.page.live.feed.ROWS", EACH)
    monkeypatch.setattr("kproxy.page.blocks.BLOCK", 16_384)


@contextmanager
def storing(folder: Path, most: int, spill: Path | None, most_spilled: int = 1 << 30) -> Iterator[Live]:
    with Live("a proxy", listen(folder, FEED), most, spill, most_spilled) as store:
        store.start()
        yield store


def send_many(folder: Path, store: Live) -> None:
    """Exchanges with the correlation ids 1 to TOTAL."""
    analyzer = Analyzer(folder)
    analyzer.send(BEGUN)
    for piece in range(PIECES):
        numbers = range(1 + piece * EACH, 1 + (piece + 1) * EACH)
        analyzer.send(*(shown(1, number) for number in numbers), Tally(numbers[-1], 0, 0, 1.0))
    eventually(lambda: store.seen == TOTAL, what="all of them")
    analyzer.socket.close()
    eventually(lambda: not store.fed and store.generation, what="the end of the feed")


def larger(one: Shown, more: bytes) -> Shown:
    assert one.request is not None
    return msgspec.structs.replace(one, request=msgspec.structs.replace(one.request, data=one.request.data + more))


def ids(store: Live, condition: str, offset: int = 0) -> list[int]:
    page = store.page(Work(), condition, offset=offset, limit=3, columns=["correlationId"])
    return [row[0] for row in page.rows]


def test_what_does_not_fit_goes_to_the_directory_and_is_there_as_before(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    with storing(tmp_path, 100_000, spill) as store:
        send_many(tmp_path, store)
        assert (store.first, store.last, store.left) == (1, TOTAL, 0)
        assert store.spill is not None and store.spill.bytes > 0 and store.spill.trouble == ""
        assert store.size - store.lingering < 150_000, "what is in memory"
        assert list(spill.iterdir()) == [], "no name: nothing is left after a crash"
        assert ids(store, "") == [1, 2, 3] and ids(store, "", TOTAL - 3) == [TOTAL - 2, TOTAL - 1, TOTAL]
        assert ids(store, "correlationId >= 777") == [777, 778, 779]
        assert ids(store, "correlationId >= 123 && requestHeader.correlationId == 1") == [123, 124, 125]
        item = store.item(5)
        assert item is not None and item.request is not None and b'"correlationId":5,' in item.line
        lines = list(exporting.lines(store, Work(), "", None, None))
        assert [line.split(b'"correlationId":')[1].split(b",")[0] for line in lines] == [
            b"%d" % n for n in range(1, TOTAL + 1)
        ]
        store.database  # noqa: B018 - makes the views of what is there now
        with store.cursor() as cursor:
            assert cursor.execute("SELECT count(*), sum(correlation_id) FROM exchanges").fetchone() == (
                TOTAL,
                TOTAL * (TOTAL + 1) // 2,
            )


def test_the_directory_is_bounded(tmp_path: Path) -> None:
    with storing(tmp_path, 100_000, tmp_path, 60_000) as store:
        send_many(tmp_path, store)
        assert store.spill is not None and 0 < store.spill.bytes <= 60_000
        assert (store.first > 1, store.left + store.exchanges) == (True, TOTAL)
        assert ids(store, "") == [store.first, store.first + 1, store.first + 2]
        item = store.item(store.first)
        assert item is not None and b'"correlationId":%d,' % store.first in item.line


def test_of_a_small_directory_only_as_much_leaves_as_is_too_much(tmp_path: Path) -> None:
    """A file goes with its last piece: it must not be most of what may be there."""
    most = 1 << 20
    with storing(tmp_path, 400_000, tmp_path, most) as store:
        analyzer, size = Analyzer(tmp_path), 2_000
        analyzer.send(BEGUN)
        for piece in range(8):
            numbers = range(1 + piece * EACH, 1 + (piece + 1) * EACH)
            analyzer.send(*(larger(shown(1, number), os.urandom(size)) for number in numbers))
        eventually(lambda: store.last == 8 * EACH, what="all of them")
        assert store.exchanges * size > most / 2
        analyzer.socket.close()


@pytest.mark.parametrize("what", ["open", "write"])
def test_where_nothing_can_be_written_the_oldest_leave_and_it_is_said(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_file(*_: object, **__: object) -> object:
        return Path("/dev/full").open("r+b")

    if what == "write":
        monkeypatch.setattr("kproxy.page.spilling.TemporaryFile", no_file)
    with storing(tmp_path, 100_000, tmp_path / "nowhere" if what == "open" else tmp_path) as store:
        send_many(tmp_path, store)
        assert store.spill is not None
        why = os.strerror(28 if what == "write" else 2)
        assert store.spill.trouble.endswith(f"and leave: {why}")
        assert (store.left > 0, store.size - store.lingering < 150_000) == (True, True)
        assert ids(store, "") == [store.first, store.first + 1, store.first + 2]


def test_connections_that_are_over_count_and_are_forgotten(tmp_path: Path) -> None:
    """Of short connections, with one exchange each, no more are known than fit."""
    with storing(tmp_path, 2_000_000, tmp_path) as store:
        analyzer = Analyzer(tmp_path)
        for number in range(1, 4_001):
            analyzer.send(
                Begun(number, number, f"10.0.0.1:{number}", "127.0.0.1:9092", "orders"),
                shown(number, number),
                Ended(number, number, None, "finished"),
                Tally(number, 0, 0, 1.0),
            )
        eventually(lambda: store.seen == 4_000, what="all of them")
        assert len(store._exchanges.connections) * 1_024 < 2_000_000
        assert len(store._exchanges.connections) == len(store._exchanges._over) == store.exchanges
        analyzer.socket.close()
