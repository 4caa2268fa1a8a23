"""The items that reassembly delivers; Data, the compiled one, is in reassembly.pyx."""

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from kproxy.protocol import Direction

if TYPE_CHECKING:
    from kproxy.capture.reassembly import Flow


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
