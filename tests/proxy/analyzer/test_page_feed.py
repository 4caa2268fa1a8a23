"""PageFeed: what the page takes arrives whole, in order; what it does not take is left out evenly, counted, never waited for."""

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.output.bodies import Bodies
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.output import End, Output, Source
from kproxy.pipeline.run import Options, Run
from kproxy.protocol import MessageStruct, message
from kproxy.protocol.records import editing
from kproxy.protocol.records.objects import Record as KafkaRecord
from kproxy.proxy.analyzer.page_feed import (
    AT_ONCE,
    LEAST_SHARE,
    MANY_WAITING,
    MOST_HELD,
    MOST_WAITING,
    PER_SECOND,
    PageFeed,
    Past,
    RareExchanges,
    connect,
    is_rare,
)
from kproxy.proxy.analyzer.past import ALWAYS, OVERHEAD
from kproxy.proxy.page_records import (
    MOST_PIECE,
    SIZE,
    Begun,
    Pieces,
    Record,
    Shown,
    Side,
    Tally,
    Topics,
    Unusual,
    encode,
)
from kproxy.session import ClusterView, Connection, Event, Exchange, Frame, TlsFacts
from tests.output.rewriting.test_rewriter import conversation
from tests.page.asking import ORDERS, decoded
from tests.page.feeding import feed_of, live, send, sent
from tests.support.corpus import CAPTURES, golden_exchanges
from tests.support.frames import compact
from tests.support.kafka.processes import eventually
from tests.support.messages import make, request_frame, response_frame

CONNECTION = Connection(7, "127.0.0.1:1", "127.0.0.1:2", cluster="orders")
LARGE = bytes(100_000)


