"""Connect to brokers: resolve a name, try each address in turn, directly or through another proxy, in bounded time.

Resolver        resolves names and caches the answers; addresses that failed lately are tried last
Upstream        connects to the brokers of one cluster
"""

import asyncio
import errno
import os
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kproxy.config.structs import Cluster
from kproxy.errors import UpstreamError, UsageError
from kproxy.protocol.addresses import join_address, parse_ip, split_address, unmapped
from kproxy.proxy.network.proxy_protocol import V1_OWN, V2_OWN, write_v1, write_v2
from kproxy.proxy.network.socket_addresses import OWN, OwnConnections, SocketAddress, is_internal, numeric_address

if TYPE_CHECKING:
    from kproxy.proxy.network.outbound_proxy import OutboundProxy

Address = tuple[int, SocketAddress]  # family, and what socket.connect takes
Resolve = Callable[[str, int], Awaitable[list[Address]]]

CACHED_S = 30.0  # an answer; Java's default (networkaddress.cache.ttl) without a security manager
FAILURE_CACHED_S = 1.0  # so that a burst of clients is one query
FAILED_S = 10.0  # how long an address that did not answer is tried last
MOST_NAMES = 4_096  # names come from brokers' responses too
MOST_ADDRESSES = 16  # of one name


@dataclass(slots=True)
class _Answer:
    addresses: list[Address]
    until: float
    error: str = ""


async def resolve_by_system(host: str, port: int) -> list[Address]:
    """Resolve with getaddrinfo. Raises OSError, or ValueError for what cannot be a name."""
    loop = asyncio.get_running_loop()
    results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(int(family), address) for family, _, _, _, address in results if isinstance(address[0], str)]


def _now() -> float:
    return asyncio.get_running_loop().time()


