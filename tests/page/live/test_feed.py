"""LiveFeed: counts are exact over feeds and faults: what came is here, left, or dropped."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy.page import findings
from kproxy.page.exporting import Selection
from kproxy.page.findings import Findings
from kproxy.page.live import files as live_files
from kproxy.page.live.files import LiveRows
from kproxy.page.live.process import FEED, listen
from kproxy.page.live.store import Live
from kproxy.page.work import Work
from kproxy.proxy.page_records import SIZE, Begun, Ended, Record, Shown, Side, Tally, encode
from kproxy.session import Exchange
from kproxy.session.events import TlsFacts
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


SHORT = ("connection_churn", "reconnect_loop")  # findings about connections that end soon
LIST_GROUPS = Side(b"\0\x10" + SENT.data[2:], SENT.started_at, SENT.ended_at, 0, 10, 0)
ANSWER = Side(bytes(14), SENT.started_at, SENT.ended_at, 0, 4, 0)  # to it: no error, no groups


def counts(store: Live) -> tuple[int, int, int]:
    return store.exchanges, store.left + store.dropped, store.seen


def test_an_analyzer_that_was_started_again_is_told(store: Live, folder: Path) -> None:
    """What the one before had not sent when it was killed is counted nowhere; another feed of the same one misses nothing."""
    for _ in range(2):
        feed = Analyzer(folder)
        eventually(lambda: store.fed)
        feed.socket.close()
        eventually(lambda: not store.fed)
    assert store.damages == []
    other = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    subprocess.run([sys.executable, "-S", "-c", other, str(folder / FEED)], check=True)
    eventually(lambda: len(store.damages) == 1)
    assert "the analyzer was started again" in store.damages[0]


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


def test_who_logged_in_before_the_page_was_opened(store: Live, folder: Path) -> None:
    """Beside it one with a certificate alone, one with neither."""
    analyzer = Analyzer(folder)
    told = TlsFacts("TLS 1.3", client_certificate="CN=app", decrypted=True)
    analyzer.send(
        *(
            msgspec.structs.replace(BEGUN, connection=number, user_name=user, sasl_mechanism=mechanism, tls=tls)
            for number, user, mechanism, tls in (
                (1, "alice", "PLAIN", told),
                (2, None, None, told),
                (3, None, None, None),
            )
        ),
        *(shown(number) for number in (1, 2, 3)),
        Tally(3, 0, 0, 1.0),
    )
    eventually(lambda: store.last == 3, what="the exchanges")
    assert store.page(Work(), columns=["principal"]).rows == [["alice"], ["CN=app"], [None]]
    assert store.page(Work(), 'principal == "alice"').numbers == [1]
    with store.cursor() as cursor:
        store.database  # noqa: B018 - makes the views of what is there now
        query = "SELECT user_name, tls_version, tls_client_certificate FROM connections ORDER BY connection"
        rows = [("alice", "TLS 1.3", "CN=app"), (None, "TLS 1.3", "CN=app"), (None, None, None)]
        assert cursor.execute(query).fetchall() == rows
    found = Findings(store).run(Work(), "plaintext_credentials")
    assert found is not None and found["rows"] == [], "kproxy has decrypted it, the network has not seen it"
    analyzer.socket.close()


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
    unshown = [shown(1, number) for number in range(2, 12)]  # of one piece, so that none has been shown before
    analyzer.send(*unshown, shown(1, 13), shown(1, 14), Tally(13, 0, 0, 1.0))
    eventually(lambda: counts(store) == (12, 1, 13), what="the others")
    assert store.page(Work(), columns=["correlationId"]).rows == [[number] for number in (*range(1, 12), 14)]
    analyzer.socket.close()


def test_connections_that_are_open_have_not_ended_soon(store: Live, folder: Path) -> None:
    """Forty with an opening alone, forty with answered work: findings tell of each once they have ended, and not before."""
    analyzer = Analyzer(folder)
    numbers = range(1, 81)
    for number in numbers:
        work = Shown(number, SENT.started_at, 16, 0, 2, "works", LIST_GROUPS, ANSWER, False, True, None, None)
        analyzer.send(
            Begun(number, SENT.started_at, f"127.0.0.{1 + number % 2}:{number}", "127.0.0.1:9092", "orders"),
            work if number % 2 else shown(number),
        )
    eventually(lambda: connections(store) == {"end of capture": 80}, what="the open ones")
    assert [verdicts(store, name) for name in SHORT] == [0, 0]
    for number in numbers:  # the broker hangs up on those that it did not answer
        analyzer.send(
            Ended(number, SENT.ended_at, "client" if number % 2 else "broker", "finished"),
            Ended(number, SENT.ended_at, None, "finished"),
        )
    eventually(lambda: connections(store) == {"finished": 80}, what="their ends")
    assert [verdicts(store, name) for name in SHORT] == [1, 1]
    analyzer.socket.close()


def test_open_connections_are_not_written_again_for_each_that_ends(
    store: Live, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 300, five end one after the other; who asks sees each once, though the rows of the open ones are old."""
    monkeypatch.setattr("kproxy.page.live.feed.OPEN_SHARE", 1e-9)
    written: list[int] = []
    every = LiveRows.open_connections
    monkeypatch.setattr(LiveRows, "open_connections", lambda rows: written.append(1) or every(rows))
    analyzer = Analyzer(folder)
    numbers = range(1, 301)
    analyzer.send(
        *(Begun(number, 5, f"127.0.0.1:{number}", "127.0.0.1:9092", "orders") for number in numbers),
        *(shown(number) for number in numbers),
        Tally(300, 0, 0, 1.0),
    )
    eventually(lambda: connections(store) == {"end of capture": 300}, what="the open ones")
    for count in range(1, 6):
        analyzer.send(Ended(count, SENT.ended_at, None, "finished"))
        eventually(
            lambda count=count: connections(store) == {"end of capture": 300 - count, "finished": count},  # type: ignore[misc]
            what=f"{count} that have ended",
        )
    assert len(written) == 1
    analyzer.socket.close()


