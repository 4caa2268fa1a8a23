"""From "host:port" to a connected socket: every address of a name in turn, straight or through another proxy, in bounded time."""

import asyncio
import errno
import os
import random
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Literal

from kproxy.config import Cluster
from kproxy.errors import UpstreamError
from kproxy.proxy.network.endpoint import join, split
from kproxy.proxy.network.proxy_protocol import V1_OWN, V2_OWN, write_v1, write_v2
from kproxy.proxy.network.resolver import Address, Resolver
from kproxy.proxy.network.through import Through
from kproxy.proxy.network.transparent import OWN, OwnConnections

KEEPALIVE = {  # seconds, seconds, probes: a broker that is gone is noticed within two minutes
    socket.TCP_KEEPIDLE: 60,
    socket.TCP_KEEPINTVL: 10,
    socket.TCP_KEEPCNT: 6,
}
MOST_SHOWN = 3  # problems in one error
CLOUD_METADATA = ip_address("fd00:ec2::254")  # EC2's over IPv6; over IPv4 it is link-local
LEAST_DELAY_S, MOST_DELAY_S = 0.1, 1.0  # Kafka's connection.failed.authentication.delay.ms is 100 ms

Endpoint = tuple[str, int]  # host and port


class Upstream:
    """How the brokers of one cluster are reached, from one event loop.

    Every client's connection makes one attempt here and none is made without a client, so a broker sees no more connects than
    clients made; a client whose attempt failed is to be closed after ``delay()``, so that it does not come back at once.
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
        """*own* is told of direct connections; *timeout*: seconds for all addresses of one attempt together.

        Raises UsageError for a wrong endpoint or URL.
        """
        self._bootstrap = [split(endpoint) for endpoint in bootstrap]
        self._first = random.randrange(len(self._bootstrap) or 1)  # workers begin at different brokers
        self._through = Through.from_url(through) if through else None
        self._send_proxy_protocol = send_proxy_protocol
        self._allow_link_local = allow_link_local
        self._own = own
        self._timeout = timeout
        self._failures = 0
        self._resolver = resolver or Resolver()

    @classmethod
    def of(cls, cluster: Cluster, timeout: float) -> "Upstream":
        """As the configuration says."""
        return cls(
            cluster.bootstrap,
            through=cluster.through,
            send_proxy_protocol=cluster.send_proxy_protocol,
            allow_link_local=cluster.addresses.allow_link_local,
            own=OWN if cluster.addresses.mode == "transparent" else None,
            timeout=timeout,
        )

    @property
    def direct(self) -> bool:
        """Is a socket connected to ``resolved()``'s address all there is to it?"""
        return self._through is None

    def resolved(self, host: str, port: int) -> Address | None:
        """(family, socket address) to try first, if that can be said without waiting and brokers are reached directly.

        None too for an address that is refused: ``connect()`` says why.
        """
        known = self._resolver.known(host, port) if self.direct else []
        return known[0] if known and not self._refusal(known[0]) else None

    def sole(self, host: str, port: int) -> Address | None:
        """As ``resolved``, where there is no other address to try."""
        return self.resolved(host, port) if len(self._resolver.known(host, port)) == 1 else None

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connected, non-blocking socket without Nagle's delay and with keep-alive.

        Raises:
            UpstreamError: no address of the host could be connected to in time.
        """
        return (await self._counted([(host, port)], trusted=False))[0]

    async def connect_bootstrap(self) -> tuple[socket.socket, str]:
        """A socket to the first bootstrap broker that can be reached, and that broker as "host:port".

        Each call begins with the next one of the list, so that they are asked in turn.

        Raises:
            UpstreamError: none could be reached in time, or there are none.
        """
        if not self._bootstrap:
            raise UpstreamError("there is no bootstrap broker to connect to")
        self._first = first = (self._first + 1) % len(self._bootstrap)
        in_turn = self._bootstrap[first:] + self._bootstrap[:first]
        connected, reached = await self._counted(sorted(in_turn, key=self._failed_lately), trusted=True)
        return connected, join(*reached)

    def header(self, source: str, destination: str) -> bytes:
        """What a broker is sent before anything else: a PROXY protocol header, or nothing."""
        if self._send_proxy_protocol is None:
            return b""
        return (write_v1 if self._send_proxy_protocol == "v1" else write_v2)(source, destination)

    def own_header(self) -> bytes:
        """The same for a connection that is not a client's but kproxy's own."""
        return {None: b"", "v1": V1_OWN, "v2": V2_OWN}[self._send_proxy_protocol]

    def delay(self) -> float:
        """Seconds after which a client whose attempt failed is closed: 100 ms, doubled with each failure in a row, up to 1 s."""
        return float(min(LEAST_DELAY_S * 2 ** min(max(self._failures - 1, 0), 10), MOST_DELAY_S))

    def note(self, address: Address, reached: bool) -> None:
        """What became of an attempt that the caller made itself at ``resolved()``'s address."""
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
        """Each endpoint has an equal part of the time that is left, so that silent ones leave some to the last."""
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
            problem = "" if trusted or not self.direct else self._refusal(address)
            if problem:
                continue
            try:
                async with asyncio.timeout_at(_part(until, left)):
                    connected = await self._connect_address(address, host, port)
            except OSError as error:  # TimeoutError is one
                problem = _words(error)
                self._resolver.failed(address)
            else:
                self._resolver.reached(address)
                return connected
        via = f" by {self._through}" if self._through else ""
        raise UpstreamError(f"no connection to {join(host, port)}{via}: {problem}")

    async def _addresses(self, host: str, port: int, until: float) -> list[Address]:
        """Where to connect to: the broker itself, or the proxy on the way."""
        if self._through:
            host, port = self._through.host, self._through.port
        try:
            async with asyncio.timeout_at(until):
                return await self._resolver.addresses(host, port)
        except TimeoutError:
            raise UpstreamError(f"{host}: the name was not resolved in time") from None

    async def _connect_address(self, address: Address, host: str, port: int) -> socket.socket:
        if self._through:
            connected = await self._through.connect(address, host, port)
        else:
            connected = await self._connect_straight(address)
        set_options(connected)
        return connected

    async def _connect_straight(self, address: Address) -> socket.socket:
        connected = socket.socket(address[0], socket.SOCK_STREAM)
        try:
            connected.setblocking(False)
            await self._watched(connected, address)
            if (
                connected.getsockname() == connected.getpeername()
            ):  # the kernel joined a free port of this host with itself
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        except BaseException:
            connected.close()
            raise
        return connected

    async def _watched(self, connected: socket.socket, address: Address) -> None:
        loop = asyncio.get_running_loop()
        if self._own is None:
            return await loop.sock_connect(connected, address[1])
        self._own.begin(connected)
        try:
            await loop.sock_connect(connected, address[1])
        finally:
            self._own.end(connected)

    def _failed_lately(self, endpoint: Endpoint) -> bool:
        return self.direct and self._resolver.failed_lately(*endpoint)

    def _refusal(self, address: Address) -> str:
        """Why a broker said to be there is not connected to: cloud providers' metadata services are link-local."""
        number = ip_address(address[1][0].partition("%")[0])
        number = getattr(number, "ipv4_mapped", None) or number
        if (number.is_link_local or number == CLOUD_METADATA) and not self._allow_link_local:
            return f"{number} is link-local or a cloud's own, which addresses.allow_link_local does not allow"
        if number.is_unspecified or number.is_multicast:
            return f"{number} is no address of a broker"
        return ""


def set_options(connected: socket.socket) -> None:
    """What every socket of the proxy has: no delay, keep-alive that finds a dead peer within two minutes, non-blocking."""
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _part(until: float, left: int) -> float:
    """When the next of *left* attempts must be over."""
    now = _now()
    return now + max(until - now, 0.0) / left


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError) and not error.errno:  # asyncio's, not the kernel's
        return "no answer in time"
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
