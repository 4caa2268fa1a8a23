"""Which packets are looked into, and what becomes of the rest."""

import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III, ERSPAN_PlatformSpecific
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.mpls import MPLS, EoMCW
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, fragment6
from scapy.layers.l2 import GRE, CookedLinuxV2, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet as ScapyPacket

from kproxy.capture import Flows, Limits, Packet
from kproxy.capture.items import TcpSegment
from kproxy.capture.links import OUTCOME_NAMES, read_segment
from kproxy.capture.unwrap import (
    DIFFERS,
    DUPLICATE,
    FRAGMENT,
    INCOMPLETE,
    MALFORMED,
    Fragments,
    Unwrapper,
    _scapy,
    open_tunnel,
    read_fragment,
)
from tests.support.built_captures import ETHERNET, Raw, as_packet, cut, kafka_like, reassemble, streams


def test_what_cannot_be_looked_into_keeps_its_name() -> None:
    packet = as_packet(Ether() / b"?")
    unwrapper = Unwrapper()
    assert [unwrapper(packet, what) for what in OUTCOME_NAMES if what != FRAGMENT] == [
        what for what in OUTCOME_NAMES if what != FRAGMENT
    ]


def test_fragments_become_the_stream_and_a_lost_one_costs_its_datagram() -> None:
    conversation = kafka_like(exchanges=4)
    packets, lost = [], 0
    for number, packet in enumerate(conversation.packets):
        whole = Ether(packet.data)
        whole[IP].id = number + 1
        parts = fragment(whole, 256)
        if not lost and len(parts) > 4:
            lost = len(parts.pop(2)[IP].payload)
            size = len(whole[TCP].payload)
        packets += [as_packet(part, packet.time_ns) for part in parts]
    flows = Flows(unwrap=Unwrapper())
    items = [item for packet in packets for item in flows.receive_packet(packet)] + flows.close()
    ((requests, responses),) = streams(items)
    assert lost
    assert requests.count(b"?" * size) + responses.count(b"?" * size) == 1
    assert [len(requests), len(responses)] == [len(sent) for sent in conversation.sent]
    assert list(flows.passed_over) == [INCOMPLETE]
    assert flows.packets == len(packets)


RAW_IP = 101
PAYLOAD = bytes(range(256)) * 12
MACS = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


def ipv4(data: bytes = PAYLOAD, size: int = 400, number: int = 7) -> list[Packet]:
    """The fragments of a TCP segment with *data*."""
    whole = IP(src="10.0.0.5", dst="10.0.0.9", id=number) / TCP(sport=51234, dport=9092, seq=1000) / data
    return [as_packet(MACS / Dot1Q(vlan=5) / piece) for piece in fragment(whole, size)]


def ipv6(data: bytes = PAYLOAD) -> list[Packet]:
    whole = (
        IPv6(src="fd00::5", dst="fd00::9") / IPv6ExtHdrFragment(id=7) / TCP(sport=51234, dport=9092, seq=1000) / data
    )
    return [as_packet(MACS / piece) for piece in fragment6(whole, 600)]


