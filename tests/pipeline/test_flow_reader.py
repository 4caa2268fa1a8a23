"""From packets to events: Kafka is found by content, the client by what it says, the rest is dropped at once."""

import random
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import rdpcap, wrpcap

import kproxy
from kproxy.capture import Closed, Ended, Flow, open_capture, read_flows
from kproxy.capture.tls import KeyLog
from kproxy.output.jsonl import event_line
from kproxy.output.tls import JOINED_LATE_HINT, KEYS_HINT
from kproxy.pipeline import flow_reader as pipeline
from kproxy.pipeline.flow_reader import TRANSITIONS, FlowEvents, FlowReader, State
from kproxy.pipeline.sides import Sides
from kproxy.pipeline.summary import Summary
from kproxy.pipeline.tls_flow import Secrets
from kproxy.session import ClusterView, Direction, Event, Exchange, Gap, Limits, Note, NotKafka, Session, Tls
from tests.support.built_captures import Conversation, reassemble
from tests.support.corpus import CAPTURES
from tests.support.frames import frame, heartbeat, heartbeat_answer, produce_answer, request
from tests.support.secrets_block import without_secrets
from tests.support.tables import decode, query
from tests.support.tls import CLIENT, REQUEST, RESPONSE, Pair, Setup, log_of

Segment = tuple[bool, bytes]  # from the side with the high port?
HIGH, LOW = ("10.0.0.5", 51_234), ("10.0.0.9", 443)


def write(path: Path, segments: list[Segment], *, syn: bool, low: tuple[str, int] = LOW) -> Path:
    """A capture of one connection between HIGH and *low*, opened by HIGH."""
    packets: list[Any] = []
    sequence = {True: 1000, False: 5000}

    def add(from_high: bool, flags: str, data: bytes = b"") -> None:
        (source, sport), (target, dport) = (HIGH, low) if from_high else (low, HIGH)
        layers = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src=source, dst=target)
        tcp = TCP(sport=sport, dport=dport, flags=flags, seq=sequence[from_high], ack=sequence[not from_high])
        packet = layers / tcp / Raw(data) if data else layers / tcp
        packet.time = 1_700_000_000 + len(packets) / 1000
        packets.append(packet)
        sequence[from_high] += len(data) + ("S" in flags)

    if syn:
        add(True, "S")
        add(False, "SA")
        add(True, "A")
    for from_high, data in segments:
        add(from_high, "PA", data)
    wrpcap(str(path), packets)
    return path


def events(path: Path, numbers_from: int = 0) -> list[Event]:
    with open_capture(path) as capture:
        return list(FlowEvents(read_flows(capture), numbers_from=numbers_from))


def conversation(ids: range, *, client_is_high: bool) -> Iterator[Segment]:
    for number in ids:
        yield client_is_high, heartbeat(number)
        yield not client_is_high, heartbeat_answer(number)


