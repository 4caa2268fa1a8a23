from typing import NamedTuple

OUTCOME_NAMES: tuple[str, ...]

class TcpSegment(NamedTuple):
    """What ``read_segment`` finds in a packet."""

    key: bytes
    side: int
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes
    missing: int

def read_segment(link_type: int, data: bytes, original_size: int | None = None) -> TcpSegment | str: ...

class Datagram(NamedTuple):
    """Where the IP datagram of a packet lies, or what is there instead of one; positions are in the packet."""

    version: int
    ethertype: int
    start: int
    payload: int
    end: int
    protocol: int

def read_datagram(link_type: int, data: bytes, original_size: int) -> Datagram | None: ...
