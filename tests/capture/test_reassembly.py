"""Reassembly: in order, shuffled, twice, lost, wrapped, cut, joined late, ended in every way; bounds; the state machine."""

import gzip
import random
import struct
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, GRE, Ether

from kproxy.capture import (
    CaptureFile,
    Closed,
    CloseReason,
    Data,
    Differs,
    Ended,
    FlowItem,
    Flows,
    Gap,
    Limits,
    MergedCapture,
    Opened,
    Packet,
    PacketBatch,
    open_capture,
    read_flows,
)
from kproxy.capture.roles import Endpoints
from tests.support.built_captures import (
    CLIENT,
    Conversation,
    as_packet,
    cut,
    kafka_like,
    pcap,
    reassemble,
    streams,
    turns,
)

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
    assert (first.flow.client, first.flow.server, first.flow.client_known) == ("10.0.0.5:51234", "10.0.0.9:9092", True)
    assert last.reason is CloseReason.FINISHED
    assert first.flow.half(0).from_start and first.flow.half(1).from_start
    assert [item.direction for item in ORDERED if isinstance(item, Ended)] == [0, 1]


def test_every_chunk_has_the_time_of_its_packet() -> None:
    by_payload = {packet.data[54:]: packet.time_ns for packet in CONVERSATION.packets}
    assert all(by_payload[item.data] == item.time_ns for item in ORDERED if isinstance(item, Data))


def test_shuffled_and_duplicated_gives_the_same_conversation() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        packets = CONVERSATION.packets + rng.sample(CONVERSATION.packets, 60)
        rng.shuffle(packets)
        items = reassemble(packets)
        assert turns(items) == turns(ORDERED), seed
        assert [type(item) for item in items if not isinstance(item, Data)] == [Opened, Ended, Ended, Closed], seed
        times = {item.data: item.time_ns for item in ORDERED if isinstance(item, Data)}
        assert all(times[item.data] == item.time_ns for item in items if isinstance(item, Data)), seed


def test_nearly_in_order_is_delivered_without_waiting_for_the_end() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        packets = sorted(CONVERSATION.packets, key=lambda packet: packet.time_ns + rng.uniform(0, 8e6))
        flows = Flows()
        items = [item for packet in packets for item in flows.receive_packet(packet)]
        assert turns(items) == turns(ORDERED), seed
        assert flows.close() == [], seed


def test_segments_cut_anew_and_overlapping_give_the_same_streams() -> None:
    for seed in range(20):
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
        assert streams(items) == [(sent, b"")], seed
        assert not [item for item in items if isinstance(item, Differs | Gap)], seed


def test_a_lost_segment_is_a_gap_of_its_size_and_nothing_else_is_lost() -> None:
    for lost in range(3, 103):
        packet = CONVERSATION.packets[lost]
        size = len(packet.data) - 54
        items = reassemble(CONVERSATION.packets[:lost] + CONVERSATION.packets[lost + 1 :])
        assert [item.size for item in items if isinstance(item, Gap)] == ([size] if size else []), lost
        direction = 0 if packet.data[26:30] == bytes([10, 0, 0, 5]) else 1
        offset = sum(len(p.data) - 54 for p in CONVERSATION.packets[:lost] if p.data[26:30] == packet.data[26:30])
        expected = list(CONVERSATION.sent)
        expected[direction] = expected[direction][:offset] + b"?" * size + expected[direction][offset + size :]
        assert streams(items) == [tuple(expected)], lost


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


