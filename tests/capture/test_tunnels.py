"""Tunnels built by scapy, one in the other, cut and damaged; and scapy missing."""

import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III, ERSPAN_PlatformSpecific
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.mpls import MPLS, EoMCW
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, CookedLinuxV2, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet as ScapyPacket

from kproxy.capture import Flows, Packet
from kproxy.capture.tunnels import _scapy, open_tunnel
from kproxy.capture.unwrap import Unwrapper
from tests.support.built_captures import ETHERNET, as_packet, cut, kafka_like, reassemble, streams

MACS = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
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
