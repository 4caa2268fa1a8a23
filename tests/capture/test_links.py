"""Every link type, tag and header chain, built by scapy; what is no TCP segment has a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether, Loopback
from scapy.packet import Packet, Raw

from kproxy.capture.items import TcpSegment
from kproxy.capture.links import OUTCOME_NAMES, read_segment

MAC = "02:00:00:00:00:01"
ETHERNET = Ether(src=MAC, dst=MAC)
PAYLOAD = b"\x00\x00\x00\x2akafka"
TCP_PART = TCP(sport=51234, dport=9092, seq=77, ack=99, flags="PA", options=[("Timestamp", (1, 2))]) / Raw(PAYLOAD)
V4 = IP(src="10.0.0.5", dst="10.0.0.9") / TCP_PART
V6 = IPv6(src="fd00::5", dst="fd00::9") / TCP_PART

WAYS = [
    (1, ETHERNET / V4),
    (1, ETHERNET / V6),
    (1, ETHERNET / Dot1Q(vlan=7) / V4),
    (1, ETHERNET / Dot1AD(vlan=3) / Dot1Q(vlan=7) / V6),
    (1, Ether(src=MAC, dst=MAC, type=0x9100) / Dot1Q(vlan=3, type=0x8100) / Dot1Q(vlan=7) / V4),
    (113, CookedLinux() / V4),
    (113, CookedLinux() / V6),
    (276, CookedLinuxV2() / V4),
    (276, CookedLinuxV2() / V6),
    (0, Loopback(type=2) / V4),
    (0, Loopback(type=24) / V6),
    (0, Loopback(type=28) / V6),
    (0, Loopback(type=30) / V6),
    (101, V4),
    (101, V6),
    (12, V4),
    (14, V6),
    (228, V4),
    (229, V6),
]
BYTES = [(link_type, bytes(packet)) for link_type, packet in WAYS]


def test_the_segment_is_found_whatever_is_around_it() -> None:
    for link_type, packet in WAYS:
        segment = read_segment(link_type, bytes(packet))
        assert isinstance(segment, TcpSegment), link_type
        assert segment.payload == PAYLOAD, link_type
        assert (segment.sequence, segment.acknowledgment, segment.missing) == (77, 99, 0), link_type
        assert segment.flags == 0x18, link_type
        # the smaller endpoint is first: 10.0.0.5 before 10.0.0.9
        assert segment.key[:4] == b"\x0a\x00\x00\x05" or segment.key[:16] == bytes.fromhex("fd" + "00" * 14 + "05"), (
            link_type
        )
        assert segment.side == 0, link_type


@pytest.mark.parametrize("family", [b"\x00\x00\x00\x02", b"\x02\x00\x00\x00"])
@pytest.mark.parametrize("link_type", [0, 108])
def test_loopback_family_in_either_byte_order(link_type: int, family: bytes) -> None:
    assert isinstance(read_segment(link_type, family + bytes(V4)), TcpSegment)


def test_both_directions_have_one_key() -> None:
    answer = IP(src="10.0.0.9", dst="10.0.0.5") / TCP(sport=9092, dport=51234)
    there, back = read_segment(101, bytes(V4)), read_segment(101, bytes(answer))
    assert isinstance(there, TcpSegment) and isinstance(back, TcpSegment)
    assert there.key == back.key
    assert (there.side, back.side) == (0, 1)


CHAINS = [
    IPv6ExtHdrHopByHop(),
    IPv6ExtHdrDestOpt() / IPv6ExtHdrRouting(addresses=["fd00::1"]),
    IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment(offset=0, m=0),
    AH(nh=6, payloadlen=4, icv=bytes(12)),
]


@pytest.mark.parametrize("chain", CHAINS)
def test_ipv6_extension_headers(chain: Packet) -> None:
    packet = IPv6(src="fd00::5", dst="fd00::9") / chain.copy() / TCP_PART
    if isinstance(chain, AH):
        packet.nh = 51
    for layer in (IPv6ExtHdrFragment, IPv6ExtHdrRouting, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, AH):
        if layer in packet and isinstance(packet[layer].payload, TCP):
            packet[layer].nh = 6
    segment = read_segment(101, bytes(packet))
    assert isinstance(segment, TcpSegment)
    assert segment.payload == PAYLOAD


def test_eight_extension_headers_are_read_and_nine_are_not() -> None:
    def packet(count: int) -> bytes:
        base = IPv6(src="fd00::5", dst="fd00::9")
        for _ in range(count):
            base = base / IPv6ExtHdrDestOpt()
        return bytes(base / TCP_PART)

    assert isinstance(read_segment(101, packet(8)), TcpSegment)
    assert read_segment(101, packet(9)) == "more than 8 IPv6 extension headers"


OTHERS = [
    ("UDP", 1, ETHERNET / IP() / UDP() / b"x"),
    ("not IP", 1, ETHERNET / ARP(hwsrc=MAC, psrc="10.0.0.5")),
    ("neither TCP nor UDP", 101, IP(proto=47) / b"gre"),
    ("link type not known", 147, V4),
    ("IP fragment", 101, IP(flags="MF") / TCP_PART),
    ("IP fragment", 101, fragment(IP() / UDP() / (b"x" * 3000))[1]),  # type: ignore[no-untyped-call]
    ("IP fragment", 101, IPv6() / IPv6ExtHdrFragment(offset=0, m=1, nh=6) / TCP_PART),
    ("malformed IP header", 228, IP(ihl=4, src="10.0.0.5") / TCP_PART),
    ("malformed IP header", 229, V4 / (b"x" * 40)),
    ("malformed TCP header", 101, IP() / TCP(dataofs=4) / b"x"),
    ("malformed TCP header", 101, IP(len=30) / TCP() / b"x"),
]


@pytest.mark.parametrize(("name", "link_type", "packet"), OTHERS)
def test_what_is_no_segment_has_a_name(name: str, link_type: int, packet: Packet) -> None:
    assert name in OUTCOME_NAMES
    assert read_segment(link_type, bytes(packet)) == name


def test_cut_anywhere_is_cut_short_or_a_payload_with_its_tail_missing() -> None:
    for link_type, packet in WAYS:
        data = bytes(packet)
        headers = len(data) - len(PAYLOAD) - 12 - 6  # 12 of TCP options; 6 of the header come after its flags
        for size in range(len(data)):
            segment = read_segment(link_type, data[:size], len(data))
            if size < headers:
                assert segment == "cut before the end of its headers", link_type
            else:
                assert isinstance(segment, TcpSegment), link_type
                assert len(segment.payload) + segment.missing == len(PAYLOAD), link_type
                assert PAYLOAD.startswith(segment.payload), link_type


def test_ethernet_padding_is_no_payload() -> None:
    short = ETHERNET / IP(src="10.0.0.5", dst="10.0.0.9") / TCP()
    segment = read_segment(1, bytes(short) + bytes(6))
    assert isinstance(segment, TcpSegment)
    assert (segment.payload, segment.missing) == (b"", 0)


def test_length_zero_is_a_packet_that_the_card_had_yet_to_split() -> None:
    data = bytearray(bytes(V4))
    data[2:4] = b"\0\0"
    segment = read_segment(101, bytes(data))
    assert isinstance(segment, TcpSegment)
    assert segment.payload == PAYLOAD


@given(st.sampled_from([0, 1, 12, 101, 108, 113, 228, 229, 276, 999]), st.binary(max_size=200), st.integers(0, 2**33))
def test_any_bytes_are_a_segment_or_have_a_name(link_type: int, data: bytes, original_size: int) -> None:
    result = read_segment(link_type, data, max(original_size, len(data)))
    assert isinstance(result, TcpSegment) or result in OUTCOME_NAMES
    if isinstance(result, TcpSegment):
        assert len(result.payload) <= len(data)


@given(st.data())
def test_any_damage_to_a_segment_is_a_segment_or_has_a_name(data: st.DataObject) -> None:
    link_type, whole = data.draw(st.sampled_from(BYTES))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    result = read_segment(link_type, bytes(damaged))
    assert isinstance(result, TcpSegment) or result in OUTCOME_NAMES