def piece(start: int, data: bytes, *, more: bool = True, number: int = 7, time_ns: int = 0) -> Packet:
    """A fragment by hand; *start* in bytes."""
    ip = IP(src="10.0.0.5", dst="10.0.0.9", id=number, proto=6, frag=start // 8, flags="MF" if more else 0)
    return as_packet(ip / Raw(data), time_ns, RAW_IP)


def feed(packets: list[Packet], limits: Limits | None = None) -> tuple[list[Packet], Fragments]:
    fragments = Fragments(limits or Limits())
    return [datagram for packet in packets for datagram in fragments.receive(packet)], fragments


def segment(packet: Packet) -> TcpSegment:
    found = read_segment(packet.link_type, packet.data, packet.original_size)
    assert isinstance(found, TcpSegment), found
    return found


@pytest.mark.parametrize("packets", [ipv4(), ipv6()], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("seed", range(5))
def test_the_datagram_is_whole_in_every_order(packets: list[Packet], seed: int) -> None:
    mixed = packets * 2 if seed % 2 else packets[:]
    random.Random(seed).shuffle(mixed)
    datagrams, fragments = feed(mixed)
    assert len(packets) > 5
    assert [segment(datagram).payload for datagram in datagrams] == [PAYLOAD]
    assert segment(datagrams[0]).sequence == 1000
    assert len(fragments) == 0
    assert set(fragments.passed_over) <= {DUPLICATE}


def test_an_ipv6_datagram_is_read_behind_other_extension_headers() -> None:
    whole = IPv6(src="fd00::5", dst="fd00::9") / IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment(id=9) / TCP() / PAYLOAD
    datagrams, _ = feed([as_packet(part, link_type=RAW_IP) for part in fragment6(whole, 600)])
    assert segment(datagrams[0]).payload == PAYLOAD


def test_the_datagram_has_the_time_of_its_last_fragment() -> None:
    packets = [replace(packet, time_ns=1000 + 10 * i) for i, packet in enumerate(ipv4())]
    datagrams, _ = feed(packets[::-1])
    assert datagrams[0].time_ns == packets[-1].time_ns


def test_datagrams_are_told_apart_by_addresses_protocol_and_identification() -> None:
    first, second = ipv4(b"a" * 3000, number=1), ipv4(b"b" * 3000, number=2)
    mixed = [packet for pair in zip(first, second, strict=True) for packet in pair]
    assert [segment(datagram).payload[:1] for datagram in feed(mixed)[0]] == [b"a", b"b"]


def test_what_came_first_wins_and_the_difference_is_counted() -> None:
    datagrams, fragments = feed([
        piece(0, b"A" * 40), piece(32, b"B" * 32), piece(24, b"C" * 48), piece(72, b"D" * 8, more=False),
    ])  # fmt: skip
    assert [datagram.data[20:] for datagram in datagrams] == [b"A" * 40 + b"B" * 24 + b"C" * 8 + b"D" * 8]
    assert fragments.passed_over == {DIFFERS: 2}


def test_teardrop_is_a_fragment_that_does_not_fit() -> None:  # CERT CA-1997-28: the second ends within the first
    datagrams, fragments = feed([piece(0, b"A" * 32), piece(24, b"B" * 4, more=False)])
    assert datagrams == []
    assert fragments.passed_over == {MALFORMED: 1, INCOMPLETE: 1}


@pytest.mark.parametrize(("start", "size"), [(65_528, 100), (65_512, 24), (65_528, 8)])
def test_ping_of_death_is_a_fragment_that_does_not_fit(start: int, size: int) -> None:  # CERT CA-1996-26
    datagrams, fragments = feed([piece(0, b"A" * 64), piece(start, b"B" * size, more=False)])
    assert (datagrams, fragments.passed_over) == ([], {MALFORMED: 1, INCOMPLETE: 1})


def test_the_largest_datagram_is_put_together() -> None:
    data = random.Random(1).randbytes(65_535 - 40)
    datagrams, _ = feed(ipv4(data, 1480))
    assert segment(datagrams[0]).payload == data


def test_tiny_fragments_are_put_together() -> None:  # RFC 1858: the TCP header itself is cut
    datagrams, _ = feed(ipv4(PAYLOAD[:100], 8))
    assert segment(datagrams[0]).payload == PAYLOAD[:100]


@pytest.mark.parametrize("size", [0, 1, 9])
def test_only_the_last_may_be_no_multiple_of_eight(size: int) -> None:
    assert read_fragment(piece(8, b"x" * size)) is None
    assert (read_fragment(piece(8, b"x" * size, more=False)) is None) == (size == 0)


def test_the_end_is_where_it_was_first_said_to_be() -> None:
    datagrams, fragments = feed([
        piece(16, b"B" * 8, more=False), piece(24, b"C" * 8), piece(24, b"C" * 8, more=False), piece(0, b"A" * 16)
    ])  # fmt: skip
    assert [datagram.data[20:] for datagram in datagrams] == [b"A" * 16 + b"B" * 8]
    assert fragments.passed_over == {MALFORMED: 2}


def test_a_cut_fragment_gives_what_is_before_the_cut() -> None:
    packets = ipv4()
    packets[2] = cut(packets[2], 18 + 20 + 100)
    datagrams, _ = feed(packets)
    found = segment(datagrams[0])
    before = 2 * 400 - 20 + 100
    assert (found.payload, found.missing) == (PAYLOAD[:before], len(PAYLOAD) - before)


def test_what_never_gets_complete_is_given_up_by_count_and_by_time() -> None:
    limits = Limits(fragments_patience=10, fragments_seconds=60)
    whole = ipv4(b"x" * 3000, number=500)
    late = [piece(0, b"x" * 8, number=i) for i in range(len(whole))]
    datagrams, fragments = feed([*whole[:-1], *late, piece(8, b"y" * 8), whole[-1]], limits)
    assert datagrams == []
    datagrams, fragments = feed(
        [whole[0], *(replace(p, time_ns=whole[0].time_ns + 61 * 10**9) for p in whole[1:])], limits
    )
    assert (datagrams, len(fragments)) == ([], 1)
    assert fragments.passed_over == {INCOMPLETE: len(whole)}


def test_an_identification_may_be_used_again() -> None:
    datagrams, fragments = feed(ipv4(b"a" * 3000) + ipv4(b"b" * 3000))
    assert [segment(datagram).payload for datagram in datagrams] == [b"a" * 3000, b"b" * 3000]
    assert fragments.passed_over == {}


@pytest.mark.slow
def test_memory_is_bounded_whatever_comes() -> None:
    limits = Limits(fragments_in_all=1 << 20)
    fragments = Fragments(limits)
    rng = random.Random(2)
    parts = [piece(8 * rng.randrange(8000), rng.randbytes(rng.choice([8, 1024])), number=i) for i in range(2000)]
    tracemalloc.start()
    for number in range(20_000):
        fragments.receive(rng.choice(parts) if number % 2 else parts[number % 2000])
        assert fragments.held <= limits.fragments_in_all
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(fragments) > 100
    assert peak < 4 * limits.fragments_in_all


@pytest.mark.slow
@given(st.data())
def test_any_bytes_are_a_fragment_of_something_or_counted(data: st.DataObject) -> None:
    fragments, count = Fragments(Limits(fragments_in_all=4096)), 0
    for _ in range(data.draw(st.integers(1, 20))):
        packet = data.draw(st.sampled_from([*ipv4(b"x" * 900), *ipv6(b"x" * 900)]))
        damaged = bytearray(packet.data)
        damaged[data.draw(st.integers(14, min(60, len(damaged) - 1)))] = data.draw(st.integers(0, 255))
        count += len(
            fragments.receive(replace(packet, data=bytes(damaged), link_type=data.draw(st.sampled_from([1, RAW_IP]))))
        )
        assert fragments.held <= 4096
    assert count <= 20


OUTER, OUTER6 = IP(src="192.0.2.1", dst="192.0.2.2"), IPv6(src="2001:db8::1", dst="2001:db8::2")

# What stands before the packet of the conversation, and whether that is Ethernet (else IP)
TUNNELS: dict[str, tuple[ScapyPacket, bool]] = {
    "IP in IP": (MACS / OUTER.copy().__class__(src="192.0.2.1", dst="192.0.2.2", proto=4), False),
    "IPv4 in IPv6": (MACS / IPv6(src="2001:db8::1", dst="2001:db8::2", nh=4), False),
    "GRE": (MACS / OUTER / GRE(proto=0x0800), False),
    "GRE with key, sequence number and checksum": (
        MACS / OUTER / GRE(proto=0x0800, key_present=1, seqnum_present=1, chksum_present=1, key=7), False),
    "GRE over IPv6": (MACS / OUTER6 / GRE(proto=0x0800), False),
    "NVGRE": (MACS / OUTER / GRE(proto=0x6558, key_present=1, key=0x123456FF), True),
    "ERSPAN I": (MACS / OUTER / GRE(proto=0x88BE), True),
    "ERSPAN II": (MACS / OUTER / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II(session_id=3), True),
    "ERSPAN III": (MACS / OUTER / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III(session_id=3), True),
    "ERSPAN III with a platform header": (
        MACS / OUTER / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III(o=1) / ERSPAN_PlatformSpecific(), True),
    "VXLAN": (MACS / OUTER / UDP(sport=50000, dport=4789) / VXLAN(vni=42, flags="Instance"), True),
    "VXLAN of Linux in a VLAN": (MACS / Dot1Q(vlan=9) / OUTER / UDP(dport=8472) / VXLAN(vni=1, flags=8), True),
    "VXLAN over IPv6": (MACS / OUTER6 / UDP(dport=4789) / VXLAN(vni=1, flags=8), True),
    "Geneve": (MACS / OUTER / UDP(dport=6081) / GENEVE(vni=5, proto=0x6558), True),
    "Geneve with options": (
        MACS / OUTER / UDP(dport=6081) / GENEVE(proto=0x0800, options=[GeneveOptions(data=b"12345678")]), False),
    "MPLS": (MACS / MPLS(label=16, s=0, ttl=9) / MPLS(label=17, s=1, ttl=9), False),
    "MPLS over UDP": (MACS / OUTER / UDP(dport=6635) / MPLS(label=17, s=1, ttl=9), False),
    "Ethernet over MPLS": (MACS / MPLS(label=17, s=1, ttl=9) / EoMCW(), True),
    "PPPoE": (MACS / PPPoE(sessionid=1) / PPP(proto=0x0021), False),
    "PPPoE in a VLAN, cooked": (CookedLinuxV2(proto=0x8100) / Dot1Q(type=0x8864) / PPPoE() / PPP(proto=0x0021), False),
    "GRE in VXLAN": (MACS / OUTER / UDP(dport=4789) / VXLAN(flags=8) / MACS / OUTER / GRE(proto=0x0800), False),
}  # fmt: skip
LINKS = {"PPPoE in a VLAN, cooked": 276}


def wrap(name: str, packet: Packet) -> Packet:
    outer, is_ethernet = TUNNELS[name]
    inner = Ether(packet.data) if is_ethernet else Ether(packet.data).payload
    return as_packet(outer / inner, packet.time_ns, LINKS.get(name, ETHERNET))


def unwrapped(packets: list[Packet]) -> tuple[list[tuple[bytes, bytes]], dict[str, int]]:
    flows = Flows(unwrap=Unwrapper())
    items = [item for packet in packets for item in flows.receive_packet(packet)] + flows.close()
    return streams(items), flows.passed_over


@pytest.mark.parametrize("name", TUNNELS)
def test_the_conversation_inside_is_read(name: str) -> None:
    conversation = kafka_like(exchanges=3)
    packets = [wrap(name, packet) for packet in conversation.packets]
    assert unwrapped(packets) == ([tuple(conversation.sent)], {})
    assert reassemble(packets) == []  # it is the unwrapping that does it


def test_the_same_packet_inside_and_outside_of_tunnels_counts_once() -> None:
    conversation = kafka_like(exchanges=3)
    packets = []
    for packet in conversation.packets:
        tagged = as_packet(MACS / Dot1Q(vlan=3) / Dot1Q(vlan=4) / Ether(packet.data).payload, packet.time_ns)
        packets += [wrap("VXLAN", packet), packet, tagged, wrap("GRE", packet)]
    assert unwrapped(packets) == ([tuple(conversation.sent)], {})


def test_a_tunnel_in_fragments_is_put_together_first() -> None:
    conversation = kafka_like(exchanges=3)
    packets = []
    for packet in conversation.packets:
        whole = Ether(wrap("VXLAN", packet).data)
        whole[IP].id = packet.time_ns // 1_000_000 % 65_536
        packets += [as_packet(part, packet.time_ns) for part in fragment(whole, 512)]
    assert unwrapped(packets) == ([tuple(conversation.sent)], {})


def test_what_was_cut_off_inside_is_known_to_be_missing() -> None:
    packet = next(packet for packet in kafka_like(exchanges=3).packets if len(packet.data) > 500)
    (inside,) = open_tunnel(cut(wrap("VXLAN", packet), 300), "UDP")
    assert (inside.original_size, len(inside.data)) == (len(packet.data), 300 - 50)
    assert packet.data.startswith(inside.data)


@pytest.mark.parametrize(
    ("packet", "what"),
    [
        (MACS / OUTER / UDP(dport=53) / b"query", "UDP"),
        (MACS / OUTER / UDP(dport=4789) / b"\0not VXLAN", "UDP"),
        (MACS / Ether(type=0x0806) / b"ARP", "not IP"),
        (MACS / IP(proto=1) / b"ICMP", "neither TCP nor UDP"),
        (MACS / OUTER / GRE(proto=0x9999) / b"?", "GRE with nothing inside that kproxy reads"),
        (MACS / OUTER / GRE(proto=0x0800), "GRE with nothing inside that kproxy reads"),
        (MACS / PPPoE(sessionid=1) / PPP(proto=0xC021) / b"LCP", "PPPoE with nothing inside that kproxy reads"),
    ],
)
def test_what_is_no_tunnel_keeps_its_name(packet: ScapyPacket, what: str) -> None:
    assert unwrapped([as_packet(packet)]) == ([], {what: 1})


@pytest.fixture
def no_scapy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    _scapy.cache_clear()
    monkeypatch.setitem(sys.modules, "scapy.contrib.erspan", None)
    yield lambda: None
    _scapy.cache_clear()


@pytest.mark.usefixtures("no_scapy")
def test_without_scapy_it_is_said_what_would_read_it() -> None:
    packets = [wrap("VXLAN", packet) for packet in kafka_like(exchanges=1).packets]
    said = "VXLAN; to look inside, pip install 'kproxy-kafka[tunnels]'"
    assert unwrapped(packets) == ([], {said: len(packets)})
    assert unwrapped([wrap("IP in IP", packet) for packet in kafka_like(exchanges=1).packets])[0]  # needs none


def test_a_stack_of_labels_has_an_end() -> None:
    packet = as_packet(MACS / OUTER / UDP(dport=6635) / (b"\0\0\0\0" * 300))
    assert unwrapped([packet]) == ([], {"MPLS with nothing inside that kproxy reads": 1})


@given(st.sampled_from(list(TUNNELS)), st.data())
def test_any_damage_gives_packets_or_a_name(name: str, data: st.DataObject) -> None:
    packet = wrap(name, kafka_like(exchanges=1).packets[3])
    damaged = bytearray(packet.data[: data.draw(st.integers(0, len(packet.data)))])
    for _ in range(data.draw(st.integers(0, 8)) if damaged else 0):
        damaged[data.draw(st.integers(0, min(len(damaged) - 1, 120)))] = data.draw(st.integers(0, 255))
    flows = Flows(unwrap=Unwrapper())
    flows.receive_packet(replace(packet, data=bytes(damaged)))
    assert flows.segments + sum(flows.passed_over.values()) == 1
