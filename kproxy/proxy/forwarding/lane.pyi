import asyncio
from typing import Any

from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.ring import TapWriter

class Worker:
    """What all links of a process share.

    Args:
        counters: where this worker counts.
        tap: where what passes is copied to; None: nowhere.
        loop: uvloop's.
        memory: bytes that the buffers of all lanes may take; 0: no limit.
    """

    clock_offset: int  # ns from the monotonic clock to the epoch
    tap_paused: bool
    memory: int
    most_connections: int
    choosy: bool  # whether more than that number decides who may come in
    last_number: int
    links: set[Link]
    gone: list[Link]  # closed, and not forgotten yet

    def __init__(
        self, counters: Counters, tap: TapWriter | None, loop: asyncio.AbstractEventLoop, memory: int = 0
    ) -> None: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def tap(self) -> TapWriter | None: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def buffered_bytes(self) -> int:
        """Bytes in buffers of lanes now."""

class Pipe:
    """What reads the source of a lane and writes its sink."""

class Joint:
    """What a lane knows of its link."""

    sasl: Any  # SaslPhase, when there is one
    tapped: bool  # chosen by sampling

    @property
    def worker(self) -> Worker: ...
    @property
    def owner(self) -> Any:
        """The virtual cluster."""

    @property
    def plan(self) -> Plan: ...
    @property
    def tokens(self) -> bool:
        """Frames of the client may be raw SASL tokens."""

    @property
    def authenticating(self) -> bool:
        """Between SaslHandshake and the broker's word."""

    @property
    def closed(self) -> bool: ...
    @property
    def draining(self) -> bool: ...
    @property
    def requested(self) -> bool:
        """Whether a request's header has come."""

    @property
    def last_at(self) -> int:
        """When bytes last came or went, ns of the monotonic clock."""

    def close(self, cause: int) -> None:
        """Close both sides now; *cause* is a CloseCause."""

class Lane:
    """One direction of a link. What is decided of each byte is here."""

    @property
    def eof(self) -> bool:
        """Its source has said that it is done."""

    @property
    def ended(self) -> bool:
        """And so has what it writes to been told."""

    @property
    def discarding(self) -> bool:
        """What it would write to is gone."""

    def stalled_since(self) -> int:
        """When the last byte of a frame came that is not whole (ns, monotonic); 0: between frames, or not its own fault."""
