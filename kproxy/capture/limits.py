"""Limits: how much memory reading a capture may take, whatever the capture holds."""

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Every bound of reassembly.

    A segment ahead of its turn is held until the bytes before it come. The wait ends when more than *held_per_flow*
    bytes of its flow or *held_in_all* of all flows are held, when *patience* more packets of its flow have come, or
    when the flow ends. An acknowledgment does not end it sooner: in a merged or shuffled capture acknowledgments
    come before what they acknowledge.

    The segments of a flow without SYN (the capture starts later) are held until *start_packets* packets of it came in
    order, so that a first packet out of order does not lose the ones before it; with disorder, until *patience*.
    """

    flows: int = 32_768
    held_per_flow: int = 8 << 20
    held_in_all: int = 256 << 20
    patience: int = 16_384
    start_packets: int = 16
    recent_per_chunk: int = 64 << 10  # chunks up to this size are remembered, to be compared with retransmissions
    recent_in_all: int = 32 << 20
    fragments_in_all: int = 16 << 20  # bytes of IP fragments, with what it takes to hold them
    fragments_patience: int = 16_384  # fragments that may come between the first and the last of a datagram
    fragments_seconds: int = 60  # of the capture's time (RFC 8200 section 4.5)
