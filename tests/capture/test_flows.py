"""Many flows: which packet belongs to which, who goes when there are too many, what is no flow at all."""

import random
from dataclasses import replace

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, GRE, Ether

from kproxy.capture import Closed, CloseReason, Flows, Limits, Opened, Packet, PacketBatch
from tests.support.built_captures import CLIENT, Conversation, as_packet, cut, kafka_like, reassemble, streams

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
    assert (flows.packets, flows.bytes, flows.segments) == (len(packets), len(buffer), len(packets))


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


def test_in_good_order_a_reset_is_the_end() -> None:
    made = Conversation().handshake().send(0, b"request")
    made.packets.append(made.packet(0, made.next[0], flags="R"))
    assert closed_at(Flows(), made.packets) == [len(made.packets)]


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
