"""pcapng as it is written, read by scapy."""

import io
import random
from itertools import pairwise

import pytest
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import RawPcapNgReader

from kproxy.output.packets import MOST_COMMENT, SEGMENT, SyntheticTcp, checksum, file_header, packet

AT = 1_763_699_999_123_456_789


def read(*blocks: bytes) -> list[tuple[bytes, object]]:
    with RawPcapNgReader(io.BytesIO(file_header("kproxy test") + b"".join(blocks))) as reader:
        return list(reader)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1500])
def test_another_reader_gets_bytes_time_and_comment(size: int) -> None:
    data = bytes(range(256)) * 6
    ((read_data, facts),) = read(packet(AT, data[:size], "ApiVersions v4 → 75 APIs".encode()))
    assert read_data == data[:size]
    assert (facts.tshigh << 32) + facts.tslow == AT
    assert facts.tsresol == 10**9
    assert facts.linktype == 1
    assert facts.wirelen == size
    comments = facts.comments if hasattr(facts, "comments") else [facts.comment]
    assert comments == ["ApiVersions v4 → 75 APIs".encode()]


def test_a_packet_without_a_comment_has_no_options() -> None:
    # type 6, size, interface 0, time, two sizes, four bytes, size: Enhanced Packet Block of 36 bytes
    assert (
        packet(1, b"abcd").hex()
        == "0600000024000000" + "00" * 8 + "01000000" + "04000000" * 2 + "61626364" + "24000000"
    )


def test_a_long_comment_is_cut_between_characters() -> None:
    ((_, facts),) = read(packet(AT, b"", "→".encode() * MOST_COMMENT))
    comments = facts.comments if hasattr(facts, "comments") else [facts.comment]
    assert comments[0].decode() == "→" * (MOST_COMMENT // 3)


ENDS = [("10.0.0.5:51234", "10.0.0.9:9092"), ("[2001:db8::5]:51234", "[2001:db8::9]:9092")]


def parse(packets: list[bytes]) -> list[Packet]:
    return [Ether(data) for data in packets]


def rebuilt(packet: Packet) -> bytes:
    """The packet with lengths and checksums as scapy computes them."""
    again = packet.copy()
    for layer in (again[1], again[TCP]):
        for name in ("len", "plen", "chksum"):
            if name in layer.fields:
                del layer.fields[name]
    return bytes(again)


@pytest.mark.parametrize(("client", "broker"), ENDS)
def test_a_conversation(client: str, broker: str) -> None:
    tcp = SyntheticTcp(7, client, broker)
    raw = [*tcp.handshake(), *tcp.data(0, b"request"), *tcp.data(1, b"answer!!"), *tcp.farewell((0, 1))]
    packets = parse(raw)
    assert [rebuilt(packet) for packet in packets] == raw
    assert [str(packet[TCP].flags) for packet in packets] == ["S", "SA", "A", "PA", "PA", "FA", "FA", "A"]
    start, other = packets[0][TCP].seq, packets[1][TCP].seq
    relative = [
        (
            (p[TCP].seq - (start if p[TCP].dport == 9092 else other)),
            p[TCP].ack - (other if p[TCP].dport == 9092 else start),
        )
        for p in packets[1:]
    ]
    assert relative == [(0, 1), (1, 1), (1, 1), (1, 8), (8, 9), (9, 9), (9, 10)]
    assert packets[3][1].src in client and packets[3][1].dst in broker
    assert packets[4][1].src in broker and packets[4][1].dst in client
    assert bytes(packets[3][TCP].payload) == b"request"


def test_long_data_is_cut_into_segments_that_an_ip_packet_can_hold() -> None:
    tcp = SyntheticTcp(1, *ENDS[0])
    tcp.handshake()
    data = bytes(range(251)) * 1000
    packets = parse(tcp.data(1, data))
    assert b"".join(bytes(packet[TCP].payload) for packet in packets) == data
    assert [len(packet[TCP].payload) for packet in packets] == [SEGMENT] * 3 + [len(data) - 3 * SEGMENT]
    assert [b[TCP].seq - a[TCP].seq for a, b in pairwise(packets)] == [SEGMENT] * 3


def test_a_hole_is_skipped_and_acknowledged() -> None:
    tcp = SyntheticTcp(1, *ENDS[0])
    _, _, ready = parse(tcp.handshake())
    tcp.hole(0, 1000)
    (seen,), (after,) = parse(tcp.acknowledge(0)), parse(tcp.data(0, b"x"))
    assert seen[TCP].ack == after[TCP].seq == ready[TCP].seq + 1000


def test_sequence_numbers_wrap() -> None:
    tcp = SyntheticTcp(1, *ENDS[0])
    start = parse(tcp.handshake())[2][TCP].seq
    tcp.hole(0, 2**32 - 2)
    first, second = parse([*tcp.data(0, b"abc"), *tcp.data(0, b"d")])
    assert (second[TCP].seq - first[TCP].seq) % 2**32 == 3
    assert first[TCP].seq == (start - 2) % 2**32


def test_the_side_that_ends_first_is_told() -> None:
    tcp = SyntheticTcp(1, *ENDS[0])
    tcp.handshake()
    assert [p[TCP].sport for p in parse(tcp.farewell((1, 0)))] == [9092, 51234, 9092]
    assert tcp.farewell(()) == []


def test_two_connections_between_the_same_ports_begin_elsewhere() -> None:
    first, second = (parse(SyntheticTcp(number, *ENDS[0]).handshake())[0] for number in (1, 2))
    assert abs(first[TCP].seq - second[TCP].seq) > 1_000_000


@pytest.mark.parametrize("ends", [("10.0.0.5:1", "[::1]:2"), ("client:1", "10.0.0.1:2")])
def test_what_is_no_address_is_refused(ends: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"IP"):
        SyntheticTcp(1, *ends)


def test_checksums_hold_for_data_of_any_size() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D  # RFC 1071, section 3: the sum is ddf2
    for ends in ENDS:
        tcp = SyntheticTcp(3, *ends)
        for size in (1, 2, 3, 4, 5, 255, 65_482, 65_483):
            raw = tcp.data(size & 1, random.Random(size).randbytes(size))
            assert [rebuilt(packet) for packet in parse(raw)] == raw, (ends, size)
