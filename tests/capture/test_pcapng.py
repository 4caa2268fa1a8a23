"""pcapng: hand-built blocks in both byte orders, scapy's reader as the other implementation, hostile blocks."""

import io
import struct

import pytest
from scapy.utils import RawPcapNgReader

from kproxy.capture import open_capture
from kproxy.capture.packets import Packet, PacketBatch
from kproxy.capture.pcapng import PcapngScanner
from tests.support.built_captures import CAPTURES, START_NS, block, enhanced, interface, option, section

DATA = b"thirteen byte"
MICROSECONDS = START_NS // 1000


def scan(file: bytes, step: int | None = None) -> tuple[list[Packet], PcapngScanner, int]:
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
    packets, scanner, start = scan(file)
    assert scanner.problem is None
    assert start == len(file)
    assert packets == [
        Packet(START_NS, 113, DATA, 99),
        Packet(START_NS, 1, DATA, len(DATA)),  # a simple packet has no time: that of the one before
        Packet(START_NS, 1, DATA, 50),
    ]
    assert scanner.without_time == 1
    assert scan(file, step=1)[0] == packets


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
    packets, scanner, _ = scan(section() + interface(options=options) + enhanced(DATA, units))
    assert scanner.problem is None
    assert [p.time_ns for p in packets] == [expected]


def test_a_section_has_its_own_byte_order_and_interfaces() -> None:
    file = section("<") + interface(1) + enhanced(DATA, MICROSECONDS)
    file += section(">") + interface(101, order=">") + enhanced(DATA, MICROSECONDS, order=">")
    packets, scanner, _ = scan(file)
    assert [(p.link_type, p.time_ns) for p in packets] == [(1, START_NS), (101, START_NS)]
    _, scanner, _ = scan(file + section() + enhanced(DATA))
    assert scanner.problem == "a packet of interface 0, and 0 are described"


def test_simple_packets_are_cut_at_the_snaplen() -> None:
    file = section() + interface(1, snaplen=4) + block(3, struct.pack("<I", 1000) + b"abcd")
    assert [(p.data, p.original_size) for p in scan(file)[0]] == [(b"abcd", 1000)]


def test_comments_and_their_hostile_neighbours() -> None:
    head = section() + interface()
    assert scan(head + enhanced(DATA, options=option(1, "größe".encode()) + option(0, b"")))[0][0].comment == "größe"
    assert scan(head + enhanced(DATA, options=option(9, b"x") + option(1, b"\xff")))[0][0].comment == "\ufffd"
    assert scan(head + enhanced(DATA, options=struct.pack("<HH", 1, 0xFFFF)))[0][0].comment is None
    assert scan(head + enhanced(DATA, options=option(0, b"") + option(1, b"late")))[0][0].comment is None


def test_secrets_are_kept_and_unknown_blocks_passed_over() -> None:
    log = b"CLIENT_RANDOM 00 11\n"
    secrets = block(10, struct.pack("<II", 0x544C534B, len(log)) + log)
    packets, scanner, _ = scan(section() + interface() + secrets + block(0xBAD, b"?" * 40) + enhanced(DATA))
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
    packets, scanner, start = scan(HEAD + enhanced(DATA) + hostile + enhanced(DATA))
    assert len(packets) == 1
    assert reason in (scanner.problem or "")
    assert start == len(HEAD + enhanced(DATA))


def test_blocks_before_the_first_section_are_refused() -> None:
    assert scan(interface())[1].problem == "a block before the first section header"


def test_too_many_interfaces_are_refused() -> None:
    packets, scanner, _ = scan(section() + interface() * 65_537)
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
