"""Live: what an analyzer sends is shown while it comes, with the values of kproxy decode; a feed that breaks off is followed."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kproxy.page.activity import activity, heatmap
from kproxy.page.findings import Findings
from kproxy.page.left_out import Analyzed
from kproxy.page.live.process import FEED
from kproxy.page.live.store import Live
from kproxy.page.work import Work
from kproxy.proxy.page_records import SIZE, Begun, encode
from tests.page.asking import ORDERS, decoded
from tests.page.feeding import feed_of, live, send
from tests.support.corpus import CAPTURES
from tests.support.kafka.processes import eventually

COLUMNS = ("client", "apiName", "apiVersion", "clientId", "correlationId", "latencyMs", "requestSize", "responseSize")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")  # short enough for the path of a socket


@pytest.fixture
def store(folder: Path) -> Iterator[Live]:
    with live(folder) as made:
        yield made


def lines(store: Live) -> list[dict[str, object]]:
    """All lines, without the numbers of connections, which are the page's own, in the order of their requests."""
    found = [msgspec.json.decode(line) for line in store.lines(list(range(store.first, store.last + 1)), [])]
    return ordered(found)


def ordered(found: list[dict[str, object]]) -> list[dict[str, object]]:
    for line in found:
        del line["connection"]
    return sorted(found, key=lambda line: (str(line["requestAt"]), str(line["responseAt"]), str(line["client"])))


@pytest.mark.parametrize(
    "capture", ["01-java-produce-consume-group.pcap", "05-admin.pcap", "06-sasl-scram.pcap", "11-lossy-network.pcap"]
)
def test_lines_are_those_of_decode_while_the_feed_goes_on(store: Live, folder: Path, capture: str) -> None:
    expected = decoded(CAPTURES / capture)
    feed = feed_of(folder)
    send(feed, CAPTURES / capture)
    eventually(lambda: store.last == len(expected), what="all exchanges")
    assert (store.live, store.loading, store.name) == (True, None, "a proxy")
    assert (store.left, store.dropped, store.seen) == (0, 0, len(expected))
    assert lines(store) == ordered(expected)
    feed.close()


def test_rows_and_filters_are_those_of_decode(store: Live, folder: Path) -> None:
    expected = decoded()
    feed = feed_of(folder)
    send(feed)
    eventually(lambda: store.last == len(expected), what="all exchanges")
    rows = store.page(Work(), limit=500, columns=COLUMNS).rows
    assert sorted(map(str, rows)) == sorted(str([line[name] for name in COLUMNS]) for line in expected)
    produced = store.page(Work(), 'apiName == "Produce"', columns=COLUMNS)
    assert produced.total == sum(line["apiName"] == "Produce" for line in expected) > 0
    topics = store.page(Work(), 'apiName == "Metadata" && size(request.topics) > 0')
    assert topics.total == sum(
        bool(line["request"].get("topics")) for line in expected if line["apiName"] == "Metadata"
    )
    slowest = store.page(Work(), "", "-latencyMs", columns=["latencyMs"]).rows[0][0]
    assert slowest == max(line["latencyMs"] for line in expected if line["latencyMs"] is not None)
    item = store.item(1)
    assert item is not None and item.request is not None and len(item.request.data) == item.request.size
    assert store.times() != (None, None)
    feed.close()


def test_connections_are_there_from_their_beginning_and_end(store: Live, folder: Path) -> None:
    feed = feed_of(folder)
    send(feed)

    def states() -> list[tuple[str, int]]:
        with store.cursor() as cursor:
            store.database  # noqa: B018 - makes the views of what is there now
            return [(str(a), int(b)) for a, b in cursor.execute("SELECT closed, requests FROM connections").fetchall()]

    expected = decoded()
    by_connection = [line["connection"] for line in expected if line["requestAt"] is not None]
    counted = sorted(by_connection.count(number) for number in set(by_connection))
    eventually(lambda: store.last == len(expected), what="all exchanges")
    eventually(lambda: sorted(n for _, n in states()) == counted, what="the connections")
    feed.close()
    assert "end of capture" not in dict(states())
    with socket.socket(socket.AF_UNIX) as idle:
        idle.connect(str(folder / FEED))
        piece = encode([Begun(1, 1_700_000_000_000_000_000, "127.0.0.1:1", "127.0.0.1:2", "orders")])
        idle.sendall(len(piece).to_bytes(SIZE, "big") + piece)
        eventually(lambda: ("end of capture", 0) in states(), what="a connection without any request")
    eventually(lambda: "end of capture" not in dict(states()), what="its end, with the analyzer")


def test_a_feed_that_breaks_off_is_followed_by_another(store: Live, folder: Path) -> None:
    expected = decoded()
    first = feed_of(folder)
    send(first)
    first.close()
    with socket.socket(socket.AF_UNIX) as broken:
        broken.connect(str(folder / FEED))
        broken.sendall(b"\0\0\0\5\x91\x9c")
    second = feed_of(folder)
    send(second)
    eventually(lambda: store.last == 2 * len(expected), what="the second feed")
    assert [line["requestAt"] for line in lines(store)][::2] == [line["requestAt"] for line in ordered(expected)]
    second.close()