def test_kafka_is_found_on_any_port(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", list(conversation(range(3), client_is_high=True)), syn=True)
    found = events(path, numbers_from=10)
    assert [event.correlation_id for event in found if isinstance(event, Exchange)] == [0, 1, 2]
    assert {(e.connection.number, e.connection.client, e.connection.broker) for e in found} == {
        (11, "10.0.0.5:51234", "10.0.0.9:443")
    }
    assert found[0].at == 1_700_000_000_004_000_000  # the fifth packet, in ns


def api_versions_as_librdkafka(client_id: bytes) -> bytes:
    """ApiVersions v0 with four bytes behind the message, as librdkafka up to 0.11 writes it."""
    return frame(struct.pack(">hhih", 18, 0, 1, len(client_id)) + client_id + bytes(4))


ALL_APIS = frame(struct.pack(">ihihhh", 1, 0, 1, 3, 0, 1))


@pytest.mark.parametrize("client_id", [b"rdkafka", b""])
@pytest.mark.parametrize("syn", [True, False])
def test_a_first_request_with_bytes_behind_it_is_kafka(tmp_path: Path, client_id: bytes, syn: bool) -> None:
    segments = [(True, api_versions_as_librdkafka(client_id)), (False, ALL_APIS)]
    found = events(write(tmp_path / "a.pcap", segments, syn=syn))
    (exchange,) = (event for event in found if isinstance(event, Exchange))
    assert (exchange.api_name, exchange.client_id) == ("ApiVersions", client_id.decode())
    assert exchange.response is not None and len(found) == 1


def test_a_first_request_that_cannot_be_read_is_kafka_once_it_is_answered(tmp_path: Path) -> None:
    damaged = request(12, 0, 4, b"wrong")
    (answered,) = events(write(tmp_path / "a.pcap", [(True, damaged), (False, heartbeat_answer(4))], syn=True))
    assert isinstance(answered, Exchange) and answered.undecoded is not None and answered.response is not None
    (other,) = events(write(tmp_path / "b.pcap", [(True, damaged), (False, heartbeat_answer(5))], syn=True))
    assert isinstance(other, NotKafka)


def test_in_the_middle_the_client_is_who_asks(tmp_path: Path) -> None:
    """Ports say nothing here: the one with the low port asks."""
    path = write(tmp_path / "a.pcap", list(conversation(range(20), client_is_high=False)), syn=False)
    found = [event for event in events(path) if isinstance(event, Exchange)]
    assert [event.correlation_id for event in found] == list(range(20))
    assert {event.connection.client for event in found} == {"10.0.0.9:443"}
    assert all(event.response is not None for event in found)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (bytes.fromhex("160301020001"), "tls"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "http"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh"),
        (bytes(200), "unknown"),
    ],
)
@pytest.mark.parametrize("syn", [True, False])
def test_what_is_not_kafka_is_said_once_and_dropped(tmp_path: Path, first: bytes, kind: str, syn: bool) -> None:
    segments = [(True, first), *[(False, bytes(15)), (True, b"and more")] * 30]
    (event,) = events(write(tmp_path / "a.pcap", segments, syn=syn))
    assert isinstance(event, NotKafka)
    assert event.kind == kind
    assert event.what


@pytest.mark.parametrize(
    "segments", [[(True, b"GET / HTTP/1.1\r\n\r\n")], [(True, heartbeat(1)), (False, b"\x15\3\3\0\2\2\x0a")]]
)
def test_who_ended_what_is_not_kafka_is_said_wherever_a_capture_is_cut(tmp_path: Path, segments: list[Segment]) -> None:
    *packets, fin = rdpcap(str(write(tmp_path / "all.pcap", [*segments, (False, b"-")], syn=True)))
    fin[TCP].remove_payload()
    fin[TCP].flags = "FA"
    for name, part in ("all", [*packets, fin]), ("1", packets), ("2", [fin]):
        wrpcap(str(tmp_path / f"{name}.pcap"), part)
    whole, parts = (
        [
            event_line(event)
            for event in kproxy.read(*(tmp_path / f"{name}.pcap" for name in names))
            if isinstance(event, NotKafka)
        ]
        for names in (["all"], ["1", "2"])
    )
    assert whole == parts
    assert b'"closedBy":"broker"' in whole[0]


@pytest.mark.parametrize(("first", "side"), [(0, "client"), (1, "broker")])
def test_the_side_whose_fin_came_first_ended_the_connection(tmp_path: Path, first: int, side: str) -> None:
    """Of a request without an answer there is no event until both are there."""
    *packets, one, other = rdpcap(
        str(write(tmp_path / "a.pcap", [(True, heartbeat(1)), (True, b"-"), (False, b"-")], syn=True))
    )
    fins = [one, other] if first == 0 else [other, one]
    for place, fin in enumerate(fins):
        fin[TCP].remove_payload()
        fin[TCP].flags = "FA"
        fin.time = packets[-1].time + 1 + place
    wrpcap(str(tmp_path / "b.pcap"), [*packets, *fins])
    assert decode("-o", tmp_path / "tables", tmp_path / "b.pcap") == 0
    assert query(tmp_path / "tables", "select closed_by, unanswered from connections") == [(side, 1)]


