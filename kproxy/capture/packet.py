"""One packet as objects: Packet, and what kproxy.capture.links reads in its headers."""

from typing import NamedTuple

from msgspec import Struct


class Packet(Struct):
    """One captured packet; it owns its bytes. kproxy.capture.scanners.PacketBatch holds many without such objects."""

    time_ns: int
    link_type: int
    data: bytes
    original_size: int
    comment: str | None = None


class Datagram(NamedTuple):
    """The layers of a packet up to its IP header, or to what it carries instead of IP; positions are in the packet."""

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