def test_what_was_left_out_is_told_with_each_answer_that_rests_on_it(store: Live, folder: Path) -> None:
    """The capture comes four times, of which the page gets one."""
    whole = len(decoded())
    feed = feed_of(folder)
    send(feed)
    eventually(lambda: store.seen == whole, what="the first")
    assert activity(store, Work(), "", "api", 40)["leftOut"] is None
    assert uncertain(store, "group_without_commits") is None
    feed.is_busy = True
    feed._rare.may_go = bool  # type: ignore[method-assign]  # never, as in a storm of them
    for _ in range(3):
        send(feed)
    eventually(lambda: store.seen == feed.seen, what="the others")
    assert (feed.dropped, store.exchanges) == (3 * whole, whole)
    answers = activity(store, Work(), "", "api", 40), heatmap(store, Work(), "", 40)
    for answer in answers:
        left_out = answer["leftOut"]
        assert (left_out["exchanges"], left_out["here"], left_out["sampled"]) == (4 * whole, whole, True)
        assert f"Of the {4 * whole:,} exchanges between " in left_out["said"]
        assert f" {whole:,} are here (about 1 in 4)" in left_out["said"]
    shown = sum(sum(series["exchanges"]) for series in answers[0]["series"])
    first, last = store.times()
    assert first is not None and last is not None
    assert shown + sum(answers[0]["leftOutBy"]) == 4 * whole
    assert all(int(answer["leftOut"]["fromNs"]) <= last < int(answer["leftOut"]["toNs"]) for answer in answers)
    assert "commit" in str(uncertain(store, "group_without_commits"))
    assert uncertain(store, "sequence_errors") is None, "an error that the broker gave is one"
    assert activity(store, Work(), "", "api", 4, last + 10**9, last + 10**10)["leftOut"] is None
    feed.close()


@pytest.mark.slow
def test_a_time_without_an_analyzer_is_told(store: Live, folder: Path) -> None:
    """Not one between two feeds of the same, which counts what is lost between them."""
    for number in (1, 2):
        feed = feed_of(folder)
        send(feed)
        eventually(lambda: store.last == number * len(decoded()), what="a feed")  # noqa: B023 - at once
        feed.close()
        eventually(lambda: not store.fed, what="its end")
    assert store.gaps(None, None) is None
    other = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    subprocess.run([sys.executable, "-S", "-c", other, str(folder / FEED)], check=True)
    eventually(lambda: store.gaps(None, None), what="the time in between")
    told = store.gaps(None, None)
    assert told is not None and told["sampled"]
    assert int(told["unseen"][0]["fromNs"]) <= (store.times()[1] or 0)
    assert "was not seen" in told["said"]
    assert uncertain(store, "session_expired")


@pytest.mark.parametrize(
    ("analyzed", "sampled", "says"),
    [(Analyzed(["Fetch", "Produce"]), True, "commit"), (Analyzed(snaplen=64), False, "analysis.snaplen")],
)
def test_what_the_configuration_leaves_out_is_told(
    store: Live, folder: Path, analyzed: Analyzed, sampled: bool, says: str
) -> None:
    store.narrowed.use(analyzed)
    assert store.gaps(None, None) is not None, "also without an exchange"
    feed = feed_of(folder)
    send(feed)
    eventually(lambda: store.last == len(decoded()), what="all exchanges")
    feed.close()
    told = activity(store, Work(), "", "api", 40)["leftOut"]
    assert (told["said"], told["sampled"], told["exchanges"]) == (store.narrowed.now, sampled, 0)
    assert says in str(uncertain(store, "group_without_commits"))
    assert uncertain(store, "sequence_errors") is None, "an error that the broker gave is one"


def uncertain(store: Live, name: str) -> str | None:
    found = Findings(store).run(Work(), name)
    assert found is not None
    said: str | None = found["uncertain"]
    return said


def test_bytes_that_are_no_feed_end_it_alone(store: Live, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as wrong:
        wrong.connect(str(folder / FEED))
        wrong.sendall(b"\xff" * 10_000)
    feed = feed_of(folder)
    send(feed)
    eventually(lambda: store.last == len(decoded()), what="the feed behind it")
    feed.close()


@pytest.mark.slow
def test_what_is_kept_is_bounded_and_every_exchange_is_here_left_or_dropped(folder: Path) -> None:
    most = 400_000
    with live(folder, most) as store:
        feed = feed_of(folder)
        feed._rare.may_go = bool  # type: ignore[method-assign]  # never, as in a storm of them
        counted = len(decoded(ORDERS))
        for round_ in range(1, 41):
            feed.is_busy = round_ % 4 == 0
            send(feed)
            feed.share = 1.0
            eventually(lambda: store.seen == feed.seen, what="what came so far")
        assert feed.seen == 40 * counted
        assert store.dropped == feed.dropped == 10 * counted
        assert (store.exchanges + store.left, store.left > 0) == (30 * counted, True)
        assert store.size - store.lingering <= most
        rows = store.page(Work(), limit=500, columns=["number"]).rows
        assert [row[0] for row in rows] == list(range(store.first, store.first + len(rows)))
        assert store.item(store.first - 1) is None
        told = store.gaps(None, None)
        assert told is not None and f"{store.left:,} exchanges before" in told["said"]
        assert store.item(store.first) is not None
        feed.close()
