"""Events written as a capture, and read again by kproxy's own reader of captures and by scapy."""

import io
import random
from collections.abc import Callable
from copy import copy
from pathlib import Path

import pytest
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import RawPcapNgReader

from kproxy.capture import CloseReason, open_capture, read_flows
from kproxy.output.packets import file_header
from kproxy.output.rewriting.rewriter import Rewriter
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.pipeline.output import End, Source
from kproxy.pipeline.pcapng_output import (
    Conversation,
    EventPieces,
    LivePcapng,
    OrderedPcapng,
    Piece,
    TimeOrder,
    with_same_ip_version,
)
from kproxy.pipeline.sink import RotatingFile, Sink
from kproxy.session import BadFrame, Connection, Direction, Event, Exchange, Gap, NotKafka, SaslToken, Session
from tests.support.conversation import broker, client, events_of
from tests.support.corpus import CONNECTION as SUPPORT_CONNECTION
from tests.support.corpus import golden_exchanges
from tests.support.frames import (
    heartbeat,
    heartbeat_answer,
    produce,
    request,
    sasl_authenticate,
    sasl_authenticate_answer,
    string,
)
from tests.support.loops import Clock

CONNECTION = Connection(3, "10.0.0.5:51234", "10.0.0.9:9092")
US = 1_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.pcapng"


def write(path: Path, *events: Event) -> None:
    with OrderedPcapng(Sink(path, live=False), Rewriter()) as output:
        for event in events:
            output.write(event, None)


def read(path: Path) -> list[Event]:
    with open_capture(path) as capture:
        found = list(FlowEvents(read_flows(capture)))
        assert capture.damage is None
        return found


def packets(path: Path) -> list[tuple[int, Packet, str]]:
    """Time, packet and comment."""

    with RawPcapNgReader(str(path)) as reader:
        found = list(reader)
    comments = [facts.comments if hasattr(facts, "comments") else [facts.comment] for _, facts in found]
    said = [(each[0] or b"").decode() if each else "" for each in comments]
    times = [(facts.tshigh << 32) + facts.tslow for _, facts in found]
    return [(at, Ether(data), text) for at, (data, _), text in zip(times, found, said, strict=True)]


def session() -> Session:
    return Session(number=3, client=CONNECTION.client, broker=CONNECTION.broker)


def test_frames_have_their_times_and_comments(path: Path) -> None:
    said = session()
    events = said.receive(Direction.REQUEST, heartbeat(7)[:9], 10 * US)
    events += said.receive(Direction.REQUEST, heartbeat(7)[9:], 20 * US)
    events += said.receive(Direction.RESPONSE, heartbeat_answer(7), 35 * US)
    write(path, *events)
    found = packets(path)
    assert [at for at, packet, _ in found if packet[TCP].payload] == [10 * US, 20 * US, 35 * US]
    assert [str(packet[TCP].flags) for _, packet, _ in found] == ["S", "SA", "A", "PA", "PA", "PA", "FA", "FA", "A"]
    comments = [comment for _, _, comment in found if comment]
    assert len(comments) == 2
    assert all("10.0.0.5:51234 → 10.0.0.9:9092" in comment and "Heartbeat v0 app" in comment for comment in comments)
    assert " - Heartbeat" in comments[0] and "25 µs Heartbeat" in comments[1]
    (exchange,) = read(path)
    assert isinstance(exchange, Exchange)
    assert exchange.request is not None and exchange.response is not None
    assert (exchange.request.started_at, exchange.request.ended_at, exchange.response.ended_at) == (
        10_000,
        20_000,
        35_000,
    )


def test_pipelined_requests_stand_in_the_order_in_which_they_were_sent(path: Path) -> None:
    said = session()
    both = heartbeat(1) + produce(2, acks=0) + heartbeat(3)
    events = said.receive(Direction.REQUEST, both, 10 * US)  # Produce is told first: nobody answers it
    events += said.receive(Direction.RESPONSE, heartbeat_answer(1) + heartbeat_answer(3), 20 * US)
    assert [e.correlation_id for e in events if isinstance(e, Exchange)] == [2, 1, 3]
    write(path, *events)
    sent = b"".join(bytes(p[TCP].payload) for _, p, _ in packets(path) if p[TCP].dport == 9092)
    assert sent == both


