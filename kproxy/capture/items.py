"""The items that reassembly delivers, except Data, which is compiled (kproxy.capture.reassembly)."""

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from kproxy.protocol import Direction

if TYPE_CHECKING:
    from kproxy.capture.reassembly import Flow


class CloseReason(StrEnum):
    """Why a flow is closed."""

    FINISHED = "finished"  # FIN both ways
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
    """Base of the items of one direction; *side* is the endpoint that sends (0 or 1, in no particular order)."""

    side: int

    @property
    def direction(self) -> Direction:
        """As the flow's roles are now (see Flow.swap)."""
        return self.flow.direction(self.side)


class Gap(HalfItem):
    """*size* bytes are not in the capture (None: an unknown number); *cut*: their packet is, but was not recorded to its end."""

    size: int | None
    cut: bool = False


class Ended(HalfItem):
    """The last item of a direction: FIN, or *reset* by either side; Flow.closed_by tells which side was first."""

    reset: bool


class Differs(HalfItem):
    """Bytes came twice and differ, *size* of them, the first at *position* in the stream; those that came first count."""

    position: int
    size: int
