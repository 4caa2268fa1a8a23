"""Real captures as they might have come: shuffled, cut, torn, in other link layers; and what kproxy says of them."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace
from scapy.layers.inet import IP

from kproxy.capture import Data, FlowItem, Flows, Limits, Packet, open_capture
from kproxy.capture.items import TcpSegment
from kproxy.capture.links import read_datagram, read_segment
from kproxy.capture.unwrap import Unwrapper
from kproxy.output.jsonl import event_line
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.session import Event, Exchange
from tests.support.corpus import CAPTURES

Stream = tuple[bytes, int]  # a flow's key, and the side that sends


def load(name: str) -> list[Packet]:
    """The packets of the capture whose name begins with *name*."""
    (path,) = CAPTURES.glob(f"{name}*.pcap*")
    with open_capture(path) as capture:
        return list(capture)


def decode(packets: Iterable[Packet], limits: Limits | None = None) -> list[Event]:
    """The events of packets, as ``kproxy decode`` makes them."""
    flows = Flows(limits, Unwrapper(limits))

    def items() -> Iterator[FlowItem | Data]:
        for packet in packets:
            yield from flows.receive_packet(packet)
        yield from flows.close()

    return list(FlowEvents(items()))


TIMES = {"requestAt": None, "responseAt": None, "latencyMs": None}


def lines(events: Iterable[Event], *, times: bool = True) -> Counter[str]:
    """The exchanges as JSON lines, but for the number of the connection, which depends on who comes first."""
    left_out = {"connection": None} | ({} if times else TIMES)
    return Counter(
        json.dumps(json.loads(event_line(event, None)) | left_out) for event in events if isinstance(event, Exchange)
    )


def segment(packet: Packet) -> TcpSegment:
    found = read_segment(packet.link_type, packet.data, packet.original_size)
    assert isinstance(found, TcpSegment)
    return found


def resegmented(packets: Iterable[Packet], size: int, rng: random.Random, overlap: int = 0) -> list[Packet]:
    """The same streams in segments of at most *size* new bytes, each repeating up to *overlap* bytes before it."""
    return [part for packet in packets for part in _split(packet, size, rng, overlap)]


def _split(packet: Packet, size: int, rng: random.Random, overlap: int) -> Iterator[Packet]:
    found, datagram = segment(packet), read_datagram(packet.link_type, packet.data, packet.original_size)
    assert datagram is not None
    assert datagram.version == 4
    tcp, payload = datagram.payload, found.payload
    head = packet.data[: len(packet.data) - len(payload)]
    if len(payload) <= size:
        yield packet
        return
    for at in range(0, len(payload), size):
        begin, end = max(0, at - rng.randint(0, overlap)), min(at + size, len(payload))
        data = bytearray(head + payload[begin:end])
        data[tcp + 4 : tcp + 8] = ((found.sequence + begin) % 2**32).to_bytes(4, "big")
        data[tcp + 13] &= 0xFF if end == len(payload) else 0xFE  # FIN comes last
        data[datagram.start + 2 : datagram.start + 4] = (len(data) - datagram.start).to_bytes(2, "big")
        yield replace(packet, data=bytes(data), original_size=len(data))


def ip_of(packet: Packet) -> bytes:
    """The IP datagram in a packet."""
    datagram = read_datagram(packet.link_type, packet.data, packet.original_size)
    assert datagram is not None
    return packet.data[datagram.start : datagram.end]


def relinked(packets: Iterable[Packet], link_type: int, header: bytes) -> list[Packet]:
    """The packets with another link layer."""
    return [
        replace(
            packet, link_type=link_type, data=header + ip_of(packet), original_size=len(header) + len(ip_of(packet))
        )
        for packet in packets
    ]


def frames(packets: Sequence[Packet]) -> tuple[dict[Stream, int], dict[Stream, list[range]]]:
    """By plain means: where each stream with a SYN begins, and the places of its Kafka frames, sizes included."""
    starts, streams = _sent(packets)
    return starts, {stream: list(_frames(data)) for stream, data in streams.items()}


def beginnings(packets: Sequence[Packet], snaplen: int) -> Iterator[tuple[str, str, bytes, int]]:
    """By plain means: sender, receiver and bytes of each frame of streams with a SYN, and how many bytes from its first on lie in
    the first *snaplen* bytes of a packet."""
    starts, streams = _sent(packets)
    here = {stream: bytearray(len(data)) for stream, data in streams.items()}
    ends = {}
    for packet in packets:
        found = segment(replace(packet, data=packet.data[:snaplen]))
        stream = found.key, found.side
        ip = IP(ip_of(packet))
        ends[stream] = f"{ip.src}:{ip.sport}", f"{ip.dst}:{ip.dport}"
        if stream in starts and found.payload:
            at = (found.sequence - starts[stream]) % 2**32
            here[stream][at : at + len(found.payload)] = b"\1" * len(found.payload)
    for stream, data in streams.items():
        for place in _frames(data):
            frame = bytes(data[place.start : place.stop])
            seen = here[stream][place.start : place.stop].find(0)
            yield *ends[stream], frame, len(frame) if seen < 0 else seen


def times(packets: Sequence[Packet]) -> dict[tuple[str, str], list[tuple[bytes, int, int]]]:
    """By plain means: the frames from each sender to each receiver, of streams with a SYN.

    Each with the time of its first byte and the latest time of any; the time of a byte in several packets is that of the first.
    """
    starts, streams = _sent(packets)
    came: dict[Stream, list[int]] = {stream: [0] * len(data) for stream, data in streams.items()}
    ends = {}
    for packet in packets:
        found, ip = segment(packet), IP(ip_of(packet))
        stream = found.key, found.side
        ends[stream] = f"{ip.src}:{ip.sport}", f"{ip.dst}:{ip.dport}"
        if stream in starts:
            at = (found.sequence - starts[stream]) % 2**32
            for position in range(at, at + len(found.payload)):
                came[stream][position] = came[stream][position] or packet.time_ns
    return {
        ends[stream]: [
            (
                bytes(data[place.start : place.stop]),
                came[stream][place.start],
                max(came[stream][place.start : place.stop]),
            )
            for place in _frames(data)
            if place.stop <= len(data)
        ]
        for stream, data in streams.items()
    }


def _sent(packets: Sequence[Packet]) -> tuple[dict[Stream, int], dict[Stream, bytearray]]:
    """Where each stream with a SYN begins, and its bytes."""
    starts = {(s.key, s.side): s.sequence + 1 for s in map(segment, packets) if s.flags & 2}
    streams: dict[Stream, bytearray] = {stream: bytearray() for stream in starts}
    known = [found for found in map(segment, packets) if (found.key, found.side) in starts]
    for found in sorted(known, key=lambda s: (s.sequence - starts[s.key, s.side]) % 2**32):
        at = (found.sequence - starts[found.key, found.side]) % 2**32
        if found.payload:
            streams[found.key, found.side][at : at + len(found.payload)] = found.payload
    return starts, streams


def _frames(data: bytearray) -> Iterator[range]:
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        yield range(at, end)
        at = end