def test_a_gap_is_a_hole_that_is_found_again(path: Path) -> None:
    said = session()
    events = said.receive(Direction.REQUEST, heartbeat(1), 10 * US)
    events += said.receive(Direction.RESPONSE, heartbeat_answer(1), 20 * US)
    events += said.gap(Direction.REQUEST, 500, 30 * US)
    events += said.receive(Direction.REQUEST, heartbeat(9, "a-group", client_id="an-app"), 40 * US)
    events += said.receive(Direction.RESPONSE, heartbeat_answer(9), 50 * US)
    write(path, *events)
    again = read(path)
    assert [e.size for e in again if isinstance(e, Gap)] == [500]
    assert [e.correlation_id for e in again if isinstance(e, Exchange)] == [1, 9]


def test_a_request_whose_end_is_missing_is_cut_again(path: Path) -> None:
    said = session()
    sent = heartbeat(1, "a-group-with-a-long-name")
    events = said.receive(Direction.REQUEST, sent[:20], 10 * US)
    events += said.gap(Direction.REQUEST, len(sent) - 20, 30 * US)
    events += said.receive(Direction.RESPONSE, heartbeat_answer(1), 50 * US)
    (before,) = (e for e in events if isinstance(e, Exchange))
    assert before.request is not None and before.request.cut
    write(path, *events)
    (after,) = (e for e in read(path) if isinstance(e, Exchange))
    assert after.request is not None and after.response is not None
    assert (after.request.data, after.undecoded) == (before.request.data, before.undecoded)


@pytest.mark.parametrize(("ending", "flags"), [("nothing", []), ("client", ["FA", "A"]), ("broker", ["FA", "FA", "A"])])
def test_an_unanswered_request_is_so_for_the_same_reason(ending: str, flags: list[str], path: Path) -> None:
    said = session()
    events = said.receive(Direction.REQUEST, heartbeat(1), 10 * US)
    if ending != "nothing":
        events += said.end(Direction.REQUEST if ending == "client" else Direction.RESPONSE, 20 * US)
    events += said.close(30 * US)
    write(path, *events)
    assert [str(packet[TCP].flags) for _, packet, _ in packets(path)][4:] == flags
    (before,), (after,) = ([e for e in found if isinstance(e, Exchange)] for found in (events, read(path)))
    assert before.unanswered is not None
    assert after.unanswered == before.unanswered


def test_tokens_are_as_many_bytes_but_not_their_own(path: Path) -> None:
    said = session()
    events = said.receive(Direction.REQUEST, request(17, 0, 1, string("GSSAPI")), 10 * US)
    events += said.receive(Direction.RESPONSE, b"\0\0\0\x0a\0\0\0\1\0\0" + bytes(4), 20 * US)
    events += said.receive(Direction.REQUEST, b"\0\0\0\x0bclienttoken", 30 * US)
    events += said.receive(Direction.RESPONSE, b"\0\0\0\x0bbrokertoken", 40 * US)
    events += said.receive(Direction.REQUEST, heartbeat(2), 50 * US)
    events += said.receive(Direction.RESPONSE, heartbeat_answer(2), 60 * US)
    assert [e.size for e in events if isinstance(e, SaslToken)] == [11, 11]
    write(path, *events)
    assert b"clienttoken" not in path.read_bytes() and b"brokertoken" not in path.read_bytes()
    again = read(path)
    assert [e.size for e in again if isinstance(e, SaslToken)] == [11, 11]
    assert [e.correlation_id for e in again if isinstance(e, Exchange)] == [1, 2]


def test_what_is_not_kafka_is_left_out_and_a_bad_frame_is_a_hole(path: Path) -> None:
    write(path, NotKafka(Connection(9, "10.0.0.1:1", "10.0.0.2:2"), 1), BadFrame(CONNECTION, 5, Direction.REQUEST))
    found = packets(path)
    assert {packet[TCP].dport for _, packet, _ in found} == {9092, 51234}
    assert not any(packet[TCP].payload for _, packet, _ in found)