def test_bytes_that_waited_have_the_time_of_their_own_packet() -> None:
    made = conversation(">one >two >three")
    one, two, three = made.packets[3:6]
    again = replace(two, time_ns=three.time_ns + 5)
    items = reassemble([*made.packets[:3], one, three, again])
    assert [(item.data, item.time_ns) for item in items if isinstance(item, Data)] == [
        (b"one", one.time_ns),
        (b"two", again.time_ns),
        (b"three", three.time_ns),
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
    assert [item.reason for item in items if isinstance(item, Closed)] == [CloseReason.REUSED, CloseReason.CAPTURE_END]
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


@settings(max_examples=settings.default.max_examples * 4)
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


def test_held_bytes_are_accounted_for_and_given_back() -> None:
    packets = kafka_like(exchanges=10).packets
    rng = random.Random(5)
    rng.shuffle(packets)
    flows, most = Flows(), 0
    for packet in packets:
        flows.receive_packet(packet)
        most = max(most, flows.budget.held)
    payload = sum(len(packet.data) - 54 for packet in packets)
    assert payload / 2 < most < payload + 300 * len(packets)
    flows.close()
    assert (flows.budget.held, flows.budget.recent) == (0, 0)


def test_tiny_segments_count_for_more_than_their_bytes() -> None:
    made = Conversation().handshake()
    made.next[0] += 10  # something is lost
    made.send(0, b"x" * 100, size=1)
    flows, items = Flows(Limits(held_per_flow=5000)), []
    for packet in made.packets:
        items += flows.receive_packet(packet)
    assert [item.size for item in items if isinstance(item, Gap)] == [10]


@pytest.mark.slow
def test_held_bytes_of_all_flows_are_bounded() -> None:
    flows = Flows(Limits(held_in_all=100_000))
    for i in range(300):
        made = Conversation(client=("10.0.0.5", 2000 + i)).handshake()
        made.next[0] += 10
        made.send(0, b"x" * 3000)
        for packet in made.packets:
            flows.receive_packet(packet)
            assert flows.budget.held < 102_000


def test_remembered_bytes_are_bounded_and_given_back() -> None:
    flows = Flows(Limits(recent_in_all=10_000, recent_per_chunk=1000))
    for i in range(20):
        for packet in Conversation(client=("10.0.0.5", 2000 + i)).handshake().send(0, b"x" * 5000, size=700).packets:
            flows.receive_packet(packet)
            assert flows.budget.recent <= 10_000
    assert flows.budget.recent > 5000
    flows.close()
    assert flows.budget.recent == 0


def test_what_is_not_remembered_cannot_differ() -> None:
    made = Conversation().handshake().send(0, b"abc")
    again = made.packet(0, made.isn[0] + 1, b"XYZ", "PA")
    half = reassemble([*made.packets, again], Limits(recent_per_chunk=0))[0].flow.half(0)
    assert (half.differing, half.retransmitted) == (0, 3)
    half = reassemble([*made.packets, again])[0].flow.half(0)
    assert (half.differing, half.retransmitted) == (3, 3)


def test_the_counters_of_a_half() -> None:
    made = Conversation().handshake().send(0, b"abcdefghi", size=3)
    one, two, three = made.packets[3:]
    flow = reassemble([*made.packets[:3], one, three, two, two])[0].flow
    half = flow.half(0)
    assert (half.size, half.retransmitted, half.out_of_order, half.missing) == (9, 3, 1, 0)
    assert half.from_start
    flow = reassemble([*made.packets[:3], one, three])[0].flow
    assert (flow.half(0).size, flow.half(0).missing) == (6, 3)


MAC = "02:00:00:00:00:01"


def conversations(count: int) -> list[Conversation]:
    return [
        Conversation(client=("10.0.0.5", 40_000 + i)).handshake().send(0, b"request %d" % i).send(1, b"response %d" % i)
        for i in range(count)
    ]


def test_interleaved_flows_are_told_apart() -> None:
    made = conversations(50)
    packets = [packet for group in zip(*(c.packets for c in made), strict=True) for packet in group]
    items = reassemble(packets)
    assert streams(items) == [(b"request %d" % i, b"response %d" % i) for i in range(50)]
    assert [item.flow.number for item in items if isinstance(item, Opened)] == list(range(1, 51))
    assert {item.reason for item in items if isinstance(item, Closed)} == {CloseReason.CAPTURE_END}


def test_a_batch_gives_what_its_packets_give() -> None:
    packets = kafka_like(exchanges=5).packets
    buffer = b"".join(packet.data for packet in packets)
    flows, single = Flows(), reassemble(packets)
    items = []
    for packet in packets:
        batch = PacketBatch(1)
        batch.lend(packet.data)
        batch.add_packet(packet)
        items += flows.receive(batch)
    assert list(map(type, items)) == list(map(type, single))
    assert (flows.packets, flows.byte_count, flows.segments) == (len(packets), len(buffer), len(packets))


def test_the_flow_that_was_quiet_the_longest_is_evicted() -> None:
    made = conversations(4)
    flows = Flows(Limits(flows=3))
    items = [item for c in made[:3] for packet in c.packets for item in flows.receive_packet(packet)]
    made[0].send(0, b" more")
    items = flows.receive_packet(made[0].packets[-1])
    items += [item for packet in made[3].packets for item in flows.receive_packet(packet)]
    closed = [item for item in items if isinstance(item, Closed)]
    assert [(item.reason, item.flow.client) for item in closed] == [(CloseReason.EVICTED, "10.0.0.5:40001")]
    assert (len(flows), flows.evicted, flows.opened) == (3, 1, 4)
    assert len(flows.close()) == 3


def test_however_many_flows_no_more_than_the_limit_are_kept() -> None:
    flows = Flows(Limits(flows=10))
    for i in range(200):
        flows.receive_packet(Conversation(client=("10.0.0.5", 1024 + i)).segment(0, flags="S").packets[0])
    assert (len(flows), flows.evicted) == (10, 190)


def test_random_order_of_random_flows_keeps_the_list_of_flows_whole() -> None:
    rng = random.Random(3)
    made = conversations(20)
    packets = [packet for c in made for packet in c.packets]
    flows = Flows(Limits(flows=5))
    items = []
    for packet in rng.choices(packets, k=2000):
        items += flows.receive_packet(packet)
        assert len(flows) <= 5
    items += flows.close()
    opened = [item.flow.number for item in items if isinstance(item, Opened)]
    closed = [item.flow.number for item in items if isinstance(item, Closed)]
    assert sorted(opened) == sorted(closed) == list(range(1, flows.opened + 1))


def test_what_is_passed_over_is_counted_by_what_it_is() -> None:
    flows = Flows()
    ether = Ether(src=MAC, dst=MAC)
    ip = IP(src="10.0.0.5", dst="10.0.0.9")
    for packet in (ether / ip / UDP() / b"x", ether / ip / UDP(), ether / ARP(hwsrc=MAC, psrc="10.0.0.5")):
        assert flows.receive_packet(as_packet(packet)) == []
    flows.receive_packet(cut(as_packet(ether / ip / TCP()), 40))
    flows.receive_packet(replace(as_packet(ether / ip / TCP()), link_type=147))
    assert flows.passed_over == {
        "UDP": 2,
        "not IP": 1,
        "cut before the end of its headers": 1,
        "link type not known": 1,
    }
    assert (flows.packets, flows.segments, len(flows)) == (5, 0, 0)


def test_a_reset_of_nothing_is_no_flow() -> None:
    flows = Flows()
    flows.receive_packet(Conversation().segment(0, flags="R").packets[0])
    assert (flows.stray, flows.opened, flows.close()) == (1, 0, [])


def test_what_comes_behind_a_reset_in_a_shuffled_capture_counts() -> None:
    """A client resets without acknowledging; what the broker sent before comes behind it."""
    made = Conversation().handshake().send(0, b"request").send(1, b"response")
    reset = made.packet(0, made.next[0], flags="R")
    syn, syn_ack, ack, request, response = made.packets
    items = reassemble([syn, ack, syn_ack, request, reset, response])
    assert streams(items) == [(b"request", b"response")]
    (closed,) = [item for item in items if isinstance(item, Closed)]
    assert (closed.reason, items[-1]) == (CloseReason.RESET, closed)


def test_a_copy_of_a_file_in_other_packing_does_not_make_a_capture_shuffled(tmp_path: Path) -> None:
    """What comes behind a reset then is what comes too late, as in the file alone."""
    made = Conversation().handshake()
    for _ in range(70):
        made.send(0, b"request").send(1, b"response")
    made.segment(0, flags="R").segment(1, b"too late", "PA")
    (tmp_path / "one.pcap").write_bytes(pcap(made.packets))
    (tmp_path / "copy.pcap.gz").write_bytes(gzip.compress(pcap(made.packets)))
    with open_capture(tmp_path / "one.pcap") as alone:
        expected = streams(read_flows(alone))
    begins = made.packets[0].time_ns
    with MergedCapture([CaptureFile(begins, path) for path in tmp_path.iterdir()]) as both:
        assert streams(read_flows(both)) == expected == [(b"request" * 70, b"response" * 70)]


def others(count: int, time_ns: int, step_ns: int) -> list[Packet]:
    """Packets of another connection."""
    made = Conversation(client=("10.0.0.6", 1)).handshake()
    made.packets += [made.packet(0, made.next[0]) for _ in range(count)]
    return [replace(packet, time_ns=time_ns + at * step_ns) for at, packet in enumerate(made.packets)]


def closed_at(flows: Flows, packets: list[Packet]) -> list[int]:
    """Behind how many packets the first connection was closed."""
    return [
        at
        for at, packet in enumerate(packets, 1)
        for item in flows.receive_packet(packet)
        if isinstance(item, Closed) and item.flow.number == 1
    ]


@pytest.mark.slow
def test_in_a_shuffled_capture_a_connection_is_over_many_packets_after_its_reset() -> None:
    made = Conversation().handshake().send(0, b"request")
    late, *rest = others(5_000, made.time_ns, 100_000_000)
    made.packets.append(replace(late, time_ns=made.time_ns + 10**12))
    made.packets.append(made.packet(0, made.next[0], flags="R"))
    ended = len(made.packets)
    (at,) = closed_at(Flows(), made.packets + rest)
    assert at == ended + 4_097


def test_unwrap_is_asked_for_what_is_not_known_and_may_answer_packets() -> None:
    asked = []

    def unwrap(packet: Packet, what: str) -> list[Packet] | str:
        asked.append(what)
        inside = IP(packet.data)
        return [replace(packet, data=bytes(inside[GRE].payload))] if GRE in inside else f"{what}, no tunnel"

    flows, items = Flows(unwrap=unwrap), []
    for packet in kafka_like(exchanges=2).packets:
        outer = IP(src="1.1.1.1", dst="2.2.2.2") / GRE() / packet.data[14:]
        items += flows.receive_packet(as_packet(outer, packet.time_ns, link_type=101))
    items += flows.receive_packet(as_packet(IP() / UDP(), link_type=101))
    assert streams(items) == [tuple(kafka_like(exchanges=2).sent)]
    assert set(asked) == {"neither TCP nor UDP", "UDP"}
    assert flows.passed_over == {"UDP, no tunnel": 1}
    assert flows.packets == len(kafka_like(exchanges=2).packets) + 1  # those inside are not counted again


def test_an_onion_without_a_core_is_given_up() -> None:
    packet = as_packet(IP(src="1.1.1.1", dst="2.2.2.2", proto=47), link_type=101)
    flows = Flows(unwrap=lambda packet, what: [packet])
    assert flows.receive_packet(packet) == []
    assert flows.passed_over == {"neither TCP nor UDP": 1}


def test_servers_of_other_flows_are_known_when_a_flow_is_joined_late() -> None:
    known = Conversation(server=("10.0.0.9", 60_000)).handshake()
    late = Conversation(client=("10.0.0.6", 50_000), server=("10.0.0.9", 60_000)).send(0, b"x")
    flow = reassemble(known.packets + late.packets)[-1].flow
    assert (flow.client, flow.client_known) == ("10.0.0.6:50000", False)


def test_a_connection_of_an_endpoint_with_itself_is_survived() -> None:
    items = reassemble(Conversation(client=CLIENT, server=CLIENT).handshake().send(0, b"x").finish().packets)
    assert isinstance(items[-1], Closed)


HALF_STATES = ["unseen", "joined", "started", "ended"]
FLOW_STATES = ["active", "lingering", "closed"]
States: TypeAlias = tuple[str, str, str]  # of the flow, the client's half and the server's half


class Walk:
    """The states of one flow after each packet, from its first item on."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.made = Conversation()
        self.flows = Flows(limits)
        self.items: list[FlowItem | Data] = []
        self.states: list[States] = []

    def receive(self, packet: Packet) -> None:
        self.items += [item for item in self.flows.receive_packet(packet) if item.flow.number == 1]
        self.note()

    def note(self) -> None:
        if self.items:
            flow = self.items[0].flow
            states = (flow.state_name, flow.half(0).state_name, flow.half(1).state_name)
            if self.states[-1:] != [states]:
                self.states.append(states)

    def step(self, side: int, data: bytes = b"", flags: str = "A") -> None:
        self.receive(self.made.segment(side, data, flags).packets[-1])

    def close(self) -> None:
        self.items += self.flows.close()
        self.note()

    @property
    def kinds(self) -> list[str]:
        return [type(item).__name__ for item in self.items]

    @property
    def reason(self) -> CloseReason:
        last = self.items[-1]
        assert isinstance(last, Closed)
        return last.reason


def test_walk_from_syn_to_fin() -> None:
    walk = Walk()
    walk.step(0, flags="S")
    walk.step(1, flags="SA")
    walk.step(0, b"request", "PA")
    walk.step(1, b"response", "PA")
    walk.step(0, flags="FA")
    walk.step(1, flags="FA")
    walk.receive(walk.made.packets[2])  # the request again: counted, not delivered
    assert walk.states == [
        ("active", "started", "unseen"),
        ("active", "started", "started"),
        ("active", "ended", "started"),
        ("closed", "ended", "ended"),
    ]
    assert walk.kinds == ["Opened", "Data", "Data", "Ended", "Ended", "Closed"]
    assert (walk.reason, walk.items[0].flow.half(0).retransmitted) == (CloseReason.FINISHED, 7)


def test_walk_the_syn_ack_alone_starts_both_halves() -> None:
    walk = Walk()
    walk.made.segment(0, flags="S")
    walk.step(1, flags="SA")
    assert walk.states == [("active", "started", "started")]


def test_walk_a_joined_half_starts_with_its_syn() -> None:
    walk = Walk()
    walk.step(0, flags="S")
    syn_ack = walk.made.segment(1, flags="SA").packets[-1]
    walk.step(1, b"early", "PA")
    walk.receive(syn_ack)
    assert walk.states == [
        ("active", "started", "unseen"),
        ("active", "started", "joined"),
        ("active", "started", "started"),
    ]
    assert walk.kinds == ["Opened", "Data"]


def test_walk_a_joined_half_starts_after_some_packets_in_order() -> None:
    walk = Walk(Limits(start_packets=4))
    walk.step(0, flags="S")
    walk.made.segment(1, flags="SA")
    for _ in range(3):
        walk.step(1, b"x", "PA")
    assert walk.states == [
        ("active", "started", "unseen"),
        ("active", "started", "joined"),
        ("active", "started", "started"),
    ]
    assert walk.kinds == ["Opened", "Data", "Data", "Data"]


def test_walk_a_joined_half_starts_when_the_wait_is_over() -> None:
    walk = Walk(Limits(patience=2))
    walk.step(0, flags="S")
    walk.made.segment(1, flags="SA")
    for _ in range(4):
        walk.step(1, b"x", "PA")
    assert walk.states[1:] == [("active", "started", "joined"), ("active", "started", "started")]
    assert walk.kinds == ["Opened", "Data", "Data", "Data", "Data"]


def test_walk_a_joined_half_starts_and_ends_with_a_fin_alone() -> None:
    walk = Walk(Limits(start_packets=3))
    walk.step(0, flags="S")
    walk.made.segment(1, flags="SA")
    walk.step(1, flags="FA")
    assert walk.states[-1] == ("active", "started", "joined")
    walk.step(0, b"x", "PA")
    walk.step(0, b"x", "PA")
    assert walk.states[-1] == ("active", "started", "ended")


def test_walk_the_stream_starts_again_far_away() -> None:
    walk = Walk()
    for side, flags in ((0, "S"), (1, "SA"), (0, "A")):
        walk.step(side, flags=flags)
    walk.made.next[0] += 2**30
    for _ in range(5):
        walk.step(0, b"far", "PA")
    assert walk.states[-1] == ("active", "started", "started")
    assert walk.kinds == ["Opened", "Gap", "Data"]
    assert walk.items[1] == Gap(walk.items[0].flow, walk.items[1].time_ns, 0, None)


def test_walk_a_reset_closes_what_is_in_order() -> None:
    walk = Walk()
    for side, flags in ((0, "S"), (1, "SA"), (0, "R")):
        walk.step(side, flags=flags)
    assert walk.states[-1] == ("closed", "started", "started")
    assert (walk.kinds, walk.reason) == (["Opened", "Ended", "Ended", "Closed"], CloseReason.RESET)


@pytest.mark.parametrize("late", [[], [b"late"]])
def test_walk_a_reset_lingers_in_a_shuffled_capture(late: list[bytes]) -> None:
    walk = Walk()
    walk.step(0, flags="S")
    walk.step(1, flags="SA")
    walk.made.time_ns -= 10**9  # the capture is shuffled from here on
    walk.receive(walk.made.packet(0, walk.made.next[0], flags="R"))
    assert walk.states[-1] == ("lingering", "started", "started")
    for data in late:
        walk.step(0, data, "PA")
    walk.close()
    assert walk.states[-1] == ("closed", "started", "started")
    assert walk.kinds == ["Opened", *("Data" for _ in late), "Ended", "Ended", "Closed"]
    assert walk.reason is CloseReason.RESET


def test_walk_a_lingering_flow_closes_when_both_halves_end() -> None:
    walk = Walk()
    walk.step(0, flags="S")
    walk.step(1, flags="SA")
    walk.made.time_ns -= 10**9
    walk.receive(walk.made.packet(0, walk.made.next[0], flags="R"))
    walk.step(0, flags="FA")
    assert walk.states[-1] == ("lingering", "ended", "started")
    walk.step(1, flags="FA")
    assert walk.states[-1] == ("closed", "ended", "ended")


def test_walk_a_flow_is_closed_by_a_new_one_and_by_eviction() -> None:
    walk = Walk()
    walk.step(0, flags="S")
    walk.receive(Conversation(isn=[5, 6]).segment(0, flags="S").packets[0])
    assert (walk.states[-1], walk.reason) == (("closed", "started", "unseen"), CloseReason.REUSED)
    walk = Walk(Limits(flows=1))
    walk.step(0, flags="S")
    walk.receive(Conversation(client=("10.0.0.6", 1)).segment(0, flags="S").packets[0])
    assert (walk.states[-1], walk.reason) == (("closed", "started", "unseen"), CloseReason.EVICTED)


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples * 4)
@given(st.data())
def test_no_packets_lead_back_to_an_earlier_state(data: st.DataObject) -> None:
    flags = st.sampled_from(["S", "SA", "A", "PA", "FA", "R", "RA", "SF", "F", ""])
    walk = Walk(Limits(patience=data.draw(st.integers(0, 8)), start_packets=data.draw(st.integers(0, 6))))
    for _ in range(data.draw(st.integers(1, 25))):
        base = data.draw(st.sampled_from([1000, 2**31, 2**32 - 20]))
        walk.made.next = [base + data.draw(st.integers(0, 40)), base + data.draw(st.integers(0, 40))]
        walk.made.time_ns += data.draw(st.sampled_from([0, -(10**9)]))
        payload = data.draw(st.binary(max_size=30))
        sequence = base + data.draw(st.integers(0, 40))
        walk.receive(walk.made.packet(data.draw(st.integers(0, 1)), sequence, payload, data.draw(flags)))
    walk.close()
    for before, after in pairwise(walk.states):
        assert FLOW_STATES.index(before[0]) <= FLOW_STATES.index(after[0])
        assert HALF_STATES.index(before[1]) <= HALF_STATES.index(after[1])
        assert HALF_STATES.index(before[2]) <= HALF_STATES.index(after[2])
    assert not walk.states or walk.states[-1][0] == "closed"


MADE = Conversation().handshake().send(0, b"abc").send(1, b"xyz").finish()
ITEMS = reassemble(MADE.packets)


def test_directions_follow_the_roles_of_the_flow() -> None:
    flow = ITEMS[0].flow
    ways = [Gap(flow, 1, 0, 5), Ended(flow, 1, 1, False), Differs(flow, 1, 0, 7, 2)]
    before = [way.direction for way in ways]
    flow.swap()
    assert [way.direction for way in ways] == [1 - direction for direction in before]
    flow.swap()
    assert before == [flow.direction(0), flow.direction(1), flow.direction(0)] == [0, 1, 0]


def key(low_port: int, high_port: int) -> bytes:
    return b"\x0a\0\0\5" + low_port.to_bytes(2, "big") + b"\x0a\0\0\x09" + high_port.to_bytes(2, "big")


def test_nothing_known_the_lower_port_serves() -> None:
    assert Endpoints().guess_client(key(51234, 21101)) == 0
    assert Endpoints().guess_client(key(21101, 51234)) == 1


def test_the_end_of_several_flows_serves() -> None:
    endpoints = Endpoints()
    for port in (40_000, 40_001, 40_002):
        endpoints.count(key(port, 50_000))
    assert endpoints.guess_client(key(40_000, 50_000)) == 0


def test_a_port_of_kafka_serves_whatever_else_was_seen() -> None:
    endpoints = Endpoints()
    for port in (9092, 9093, 9094):
        endpoints.count(key(5000, port))
    assert endpoints.guess_client(key(5000, 9099)) == 0
    assert endpoints.guess_client(key(9092, 5000)) == 1


def test_who_accepted_a_connection_serves_whatever_its_port() -> None:
    endpoints = Endpoints()
    endpoints.accepted(key(9092, 60_000), 0)
    assert endpoints.guess_client(key(9092, 60_000)) == 0
    endpoints.accepted(key(61_000, 50_000), 1)
    assert endpoints.guess_client(key(61_000, 50_000)) == 1


def test_what_is_remembered_is_bounded() -> None:
    endpoints = Endpoints()
    for i in range(70_000):
        endpoints.count(i.to_bytes(4, "big") + b"\0\1" + i.to_bytes(4, "little") + b"\0\2")
        endpoints.accepted(i.to_bytes(4, "big") + b"\0\1" + bytes(6), 1)
    assert len(endpoints._flows) <= 65_537
    assert len(endpoints._servers) <= 65_536
