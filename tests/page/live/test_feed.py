"""LiveFeed: counts are exact over feeds and faults: what came is here, left, or dropped."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy.page import findings
from kproxy.page.findings import Findings
from kproxy.page.live import files as live_files
from kproxy.page.live.process import FEED
from kproxy.page.live.rows import LiveRows
from kproxy.page.live.store import Live
from kproxy.page.work import Work
from kproxy.proxy.page_records import SIZE, Begun, Ended, Record, Shown, Side, Tally, TlsToProxy, encode
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


SHORT = ("connection_churn", "reconnect_loop")  # findings about connections that end soon
LIST_GROUPS = Side(b"\0\x10" + SENT.data[2:], SENT.started_at, SENT.ended_at, 0, 10, 0)


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
    told = TlsToProxy("TLS 1.3", None, "CN=app")
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
    """Forty with an opening alone, forty with work on them: of each findings tell once they have ended, and not before."""
    analyzer = Analyzer(folder)
    numbers = range(1, 81)
    for number in numbers:
        work = Shown(number, SENT.started_at, 16, 0, 2, "works", LIST_GROUPS, None, False, True, None, None)
        analyzer.send(
            Begun(number, SENT.started_at, f"127.0.0.{1 + number % 2}:{number}", "127.0.0.1:9092", "orders"),
            work if number % 2 else shown(number),
        )
    eventually(lambda: connections(store) == {"end of capture": 80}, what="the open ones")
    assert [verdicts(store, name) for name in SHORT] == [0, 0]
    analyzer.send(*(Ended(number, SENT.ended_at, None, "finished") for number in numbers))
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
