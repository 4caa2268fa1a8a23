"""IP fragments made by scapy and by hand: the datagram of every order, the attacks of old, bounded memory."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scapy.layers.inet import IP, TCP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, fragment6
from scapy.layers.l2 import Dot1Q, Ether

from kproxy.capture import Limits, Packet
from kproxy.capture.fragments import DIFFERS, DUPLICATE, INCOMPLETE, MALFORMED, Fragments, read_fragment
from kproxy.capture.links import read_segment
from kproxy.capture.packet import TcpSegment
from tests.support.built_captures import Raw, as_packet, cut

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
