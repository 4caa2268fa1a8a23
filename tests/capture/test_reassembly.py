"""One connection: in order, out of order, twice, overlapping, lost, wrapped, cut, joined late, ended in every way."""

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.capture import Closed, CloseReason, Data, Differs, Ended, Flows, Gap, Limits, Opened, Packet
from tests.support.built_captures import CLIENT, Conversation, cut, kafka_like, reassemble, streams, turns

CONVERSATION = kafka_like()
ORDERED = reassemble(CONVERSATION.packets)


def conversation(text: str) -> Conversation:
    """A connection in which each word is a segment, ">word" from the client and "<word" from the server."""
    made = Conversation().handshake()
    for word in text.split():
        made.segment(0 if word[0] == ">" else 1, word[1:].encode(), "PA")
    return made


def kinds(packets: list[Packet], limits: Limits | None = None) -> list[str]:
    return [type(item).__name__ for item in reassemble(packets, limits)]


def test_in_order_the_streams_are_what_was_sent() -> None:
    assert streams(ORDERED) == [tuple(CONVERSATION.sent)]  # the sequence numbers wrap on the way
    first, last = ORDERED[0], ORDERED[-1]
    assert isinstance(first, Opened) and isinstance(last, Closed)
    assert (first.flow.client, first.flow.server, first.flow.client_known) == (
        "10.0.0.5:51234",
        "10.0.0.9:9092",
        True,
    )
    assert last.reason is CloseReason.FINISHED
    assert first.flow.half(0).from_start and first.flow.half(1).from_start
    assert [item.direction for item in ORDERED if isinstance(item, Ended)] == [0, 1]


def test_every_chunk_has_the_time_of_its_packet() -> None:
    by_payload = {packet.data[54:]: packet.time_ns for packet in CONVERSATION.packets}
    assert all(by_payload[item.data] == item.time_ns for item in ORDERED if isinstance(item, Data))


@pytest.mark.parametrize("seed", range(60))
def test_shuffled_and_duplicated_gives_the_same_conversation(seed: int) -> None:
    rng = random.Random(seed)
    packets = CONVERSATION.packets + rng.sample(CONVERSATION.packets, 60)
    rng.shuffle(packets)
    items = reassemble(packets)
    assert turns(items) == turns(ORDERED)
    assert [type(item) for item in items if not isinstance(item, Data)] == [Opened, Ended, Ended, Closed]
    times = {item.data: item.time_ns for item in ORDERED if isinstance(item, Data)}
    assert all(times[item.data] == item.time_ns for item in items if isinstance(item, Data))


@pytest.mark.parametrize("seed", range(20))
def test_nearly_in_order_is_delivered_without_waiting_for_the_end(seed: int) -> None:
    rng = random.Random(seed)
    packets = sorted(CONVERSATION.packets, key=lambda packet: packet.time_ns + rng.uniform(0, 8e6))
    flows = Flows()
    items = [item for packet in packets for item in flows.receive_packet(packet)]
    assert turns(items) == turns(ORDERED)
    assert flows.close() == []


@pytest.mark.parametrize("seed", range(20))
def test_segments_cut_anew_and_overlapping_give_the_same_streams(seed: int) -> None:
    rng = random.Random(seed)
    sent = rng.randbytes(20_000)
    made = Conversation(isn=[2**32 - 7777, 5]).handshake()
    packets = list(made.packets)
    covered = 0
    while covered < len(sent):
        start = max(0, covered - rng.randrange(2000))
        end = min(len(sent), covered + rng.randrange(1, 1400))
        packets.append(made.packet(0, 2**32 - 7776 + start, sent[start:end], "PA"))
        covered = end
    rng.shuffle(packets)
    items = reassemble(packets)
    assert streams(items) == [(sent, b"")]
    assert not [item for item in items if isinstance(item, Differs | Gap)]


@pytest.mark.parametrize("lost", range(3, 103))
def test_a_lost_segment_is_a_gap_of_its_size_and_nothing_else_is_lost(lost: int) -> None:
    packet = CONVERSATION.packets[lost]
    size = len(packet.data) - 54
    items = reassemble(CONVERSATION.packets[:lost] + CONVERSATION.packets[lost + 1 :])
    assert [item.size for item in items if isinstance(item, Gap)] == ([size] if size else [])
    direction = 0 if packet.data[26:30] == bytes([10, 0, 0, 5]) else 1
    offset = sum(len(p.data) - 54 for p in CONVERSATION.packets[:lost] if p.data[26:30] == packet.data[26:30])
    expected = list(CONVERSATION.sent)
    expected[direction] = expected[direction][:offset] + b"?" * size + expected[direction][offset + size :]
    assert streams(items) == [tuple(expected)]