class Resolver:
    """A caching resolver for one event loop. At most one query for a name is in flight, however many callers wait for it."""

    def __init__(self, resolve: Resolve = resolve_by_system, now: Callable[[], float] = _now) -> None:
        """*resolve* resolves a name; *now*: seconds of a clock that does not go back."""
        self._resolve = resolve
        self._now = now
        self._answers: dict[tuple[str, int], _Answer] = {}
        self._queries: dict[tuple[str, int], asyncio.Future[_Answer]] = {}
        self._failed: dict[Address, float] = {}

    def known(self, host: str, port: int) -> list[Address]:
        """Return the addresses that are known without waiting, best first; none if the name must be resolved."""
        if number := numeric_address(host, port):
            return [number]
        answer = self._answers.get((host, port))
        if answer is None or answer.until <= self._now():
            return []
        return self._best_first(answer.addresses)

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Resolve; return at least one address, best first: in the system's order (RFC 6724), those that failed lately last.

        If the name cannot be resolved now, an expired answer is used.

        Raises:
            UpstreamError: the name has no address.
        """
        if known := self.known(host, port):
            return known
        answer = self._answers.get((host, port))
        if answer is None or answer.until <= self._now():
            answer = await self._shared(host, port)
        if not answer.addresses:
            raise UpstreamError(f"{host}: {answer.error}")
        return self._best_first(answer.addresses)

    def failed(self, address: Address) -> None:
        """Note that a connect to the address failed: for FAILED_S it is tried last."""
        _drop_oldest(self._failed)
        self._failed[address] = self._now() + FAILED_S

    def reached(self, address: Address) -> None:
        """Note that a connect to the address succeeded."""
        self._failed.pop(address, None)

    def failed_lately(self, host: str, port: int) -> bool:
        """Whether every known address of the host failed lately."""
        now = self._now()
        known = self.known(host, port)
        return bool(known) and all(self._failed.get(address, 0.0) > now for address in known)

    def _best_first(self, addresses: list[Address]) -> list[Address]:
        if not self._failed or len(addresses) == 1:
            return addresses
        now = self._now()
        return sorted(addresses, key=lambda address: self._failed.get(address, 0.0) > now)

    async def _shared(self, host: str, port: int) -> _Answer:
        """Resolve a name, together with all others that wait for it now."""
        query = self._queries.get((host, port))
        if query is None:
            query = asyncio.ensure_future(self._ask(host, port))
            self._queries[host, port] = query
            query.add_done_callback(lambda _: self._queries.pop((host, port), None))
        # cancelling one waiter does not cancel the query for the others
        return await asyncio.shield(query)

    async def _ask(self, host: str, port: int) -> _Answer:
        try:
            addresses = list(dict.fromkeys(await self._resolve(host, port)))
        except (OSError, UnicodeError, ValueError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is no name of a host"
            if isinstance(error, socket.gaierror):
                why = error.strerror or "the name cannot be resolved"
            return self._cache(host, port, [], why)
        return self._cache(host, port, addresses[:MOST_ADDRESSES], "" if addresses else "the name has no address")

    def _cache(self, host: str, port: int, addresses: list[Address], error: str) -> _Answer:
        if not addresses and (old := self._answers.get((host, port))):
            addresses = old.addresses
        _drop_oldest(self._answers)
        answer = _Answer(addresses, self._now() + (FAILURE_CACHED_S if error else CACHED_S), error)
        self._answers[host, port] = answer
        return answer


def _drop_oldest(remembered: dict[Any, Any]) -> None:
    """Drop the oldest entries to make room for one more."""
    while len(remembered) >= MOST_NAMES:
        del remembered[next(iter(remembered))]


KEEPALIVE = {  # seconds, seconds, probes: a broker that is gone is noticed within two minutes
    socket.TCP_KEEPIDLE: 60,
    socket.TCP_KEEPINTVL: 10,
    socket.TCP_KEEPCNT: 6,
}
MOST_SHOWN = 3  # problems in one error
LEAST_DELAY_S, MOST_DELAY_S = 0.1, 1.0  # Kafka's connection.failed.authentication.delay.ms is 100 ms

Endpoint = tuple[str, int]  # host and port


class Upstream:
    """Connects to the brokers of one cluster, from one event loop.

    Each client connection makes one attempt, and there are no others, so a broker sees no more connects than clients make. Close
    a client whose attempt failed only after ``delay()``, so that it does not reconnect at once.
    """

    def __init__(
        self,
        bootstrap: Sequence[str] = (),
        *,
        through: str | None = None,
        send_proxy_protocol: Literal["v1", "v2"] | None = None,
        allow_link_local: bool = False,
        own: OwnConnections | None = None,
        timeout: float = 5.0,
        resolver: Resolver | None = None,
    ) -> None:
        """*own* notes direct connections; *timeout*: seconds for all addresses of one attempt together.

        Raises UsageError for a wrong address or URL.
        """
        self._bootstrap = [_parse(endpoint) for endpoint in bootstrap]
        self._first = random.randrange(len(self._bootstrap) or 1)  # workers begin at different brokers
        self._proxy: OutboundProxy | None = None
        if through:
            from kproxy.proxy.network import outbound_proxy  # noqa: PLC0415 - libraries that few need

            self._proxy = outbound_proxy.OutboundProxy.from_url(through)
        self._send_proxy_protocol = send_proxy_protocol
        self._allow_link_local = allow_link_local
        self._own = own
        self._timeout = timeout
        self._failures = 0
        self._resolver = resolver or Resolver()

    @classmethod
    def of(cls, cluster: Cluster, timeout: float) -> "Upstream":
        return cls(
            cluster.bootstrap,
            through=cluster.through,
            send_proxy_protocol=cluster.send_proxy_protocol,
            allow_link_local=cluster.addresses.allow_link_local,
            own=OWN if cluster.addresses.mode == "transparent" else None,
            timeout=timeout,
        )

    def resolved(self, host: str, port: int) -> Address | None:
        """Return (family, socket address) to try first, if it is known without waiting and brokers are reached directly.

        Otherwise None, as for an address that is refused: ``connect()`` raises with the reason.
        """
        known = self._resolver.known(host, port) if self._proxy is None else []
        return known[0] if known and not self._refusal(known[0]) else None

    def only_address(self, host: str, port: int) -> Address | None:
        """Return what ``resolved`` does if the host has just that address; else None."""
        return self.resolved(host, port) if len(self._resolver.known(host, port)) == 1 else None

    async def connect(self, host: str, port: int) -> socket.socket:
        """Return a connected, non-blocking socket without Nagle's delay and with keep-alive.

        Raises:
            UpstreamError: no address of the host could be connected to in time.
        """
        return (await self._counted([(host, port)], trusted=False))[0]

    async def connect_bootstrap(self) -> tuple[socket.socket, str]:
        """Return a socket to the first bootstrap broker that can be reached, and that broker as "host:port".

        Each call begins with the next broker of the list, so that they take turns.

        Raises:
            UpstreamError: none could be reached in time, or there are none.
        """
        if not self._bootstrap:
            raise UpstreamError("there is no bootstrap broker to connect to")
        self._first = first = (self._first + 1) % len(self._bootstrap)
        in_turn = self._bootstrap[first:] + self._bootstrap[:first]
        if self._proxy is None:
            in_turn.sort(key=lambda endpoint: self._resolver.failed_lately(*endpoint))
        connected, reached = await self._counted(in_turn, trusted=True)
        return connected, join_address(*reached)

    def proxy_header(self, source: str, destination: str) -> bytes:
        """Return the PROXY protocol header that is sent to a broker first; empty if it expects none."""
        if self._send_proxy_protocol is None:
            return b""
        return (write_v1 if self._send_proxy_protocol == "v1" else write_v2)(source, destination)

    def own_proxy_header(self) -> bytes:
        """Return the PROXY protocol header for a connection of kproxy's own, without a client."""
        return {None: b"", "v1": V1_OWN, "v2": V2_OWN}[self._send_proxy_protocol]

    def delay(self) -> float:
        """Return the seconds to wait before closing a client that failed: 0.1, doubled by each failure in a row, up to 1."""
        return float(min(LEAST_DELAY_S * 2 ** min(max(self._failures - 1, 0), 10), MOST_DELAY_S))

    def note_attempt(self, address: Address, reached: bool) -> None:
        """Note the outcome of an attempt that the caller itself made to the address of ``resolved()``."""
        if reached:
            self._failures = 0
            self._resolver.reached(address)
        else:
            self._failures += 1
            self._resolver.failed(address)

    async def _counted(self, endpoints: list[Endpoint], trusted: bool) -> tuple[socket.socket, Endpoint]:
        try:
            connected = await self._connect_any(endpoints, trusted)
        except UpstreamError:
            self._failures += 1
            raise
        self._failures = 0
        return connected

    async def _connect_any(self, endpoints: list[Endpoint], trusted: bool) -> tuple[socket.socket, Endpoint]:
        """Connect to the first endpoint that answers; each gets an equal part of the remaining time."""
        until = _now() + self._timeout
        problems = []
        for left, (host, port) in zip(range(len(endpoints), 0, -1), endpoints, strict=True):
            try:
                return await self._connect_host(host, port, _part(until, left), trusted), (host, port)
            except UpstreamError as error:
                problems.append(str(error))
        shown = "; ".join(problems[:MOST_SHOWN])
        more = f"; and {len(problems) - MOST_SHOWN} more" if len(problems) > MOST_SHOWN else ""
        raise UpstreamError(shown + more)

    async def _connect_host(self, host: str, port: int, until: float, trusted: bool) -> socket.socket:
        addresses = await self._addresses(host, port, until)
        problem = ""
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            problem = "" if trusted or self._proxy else self._refusal(address)
            if problem:
                continue
            try:
                async with asyncio.timeout_at(_part(until, left)):
                    connected = await self._connect_address(address, host, port)
            except OSError as error:  # TimeoutError is one
                problem = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
                if isinstance(error, TimeoutError) and not error.errno:  # asyncio's, not the kernel's
                    problem = "no answer in time"
                self._resolver.failed(address)
            else:
                self._resolver.reached(address)
                return connected
        via = f" by {self._proxy}" if self._proxy else ""
        raise UpstreamError(f"no connection to {join_address(host, port)}{via}: {problem}")

    async def _addresses(self, host: str, port: int, until: float) -> list[Address]:
        """Resolve what to connect to: the broker itself, or the proxy on the way."""
        if self._proxy:
            host, port = self._proxy.host, self._proxy.port
        try:
            async with asyncio.timeout_at(until):
                return await self._resolver.addresses(host, port)
        except TimeoutError:
            raise UpstreamError(f"{host}: the name was not resolved in time") from None

    async def _connect_address(self, address: Address, host: str, port: int) -> socket.socket:
        if self._proxy:
            connected = await self._proxy.connect(address, host, port)
        else:
            connected = await self._connect_directly(address)
        set_options(connected)
        return connected

    async def _connect_directly(self, address: Address) -> socket.socket:
        connected = socket.socket(address[0], socket.SOCK_STREAM)
        try:
            connected.setblocking(False)
            if self._own is not None:
                self._own.connecting(connected)
            try:
                await asyncio.get_running_loop().sock_connect(connected, address[1])
            finally:
                if self._own is not None:
                    self._own.connected(connected)
            if connected.getsockname() == connected.getpeername():  # the kernel joined a free port with itself
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        except BaseException:
            connected.close()
            raise
        return connected

    def _refusal(self, address: Address) -> str:
        """Return why kproxy does not connect to an address of a broker, or "" (metadata services of clouds are link-local)."""
        ip = parse_ip(address[1][0])
        assert ip is not None
        number = unmapped(ip)
        if is_internal(number) and not self._allow_link_local:
            return f"{number} is link-local or a cloud's own, which addresses.allow_link_local does not allow"
        if number.is_unspecified or number.is_multicast:
            return f"{number} is no address of a broker"
        return ""


def set_options(connected: socket.socket) -> None:
    """Set the options of every socket of the proxy: non-blocking, no delay, keep-alive that finds a dead peer in two minutes."""
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _parse(endpoint: str) -> Endpoint:
    try:
        return split_address(endpoint)
    except ValueError:
        raise UsageError(f'"{endpoint}" is no address: write "host:port"') from None


def _part(until: float, left: int) -> float:
    """Return when the next of *left* attempts must be over."""
    now = _now()
    return now + max(until - now, 0.0) / left
