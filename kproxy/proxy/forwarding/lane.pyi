import asyncio
from enum import IntEnum

from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.owner import LinkOwner
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.ring import TapWriter
from kproxy.session.sasl import SaslPhase

class Worker:
    """What all links of a process share.

    Args:
        counters: where this worker counts.
        tap: the ring that traffic is copied to; None: none.
        loop: uvloop's.
        memory_budget: bytes the buffers of all lanes should stay below; 0: no limit. Soft: see the package docstring.
    """

    clock_offset: int  # ns from the monotonic clock to the epoch
    tap_paused: bool
    memory_budget: int  # bytes; 0: no limit
    connection_limit: int
    checks_each_client: bool  # connections are limited per address or per second: ask the owner about each client
    last_link_number: int
    links: set[Link]
    closed_links: list[Link]  # not forgotten yet: see Link.forget

    def __init__(
        self, counters: Counters, tap: TapWriter | None, loop: asyncio.AbstractEventLoop, memory_budget: int = 0
    ) -> None: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def tap(self) -> TapWriter | None: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def buffered_bytes(self) -> int:
        """Bytes in the buffers of all lanes and pipes now."""

class LaneState(IntEnum):
    """The states of a lane."""

    BETWEEN_FRAMES = ...
    CUT_THROUGH = ...
    HOLD_FRAME = ...
    HOLD_TAIL = ...
    OPAQUE = ...

TRANSITIONS: dict[LaneState, set[LaneState]]

class Pipe:
    """Reads the source of a lane and writes its sink. Abstract: SocketPipe and TransportPipe override each method."""

class LinkBase:
    """The part of a link that lanes use: what is in flight, authentication, limits. Link (link.pyx) overrides each method."""

    sasl: SaslPhase | None
    sampled: bool  # the tap gets this connection

    @property
    def worker(self) -> Worker: ...
    @property
    def owner(self) -> LinkOwner: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def tokens(self) -> bool:
        """The client's next frame may be a raw SASL token."""

    @property
    def authenticating(self) -> bool:
        """Between SaslHandshake and the end of authentication: requests must be small."""

    @property
    def closed(self) -> bool: ...
    @property
    def draining(self) -> bool: ...
    @property
    def received_request(self) -> bool:
        """Whether the header of a request has been received."""

    @property
    def last_at(self) -> int:
        """When bytes were last received, or taken by a slow sink (ns, monotonic)."""

    def close(self, cause: int) -> None:
        """Close both sides now; *cause* is a CloseCause."""

class Lane:
    """One direction of a link; the machine is described at the top of lane.pyx. Abstract: RequestLane, ResponseLane."""

    @property
    def lane_state(self) -> LaneState: ...
    @property
    def transitions_taken(self) -> set[tuple[LaneState, LaneState]]:
        """Transitions of this lane so far, as pairs of LaneState."""

    @property
    def eof(self) -> bool:
        """The source has ended or is lost."""

    @property
    def ended(self) -> bool:
        """All bytes of the source have been sent, and its end."""

    @property
    def discarding(self) -> bool:
        """The sink is lost: what would be sent to it is dropped."""

    def stalled_since(self) -> int:
        """When the last byte of an incomplete frame was received (ns, monotonic); 0: between frames, blocked or opaque."""

class RequestLane(Lane):
    """From client to broker: frames by their header, raw SASL tokens, what is in flight from now on, acks=0."""

class ResponseLane(Lane):
    """From broker to client: which request each response answers, and from where on addresses may be in it."""