def test_nothing_gives_an_empty_capture(path: Path) -> None:
    write(path)
    assert packets(path) == []
    assert read(path) == []


def test_every_api_at_every_version_is_read_again(path: Path) -> None:
    events = []
    for number, (_, _, exchange) in enumerate(golden_exchanges(), start=1):
        exchange.connection = Connection(number, f"10.0.{number // 250}.{number % 250}:50000", "10.9.9.9:9092")
        events.append(exchange)
    write(path, *events)
    again = {e.connection.client: e for e in read(path) if isinstance(e, Exchange)}
    assert len(events) > 500
    for before in events:
        after = again[before.connection.client]
        for one, other in ((before.request, after.request), (before.response, after.response)):
            assert one is not None and other is not None
            assert (len(one.data), one.started_at, one.ended_at) == (len(other.data), other.started_at, other.ended_at)
        assert (after.api_key, after.api_version, after.undecoded) == (
            before.api_key,
            before.api_version,
            before.undecoded,
        )


CLOSED = End(1, 10**9, reason=CloseReason.FINISHED)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(reason: str) -> None:
    raise AssertionError(reason)


def live(
    path: Path,
    clock: Clock,
    *,
    most_size: int = 1 << 30,
    most_age: float = 3_600,
    keep: int = 10,
    report: Callable[[str], None] = fail,
) -> tuple[RotatingFile, LivePcapng]:
    file = RotatingFile(path, most_size=most_size, most_age=most_age, keep=keep, clock=clock, report=report)
    capture = LivePcapng(file)
    capture.start_source(Source(1, "a worker"))
    return file, capture


def live_exchanges(count: int) -> list[Event]:
    steps = []
    for number in range(1, 1 + count):
        steps += [client >> heartbeat(number), broker >> heartbeat_answer(number)]
    return events_of(*steps)


def ids(path: Path) -> list[int | None]:
    """Correlation ids of the exchanges in a capture, all of which can be read."""
    found = [event for event in read(path) if isinstance(event, Exchange)]
    assert all(exchange.undecoded is None and exchange.request is not None for exchange in found)
    return [exchange.correlation_id for exchange in found]


def test_every_part_of_a_capture_can_be_read_alone(tmp_path: Path, clock: Clock) -> None:
    file, capture = live(tmp_path / "a.pcapng", clock, most_size=6_000, keep=100)
    for event in live_exchanges(100):
        capture.write(event, None)
        other = copy(event)
        other.connection = Connection(1, "10.0.0.6:51234", "10.0.0.9:9092")
        capture.start_source(Source(2, "another worker"))  # the same number in it is another connection
        capture.write(other, None)
        capture.start_source(Source(1, "a worker"))
    capture.end(CLOSED)
    capture.close()
    parts = [*file.parts(), file.path]
    assert len(parts) > 5
    found = [ids(part) for part in parts]
    assert sorted(number for part in found for number in part if number) == sorted([*range(1, 101)] * 2)
    assert all(part == sorted(part, key=lambda number: number or 0) for part in found)


def test_a_part_begins_between_take_and_close(tmp_path: Path, clock: Clock) -> None:
    _, capture = live(tmp_path / "a.pcapng", clock, most_age=60)
    for event in live_exchanges(1):
        capture.write(event, None)
    clock.now = 61
    capture.end(CLOSED)  # its end belongs to the part before
    capture.close()
    assert ids(tmp_path / "a.000001.pcapng") == [1]
    assert ids(tmp_path / "a.pcapng") == []
    assert len(capture._conversations) == 0