class Watched:
    """A feed, its other end, and its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        ours, self.other = socket.socketpair()
        view = ClusterView()
        view.learn_topic("id", "name")
        self.feed = PageFeed(ours, lambda: {"orders": view}, clock=lambda: self.now)
        self.feed.start_source(Source(1, "worker 0"))

    def write(self, number: int, data: bytes = b"") -> None:
        frame = Frame(data, number, number)
        self.feed.write(Exchange(CONNECTION, number, 18, 3, number, "client", frame), None)

    def received(self) -> list[Record]:
        """All that was sent, once all of it is."""
        pieces, found = Pieces(), list[Record]()
        self.other.setblocking(False)
        self.feed.flush()
        while True:
            try:
                data = self.other.recv(1 << 20)
            except BlockingIOError:
                if not self.feed.waiting:
                    return found
                self.feed.flush()
                continue
            if not data:
                return found
            for piece in pieces.feed(data):
                found += piece


def shown_at(records: list[Record]) -> list[int]:
    return [record.at for record in records if isinstance(record, Shown)]


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.feed.close()
    made.other.close()


def test_records_arrive_in_order_behind_what_they_need(watched: Watched) -> None:
    for number in range(1_000):
        watched.write(number)
    records = watched.received()
    assert records[0] == Topics("orders", {"id": "name"})
    assert records[1] == Begun(1, 0, CONNECTION.client, CONNECTION.broker, "orders")
    assert shown_at(records) == list(range(1_000))
    assert records[-1] == Tally(1_000, 0, 0, 1.0, 999)


def test_who_logged_in_is_told_when_the_feed_begins_late_and_when_it_is_known_later(watched: Watched) -> None:
    tls = TlsFacts("TLS 1.3", server_name="kafka", client_certificate="CN=app", decrypted=True)
    connection = Connection(7, "127.0.0.1:1", "127.0.0.1:2", cluster="orders", tls_to_proxy=tls)
    watched.feed.begin(connection, 1)
    connection.user_name = "alice"
    watched.feed.write(Exchange(connection, 2, 18, 3, 2, "client", Frame(b"", 2, 2)), None)
    begun = [record for record in watched.received() if isinstance(record, Begun)]
    assert [record.user_name for record in begun] == [None, "alice"]
    shown = [
        (record.tls.version, record.tls.server_name, record.tls.client_certificate) for record in begun if record.tls
    ]
    assert set(shown) == {("TLS 1.3", "kafka", "CN=app")} and len(shown) == len(begun)


def test_what_is_left_out_is_spread_and_counted(watched: Watched) -> None:
    """A page that does not read for a while, then does: the share goes down and up again."""
    for number in range(1_000):
        watched.now += 0.01
        watched.write(number, LARGE)
    feed = watched.feed
    assert LEAST_SHARE <= feed.share < 0.05
    assert feed.waiting < MOST_WAITING + (1 << 20)
    shown = shown_at(watched.received())
    assert (feed.seen, len(shown)) == (1_000, 1_000 - feed.dropped)
    assert MANY_WAITING / len(LARGE) < len(shown) <= (MOST_WAITING + (1 << 20)) / len(LARGE)
    while feed.share < 1.0:
        watched.now += 1.5
        feed.flush()
    for number in range(100):
        watched.write(number)
    records = watched.received()
    assert len(shown_at(records)) == 100
    assert records[-1] == Tally(1_100, feed.dropped, 0, 1.0, 99)


def test_a_share_is_of_all_alike(watched: Watched) -> None:
    """Two kinds of exchanges in turn: a fixed step would show one of them only."""
    watched.feed.share = 1 / 2
    for number in range(20_000):
        watched.write(number)
    kinds = Counter(at % 2 for at in shown_at(watched.received()))
    assert all(4_500 < kinds[kind] < 5_500 for kind in (0, 1)), kinds  # 7 standard deviations


def test_an_analyzer_that_has_no_time_leaves_the_page_out(watched: Watched) -> None:
    watched.write(1)
    watched.feed.is_busy = True
    watched.now += 1.0
    watched.write(2)
    watched.feed.flush()
    assert (watched.feed.dropped, watched.feed.share < 1.0) == (1, True)
    watched.feed.is_busy, watched.feed.share = False, 1.0
    watched.write(3)
    records = watched.received()
    assert shown_at(records) == [1, 3]
    assert isinstance(records[-1], Tally)
    assert (records[-1].seen, records[-1].dropped) == (3, 1)


def test_what_analyses_need_each_of_is_left_out_last(watched: Watched) -> None:
    """While 1 of 1,000 goes, and while none does, all of what is rare or has failed go; a storm of them does not."""
    feed, failed = watched.feed, False
    feed._has_failed = lambda: failed
    feed.share = LEAST_SHARE
    for number in range(1_000):
        watched.write(number)
        feed.write(Exchange(CONNECTION, 10_000 + number, 11, 5, 1, "client"), None)
        feed.is_busy = number > 500
    failed = True
    for number in range(50_000):
        watched.write(20_000 + number)
    at = shown_at(watched.received())
    assert sum(one < 10_000 for one in at) < 20
    assert [one for one in at if 10_000 <= one < 20_000] == list(range(10_000, 11_000))
    assert sum(one >= 20_000 for one in at) == AT_ONCE - 1_000  # the analyzer is busy: none by chance
    assert feed.seen == len(at) + feed.dropped == 52_000


def test_what_a_closed_feed_had_not_sent_is_counted_by_the_next(watched: Watched) -> None:
    """seen = shown + dropped holds for what the page was told in all, whatever waited."""
    first = watched.feed
    watched.write(1)
    first.flush()
    for number in range(2, 1_000):
        watched.write(number, LARGE if number > 100 else b"")
        watched.now += 0.01
    assert first.waiting
    first.close()
    for number in range(1_000, 1_010):  # before there is another one
        watched.write(number)
    with watched.other as other:
        records = _rest(other)
    first_shown = len(shown_at(records))
    told = [record for record in records if isinstance(record, Tally)][-1]
    assert 0 < first_shown < 1_009
    assert first_shown == told.seen - told.dropped == first.seen - first.dropped
    assert first.seen == 1_009

    ours, watched.other = socket.socketpair()
    watched.feed = PageFeed(ours, dict, before=first, clock=lambda: watched.now)
    watched.feed.start_source(Source(1, "worker 0"))
    watched.write(2_000)
    records = watched.received()
    assert len(shown_at(records)) == 1
    then = [record for record in records if isinstance(record, Tally)][-1]
    assert told.seen + then.seen == 1_010
    assert told.dropped + then.dropped == 1_010 - first_shown - 1


def _rest(other: socket.socket) -> list[Record]:
    """The whole pieces that are still to be read of a feed that was closed."""
    pieces, found = Pieces(), list[Record]()
    while data := other.recv(1 << 20):
        for piece in pieces.feed(data):
            found += piece
    return found


def test_credentials_are_withheld(watched: Watched) -> None:
    """The proofs and the nonces of SCRAM are in the frames of the capture, and nowhere in the records."""
    sasl: list[Exchange] = []
    watched.feed.write = lambda event, bodies, **_: sasl.append(event) if isinstance(event, Exchange) else None  # type: ignore[method-assign]
    read(watched.feed, CAPTURES / "06-sasl-scram.pcap")
    del watched.feed.write
    read(watched.feed, CAPTURES / "06-sasl-scram.pcap")
    records = watched.received()
    tokens = [one.request_body().auth_bytes for one in sasl if one.api_key == 36]
    secrets = [part for token in tokens for part in token.split(b",") if part.startswith((b"p=", b"r="))]
    assert len(secrets) >= 3
    sides = [side for one in records if isinstance(one, Shown) for side in (one.request, one.response)]
    sent = b"".join(side.data for side in sides if side is not None)
    assert not any(secret[2:] in sent for secret in secrets)


@pytest.mark.parametrize("api_key", [1, 59])
def test_scram_keys_in_the_log_of_the_controllers_are_withheld(watched: Watched, api_key: int) -> None:
    """Fetch and FetchSnapshot of __cluster_metadata: a UserScramCredentialRecord has salt, stored key and server key."""
    secret = b"\x05salt\x07stored\x07server"
    value = b"\1\x0b\0" + compact("alice") + b"\1" + secret + b"\0\0\x10\0" + b"\0"
    records = editing.write_batches([editing.RecordBatch([KafkaRecord(value=value)])])
    watched.feed.write(_fetch(records) if api_key == 1 else _snapshot(records), None)
    (shown,) = [record for record in watched.received() if isinstance(record, Shown)]
    assert shown.api_key == api_key and shown.response is not None
    assert b"alice" in shown.response.data
    assert not any(key in shown.response.data for key in (b"salt", b"stored", b"server"))


def _fetch(records: bytes) -> Exchange:
    """Fetch v12 of the topic by its name."""
    topic = {"topic": "__cluster_metadata", "partitions": [{"records": records}]}
    return _exchange(1, 12, "FetchRequest", make("FetchResponse", responses=[topic]))


def _snapshot(records: bytes) -> Exchange:
    """FetchSnapshot v0."""
    topic = {"name": "__cluster_metadata", "partitions": [{"unaligned_records": records}]}
    return _exchange(59, 0, "FetchSnapshotRequest", make("FetchSnapshotResponse", topics=[topic]))


def _exchange(api_key: int, version: int, asked: str, answer: MessageStruct) -> Exchange:
    answered = message(asked.replace("Request", "Response")).encode(version, answer)
    return conversation(request_frame(asked, version), response_frame(api_key, version, answered))


def test_a_page_that_has_ended_is_no_fault(watched: Watched) -> None:
    watched.other.close()
    watched.write(1)
    watched.feed.flush()
    assert watched.feed.has_ended
    watched.write(2)
    watched.feed.begin(CONNECTION, 1)
    watched.feed.flush()
    watched.feed.close()


def test_a_page_that_takes_nothing_is_not_told_of_connections_for_ever(watched: Watched) -> None:
    """Its process is stopped: what waits for it is bounded, and the feed ends."""
    address = "a" * (1 << 20)  # so that few connections are many bytes
    most = 0
    for number in range(200):
        watched.feed.begin(Connection(number, address, "127.0.0.1:2"), number)
        watched.feed.flush()
        most = max(most, watched.feed.waiting)
    assert MOST_WAITING < most <= MOST_HELD
    assert (watched.feed.has_ended, watched.feed.is_too_slow, watched.feed.waiting) == (True, True, 0)


def test_a_page_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        connect(f"{tmp_path}/nothing", dict, lambda: 0)


UNUSUAL = Unusual(False, None, None, "why", 1, False, 9, 0, "withheld")
RECORDS: list[Record] = [
    Topics("orders", {"id": "name"}),
    Begun(1, 5, "127.0.0.1:1", "127.0.0.1:2", "orders"),
    Shown(1, 6, 0, 9, 3, "client", Side(b"abc", 1, 2, 3, 4, 9), None, True, False, None, None),
    Shown(1, 7, None, None, None, None, None, Side(b"", 1, 2, 0, 0, 0, UNUSUAL), False, True, "none came", "no"),
    Tally(2, 1, 0, 0.5),
]


def stream() -> bytes:
    pieces = encode(RECORDS[:2]), encode(RECORDS[2:])
    return b"".join(len(piece).to_bytes(SIZE, "big") + piece for piece in pieces)


@pytest.mark.parametrize("step", [1, 3, 7, 10_000])
def test_pieces_come_out_however_the_stream_is_cut(step: int) -> None:
    pieces, data = Pieces(), stream()
    found = [piece for at in range(0, len(data), step) for piece in pieces.feed(data[at : at + step])]
    assert found == [RECORDS[:2], RECORDS[2:]]


@pytest.mark.parametrize("data", [b"\xff" * 8, (MOST_PIECE + 1).to_bytes(4, "big"), b"\0\0\0\2\x91\xc0"])
def test_what_is_no_piece_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        list(Pieces().feed(data))


def heartbeat(asked: dict[str, object], answered: dict[str, object]) -> Exchange:
    """ConsumerGroupHeartbeat v0."""
    body = message("ConsumerGroupHeartbeatResponse").encode(0, make("ConsumerGroupHeartbeatResponse", **answered))
    frame = request_frame("ConsumerGroupHeartbeatRequest", 0, **asked)
    return conversation(frame, response_frame(68, 0, body))


def test_steps_of_groups_and_transactions_are_rare_and_fetches_are_not() -> None:
    """By the keys of Kafka's message definitions, in exchanges of which all fields are filled."""
    rare = {exchange.api_key: is_rare(exchange) for _, _, exchange in golden_exchanges()}
    assert {11, 13, 14, 22, 24, 25, 26, 28} <= {key for key, one in rare.items() if one}
    assert not any(rare[key] for key in (0, 1, 3, 8, 12))