def connections(store: Live) -> dict[str, int]:
    store.database  # noqa: B018 - makes the views of what is there now
    with store.cursor() as cursor:
        return dict(cursor.execute("SELECT closed, count(*) FROM connections GROUP BY closed").fetchall())


def verdicts(store: Live, name: str) -> int:
    """How many clients a finding names."""
    found = Findings(store).run(Work(), name)
    assert found is not None
    return len(found["rows"])


def test_a_finding_ends_though_rows_come_and_leave_meanwhile(
    store: Live, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it looks at stays readable: files that are replaced are closed at once else."""
    monkeypatch.setattr(live_files, "LINGER_S", 0.0)
    analyzer = Analyzer(folder)
    analyzer.send(BEGUN, *(shown(1, number) for number in range(1, 51)), Tally(50, 0, 0, 1.0))
    eventually(lambda: store.seen == 50, what="the first")
    run = findings.answer

    def meanwhile(*asked: Any) -> Any:
        for total in range(51, 55):
            analyzer.send(shown(1, total), Tally(total, 0, 0, 1.0))
            eventually(lambda total=total: store.seen == total, what="more")  # type: ignore[misc]
        return run(*asked)

    monkeypatch.setattr(findings, "answer", meanwhile)
    found = Findings(store).run(Work(), "inventory")
    assert found is not None and len(found["rows"]) == 1
    row = dict(zip([column["name"] for column in found["columns"]], found["rows"][0], strict=True))
    assert row["requests"] == 50, "those that were there when it was asked"
    analyzer.socket.close()


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
        lines = list(Selection(store).lines(Work()))
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
        monkeypatch.setattr("kproxy.page.blocks.TemporaryFile", no_file)
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
        kept = store._kept.exchanges
        assert len(kept.connections) * 1_024 < 2_000_000
        assert len(kept.connections) == len(kept._over) == store.exchanges
        analyzer.socket.close()