def test_a_server_that_speaks_first_is_no_broker(tmp_path: Path) -> None:
    segments = [(False, b"SSH-2.0-OpenSSH_9.2\r\n"), (True, b"SSH-2.0-Go\r\n")]
    (event,) = events(write(tmp_path / "a.pcap", segments, syn=True))
    assert isinstance(event, NotKafka)
    assert event.kind == "ssh"


def test_silence_is_nothing(tmp_path: Path) -> None:
    assert events(write(tmp_path / "a.pcap", [], syn=True)) == []


def test_a_capture_that_begins_in_the_middle_is_decoded() -> None:
    found = events(CAPTURES / "12-midstream-start.pcap")
    assert sum(isinstance(event, Exchange) for event in found) == 88
    assert not [event for event in found if isinstance(event, NotKafka)]


def one_way(path: Path, source: Path, *, from_port: bool) -> Path:
    """A capture's packets from port 9092, or those to it: what a filter on one direction would have recorded."""
    packets = [packet for packet in rdpcap(str(source)) if TCP in packet and (packet[TCP].sport == 9092) is from_port]
    wrpcap(str(path), packets)
    return path


def test_of_responses_alone_it_shows_them_and_says_that_the_requests_are_missing(tmp_path: Path) -> None:
    path = one_way(tmp_path / "a.pcap", CAPTURES / "01-java-produce-consume-group.pcap", from_port=True)
    found = events(path)
    notes = [event for event in found if isinstance(event, Note)]
    assert len(notes) == 5
    for event in notes:
        assert event.connection.broker == "127.0.0.1:9092"
        assert "only the broker's side is in the capture, in what looks like Kafka responses" in event.what
        assert "record both directions" in event.what
    responses = [event for event in found if isinstance(event, Exchange)]
    assert len(responses) == len(found) - 5 == 23  # of tshark, kafka, responses
    for response in responses:
        assert response.request is None and response.response is not None and response.api_key is None
        assert response.undecoded == "its request was not seen, so nothing says how to read the response"


def test_of_requests_alone_it_says_that_the_broker_is_missing(tmp_path: Path) -> None:
    path = one_way(tmp_path / "a.pcap", CAPTURES / "01-java-produce-consume-group.pcap", from_port=False)
    found = events(path)
    assert len(found) == 23  # of tshark, kafka, requests
    for event in found:
        assert isinstance(event, Exchange) and event.unanswered is not None
        assert event.unanswered.startswith("nothing the broker sent is in the capture")


@pytest.mark.parametrize("from_high", [True, False])
def test_in_the_middle_responses_alone_are_known_too(tmp_path: Path, from_high: bool) -> None:
    segments = [
        (from_high, heartbeat_answer(7)[5:]),
        *[(from_high, heartbeat_answer(number)) for number in range(8, 40)],
    ]
    before, note, *responses = events(write(tmp_path / "a.pcap", segments, syn=False))
    assert isinstance(before, Gap) and before.skipped == len(heartbeat_answer(7)) - 5
    assert isinstance(note, Note) and note.connection.broker == ("10.0.0.5:51234" if from_high else "10.0.0.9:443")
    shown = [(one.correlation_id, one.response) for one in responses if isinstance(one, Exchange)]
    assert [number for number, _ in shown] == list(range(8, 40))
    assert all(frame is not None and frame.wire_size == len(heartbeat_answer(8)) for _, frame in shown)


def test_numbered_answers_that_have_no_layout_of_kafka_are_not_shown_as_responses(tmp_path: Path) -> None:
    segments = [(False, struct.pack(">iib", 9, number, 0) + b"\0\0\7\3") for number in range(8, 40)]
    (event,) = events(write(tmp_path / "a.pcap", segments, syn=False))
    assert isinstance(event, NotKafka) and event.kind == "one-sided"


def test_what_a_server_says_to_nobody_is_not_taken_for_responses(tmp_path: Path) -> None:
    (event,) = events(write(tmp_path / "a.pcap", [(False, bytes(range(64)))], syn=True))
    assert isinstance(event, NotKafka) and event.kind == "unknown"
    assert "nothing the client sent is in the capture" in event.what