@pytest.mark.parametrize(
    ("asked", "answered", "rare"),
    [
        ({"member_epoch": 0, "topic_partitions": []}, {"member_epoch": 1}, True),
        ({"member_epoch": -1}, {"member_epoch": -1}, True),
        ({"member_epoch": 7}, {"member_epoch": 7}, False),
        ({"member_epoch": 7}, {"member_epoch": 8}, True),
        ({"member_epoch": 7, "topic_partitions": []}, {"member_epoch": 7}, True),
    ],
    ids=["joins", "leaves", "is there", "another epoch", "says what it has"],
)
def test_a_heartbeat_of_kip_848_is_rare_where_it_changes_the_group(
    asked: dict[str, object], answered: dict[str, object], rare: bool
) -> None:
    assert is_rare(heartbeat(asked, answered)) is rare


def test_a_storm_of_them_is_bounded() -> None:
    now = 0.0
    rare = RareExchanges(lambda: now)
    assert sum(rare.may_go() for _ in range(10_000)) == AT_ONCE
    now += 2.0
    assert sum(rare.may_go() for _ in range(10_000)) == 2 * PER_SECOND


class Noted(Output):
    """What an output was given."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.ends: list[End] = []

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if isinstance(event, Exchange):
            self.exchanges.append(event)

    def numbers(self) -> list[tuple[int, int | None]]:
        return [(one.connection.number, one.correlation_id) for one in self.exchanges]

    def end(self, end: End) -> None:
        self.ends.append(end)

    def flush(self) -> None: ...

    def close(self, error: BaseException | None = None) -> None: ...


def read(output: Output, capture: Path = ORDERS) -> None:
    """Give an output what is in a capture."""
    with open_input(capture) as source:
        for _ in Run(Options(), [output]).read(source):
            pass


def test_with_enough_room_it_gives_all_in_their_order() -> None:
    past, live_output, later = Past(1 << 30), Noted(), Noted()
    read(past)
    read(live_output)
    past.replay(later)
    assert later.numbers() == live_output.numbers()
    assert later.ends == live_output.ends != []


def test_the_oldest_leave_and_those_of_groups_stay_longer() -> None:
    everything, few = Noted(), Noted()
    past = Past(60 * OVERHEAD)
    read(everything)
    read(past)
    past.replay(few)
    assert past.size <= 60 * OVERHEAD
    kept, came = few.numbers(), everything.numbers()
    assert 0 < len(kept) < len(came) and [one for one in came if one in kept] == kept
    assert kept[-1] == came[-1]
    first = min(came.index(one) for one in kept)
    assert everything.exchanges[first].api_key in ALWAYS


def test_a_page_that_comes_later_begins_with_it(tmp_path: Path) -> None:
    past = Past(1 << 24)
    read(past)
    with live(tmp_path) as store:
        feed = feed_of(tmp_path)
        past.replay(feed)
        sent(feed)
        eventually(lambda: store.exchanges == len(decoded()), what="the past")
        assert store.seen == store.exchanges
        send(feed)
        eventually(lambda: store.exchanges == 2 * len(decoded()), what="what came later")
        feed.close()