def test_after_a_full_disk_the_next_part_begins_anew(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "captures"
    said: list[str] = []
    _, capture = live(folder / "a.pcapng", clock, report=said.append)
    first, second, third = live_exchanges(3)
    capture.write(first, None)
    folder.mkdir()
    capture.write(second, None)
    clock.now = 2
    capture.write(third, None)
    capture.close()
    assert ids(folder / "a.pcapng") == [3]
    assert said == ["No such file or directory; trying again every second"]


def test_live_pipelined_requests_are_read_again(tmp_path: Path, clock: Clock) -> None:
    _, capture = live(tmp_path / "a.pcapng", clock)
    both = heartbeat(1) + produce(2, acks=0) + heartbeat(3)
    for event in events_of(client >> both, broker >> heartbeat_answer(1), broker >> heartbeat_answer(3)):
        capture.write(event, None)
    capture.close()
    assert sorted(number or 0 for number in ids(tmp_path / "a.pcapng")) == [1, 2, 3]


@pytest.mark.parametrize(
    ("client_address", "broker_address", "readable"),
    [
        ("[2001:db8::1]:5", "10.0.0.9:9092", True),
        ("10.0.0.1:5", "[::1]:9092", True),
        ("10.0.0.1:5", "broker.example:9092", False),
        ("/run/kafka.sock", "10.0.0.9:9092", False),
    ],
)
def test_addresses_that_do_not_go_together(
    tmp_path: Path, clock: Clock, client_address: str, broker_address: str, readable: bool
) -> None:
    _, capture = live(tmp_path / "a.pcapng", clock)
    for event in live_exchanges(2):
        event.connection = Connection(1, client_address, broker_address)
        capture.write(event, None)
    capture.close()
    assert ids(tmp_path / "a.pcapng") == ([1, 2] if readable else [])
    assert capture.unwritable == (0 if readable else 1)


def test_ipv4_addresses_are_mapped_as_rfc_4291_says() -> None:
    mixed = with_same_ip_version(Connection(1, "[2001:db8::1]:5", "10.0.0.9:9092"))
    assert (mixed.client, mixed.broker) == ("[2001:db8::1]:5", "[::ffff:10.0.0.9]:9092")
    assert with_same_ip_version(SUPPORT_CONNECTION) is SUPPORT_CONNECTION


def packets_of(blocks: bytes) -> list[Packet]:
    return [Ether(data) for data, _ in RawPcapNgReader(io.BytesIO(file_header("test") + blocks))]  # type: ignore[arg-type]


def flags(blocks: bytes) -> list[str]:
    return [str(packet[TCP].flags) for packet in packets_of(blocks)]


def test_credentials_are_withheld() -> None:
    token = b"\0alice\0canary-of-a-password"
    events = events_of(client >> sasl_authenticate(1, token), broker >> sasl_authenticate_answer(1))
    written = b"".join(piece.data + piece.comment for event in events for piece in EventPieces(Rewriter()).of(event))
    assert b"alice" in written
    assert b"canary" not in written


def test_the_handshake_comes_once_and_a_hole_is_acknowledged() -> None:
    made = Conversation(1, CONNECTION)
    assert flags(made.blocks(Piece(1, 0, b"abc"))) == ["S", "SA", "A", "PA"]
    assert flags(made.blocks(Piece(2, 1, b"de", hole=7))) == ["PA", "A"]
    (after,) = packets_of(made.blocks(Piece(3, 1, b"fg")))
    (before,) = packets_of(Conversation(1, CONNECTION).blocks(Piece(3, 1, b"fg")))[3:]
    assert after[TCP].seq - before[TCP].seq == len(b"de") + 7
    assert flags(made.farewell(4, (1, 0))) == ["FA", "FA", "A"]


@pytest.mark.parametrize("run", [1, 500, 5_000, 10_000_000])
def test_items_come_back_by_their_keys_whatever_the_memory(run: int) -> None:
    chance = random.Random(4)
    items = [(chance.randbytes(3), chance.randbytes(chance.randrange(40))) for _ in range(1_000)]
    with TimeOrder(run=run) as order:
        for key, item in items:
            order.add(key, item)
        assert list(order) == [item for _, item in sorted(items, key=lambda pair: pair[0])]


def test_items_larger_than_a_block_survive() -> None:
    large = [bytes([at]) * 700_000 for at in range(3)]
    with TimeOrder(run=1) as order:
        for item in reversed(large):
            order.add(item[:1], item)
        assert list(order) == large
