"""One packet as an object: Packet, and Datagram and TcpSegment, which kproxy.capture.links reads from its headers."""

from typing import NamedTuple

from msgspec import Struct


class Packet(Struct):
    """One captured packet, which owns its bytes. PacketBatch holds many packets without such objects."""

    time_ns: int
    link_type: int
    data: bytes
    original_size: int
    comment: str | None = None


class Datagram(NamedTuple):
    """The layers of a packet up to its IP header, or up to another network protocol; positions are in the packet."""

    version: int
    ethertype: int
    start: int
    payload: int
    end: int
    protocol: int


class TcpSegment(NamedTuple):
    """The TCP segment of a packet."""

    key: bytes
    side: int
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes
    missing: int