def test_a_gap_is_told_before_what_answers_it() -> None:
    made = conversation(">one <eins >two <zwei >three <drei")
    items = reassemble(made.packets[:5] + made.packets[6:])
    assert turns([item for item in items if isinstance(item, Data)]) == [
        (0, b"one"),
        (1, b"einszwei"),
        (0, b"three"),
        (1, b"drei"),
    ]
    order = [item.data if isinstance(item, Data) else item.size for item in items if isinstance(item, Data | Gap)]
    assert order == [b"one", b"eins", 3, b"zwei", b"three", b"drei"]


def test_the_wait_for_a_lost_segment_ends_by_packets_and_by_bytes() -> None:
    made = conversation(">lost" + " >x" * 30)
    packets = made.packets[:3] + made.packets[4:]
    flows = Flows(Limits(patience=10))
    items = [item for packet in packets for item in flows.receive_packet(packet)]
    assert [item.size for item in items if isinstance(item, Gap)] == [4]
    flows = Flows(Limits(held_per_flow=1000))
    items = [item for packet in packets for item in flows.receive_packet(packet)]
    assert [item.size for item in items if isinstance(item, Gap)] == [4]
    flows = Flows(Limits(held_in_all=1000))
    items = [item for packet in packets for item in flows.receive_packet(packet)]
    assert [item.size for item in items if isinstance(item, Gap)] == [4]
    assert flows.budget.held == 0


def test_bytes_that_waited_came_when_the_wait_ended() -> None:
    made = conversation(">one >two >three")
    one, two, three = made.packets[3:6]
    again = replace(two, time_ns=three.time_ns + 5)
    items = reassemble([*made.packets[:3], one, three, again])
    assert [(item.data, item.time_ns) for item in items if isinstance(item, Data)] == [
        (b"one", one.time_ns),
        (b"two", again.time_ns),
        (b"three", again.time_ns),
    ]


def test_what_came_first_wins_and_the_difference_is_told() -> None:
    made = conversation(">abcdef")
    start = made.isn[0] + 1
    late = [made.packet(0, start + 2, b"cXYf", "PA"), made.packet(0, start + 4, b"efghi", "PA")]
    items = reassemble(made.packets + late)
    assert streams(items) == [(b"abcdefghi", b"")]
    assert [(item.position, item.size) for item in items if isinstance(item, Differs)] == [(3, 2)]


def test_the_difference_is_told_of_held_segments_too() -> None:
    made = conversation(">ab")
    start = made.isn[0] + 1
    held = [made.packet(0, start + 4, b"efgh", "PA"), made.packet(0, start + 2, b"cdEFg", "PA")]
    items = reassemble(made.packets + held)
    assert streams(items) == [(b"abcdefgh", b"")]
    assert [(item.position, item.size) for item in items if isinstance(item, Differs)] == [(4, 2)]


def test_keep_alives_are_no_data() -> None:
    made = conversation(">one <eins")
    probes = [
        made.packet(0, made.next[0] - 1),
        made.packet(0, made.next[0] - 1, b"\0"),
        made.packet(1, made.next[1] - 1, b"\0"),
    ]
    made.segment(0, b"two")
    items = reassemble(made.packets[:-1] + probes + made.packets[-1:])
    assert streams(items) == [(b"onetwo", b"eins")]
    assert not [item for item in items if isinstance(item, Differs)]
    assert items[0].flow.half(0).keep_alives == 2


def test_a_packet_that_was_cut_is_a_gap_at_its_end() -> None:
    made = conversation(">abcdef <uvwxyz >ghi")
    packets = [cut(packet, 56) for packet in made.packets]
    assert streams(reassemble(packets)) == [(b"ab????gh?", b"uv????")]
    shuffled = [*packets[:3], packets[5], packets[4], packets[3]]
    assert streams(reassemble(shuffled)) == [(b"ab????gh?", b"uv????")]


def test_headers_only_are_gaps_only() -> None:
    made = conversation(">abcdef <uvwxyz")
    assert streams(reassemble([cut(packet, 54) for packet in made.packets])) == [(b"??????", b"??????")]


