import asyncio

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
        tap: where what passes is copied to; None: nowhere.
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
        """Bytes in buffers of lanes now."""

class Pipe:
    """What reads the source of a lane and writes its sink."""

class Joint:
    """What a lane knows of its link."""

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
        """Frames of the client may be raw SASL tokens."""

    @property
    def authenticating(self) -> bool:
        """Between SaslHandshake and the broker's word."""

    @property
    def closed(self) -> bool: ...
    @property
    def draining(self) -> bool: ...
    @property
    def received_request(self) -> bool:
        """Whether the header of a request has been received."""

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