def test_a_client_that_is_not_answered_and_makes_no_sense_is_not_called_one_sided(tmp_path: Path) -> None:
    (event,) = events(write(tmp_path / "a.pcap", [(True, bytes(range(64)))] * 3, syn=False))
    assert isinstance(event, NotKafka) and event.what.startswith("the capture begins in the middle")


def test_in_the_middle_the_text_of_records_is_no_text_protocol(tmp_path: Path) -> None:
    segments = [(True, b"the rest of a record's value"), *conversation(range(5), client_is_high=True)]
    found = [event for event in events(write(tmp_path / "a.pcap", segments, syn=False)) if isinstance(event, Exchange)]
    assert [event.correlation_id for event in found] == list(range(5))


def test_kafka_is_found_after_a_gap_at_the_very_start(tmp_path: Path) -> None:
    lost = heartbeat(0) + heartbeat(1)[:9]
    segments = [(True, lost + heartbeat(1)[9:]), *conversation(range(2, 6), client_is_high=True)]
    path = write(tmp_path / "a.pcap", segments, syn=True)
    packets = rdpcap(str(path))
    packets[3][Raw].load = packets[3][Raw].load[len(lost) :]
    packets[3][TCP].seq += len(lost)
    for layer in (IP, TCP):
        del packets[3][layer].chksum
    del packets[3][IP].len
    wrpcap(str(path), packets)
    found = [event for event in events(path) if isinstance(event, Exchange)]
    assert [event.correlation_id for event in found] == [2, 3, 4, 5]


def two_flows(path: Path) -> Path:
    """Two connections at once: of each, one exchange, then a request that is never answered."""
    packets: list[Any] = []
    for number, low in enumerate((("10.0.0.9", 443), ("10.0.0.8", 444))):
        segments = [
            *conversation(range(10 * number, 10 * number + 1), client_is_high=True),
            (True, heartbeat(10 * number + 5)),
        ]
        packets += rdpcap(str(write(path.with_name("one.pcap"), segments, syn=True, low=low)))
    wrpcap(str(path), sorted(packets, key=lambda packet: packet.time))
    return path


def ids(found: Iterable[Event]) -> list[tuple[int | None, str | None]]:
    return [(event.correlation_id, event.unanswered) for event in found if isinstance(event, Exchange)]


def test_who_stops_early_is_told_what_is_in_flight_by_close(tmp_path: Path) -> None:
    words = "the capture ended before the response"
    with open_capture(two_flows(tmp_path / "a.pcap")) as capture:
        pipeline = FlowEvents(stopping_after(read_flows(capture), [5, 15]))
        assert ids(pipeline) == [(0, None), (10, None)]
        left = list(pipeline.close())
        assert ids(left) == [(5, words), (15, words)]
        assert {event.at for event in left} == {1_700_000_000_005_000_000}  # of the sixth packets, the last
        assert list(pipeline.close()) == []


def stopping_after(items: Iterator[Any], correlation_ids: list[int]) -> Iterator[Any]:
    """The items up to the last of those requests, as if somebody had pressed ^C there."""
    wanted = [heartbeat(number) for number in correlation_ids]
    for item in items:
        yield item
        wanted = [request for request in wanted if request != getattr(item, "data", b"")]
        if not wanted:
            return


def test_close_gives_the_events_of_an_item_that_were_not_taken_yet(tmp_path: Path) -> None:
    segments = [
        (True, heartbeat(1) + heartbeat(2)),
        (False, heartbeat_answer(1) + heartbeat_answer(2)),
        (True, heartbeat(3)),
    ]
    with open_capture(write(tmp_path / "a.pcap", segments, syn=True)) as capture:
        pipeline = FlowEvents(read_flows(capture))
        assert ids([next(iter(pipeline))]) == [(1, None)]
        assert ids(pipeline.close())[0] == (2, None)


