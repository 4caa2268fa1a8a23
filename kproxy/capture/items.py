"""What reassembly says of flows, besides their bytes (Data, which is in kproxy.capture.reassembly for speed)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kproxy.protocol import Direction

if TYPE_CHECKING:
    from kproxy.capture.reassembly import Flow


class CloseReason(StrEnum):
    """Why nothing more comes of a flow."""

    FINISHED = "finished"  # FIN both ways
    RESET = "reset"
    REUSED = "reused"  # a new connection between the same endpoints began
    EVICTED = "evicted"  # too many flows: the one that was quiet the longest went
    CAPTURE_END = "end of capture"


@dataclass(slots=True)
class FlowItem:
    """Anything said of a flow."""

    flow: "Flow"
    time_ns: int


@dataclass(slots=True)
class Opened(FlowItem):
    """The first item of every flow."""


@dataclass(slots=True)
class Closed(FlowItem):
    """The last item of every flow."""

    reason: CloseReason


@dataclass(slots=True)
class HalfItem(FlowItem):
    """Anything said of one direction of a flow; *side* is the endpoint that sends (0 or 1, in no particular order)."""

    side: int

    @property
    def direction(self) -> Direction:
        """As the flow's roles are now (see Flow.swap)."""
        return self.flow.direction(self.side)


@dataclass(slots=True)
class Gap(HalfItem):
    """*size* bytes are not in the capture (None: nobody knows how many)."""

    size: int | None


@dataclass(slots=True)
class Ended(HalfItem):
    """Nothing more comes this way: FIN, or *reset* by either side."""

    reset: bool


@dataclass(slots=True)
class Differs(HalfItem):
    """Bytes were sent twice and not alike, *size* of them from *position* in the stream; what came first counts."""

    position: int
    size: int
