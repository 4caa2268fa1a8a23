"""Hostile captures by their numbers: 27 files, 28 TCP, 29 link layers. A real capture comes first, and is always decoded.

27: caplen 0xffffffff, caplen > len, snaplen 0 and 2^31, pcapng block length < 12, unaligned, trailing mismatch, no
interfaces, loops of options, truncated last packet, swapped and nanosecond magic, gzip and zstd bombs.
28: missing SYN, mid-stream, retransmission, overlap with different data, out of order, 2^32 wrap, gap, keep-alive, reuse.
29: VLAN and QinQ, VXLAN, SLL and SLL2, NULL and LOOP, chains of IPv6 extension headers, fragments.

What each of them does alone is in the tests of its module; here it goes through all of kproxy.
"""

import gzip
import json
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard
from msgspec.structs import replace
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet as ScapyPacket
from scapy.packet import Raw

from kproxy.capture import Packet
from kproxy.cli import main
from kproxy.session import BadFrame, Event, Exchange, Gap
from tests.support.built_captures import Conversation, as_packet, block, cut, enhanced, interface, option, pcap, section
from tests.support.frames import heartbeat, heartbeat_answer
from tests.support.sampled import sampled
from tests.support.variants import decode, load

GOOD = load("03")[:120]
LINK = GOOD[0].link_type
FILE, SWAPPED, NANO = (
    pcap(GOOD, link_type=LINK),
    pcap(GOOD, link_type=LINK, order=">"),
    pcap(GOOD, link_type=LINK, magic=0xA1B23C4D),
)
NG = section() + interface(LINK) + b"".join(enhanced(packet.data, packet.time_ns // 1000) for packet in GOOD)
EXCHANGES = sum(isinstance(event, Exchange) for event in decode(GOOD))
COMMENTS = b"".join(option(1, b"") for _ in range(5000))
OK, DAMAGED = 0, 3


def with_snaplen(snaplen: int) -> bytes:
    return FILE[:16] + struct.pack("<I", snaplen) + FILE[20:]


FILES: dict[str, tuple[bytes, int, str]] = {
    "caplen 0xffffffff": (FILE + struct.pack("<IIII", 1, 0, 0xFFFFFFFF, 60) + bytes(60), DAMAGED, "a packet of 4294967295 bytes"),
    "caplen over len": (FILE + struct.pack("<IIII", 1, 0, 60, 0) + bytes(60), OK, ""),
    "snaplen 0": (with_snaplen(0), OK, ""),
    "snaplen 2^31": (with_snaplen(2**31), OK, ""),
    "truncated last packet": (FILE + struct.pack("<IIII", 1, 0, 60, 60) + bytes(59), DAMAGED, "ends within a packet"),
    "truncated last header": (FILE + bytes(15), DAMAGED, "ends within a packet"),
    "swapped magic": (SWAPPED, OK, ""),
    "nanosecond magic": (NANO, OK, ""),
    "block length 8": (NG + struct.pack("<II", 6, 8) + bytes(24), DAMAGED, "a block of 8 bytes"),
    "block length unaligned": (NG + struct.pack("<II", 6, 33) + bytes(40), DAMAGED, "a block of 33 bytes"),
    "block length 4 GiB": (NG + struct.pack("<II", 6, 0xFFFFFFFC) + bytes(40), DAMAGED, "4294967292 bytes"),
    "trailing mismatch": (NG + block(6, bytes(40))[:-4] + bytes(4), DAMAGED, "ends with length 0"),
    "no interfaces": (NG + section() + enhanced(b"x"), DAMAGED, "a packet of interface 0"),
    "a loop of options": (NG + enhanced(b"x", options=COMMENTS + b"\1\0\xff\xff"), OK, ""),
    "truncated block": (NG[:-1], DAMAGED, "ends within a packet or block"),
    "gzip cut": (gzip.compress(FILE + bytes(16))[:-30], DAMAGED, "gzip"),
    "gzip bomb": (gzip.compress(FILE + bytes(64 << 20), 1), OK, ""),
    "zstd bomb": (zstandard.compress(FILE + bytes(64 << 20)), OK, ""),
}  # fmt: skip


@pytest.mark.parametrize("what", sampled(FILES, [*FILES][:-1]))
def test_27_files(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is before the damage is decoded; then a sentence with its place, and exit status 3."""
    data, expected, said = FILES[what]
    path = tmp_path / "hostile"
    path.write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        main(["decode", "--format", "jsonl", "-o", str(tmp_path / "out"), str(path)])
    found = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    exchanges = sum(line["event"] == "exchange" for line in found)
    assert (ended.value.code or 0) == expected
    assert exchanges >= EXCHANGES - (2 if what in ("truncated block", "gzip cut") else 0)
    error = capsys.readouterr().err
    assert (f"kproxy: {path}: " in error) == (expected == DAMAGED)
    assert said in error


def exchanges(packets: Iterable[Packet]) -> list[tuple[int | None, bool]]:
    """Correlation ids, and whether both sides are there and read."""
    return [
        (
            event.correlation_id,
            event.request is not None
            and event.response is not None
            and event.undecoded is None
            and event.bodies is None,
        )
        for event in decode(packets)
        if isinstance(event, Exchange)
    ]


def kinds(events: Iterable[Event], kind: type) -> int:
    return sum(isinstance(event, kind) for event in events)


def talk(ids: Iterable[int], conversation: Conversation | None = None, *, opened: bool = True) -> Conversation:
    made = conversation or (Conversation().handshake() if opened else Conversation())
    for number in ids:
        made.send(0, heartbeat(number)).send(1, heartbeat_answer(number))
    return made


WHOLE = [(number, True) for number in range(1, 9)]


def test_28_a_missing_syn_and_a_mid_stream_start() -> None:
    assert exchanges(talk(range(1, 9)).packets[1:]) == WHOLE
    assert exchanges(talk(range(1, 9), opened=False).packets) == WHOLE
    assert exchanges(talk(range(1, 9)).packets[9:])[-5:] == WHOLE[-5:]


def test_28_retransmission_of_all() -> None:
    packets = talk(range(1, 9)).packets
    assert exchanges([packet for packet in packets for _ in range(3)]) == WHOLE
    assert exchanges(packets + packets[3:]) == WHOLE


def test_28_an_overlap_with_different_data_does_not_change_what_came_first() -> None:
    made = talk(range(1, 9))
    lying = [
        replace(packet, data=packet.data[:54] + b"\xff" * (len(packet.data) - 54))
        for packet in made.packets
        if len(packet.data) > 60
    ]
    mixed = [other for packet, lie in zip(made.packets[3:], lying, strict=True) for other in (packet, lie)]
    assert exchanges(made.packets[:3] + mixed) == WHOLE


def test_28_out_of_order() -> None:
    packets = talk(range(1, 9)).packets
    assert exchanges(packets[:3] + packets[:2:-1]) == WHOLE


@pytest.mark.parametrize("before", [0, 1, 30, 200])
def test_28_sequence_numbers_wrap(before: int) -> None:
    conversation = Conversation(isn=[2**32 - 1 - before, 2**32 - 1 - before // 2]).handshake()
    assert exchanges(talk(range(1, 9), conversation).packets) == WHOLE


def test_28_a_gap_and_the_next_plausible_frame() -> None:
    packets = talk(range(1, 9)).packets
    del packets[3 + 2 * 3]  # the request of 4
    assert exchanges(packets) == [pair for pair in WHOLE if pair[0] != 4] or (4, False) in exchanges(packets)
    assert {pair for pair in WHOLE if pair[0] != 4} <= set(exchanges(packets))
    assert kinds(decode(packets), Gap) > 0


def test_28_keep_alives() -> None:
    made = talk(range(1, 5))
    for side in (0, 1):
        made.packets.append(made.packet(side, made.next[side] - 1, b"\0"))
        made.packets.append(made.packet(side, made.next[side] - 1))
    assert exchanges(talk(range(5, 9), made).packets) == WHOLE
    assert kinds(decode(made.packets), BadFrame) == 0


def test_28_reused_ports_are_two_connections() -> None:
    first = talk(range(1, 5)).finish()
    again = Conversation(isn=[777, 888], time_ns=first.time_ns).handshake()
    events = decode(first.packets + talk(range(5, 9), again).packets)
    assert [event.correlation_id for event in events if isinstance(event, Exchange)] == list(range(1, 9))
    assert len({event.connection.number for event in events}) == 2


MAC = "02:00:00:00:00:01"
CHAIN = [IPv6ExtHdrDestOpt() for _ in range(8)]


def stacked(*layers: ScapyPacket) -> ScapyPacket:
    packet = layers[0]
    for layer in layers[1:]:
        packet = packet / layer
    return packet


def over_ipv6(packet: Packet, chain: list[ScapyPacket]) -> Packet:
    ip = IP(packet.data[14:])
    tcp, ends = bytes(ip[TCP]), [f"fd00::{address.rsplit('.')[-1]}" for address in (ip.src, ip.dst)]
    inner = stacked(IPv6(src=ends[0], dst=ends[1]), *(part.copy() for part in chain), Raw(tcp))
    inner.lastlayer().underlayer.nh = 6
    return as_packet(Ether(src=MAC, dst=MAC) / inner, packet.time_ns)


def around(header: ScapyPacket, packet: Packet, link_type: int = 1) -> Packet:
    return as_packet(header / Raw(packet.data[14:]), packet.time_ns, link_type)


ETHER = Ether(src=MAC, dst=MAC)
WRAPPED: dict[str, Callable[[Packet], Packet]] = {
    "VLAN": lambda packet: around(ETHER / Dot1Q(type=0x0800), packet),
    "QinQ": lambda packet: around(ETHER / Dot1AD(type=0x8100) / Dot1Q(type=0x0800), packet),
    "eight tags": lambda packet: around(stacked(ETHER, *[Dot1Q() for _ in range(7)], Dot1Q(type=0x0800)), packet),
    "VXLAN": lambda packet: as_packet(
        ETHER / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(dport=4789) / VXLAN(flags=8) / Raw(packet.data), packet.time_ns),
    "SLL": lambda packet: around(Raw(bytes(14) + b"\x08\0"), packet, 113),
    "SLL2": lambda packet: around(Raw(b"\x08\0" + bytes(18)), packet, 276),
    "NULL": lambda packet: around(Raw(b"\2\0\0\0"), packet, 0),
    "LOOP": lambda packet: around(Raw(b"\0\0\0\2"), packet, 108),
    "IPv6 with eight extension headers": lambda packet: over_ipv6(packet, CHAIN),
}  # fmt: skip


@pytest.mark.parametrize("what", WRAPPED)
def test_29_link_layers(what: str) -> None:
    packets = [WRAPPED[what](packet) for packet in talk(range(1, 9)).packets]
    assert exchanges(packets) == WHOLE


@pytest.mark.slow
def test_29_cut_within_any_header() -> None:
    for what, wrap in WRAPPED.items():
        for size in (0, 1, 13, 15, 30, 50, 60):
            packets = [cut(wrap(packet), size) for packet in talk(range(1, 9)).packets]
            assert all(not whole for _, whole in exchanges(packets)), (what, size)


def test_29_a_chain_of_nine_extension_headers_is_refused() -> None:
    packets = [over_ipv6(packet, [*CHAIN, IPv6ExtHdrDestOpt()]) for packet in talk(range(1, 9)).packets]
    assert decode(packets) == []


def test_29_fragments() -> None:
    parts = []
    for number, packet in enumerate(talk(range(1, 9)).packets):
        data = packet.data[34:]
        for at in range(0, len(data), 16):
            header = IP(packet.data[14:34])
            header.id, header.frag, header.len = number, at // 8, 20 + len(data[at : at + 16])
            header.flags = "MF" if at + 16 < len(data) else 0
            parts.append(as_packet(header / Raw(data[at : at + 16]), packet.time_ns, 101))
    assert len(parts) > 50
    assert exchanges(parts) == exchanges(parts[::-1]) == WHOLE
