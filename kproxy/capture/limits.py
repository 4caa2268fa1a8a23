"""How much memory a capture may take, whatever is in it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Every cap of the reassembly.

    A segment that came too early is held until what is before it comes. The wait ends when more than *held_per_flow*
    bytes of its flow or *held_in_all* of all flows are held, when *patience* more packets of its flow have come, or
    when the flow ends. Being acknowledged does not end it sooner: in a merged or shuffled capture acknowledgments
    come before what they acknowledge.

    A flow without SYN (the capture starts later) is held until *start_packets* packets of it came in good order, so
    that a first packet out of place does not cost the ones before it; with disorder, until *patience*.
    """

    flows: int = 32_768
    held_per_flow: int = 8 << 20
    held_in_all: int = 256 << 20
    patience: int = 4096
    start_packets: int = 16
    recent_per_chunk: int = 64 << 10  # chunks up to this size are remembered, to be compared with retransmissions
    recent_in_all: int = 32 << 20
    fragments_in_all: int = 16 << 20  # bytes of IP fragments, with what it takes to hold them
    fragments_patience: int = 16_384  # fragments that may come between the first and the last of a datagram
    fragments_seconds: int = 60  # of the capture's time (RFC 8200 section 4.5)
