"""Limits: bounds on the memory that reading a capture takes, whatever it contains."""

from msgspec import Struct


class Limits(Struct, frozen=True):
    """All bounds of reassembly.

    A segment ahead of its turn is held until the bytes before it arrive. The wait ends when more than *held_per_flow* bytes of
    its flow or *held_in_all* bytes of all flows are held, after *patience* more packets of its flow, or at the end of the flow.
    An acknowledgment does not end it: in a merged or shuffled capture, acknowledgments may precede what they acknowledge.

    The segments of a flow without SYN (the capture starts later) are held until *start_packets* packets of it came in order,
    so that a first packet out of order does not lose those before it; after disorder, until *patience*.
    """

    flows: int = 32_768
    held_per_flow: int = 8 << 20
    held_in_all: int = 256 << 20
    patience: int = 16_384
    start_packets: int = 16
    recent_per_chunk: int = 64 << 10  # chunks up to this size are kept for comparison with retransmissions
    recent_in_all: int = 32 << 20
    fragments_in_all: int = 16 << 20  # bytes of memory for IP fragments
    fragments_patience: int = 16_384  # other fragments between the first and the last one of a datagram
    fragments_seconds: int = 60  # of capture time (RFC 8200 section 4.5)
