"""A link between two socket pairs, and an owner that writes down what it is asked and told."""

import asyncio
import functools
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from struct import pack
from typing import Any, ParamSpec

import uvloop

from kproxy.filters.chain import Chain
from kproxy.filters.contract import AddressMap, ConnectionFacts, Direction, Want
from kproxy.proxy.filter_dispatch import FilterDispatch
from kproxy.proxy.forwarding.lane import Worker
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.forwarding.sockets import close_sockets, pump
from kproxy.proxy.tap.counted import GAUGES, CloseCause, Total
from kproxy.proxy.tap.counters import Counters

Given = ParamSpec("Given")
_benches: list["Bench"] = []


@dataclass
class Limits:
    frame_size: int = 104_857_600
    unauthenticated_frame_size: int = 524_288
    held_frame_size: int = 16_777_216
    in_flight: int = 10_000


@dataclass(eq=False)
class Owner:
    """What a virtual cluster is to its links; judges with the functions it is given."""

    judge_request: Callable[[Link, bytes], bool] | None = None
    judge_response: Callable[[Link, tuple[Any, ...], bytes], bool] | None = None
    judge_tail: Callable[[bytes], bytes] | None = None
    judge_head: Callable[[bytes], bytes | None] | None = None
    strict: bool = False
    instead_of_large: bytes | None = None
    told: list[tuple[Any, ...]] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    cause: CloseCause | None = None

    def on_request(self, link: Link, frame: bytes) -> bool:
        if self.judge_request is None:
            link.forward_request(frame)
            return True
        return self.judge_request(link, frame)

    def on_response(self, link: Link, current: tuple[Any, ...], frame: bytes) -> bool:
        if self.judge_response is None:
            link.forward_response(frame)
            return True
        return self.judge_response(link, current, frame)

    def on_head(self, link: Link, current: tuple[Any, ...], head: bytes) -> bytes | None:
        self.told.append(("head", head))
        return head if self.judge_head is None else self.judge_head(head)

    def on_tail(self, link: Link, current: tuple[Any, ...], tail: bytes) -> bytes:
        self.told.append(("tail", tail))
        return tail if self.judge_tail is None else self.judge_tail(tail)

    def on_beginning(self, link: Link, side: int, api_key: int, api_version: int, beginning: bytes) -> Want:
        return Want.HOLD

    def on_too_large_to_hold(self, link: Link, side: int, api_key: int, api_version: int, size: int) -> Want:
        self.told.append(("oversized", side, api_key, size))
        return Want.REFUSE if self.strict else Want.PASS

    def on_large_refused(self, link: Link, request: tuple[Any, ...]) -> None:
        self.told.append(("large refused", request[:3]))
        if self.instead_of_large is not None:
            link.forward_response(self.instead_of_large)

    def on_mispaired(self, link: Link) -> bool:
        self.told.append(("mispaired",))
        return not self.strict

    def on_refused(self, link: Link, side: int, cause: int, start: bytes) -> int:
        self.told.append(("refused", side, CloseCause(cause), start))
        return cause

    def on_handshake(self, link: Link, frame: bytes) -> bool:
        return frame[6:8] == b"\0\0"

    def is_token(self, link: Link, frame: bytes) -> bool:
        return frame[4:6] != b"\0\x03"

    def on_fault(self, link: Link | None, error: Exception) -> None:
        self.told.append(("fault", repr(error)))

    def describe(self, link: Link, from_start: bool) -> bytes:
        return b'{"from_start": %s}' % (b"true" if from_start else b"false")

    def on_out_of_memory(self, link: Link, size: int) -> None:
        self.told.append(("out of memory", link.number, size))

    def on_closed(self, link: Link, cause: int) -> None:
        self.cause = CloseCause(cause)
        close_sockets(link)
        self.closed.set()


class Wanting:
    """A chain that holds one API, in one direction or in both."""

    def __init__(self, api_key: int, direction: Direction | None = None) -> None:
        self._api_key, self._direction = api_key, direction

    def wanted(self, direction: Direction, api_key: int, api_version: int) -> Want:
        return Want.HOLD if api_key == self._api_key and self._direction in (direction, None) else Want.PASS

    def wanted_unkept(self, api_key: int, api_version: int) -> Want:
        return self.wanted(Direction.RESPONSE, api_key, api_version)

    def unknown(self, direction: Direction, api_key: int) -> Want:
        return Want.PASS

    def looks_at_topics(self, direction: Direction, api_key: int, api_version: int) -> bool:
        return False


