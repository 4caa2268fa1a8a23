"""TCP conversations built with scapy, and capture files built by hand, for the tests of kproxy.capture."""

import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet as ScapyPacket
from scapy.packet import Raw

from kproxy.capture import Data, Flow, FlowItem, Flows, Gap, Limits, Packet

CAPTURES = Path(__file__).parents[2] / "captures"
ETHERNET = 1
START_NS = 1_700_000_000_000_000_000
CLIENT, SERVER = ("10.0.0.5", 51234), ("10.0.0.9", 9092)


@dataclass
class Conversation:
    """Segments of one TCP connection, in order; ``packets`` has them as Ethernet frames."""

    client: tuple[str, int] = CLIENT
    server: tuple[str, int] = SERVER
    isn: list[int] = field(default_factory=lambda: [1000, 2_000_000])
    packets: list[Packet] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=lambda: [b"", b""])
    time_ns: int = START_NS
    next: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.next = list(self.isn)

    def handshake(self) -> "Conversation":
        return self.segment(0, flags="S").segment(1, flags="SA").segment(0, flags="A")

    def send(self, direction: int, data: bytes, size: int = 1448) -> "Conversation":
        for start in range(0, len(data), size):
            self.segment(direction, data[start : start + size], "PA")
        return self

    def finish(self) -> "Conversation":
        return self.segment(0, flags="FA").segment(1, flags="FA").segment(0, flags="A")

    def segment(self, direction: int, data: bytes = b"", flags: str = "A") -> "Conversation":
        self.packets.append(self.packet(direction, self.next[direction], data, flags))
        self.next[direction] += len(data) + ("S" in flags) + ("F" in flags)
        self.sent[direction] += data
        return self

    def packet(self, direction: int, sequence: int, data: bytes = b"", flags: str = "A") -> Packet:
        """A packet of the connection at the next moment, without noting that its bytes were sent."""
        ends = [self.client, self.server]
        source, target = ends[direction], ends[1 - direction]
        acknowledgment = self.next[1 - direction] % 2**32 if "A" in flags else 0
        tcp = TCP(sport=source[1], dport=target[1], seq=sequence % 2**32, ack=acknowledgment, flags=flags)
        network = (IPv6 if ":" in source[0] else IP)(src=source[0], dst=target[0])
        self.time_ns += 1_000_000
        return as_packet(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / network / tcp / data, self.time_ns)


def as_packet(packet: ScapyPacket, time_ns: int = START_NS, link_type: int = ETHERNET) -> Packet:
    data = bytes(packet)
    return Packet(time_ns, link_type, data, len(data))


def cut(packet: Packet, size: int) -> Packet:
    """The packet as a capture with that snaplen holds it."""
    return replace(packet, data=packet.data[:size])


def kafka_like(exchanges: int = 40) -> Conversation:
    """Requests and responses of all sizes, from SYN to FIN."""
    rng = random.Random(7)
    conversation = Conversation(isn=[2**32 - 5000, rng.randrange(2**32)]).handshake()
    for _ in range(exchanges):
        conversation.send(0, rng.randbytes(rng.choice([20, 300, 4000])))
        conversation.send(1, rng.randbytes(rng.choice([15, 800, 9000])))
    return conversation.finish()


def reassemble(packets: Iterable[Packet], limits: Limits | None = None) -> list[FlowItem | Data]:
    flows = Flows(limits)
    items = [item for packet in packets for item in flows.receive_packet(packet)]
    return items + flows.close()


def streams(items: Iterable[FlowItem | Data]) -> list[tuple[bytes, bytes]]:
    """What each flow delivered, client to server and server to client; a gap of known size shows as that many "?"."""
    found: dict[int, tuple[Flow, list[bytes]]] = {}
    for item in items:
        _, both = found.setdefault(item.flow.number, (item.flow, [b"", b""]))
        if isinstance(item, Data):
            both[item.direction] += item.data
        elif isinstance(item, Gap):
            both[item.direction] += b"?" * (item.size or 0)
    return [(both[0], both[1]) for _, both in found.values()]


def turns(items: Iterable[FlowItem | Data]) -> list[tuple[int, bytes]]:
    """The conversation of the one flow there is: (direction, all bytes until the other side speaks)."""
    found: list[tuple[int, bytes]] = []
    for item in items:
        if isinstance(item, Data):
            if found and found[-1][0] == item.direction:
                found[-1] = (item.direction, found[-1][1] + item.data)
            else:
                found.append((item.direction, item.data))
    return found


def pcap(packets: Sequence[Packet], *, link_type: int = ETHERNET, magic: int = 0xA1B2C3D4, order: str = "<") -> bytes:
    """A pcap file; *magic* says micro- or nanoseconds, *order* is struct's."""
    unit = 1 if magic == 0xA1B23C4D else 1000
    file = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link_type)
    for packet in packets:
        seconds, fraction = divmod(packet.time_ns, 10**9)
        file += struct.pack(order + "IIII", seconds, fraction // unit, len(packet.data), packet.original_size)
        file += packet.data
    return file


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """A pcapng option."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int = ETHERNET, snaplen: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(order + "HHI", link_type, 0, snaplen) + options, order)


def enhanced(data: bytes, units: int = 0, *, interface: int = 0, size: int | None = None, original: int | None = None,
             options: bytes = b"", order: str = "<") -> bytes:  # fmt: skip
    captured = len(data) if size is None else size
    full = captured if original is None else original
    header = struct.pack(order + "IIIII", interface, units >> 32, units & 0xFFFFFFFF, captured, full)
    return block(6, header + data + bytes(-len(data) % 4) + options, order)


__all__ = ["Raw"]
