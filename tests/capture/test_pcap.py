"""Classic pcap: scapy's writer as the other implementation, and what no writer writes."""

import io
import struct

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import PcapWriter

from kproxy.capture.packets import Packet, PacketBatch
from kproxy.capture.pcap import MAGICS, PcapScanner
from tests.support.built_captures import START_NS, pcap

FRAME = bytes(
    Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.5", dst="10.0.0.9") / TCP() / b"kafka"
)
PACKETS = [Packet(START_NS + i * 1_234_567, 1, FRAME + bytes(i), len(FRAME) + i) for i in range(5)]


def scan(file: bytes, step: int | None = None) -> tuple[list[Packet], PcapScanner, int]:
    """Packets, scanner and where it stopped; with *step*, only so many bytes more are shown at a time."""
    scanner, batch, start = PcapScanner(file[:24]), PacketBatch(), 24
    packets: list[Packet] = []
    for stop in range(24, len(file) + 1, step) if step else [len(file)]:
        batch.lend(file)
        start = scanner.scan(batch, start, stop)
        packets += list(batch)
    return packets, scanner, start


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("nano", "precision"), [(False, 1000), (True, 1)])
def test_what_scapy_writes_is_read(order: str, nano: bool, precision: int) -> None:
    file = io.BytesIO()
    writer = PcapWriter(file, linktype=1, nano=nano, endianness=order)
    writer.write_header(None)
    for packet in PACKETS:
        seconds, fraction = divmod(packet.time_ns, 10**9)
        writer.write_packet(packet.data, sec=seconds, usec=fraction // precision)
    packets, scanner, start = scan(file.getvalue())
    assert [p.data for p in packets] == [p.data for p in PACKETS]
    assert [p.time_ns for p in packets] == [p.time_ns // precision * precision for p in PACKETS]
    assert {p.link_type for p in packets} == {1}
    assert (start, scanner.problem, scanner.big_endian) == (len(file.getvalue()), None, order == ">")


def test_one_byte_at_a_time_gives_the_same() -> None:
    file = pcap(PACKETS, magic=0xA1B23C4D)
    assert scan(file, step=1)[0] == scan(file)[0] == PACKETS


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_modified_format_has_longer_headers(order: str) -> None:
    file = pcap([], magic=0xA1B2CD34, order=order)
    for packet in PACKETS:
        head = struct.pack(order + "IIII", 1_700_000_000, 5, len(packet.data), packet.original_size)
        file += head + struct.pack(order + "IHBB", 3, 0x0800, 4, 0) + packet.data  # as editcap -F modpcap writes it
    packets, scanner, start = scan(file)
    assert [p.data for p in packets] == [p.data for p in PACKETS]
    assert {p.time_ns for p in packets} == {1_700_000_000_000_005_000}
    assert (start, scanner.problem) == (len(file), None)
    assert scan(file, step=1)[0] == packets
    assert scan(file[:-1])[0] == packets[:-1]


def test_every_magic_is_known() -> None:
    assert set(MAGICS) == {
        struct.pack(order + "I", magic) for order in "<>" for magic in (0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34)
    }


@pytest.mark.parametrize("size", [262_145, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_packet_too_large_ends_the_file_before_it(size: int) -> None:
    bad = struct.pack("<IIII", 1, 2, size, size)
    packets, scanner, start = scan(pcap(PACKETS) + bad + FRAME)
    assert len(packets) == len(PACKETS)
    assert str(size) in (scanner.problem or "")
    assert start == len(pcap(PACKETS))


def test_the_largest_packet_is_read() -> None:
    largest = Packet(START_NS, 1, bytes(262_144), 262_144)
    assert scan(pcap([largest]))[0] == [largest]


def test_captured_more_than_there_was_is_counted_and_read() -> None:
    packets, scanner, _ = scan(pcap([Packet(START_NS, 1, FRAME, 3)]))
    assert packets == [Packet(START_NS, 1, FRAME, len(FRAME))]
    assert scanner.sizes_contradict == 1


@pytest.mark.parametrize("snaplen", [0, 1, 2**31, 2**32 - 1])
def test_the_snaplen_of_the_header_is_not_believed(snaplen: int) -> None:
    file = bytearray(pcap(PACKETS))
    file[16:20] = struct.pack("<I", snaplen)
    packets, scanner, _ = scan(bytes(file))
    assert len(packets) == len(PACKETS)
    assert scanner.snaplen == snaplen


def test_the_length_of_a_frame_check_sequence_is_no_part_of_the_link_type() -> None:
    file = bytearray(pcap(PACKETS))
    file[20:24] = struct.pack("<I", 0x2400_0001)  # FCS of 4 bytes
    assert scan(bytes(file))[1].link_type == 1


def test_an_unknown_format_version_is_said() -> None:
    file = bytearray(pcap(PACKETS))
    file[4:6] = b"\x03\x00"
    packets, scanner, _ = scan(bytes(file))
    assert (packets, scanner.problem) == ([], "pcap format 3 is not known, only 2")


def test_needed_says_how_large_the_next_record_is() -> None:
    file = pcap(PACKETS[:1])
    _, scanner, start = scan(file[:-1])
    assert (start, scanner.needed) == (24, 16 + len(FRAME))


def test_outside_the_buffer_is_refused() -> None:
    batch, scanner = PacketBatch(), PcapScanner(pcap([])[:24])
    batch.lend(b"short")
    with pytest.raises(IndexError):
        scanner.scan(batch, 0, 6)
    with pytest.raises(IndexError):
        scanner.scan(batch, -1, 5)