def test_joined_late_it_starts_with_what_is_there() -> None:
    items = reassemble(CONVERSATION.packets[10:])
    sent = [b"", b""]
    for packet in CONVERSATION.packets[10:]:
        sent[packet.data[26:30] == bytes([10, 0, 0, 9])] += packet.data[54:]
    assert streams(items) == [tuple(sent)]
    flow = items[0].flow
    assert (flow.client_known, flow.half(0).from_start, flow.half(1).from_start) == (False, False, False)
    assert (flow.client, flow.server) == ("10.0.0.5:51234", "10.0.0.9:9092")


def test_joined_late_and_shuffled_a_little() -> None:
    packets = CONVERSATION.packets[10:]
    packets[0], packets[1], packets[4], packets[6] = packets[1], packets[0], packets[6], packets[4]
    assert turns(reassemble(packets)) == turns(reassemble(CONVERSATION.packets[10:]))


def test_joined_late_in_order_is_delivered_after_a_few_packets() -> None:
    flows = Flows(Limits(start_packets=3))
    seen = [len(flows.receive_packet(packet)) for packet in conversation(">a <b >c <d").packets[3:]]
    assert seen == [0, 0, 4, 1]  # the third packet opens the flow and brings what was held


@pytest.mark.parametrize("direction", [0, 1])
def test_one_direction_alone(direction: int) -> None:
    source = bytes([10, 0, 0, 5 if direction == 0 else 9])
    packets = [packet for packet in CONVERSATION.packets if packet.data[26:30] == source]
    items = reassemble(packets)
    expected = [b"", b""]
    expected[direction] = CONVERSATION.sent[direction]
    assert streams(items) == [tuple(expected)]
    assert not [item for item in items if isinstance(item, Gap)]
    flows = Flows()  # and it does not wait for the other to come
    live = [item for packet in packets for item in flows.receive_packet(packet)]
    assert streams(live) == [tuple(expected)]


def test_reused_ports_are_another_connection() -> None:
    first, second = conversation(">one <eins"), Conversation(isn=[77_777, 88_888]).handshake().send(0, b"two")
    items = reassemble(first.packets + second.packets)
    assert streams(items) == [(b"one", b"eins"), (b"two", b"")]
    assert [item.reason for item in items if isinstance(item, Closed)] == [
        CloseReason.REUSED,
        CloseReason.CAPTURE_END,
    ]
    finished = conversation(">one").finish()
    assert streams(reassemble(finished.packets + second.packets)) == [(b"one", b""), (b"two", b"")]


def test_reuse_is_seen_when_only_the_syn_ack_was_captured() -> None:
    first, second = conversation(">one <eins"), Conversation(isn=[77_777, 88_888]).handshake().send(0, b"two")
    items = reassemble(first.packets + second.packets[1:])
    assert streams(items) == [(b"one", b"eins"), (b"two", b"")]


def test_a_repeated_syn_is_the_same_connection() -> None:
    made = conversation(">one <eins")
    packets = [made.packets[0], *made.packets[:2], *made.packets[:5], made.packets[0], made.packets[1]]
    assert streams(reassemble(packets)) == [(b"one", b"eins")]


def test_syn_ack_alone_tells_the_client_and_both_beginnings() -> None:
    items = reassemble(conversation(">one <eins").packets[1:])
    flow = items[0].flow
    assert (flow.client_known, flow.client) == (True, f"{CLIENT[0]}:{CLIENT[1]}")
    assert flow.half(0).from_start and flow.half(1).from_start


def test_data_in_the_syn() -> None:
    made = Conversation()
    made.segment(0, b"early", "S").segment(1, b"", "SA").segment(0, b" bird")
    assert streams(reassemble(made.packets)) == [(b"early bird", b"")]


def test_reset_ends_both_ways() -> None:
    made = conversation(">one <eins")
    made.segment(1, flags="RA")
    items = reassemble(made.packets)
    assert [(item.direction, item.reset) for item in items if isinstance(item, Ended)] == [(0, True), (1, True)]
    assert isinstance(items[-1], Closed) and items[-1].reason is CloseReason.RESET
    early = [made.packets[i] for i in (0, 1, 2, 5, 4, 3)]
    assert turns(reassemble(early)) == [(0, b"one"), (1, b"eins")]


def test_fin_before_the_last_data_ends_after_it() -> None:
    made = conversation(">one >two").finish()
    packets = [made.packets[i] for i in (0, 1, 2, 5, 4, 3, 6, 7)]
    items = reassemble(packets)
    assert streams(items) == [(b"onetwo", b"")]
    assert [type(item) for item in items] == [Opened, Data, Data, Ended, Ended, Closed]


