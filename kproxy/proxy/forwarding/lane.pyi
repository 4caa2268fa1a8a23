import asyncio
from enum import IntEnum
from typing import final

from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.owner import LinkOwner
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.tap.counters import Counters, SharedLimits
from kproxy.proxy.tap.ring import TapWriter
from kproxy.session.sasl import SaslPhase

class Worker:
    clock_offset: int  # ns from the monotonic clock to the epoch
    tap_paused: bool
    memory_budget: int  # bytes; 0: no limit
    connection_limit: int  # of all workers together
    checks_each_client: bool  # connections are limited per address or per second: ask the owner about each client
    last_link_number: int
    links: set[Link]
    closed_links: list[Link]  # not forgotten yet: see Link.forget

    def __init__(
        self,
        counters: Counters,
        tap: TapWriter | None,
        loop: asyncio.AbstractEventLoop,
        memory_budget: int = 0,
        limits: SharedLimits | None = None,
    ) -> None: ...
    @property
    def limits(self) -> SharedLimits | None: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def tap(self) -> TapWriter | None: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def tap_is_read(self) -> bool: ...
    @property
    def tap_faults(self) -> int: ...
    @property
    def buffered_bytes(self) -> int: ...
    def relieve(self) -> None: ...
    def look_after_starved(self, now: int) -> None: ...

class LaneState(IntEnum):
    """The states of a lane."""

    BETWEEN_FRAMES = ...
    CUT_THROUGH = ...
    HOLD_FRAME = ...
    HOLD_TAIL = ...
    OPAQUE = ...
    HOLD_HEAD = ...

TRANSITIONS: dict[LaneState, set[LaneState]]

class Pipe: ...

class LinkBase:
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

    def close(self, cause: int) -> None: ...

class Lane:
    @property
    def lane_state(self) -> LaneState: ...
    @property
    def transitions_taken(self) -> set[tuple[LaneState, LaneState]]: ...
    @property
    def eof(self) -> bool:
        """The source has ended or is lost."""

    @property
    def ended(self) -> bool:
        """All bytes of the source have been sent, and its end."""

    @property
    def discarding(self) -> bool:
        """The sink is lost: what would be sent to it is dropped."""

    def stalled_since(self) -> int: ...

@final
class RequestLane(Lane): ...

@final
class ResponseLane(Lane): ...
