"""Batches lend, packets own. pcap and pcapng: scapy as the other implementation, hand-built files, damage, hostile blocks."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import PcapWriter, RawPcapNgReader

from kproxy.capture import open_capture
from kproxy.capture.items import Packet
from kproxy.capture.scanners import BATCH_PACKETS, MAGICS, PacketBatch, PcapngScanner, PcapScanner, read_options
from tests.support.built_captures import CAPTURES, START_NS, block, enhanced, interface, option, pcap, section


def test_a_packet_owns_its_bytes() -> None:
    buffer = bytearray(b"kafka")
    batch = PacketBatch(2)
    batch.lend(buffer)
    batch.add_packet(Packet(5, 1, bytes(buffer), 9))
    packet = batch.packet(0)
    buffer[:] = b"XXXXX"
    assert packet == Packet(5, 1, b"kafka", 9)
    assert list(batch) == [Packet(5, 1, b"XXXXX", 9)]


def test_an_empty_packet() -> None:
    batch = PacketBatch()
    batch.lend(b"")
    batch.add_packet(Packet(5, 1, b"", 0))
    assert list(batch) == [Packet(5, 1, b"", 0)]
    assert (len(batch), batch.count, batch.capacity) == (1, 1, BATCH_PACKETS)


def test_a_batch_has_an_end() -> None:
    batch = PacketBatch(1)
    batch.lend(b"x")
    packet = Packet(0, 1, b"x", 1)
    batch.add_packet(packet)
    with pytest.raises(IndexError, match="full"):
        batch.add_packet(packet)
    for index in (-1, 1, 2**40):
        with pytest.raises(IndexError):
            batch.packet(index)


def test_what_was_lent_cannot_be_asked_for_after_clear() -> None:
    batch = PacketBatch()
    batch.lend(b"x")
    batch.add_packet(Packet(0, 1, b"x", 1))
    batch.clear()
    assert list(batch) == []
    with pytest.raises(IndexError):
        batch.packet(0)


def test_a_packet_longer_than_the_buffer_is_not_believed() -> None:
    batch = PacketBatch()
    batch.lend(b"abc")
    batch.add_packet(Packet(0, 1, b"abcdef", 6))
    assert batch.packet(0).data == b"abc"


@pytest.mark.parametrize("capacity", [0, -1, 2**20 + 1])
def test_capacity_has_bounds(capacity: int) -> None:
    with pytest.raises(ValueError, match="a batch holds"):
        PacketBatch(capacity)


FRAME = bytes(
    Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.5", dst="10.0.0.9") / TCP() / b"kafka"
)
PACKETS = [Packet(START_NS + i * 1_234_567, 1, FRAME + bytes(i), len(FRAME) + i) for i in range(5)]


def scan_pcap(file: bytes, step: int | None = None) -> tuple[list[Packet], PcapScanner, int]:
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
    packets, scanner, start = scan_pcap(file.getvalue())
    assert [p.data for p in packets] == [p.data for p in PACKETS]
    assert [p.time_ns for p in packets] == [p.time_ns // precision * precision for p in PACKETS]
    assert {p.link_type for p in packets} == {1}
    assert (start, scanner.problem, scanner.big_endian) == (len(file.getvalue()), None, order == ">")


def test_one_byte_at_a_time_gives_the_same() -> None:
    file = pcap(PACKETS, magic=0xA1B23C4D)
    assert scan_pcap(file, step=1)[0] == scan_pcap(file)[0] == PACKETS


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_modified_format_has_longer_headers(order: str) -> None:
    file = pcap([], magic=0xA1B2CD34, order=order)
    for packet in PACKETS:
        head = struct.pack(order + "IIII", 1_700_000_000, 5, len(packet.data), packet.original_size)
        file += head + struct.pack(order + "IHBB", 3, 0x0800, 4, 0) + packet.data  # as editcap -F modpcap writes it
    packets, scanner, start = scan_pcap(file)
    assert [p.data for p in packets] == [p.data for p in PACKETS]
    assert {p.time_ns for p in packets} == {1_700_000_000_000_005_000}
    assert (start, scanner.problem) == (len(file), None)
    assert scan_pcap(file, step=1)[0] == packets
    assert scan_pcap(file[:-1])[0] == packets[:-1]


def test_every_magic_is_known() -> None:
    assert set(MAGICS) == {
        struct.pack(order + "I", magic) for order in "<>" for magic in (0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34)
    }


@pytest.mark.parametrize("size", [262_145, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_packet_too_large_ends_the_file_before_it(size: int) -> None:
    bad = struct.pack("<IIII", 1, 2, size, size)
    packets, scanner, start = scan_pcap(pcap(PACKETS) + bad + FRAME)
    assert len(packets) == len(PACKETS)
    assert str(size) in (scanner.problem or "")
    assert start == len(pcap(PACKETS))


def test_the_largest_packet_is_read() -> None:
    largest = Packet(START_NS, 1, bytes(262_144), 262_144)
    assert scan_pcap(pcap([largest]))[0] == [largest]


def test_captured_more_than_there_was_is_counted_and_read() -> None:
    packets, scanner, _ = scan_pcap(pcap([Packet(START_NS, 1, FRAME, 3)]))
    assert packets == [Packet(START_NS, 1, FRAME, len(FRAME))]
    assert scanner.sizes_contradict == 1


@pytest.mark.parametrize("snaplen", [0, 1, 2**31, 2**32 - 1])
def test_the_snaplen_of_the_header_is_not_believed(snaplen: int) -> None:
    file = bytearray(pcap(PACKETS))
    file[16:20] = struct.pack("<I", snaplen)
    packets, scanner, _ = scan_pcap(bytes(file))
    assert len(packets) == len(PACKETS)
    assert scanner.snaplen == snaplen


def test_the_length_of_a_frame_check_sequence_is_no_part_of_the_link_type() -> None:
    file = bytearray(pcap(PACKETS))
    file[20:24] = struct.pack("<I", 0x2400_0001)  # FCS of 4 bytes
    assert scan_pcap(bytes(file))[1].link_type == 1


def test_an_unknown_format_version_is_said() -> None:
    file = bytearray(pcap(PACKETS))
    file[4:6] = b"\x03\x00"
    packets, scanner, _ = scan_pcap(bytes(file))
    assert (packets, scanner.problem) == ([], "pcap format 3 is not known, only 2")


def test_needed_says_how_large_the_next_record_is() -> None:
    file = pcap(PACKETS[:1])
    _, scanner, start = scan_pcap(file[:-1])
    assert (start, scanner.needed) == (24, 16 + len(FRAME))


def test_outside_the_buffer_is_refused() -> None:
    batch, scanner = PacketBatch(), PcapScanner(pcap([])[:24])
    batch.lend(b"short")
    with pytest.raises(IndexError):
        scanner.scan(batch, 0, 6)
    with pytest.raises(IndexError):
        scanner.scan(batch, -1, 5)


DATA = b"thirteen byte"
MICROSECONDS = START_NS // 1000


def scan_pcapng(file: bytes, step: int | None = None) -> tuple[list[Packet], PcapngScanner, int]:
    scanner, batch, start = PcapngScanner(), PacketBatch(), 0
    packets: list[Packet] = []
    for stop in range(0, len(file) + 1, step) if step else [len(file)]:
        batch.lend(file)
        start = scanner.scan(batch, start, stop)
        packets += list(batch)
    return packets, scanner, start


@pytest.mark.parametrize("order", ["<", ">"])
def test_packet_blocks_of_every_kind(order: str) -> None:
    file = section(order) + interface(1, order=order) + interface(113, order=order)
    file += enhanced(DATA, MICROSECONDS, interface=1, original=99, order=order)
    file += block(3, struct.pack(order + "I", len(DATA)) + DATA, order)
    obsolete = struct.pack(order + "HHIIII", 0, 5, MICROSECONDS >> 32, MICROSECONDS & 0xFFFFFFFF, len(DATA), 50)
    file += block(2, obsolete + DATA, order)
    packets, scanner, start = scan_pcapng(file)
    assert scanner.problem is None
    assert start == len(file)
    assert packets == [
        Packet(START_NS, 113, DATA, 99),
        Packet(START_NS, 1, DATA, len(DATA)),  # a simple packet has no time: that of the one before
        Packet(START_NS, 1, DATA, 50),
    ]
    assert scanner.without_time == 1
    assert scan_pcapng(file, step=1)[0] == packets


@pytest.mark.parametrize(
    ("resolution", "offset", "units", "expected"),
    [
        (None, 0, MICROSECONDS, START_NS),
        (6, 0, MICROSECONDS, START_NS),
        (9, 0, START_NS + 7, START_NS + 7),
        (3, 0, 1_700_000_000_123, 1_700_000_000_123_000_000),
        (0, 0, 1_700_000_000, START_NS),
        (12, 0, 1_700_000_000_000_000_123_456 & (2**64 - 1), (1_700_000_000_000_000_123_456 & (2**64 - 1)) // 1000),
        (0x80 | 10, 0, 1_700_000_000 * 1024 + 512, START_NS + 500_000_000),
        (0x80 | 32, 0, (1_700_000_000 << 32) + (1 << 31), START_NS + 500_000_000),
        (0x80 | 0, 0, 5, 5_000_000_000),
        (0x80 | 40, 0, (3 << 40) + (1 << 39), 3_500_000_000),
        (0x80 | 64, 0, 2**63, 0),
        (9, 1_700_000_000, 42, START_NS + 42),
        (6, -10, 20_000_000, 10_000_000_000),
        (9, 0, 2**64 - 1, 2**63 - 1),  # after the year 2262
        (0, 0, 2**64 - 1, 2**63 - 1),
        (9, 2**63 - 1, 1, 2**63 - 1),
        (127, 0, 2**64 - 1, 1),
        (255, 0, 2**64 - 1, 0),
    ],
)
def test_the_clock_of_an_interface(resolution: int | None, offset: int, units: int, expected: int) -> None:
    options = b"" if resolution is None else option(9, bytes([resolution]))
    if offset:
        options += option(14, struct.pack("<q", offset))
    packets, scanner, _ = scan_pcapng(section() + interface(options=options) + enhanced(DATA, units))
    assert scanner.problem is None
    assert [p.time_ns for p in packets] == [expected]


def test_a_section_has_its_own_byte_order_and_interfaces() -> None:
    file = section("<") + interface(1) + enhanced(DATA, MICROSECONDS)
    file += section(">") + interface(101, order=">") + enhanced(DATA, MICROSECONDS, order=">")
    packets, scanner, _ = scan_pcapng(file)
    assert [(p.link_type, p.time_ns) for p in packets] == [(1, START_NS), (101, START_NS)]
    _, scanner, _ = scan_pcapng(file + section() + enhanced(DATA))
    assert scanner.problem == "a packet of interface 0, and 0 are described"


def test_simple_packets_are_cut_at_the_snaplen() -> None:
    file = section() + interface(1, snaplen=4) + block(3, struct.pack("<I", 1000) + b"abcd")
    assert [(p.data, p.original_size) for p in scan_pcapng(file)[0]] == [(b"abcd", 1000)]


def test_comments_and_their_hostile_neighbours() -> None:
    head = section() + interface()
    assert (
        scan_pcapng(head + enhanced(DATA, options=option(1, "größe".encode()) + option(0, b"")))[0][0].comment
        == "größe"
    )
    assert scan_pcapng(head + enhanced(DATA, options=option(9, b"x") + option(1, b"\xff")))[0][0].comment == "\ufffd"
    assert scan_pcapng(head + enhanced(DATA, options=struct.pack("<HH", 1, 0xFFFF)))[0][0].comment is None
    assert scan_pcapng(head + enhanced(DATA, options=option(0, b"") + option(1, b"late")))[0][0].comment is None


def test_secrets_are_kept_and_unknown_blocks_passed_over() -> None:
    log = b"CLIENT_RANDOM 00 11\n"
    secrets = block(10, struct.pack("<II", 0x544C534B, len(log)) + log)
    packets, scanner, _ = scan_pcapng(section() + interface() + secrets + block(0xBAD, b"?" * 40) + enhanced(DATA))
    assert scanner.secrets == [(0x544C534B, log)]
    assert scanner.blocks_passed_over == 1
    assert len(packets) == 1


def test_secrets_beyond_the_limit_are_counted() -> None:
    file = section() + 3 * block(10, struct.pack("<II", 0x544C534B, 40) + b"x" * 40)
    scanner, batch = PcapngScanner(100), PacketBatch()
    batch.lend(file)
    scanner.scan(batch, 0, len(file))
    assert (len(scanner.secrets), scanner.secrets_passed_over) == (2, 1)


HEAD = section() + interface()
HOSTILE = [
    (struct.pack("<II", 6, 8) + bytes(24), "a block of 8 bytes"),
    (struct.pack("<II", 6, 0) + bytes(24), "a block of 0 bytes"),
    (struct.pack("<II", 6, 33) + bytes(40), "a block of 33 bytes"),
    (struct.pack("<II", 6, (16 << 20) + 4) + bytes(40), "more than 16777216 are not read"),
    (struct.pack("<II", 6, 0xFFFFFFFC) + bytes(40), "more than 16777216 are not read"),
    (block(6, bytes(20) + DATA)[:-4] + struct.pack("<I", 44), "ends with length 44"),
    (block(6, bytes(16)), "a packet block of 28 bytes"),
    (block(3, b""), "a simple packet block of 12 bytes"),
    (block(1, b"1234"), "an interface description of 4 bytes"),
    (enhanced(DATA, interface=1), "a packet of interface 1, and 1 are described"),
    (enhanced(DATA, size=0xFFFFFFFF), "a packet of 4294967295 bytes"),
    (enhanced(DATA, size=262_145), "a packet of 262145 bytes"),
    (enhanced(DATA, size=17), "a packet of 17 bytes in a block that has 16"),
    (block(10, struct.pack("<II", 0x544C534B, 100) + b"x" * 40), "claims 100 bytes and has 40"),
    (block(10, b"1234"), "decryption secrets block"),
    (block(0x0A0D0D0A, struct.pack("<I", 0x1A2B3C4D)), "a section header of 16 bytes"),
    (block(0x0A0D0D0A, bytes(16)), "byte order 0x00000000"),
]


@pytest.mark.parametrize(("hostile", "reason"), HOSTILE)
def test_a_hostile_block_ends_the_file_before_it(hostile: bytes, reason: str) -> None:
    packets, scanner, start = scan_pcapng(HEAD + enhanced(DATA) + hostile + enhanced(DATA))
    assert len(packets) == 1
    assert reason in (scanner.problem or "")
    assert start == len(HEAD + enhanced(DATA))


def test_blocks_before_the_first_section_are_refused() -> None:
    assert scan_pcapng(interface())[1].problem == "a block before the first section header"


def test_too_many_interfaces_are_refused() -> None:
    packets, scanner, _ = scan_pcapng(section() + interface() * 65_537)
    assert (packets, scanner.problem) == ([], "more than 65536 interfaces in a section")


def test_the_real_file_reads_as_scapy_reads_it() -> None:
    path = CAPTURES / "07-tls13-dsb.pcapng"
    theirs = [data for data, _ in RawPcapNgReader(io.BytesIO(path.read_bytes()))]  # type: ignore[arg-type]
    with open_capture(path) as capture:
        packets = list(capture)
        assert [p.data for p in packets] == theirs
        assert len(packets) == 153  # MANIFEST.jsonl
        assert b"CLIENT_TRAFFIC_SECRET_0 " in capture.secrets[0][1]
        assert capture.secrets[0][0] == 0x544C534B
    assert capture.damage is None


@pytest.mark.parametrize(("order", "big"), [("<", False), (">", True)])
def test_options_in_either_byte_order(order: str, big: bool) -> None:
    data = (
        option(2, b"eth0", order) + option(1, b"abcde", order) + option(0, b"", order) + option(3, b"not read", order)
    )
    assert list(read_options(data, big)) == [(2, b"eth0"), (1, b"abcde")]
    assert len(list(read_options(struct.pack("<HH", 5, 0) * 1000, False))) == 1000


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_options_that_fit(data: bytes, big: bool) -> None:
    assert sum(4 + len(value) for _, value in read_options(data, big)) <= len(data)
