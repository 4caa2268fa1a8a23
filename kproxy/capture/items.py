"""The data types of this package: packets, items of flows and of TLS connections, Limits. Data is in reassembly.pyx."""

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from kproxy.protocol import Direction

if TYPE_CHECKING:
    from kproxy.capture.reassembly import Flow

MANY_EARLY = 10  # acknowledgements: fewer of them say nothing about clocks


class CloseReason(StrEnum):
    """Why a flow is closed."""

    FINISHED = "finished"  # FIN in both directions
    RESET = "reset"
    REUSED = "reused"  # a new connection between the same endpoints began
    EVICTED = "evicted"  # too many flows: this one had no packet for the longest time
    CAPTURE_END = "end of capture"


class FlowItem(Struct):
    """Base of the items of a flow."""

    flow: "Flow"
    time_ns: int


class Opened(FlowItem):
    """The first item of every flow."""


class Closed(FlowItem):
    """The last item of every flow."""

    reason: CloseReason


class HalfItem(FlowItem):
    """Base of the items of one direction; *side* is the sending endpoint (0 or 1, in no particular order)."""

    side: int

    @property
    def direction(self) -> Direction:
        """The direction, by the flow's current roles (see Flow.swap)."""
        return self.flow.direction(self.side)


class Gap(HalfItem):
    """*size* bytes are not in the capture (None: an unknown number). *cut*: a snaplen cut them off a captured packet."""

    size: int | None
    cut: bool = False


class Ended(HalfItem):
    """The last item of a direction: FIN, or *reset* by either side; Flow.closed_by has the side that was first."""

    reset: bool


class Differs(HalfItem):
    """*size* retransmitted bytes differ from the first ones, which count; the first difference is at *position*."""

    position: int
    size: int


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


class TlsItem(Struct):
    """Base of the items of one direction; *at* in ns."""

    direction: Direction
    at: int


class Plain(TlsItem):
    """Decrypted application data."""

    data: bytes


class Lost(TlsItem):
    """An unknown amount of application data is missing here."""


class TlsProblem(TlsItem):
    """A description of unreadable data, without secrets."""

    what: str


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


class Doubts(NamedTuple):
    """What shows that a capture is not of one network with one clock; that of its parts adds up."""

    mixed: int = 0  # flows with two different streams of bytes: two connections had the same endpoints at the same time
    early: int = 0  # acknowledgements of bytes that were captured much later, one at a time of each half of a flow
    never: int = 0  # such acknowledgements of bytes that are not in the capture
    earliest_ns: int = 0  # how much later, at most

    def plus(self, other: "Doubts") -> "Doubts":
        """Return both together."""
        return Doubts(
            self.mixed + other.mixed,
            self.early + other.early,
            self.never + other.never,
            max(self.earliest_ns, other.earliest_ns),
        )

    @property
    def clocks_differ_by(self) -> int:
        """How many ns, at least, clocks of hosts differ by; 0 if bytes were captured before their acknowledgements.

        Where packets were lost, more of the acknowledged bytes are never captured than are captured late.
        """
        return self.earliest_ns if self.early >= max(MANY_EARLY, self.never) else 0