def test_close_judges_what_is_undecided_and_says_nothing_after_the_end(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", [(True, heartbeat(1)[:9])], syn=True)
    with open_capture(path) as capture:
        pipeline = FlowEvents(item for item in read_flows(capture) if not isinstance(item, Closed))
        assert list(pipeline) == []
        (event,) = pipeline.close()
        assert isinstance(event, NotKafka)
    with open_capture(path) as capture:
        pipeline = FlowEvents(read_flows(capture))
        assert len(list(pipeline)) == 1
        assert list(pipeline.close()) == []


@pytest.mark.parametrize("size", [300_000, 3_000_000])
def test_a_capture_that_begins_inside_a_large_message_goes_on_at_the_next_one(tmp_path: Path, size: int) -> None:
    inside = [(True, bytes(60_000)) for _ in range(size // 60_000)]
    path = write(tmp_path / "a.pcap", [*inside, *conversation(range(5), client_is_high=True)], syn=False)
    found = events(path)
    assert [event.correlation_id for event in found if isinstance(event, Exchange)] == list(range(5))
    gaps = [event for event in found if isinstance(event, Gap)]
    assert sum(gap.skipped for gap in gaps) == size
    assert {gap.direction for gap in gaps} == {Direction.REQUEST}


def test_the_search_for_a_request_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "JOINED_SIZE", 1_000_000)
    inside = [(True, bytes(60_000)) for _ in range(20)]
    path = write(tmp_path / "a.pcap", [*inside, *conversation(range(5), client_is_high=True)], syn=False)
    (event,) = events(path)
    assert isinstance(event, NotKafka) and "nothing in it looks like a Kafka request" in event.what


def test_when_next_to_nothing_of_each_packet_was_captured_that_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", list(conversation(range(8), client_is_high=True)), syn=True)
    packets = rdpcap(str(path))
    for packet in packets:
        packet.wirelen = len(packet)
    wrpcap(str(path), [Ether(bytes(packet)[:56]) for packet in packets])  # Ethernet, IP, TCP: 54
    data = bytearray(path.read_bytes())
    at = 24
    for packet in packets:
        data[at + 12 : at + 16] = len(packet).to_bytes(4, "little")  # the packet's size on the wire
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    path.write_bytes(data)
    (event,) = events(path)
    assert isinstance(event, NotKafka)
    assert (
        event.what == "too little of each packet was captured to tell what it is: record whole packets (tcpdump -s 0)"
    )


def states_of(path: Path) -> list[State]:
    """The states of a capture's only flow, after each of its items, each state once."""
    states = [State.UNDECIDED]
    readers: dict[Flow, FlowReader] = {}
    with open_capture(path) as capture:
        for item in read_flows(capture):
            known = readers.get(item.flow)
            if known is None:
                known = FlowReader(1, item.flow, ClusterView(), Limits(), keylog=KeyLog())
                readers[item.flow] = known
            known.receive(item)
            if known.state is not states[-1]:
                states.append(known.state)
    return states


CLIENT_HELLO = bytes.fromhex("160301020001")
WALKS = {  # what the client sends, and the states that the flow goes through
    (State.UNDECIDED, State.KAFKA): heartbeat(1),
    (State.UNDECIDED, State.TLS): CLIENT_HELLO,
    (State.UNDECIDED, State.DROPPED): b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("walk", WALKS, ids=str)
def test_a_flow_leaves_undecided_for_each_of_three_states_and_stays(tmp_path: Path, walk: tuple[State, State]) -> None:
    segments = [(True, WALKS[walk]), (False, heartbeat_answer(1)), (True, b"GET / HTTP/1.1\r\n\r\n")]
    assert states_of(write(tmp_path / "a.pcap", segments, syn=True)) == list(walk)


def reader_in(state: State, path: Path) -> FlowReader:
    """A reader that has come to *state* by itself."""
    first = next((data for walk, data in WALKS.items() if walk[1] is state), heartbeat(1)[:5])
    with open_capture(write(path, [(True, first)], syn=True)) as capture:
        items = [item for item in read_flows(capture) if not isinstance(item, Closed)]
    reader = FlowReader(1, items[0].flow, ClusterView(), Limits(), keylog=KeyLog())
    for item in items:
        reader.receive(item)
    assert reader.state is state
    return reader


@pytest.mark.parametrize("state", State)
def test_a_state_can_fail_and_holds_nothing_then_and_has_no_other_transitions(tmp_path: Path, state: State) -> None:
    reader = reader_in(state, tmp_path / "a.pcap")
    reader.fail()
    assert reader.state is State.DROPPED
    assert (reader.session, reader._tls, reader._inside, reader._pending) == (None, None, None, [])
    walked = {walk[1] for walk in WALKS if walk[0] is state} | ({State.DROPPED} - {state})
    assert TRANSITIONS[state] == walked
    for other in set(State) - walked:
        reader = reader_in(state, tmp_path / "a.pcap")
        with pytest.raises(AssertionError):
            reader._enter(other)
        assert reader.state is state


def test_no_byte_is_lost_when_a_flow_becomes_kafka(tmp_path: Path) -> None:
    """What was pending goes to the session before what comes after."""
    data = heartbeat(1) + heartbeat(2)
    received: list[bytes] = []

    class Listening(Session):
        def receive(self, direction: Direction, data: bytes, at: int) -> list[Event]:
            received.append(data)
            return super().receive(direction, data, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Session", Listening)
        found = events(
            write(tmp_path / "a.pcap", [(True, data[at : at + 3]) for at in range(0, len(data), 3)], syn=True)
        )
    assert b"".join(received) == data
    assert [event.correlation_id for event in found if isinstance(event, Exchange)] == [1, 2]


# The response to InitProducerId v5 in captures/01: to its last byte it reads as Produce v4 without transactions and topics
ZEROS = bytes.fromhex("00000016 00000004 00000000 0000 0000 0000 0000 0000 0000 0000 0000")
HELD = 100_000


@pytest.mark.parametrize("direction", [0, 1])
def test_a_request_with_a_client_id_settles_it(direction: int) -> None:
    assert Sides(HELD).read(direction, heartbeat(7)) == direction


def test_zeros_alone_settle_nothing() -> None:
    sides = Sides(HELD)
    assert sides.read(1, ZEROS) is None
    assert sides.read(1, ZEROS) is None
    assert sides.read(0, heartbeat(5)) == 0


def test_a_request_without_client_id_is_settled_by_its_answer() -> None:
    sides = Sides(HELD)
    request = frame(struct.pack(">hhihh", 18, 0, 77, -1, 0)[:10])  # ApiVersions v0 of nobody
    assert sides.read(1, request) is None
    assert sides.read(0, frame(struct.pack(">ihi", 77, 0, 0))) == 1


def test_without_an_answer_the_end_settles_it() -> None:
    sides = Sides(HELD)
    assert sides.read(1, heartbeat(7, client_id=None)) is None
    assert sides.claimed() == 1


def test_requests_within_segments_settle_it_too() -> None:
    sides = Sides(HELD)
    noise = random.Random(1).randbytes(1_400)
    assert sides.read(1, noise + heartbeat(7)[:20]) is None
    assert sides.read(0, produce_answer(6)) is None
    assert sides.read(1, heartbeat(7)[20:]) is None
    assert sides.held(1) == len(heartbeat(7))
    assert sides.read(0, heartbeat_answer(7)) == 1


def test_bytes_that_are_missing_part_what_comes_before_and_after() -> None:
    sides = Sides(HELD)
    assert sides.read(1, b"?" + heartbeat(7)[:20]) is None
    sides.interrupt(1)
    assert sides.held(1) == 0
    assert sides.read(1, heartbeat(7)[20:]) is None
    assert sides.claimed() is None


def test_an_answer_may_come_after_bytes_of_the_client_are_missing() -> None:
    sides = Sides(HELD)
    assert sides.read(1, heartbeat(7, client_id=None)) is None
    assert sides.interrupt(1) is None
    assert sides.read(0, heartbeat_answer(7)) == 1


def test_nothing_is_claimed_by_what_is_no_request() -> None:
    sides = Sides(HELD)
    assert sides.read(0, b"log line\n" * 20) is None
    assert sides.claimed() is None


def test_what_is_held_is_bounded() -> None:
    sides = Sides(1_000)
    claims = (50_000_000).to_bytes(4, "big") + heartbeat(1)[4:17]
    for _ in range(100):
        sides.read(0, b"?" + claims + bytes(1_000))
    assert sides.held(0) < 2_000


def cut_request(correlation_id: int) -> bytes:
    """The first 18 bytes of a request of 104, for which a snaplen left no more."""
    return struct.pack(">ihhih", 100, 3, 5, correlation_id, 12) + b"app-"


def test_two_requests_cut_inside_the_name_of_the_same_client_settle_it() -> None:
    sides = Sides(HELD)
    assert sides.read(1, cut_request(7)) is None and sides.interrupt(1, 86) is None
    assert sides.read(1, cut_request(8)) is None and sides.interrupt(1, 86) == 1


def test_a_cut_request_is_settled_by_its_cut_answer() -> None:
    sides = Sides(HELD)
    assert sides.read(1, cut_request(7)) is None and sides.interrupt(1, 86) is None
    answer = struct.pack(">iii", 500, 7, 0) + struct.pack(">ii", 1, 1)
    assert sides.read(0, answer) is None and sides.interrupt(0, 484) == 1


def test_responses_of_old_brokers_that_read_as_cut_requests_settle_nothing() -> None:
    sides = Sides(HELD)
    for correlation_id in (4, 5, 6):  # reads as Produce v4, v5, v6 with correlation id 1 of the client "t09c"
        answer = struct.pack(">iiih", 50, correlation_id, 1, 4) + b"t09c" + struct.pack(">ii", 2, 0)
        assert sides.read(0, answer) is None and sides.interrupt(0, 54 - len(answer)) is None
    assert sides.read(1, cut_request(6)) is None
    assert sides.interrupt(1, 86) is None and sides.claimed() is None


DSB = CAPTURES / "07-tls13-dsb.pcapng"


def talk() -> Pair:
    pair = Pair(Setup(client_certificate=True, ask_certificate=True)).handshake()
    for number in range(3):
        pair.send(REQUEST, heartbeat(number))
        pair.send(RESPONSE, heartbeat_answer(number))
    return pair


def decrypted_events(path: Path, keylog: KeyLog | None = None) -> list[Event]:
    with open_capture(path) as capture:
        return list(FlowEvents(read_flows(capture), keylog=keylog))


def segments(pair: Pair) -> list[tuple[bool, bytes]]:
    return [(direction is REQUEST, data) for direction, data in pair.chunks]


@pytest.mark.parametrize("syn", [True, False])
def test_kafka_inside_tls_is_read(tmp_path: Path, syn: bool) -> None:
    pair = talk()
    path = write(tmp_path / "a.pcap", segments(pair), syn=syn)
    found = decrypted_events(path, log_of(pair.keylog))
    exchanges = [event for event in found if isinstance(event, Exchange)]
    assert [exchange.correlation_id for exchange in exchanges] == [0, 1, 2]
    assert all(exchange.response is not None for exchange in exchanges)
    assert isinstance(found[-1], Tls)
    for event in found:
        assert event.connection.client == "10.0.0.5:51234"
        assert event.connection.tls is not None
        assert event.connection.tls.client_certificate == CLIENT


def test_without_keys_one_event_says_what_it_is(tmp_path: Path) -> None:
    (event,) = decrypted_events(write(tmp_path / "a.pcap", segments(talk()), syn=True))
    assert isinstance(event, NotKafka)
    assert event.kind == "tls"
    assert "TLS 1.3" in event.what
    assert "server name broker.test" in event.what


def test_in_the_middle_of_it_even_the_client_is_unknown(tmp_path: Path) -> None:
    pair = talk()
    (event,) = decrypted_events(write(tmp_path / "a.pcap", segments(pair)[3:], syn=False), log_of(pair.keylog))
    assert isinstance(event, NotKafka)
    assert "the ClientHello is not in the capture" in event.what
    assert "--keylog" not in event.what and event.what.endswith(JOINED_LATE_HINT)
    summary = Summary()
    summary.write(event, None)
    assert any("joins late" in line for line in summary.lines())
    assert not any(KEYS_HINT in line for line in summary.lines())


def test_a_lost_packet_costs_the_exchange_it_hit(tmp_path: Path) -> None:
    pair = talk()
    lost = next(
        n for n, (direction, data) in enumerate(pair.chunks) if n > 2 and direction is RESPONSE and len(data) < 50
    )
    chunks = segments(pair)
    path = write(tmp_path / "a.pcap", chunks, syn=True)
    whole = [
        event.correlation_id for event in decrypted_events(path, log_of(pair.keylog)) if isinstance(event, Exchange)
    ]
    assert whole == [0, 1, 2]
    packets = list(rdpcap(str(path)))
    del packets[3 + lost]
    wrpcap(str(path), packets)
    found = decrypted_events(path, log_of(pair.keylog))
    answered = [e.correlation_id for e in found if isinstance(e, Exchange) and e.response is not None]
    assert answered == [1, 2]
    assert any(isinstance(event, Gap) for event in found)


def test_something_else_inside_tls_is_said_to_be_that(tmp_path: Path) -> None:
    pair = Pair().handshake()
    pair.send(REQUEST, b"GET / HTTP/1.1\r\n\r\n")
    found = decrypted_events(write(tmp_path / "a.pcap", segments(pair), syn=True), log_of(pair.keylog))
    assert [type(event) for event in found] == [NotKafka, Tls]
    assert isinstance(found[0], NotKafka)
    assert found[0].kind == "http"


def test_four_letters_in_the_middle_of_a_connection_are_no_protocol(tmp_path: Path) -> None:
    """A capture that begins inside a record, or a packet whose port was damaged; at its start a connection speaks."""
    inside = [(True, b'ent":"' + b"\0" * 40), (False, b"\0\xff" * 40)]
    (said,) = events(write(tmp_path / "a.pcap", inside, syn=False))
    assert isinstance(said, NotKafka) and (said.kind, said.what) == ("unknown", pipeline.UNKNOWN_MIDSTREAM)
    (said,) = events(write(tmp_path / "b.pcap", [(True, b"EHLO example.com\r\n")], syn=True))
    assert isinstance(said, NotKafka) and said.kind == "text"


def test_secrets_of_the_capture_come_before_those_of_the_file() -> None:
    with open_capture(DSB) as capture:
        secrets = Secrets(None)
        secrets.read_from(capture)
        keylog = KeyLog(secrets.more)
        found = list(FlowEvents(read_flows(capture), keylog=keylog))
    assert sum(isinstance(event, Exchange) for event in found) == 24
    assert sum(isinstance(event, Tls) for event in found) == 5


def test_the_capture_without_its_secrets_needs_the_file(tmp_path: Path) -> None:
    capture, keys = without_secrets(DSB.read_bytes())
    path = tmp_path / "bare.pcapng"
    path.write_bytes(capture)
    assert {event.kind for event in decrypted_events(path) if isinstance(event, NotKafka)} == {"tls"}
    assert sum(isinstance(event, Exchange) for event in decrypted_events(path, log_of(keys))) == 24


@pytest.mark.parametrize("client", [("10.0.0.5", 51234), ("10.0.0.19", 51234)])
@pytest.mark.parametrize("sender", [0, 1])
def test_a_reset_is_the_end_of_the_side_that_sent_it(client: tuple[str, int], sender: int) -> None:
    made = Conversation(client).handshake().send(0, request(18, 0, 1, b"")).segment(sender, flags="RA")
    ends = [pipeline._end(1, item) for item in reassemble(made.packets) if isinstance(item, Ended)]
    assert {end.side for end in ends} == {("client", "broker")[sender]}