class Judge(FilterDispatch, Owner):
    """An owner that asks a real chain of filters; *addresses* is the BrokerTable of its connections, if they have one."""

    def __init__(self, chain: Chain, addresses: AddressMap | None = None) -> None:
        Owner.__init__(self)
        facts = ConnectionFacts(1, "c", "127.0.0.1:5", "127.0.0.1:19092", "127.0.0.1:9092", addresses)
        FilterDispatch.__init__(self, chain, lambda link: facts)


class Bench:
    """A link on a running uvloop; ``client`` and ``broker`` are the far ends, blocking-free sockets of the test."""

    def __init__(
        self, owner: Owner | None = None, chain: Any = None, limits: Limits | None = None, tap: Any = None, **plan: Any
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.owner = owner or Owner()
        self.counters = Counters.create()
        self.counters.add(Total.CONNECTIONS_OPEN)  # as an acceptor does
        self.worker = Worker(self.counters, tap, self.loop)
        self.link = Link(self.worker, self.owner, Plan(chain, **plan), 1, limits or Limits())
        self.client, ours = self.pair()
        self.broker, theirs = self.pair()
        for end in (self.client, self.broker, ours, theirs):
            end.setblocking(False)
        pump(self.link, ours.detach(), theirs.detach())

        _benches.append(self)

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        return socket.socketpair()

    def close(self) -> None:
        """Leave nothing open."""
        self.link.close(CloseCause.DRAIN)
        self.link.forget()
        self.client.close()
        self.broker.close()
        left = {gauge: self.counters.total_of(gauge) for gauge in GAUGES if gauge is not Total.LOOP_LAG_MAX_NS}
        assert not any(left.values()), f"a closed connection leaves {left}"

    async def settled(self) -> None:
        """Until the loop has done what it can with what was sent: nothing more moves for fifty turns."""
        before: object = None
        still = 0
        while still < 50:
            now = self.link.bytes_received, self.link.in_flight_count, self.worker.buffered_bytes, self.link.closed
            still = still + 1 if now == before else 0
            before = now
            await asyncio.sleep(0)

    async def send(self, end: socket.socket, data: bytes) -> None:
        await self.loop.sock_sendall(end, data)

    async def receive(self, end: socket.socket, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            piece = await self.loop.sock_recv(end, min(size - len(got), 1 << 20))
            if not piece:
                break
            got += piece
        return bytes(got)

    async def rest(self, end: socket.socket) -> bytes:
        return await self.receive(end, 1 << 40)


def run(work: Callable[[], Awaitable[None]], seconds: float = 60.0) -> None:
    """Run a test on uvloop; what hangs fails."""

    async def limited() -> None:
        try:
            async with asyncio.timeout(seconds):
                await work()
        finally:
            while _benches:
                _benches.pop().close()

    uvloop.run(limited())


def on_loop(test: Callable[Given, Awaitable[None]]) -> Callable[Given, None]:
    """Make a test of a coroutine function; see ``run``."""

    @functools.wraps(test)
    def run_test(*args: Given.args, **kwargs: Given.kwargs) -> None:
        run(lambda: test(*args, **kwargs))

    return run_test


def take(seconds: float) -> None:
    """Hold the loop up, as a slow filter does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class Turns:
    """Counts the turns of the loop, until it is stopped."""

    def __init__(self) -> None:
        self.count = 0
        self._counting = asyncio.ensure_future(self._go_on())

    async def _go_on(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    def stop(self) -> None:
        self._counting.cancel()


def request(api_key: int, api_version: int, correlation_id: int, body: bytes = b"", client_id: bytes = b"t") -> bytes:
    header = pack(">hhih", api_key, api_version, correlation_id, len(client_id)) + client_id
    return pack(">i", len(header) + len(body)) + header + body


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return pack(">ii", len(body) + 4, correlation_id) + body


def links_beside(bench: Bench, count: int) -> list[tuple[Link, socket.socket, socket.socket]]:
    """More links of the same worker, with their clients and brokers."""
    made = []
    for number in range(2, count + 2):
        link = Link(bench.worker, bench.owner, bench.link.plan, number, Limits())
        (client, ours), (broker, theirs) = bench.pair(), bench.pair()
        for end in (client, ours, broker, theirs):
            end.setblocking(False)
        pump(link, ours.detach(), theirs.detach())
        bench.counters.add(Total.CONNECTIONS_OPEN)
        made.append((link, client, broker))
    return made


def close_all(links: list[tuple[Link, socket.socket, socket.socket]]) -> None:
    for link, client, broker in links:
        link.close(CloseCause.DRAIN)
        link.forget()
        client.close()
        broker.close()