def test_a_lost_tail_is_a_gap_before_the_end() -> None:
    made = conversation(">one >two").finish()
    items = reassemble(made.packets[:4] + made.packets[5:])
    assert streams(items) == [(b"one???", b"")]
    acknowledged = conversation(">one >two <drei")
    assert streams(reassemble(acknowledged.packets[:4] + acknowledged.packets[5:])) == [(b"one???", b"drei")]


def test_late_packets_of_a_finished_connection_are_not_another() -> None:
    made = conversation(">one <eins").finish()
    items = reassemble(made.packets + made.packets[3:5] + [made.packets[-1]])
    assert len(streams(items)) == 1
    items = reassemble([*made.packets, made.packet(0, made.next[0] + 5_000, b"new", "PA")])
    assert streams(items) == [(b"one", b"eins"), (b"new", b"")]


def test_after_a_pause_of_gigabytes_the_stream_goes_on_behind_a_gap_of_unknown_size() -> None:
    made = conversation(">before")
    far = made.next[0] + 2**31 - 2**28
    noise = made.packet(0, made.next[0] + 2**30, b"noise", "PA")
    segments = [made.packet(0, far + 10 * i, b"0123456789", "PA") for i in range(6)]
    items = reassemble([*made.packets, noise, *segments])
    assert [item.size for item in items if isinstance(item, Gap)] == [None]
    assert streams(items) == [(b"before" + b"0123456789" * 2, b"")]


def test_swap_turns_the_direction_of_what_is_read_from_then_on() -> None:
    item = next(item for item in ORDERED if isinstance(item, Data))
    before = item.direction, item.flow.client, item.flow.half(0).size
    item.flow.swap()
    assert (item.direction, item.flow.server) == (1 - before[0], before[1])
    assert item.flow.half(1).size == before[2] == len(CONVERSATION.sent[0])
    item.flow.swap()
    assert (item.direction, item.flow.client, item.flow.half(0).size) == before


def test_ipv6_addresses_are_bracketed() -> None:
    made = Conversation(client=("fd00::5", 51234), server=("::1", 9092)).handshake()
    flow = reassemble(made.packets)[0].flow
    assert (flow.client, flow.server) == ("[fd00::5]:51234", "[::1]:9092")


def test_mapped_ipv4_addresses_keep_their_dots() -> None:
    made = Conversation(client=("::ffff:10.0.0.5", 51234), server=("::1", 9092)).handshake()
    assert reassemble(made.packets)[0].flow.client == "[::ffff:10.0.0.5]:51234"  # RFC 5952, 5


def test_hostile_acknowledgments_hold_nothing_back_for_ever() -> None:
    made = Conversation().handshake()
    packets = list(made.packets)
    for i in range(50):
        packet = made.packet(i % 2, made.next[i % 2], b"x" * 10, "PA")
        data = bytearray(packet.data)
        data[42:46] = struct.pack(">I", (made.next[1 - i % 2] + 1_000_000) % 2**32)
        packets.append(replace(packet, data=bytes(data)))
        made.next[i % 2] += 10
    flows = Flows(Limits(patience=8))
    items = [item for packet in packets for item in flows.receive_packet(packet)] + flows.close()
    assert isinstance(items[-1], Closed)
    assert flows.budget.held == 0


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_segments_make_a_flow_that_opens_once_and_closes_once(data: st.DataObject) -> None:
    made = Conversation()
    flags = st.sampled_from(["S", "SA", "A", "PA", "FA", "R", "RA", "SF", "F", ""])
    limits = Limits(patience=data.draw(st.integers(0, 8)), held_per_flow=data.draw(st.sampled_from([0, 500, 10**6])))
    flows = Flows(replace(limits, start_packets=data.draw(st.integers(0, 6))))
    items = []
    for _ in range(data.draw(st.integers(1, 25))):
        base = data.draw(st.sampled_from([1000, 2**31, 2**32 - 20]))
        made.next = [base + data.draw(st.integers(0, 40)), base + data.draw(st.integers(0, 40))]
        payload = data.draw(st.binary(max_size=30))
        direction = data.draw(st.integers(0, 1))
        packet = made.packet(direction, base + data.draw(st.integers(0, 40)), payload, data.draw(flags))
        items += flows.receive_packet(cut(packet, data.draw(st.sampled_from([54, 60, 100]))))
    items += flows.close()
    for number in {item.flow.number for item in items}:
        own = [type(item) for item in items if item.flow.number == number]
        assert (own[0], own[-1]) == (Opened, Closed)
        assert (own.count(Opened), own.count(Closed)) == (1, 1)
    assert flows.budget.held == 0
    assert flows.budget.recent == 0
