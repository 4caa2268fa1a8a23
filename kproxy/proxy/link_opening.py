"""Open links that take more than connecting two sockets, and describe links.

LinkOpener opens links that need TLS, a resolved name, another proxy on the way or PROXY headers. The steps, in order (``_open``):
receive the PROXY header, TLS handshake with the client, the client's login (client_logins.py), choose the broker, connect to it,
send the PROXY header, TLS handshake with the broker, join both sides. A login of kproxy's own at the broker follows the join:
broker_login.py.

The functions at the beginning give a link's addresses as text, the tap's OPEN record and its row at /connections.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kproxy.config.structs import Cluster, Config
from kproxy.errors import ProxyProtocolError, UpstreamError, UsageError
from kproxy.filters.chain import Chain
from kproxy.filters.contract import ConnectionFacts
from kproxy.protocol import facts
from kproxy.protocol.addresses import join_address, split_address
from kproxy.proxy.admission import ClientRefused, LoginRefused
from kproxy.proxy.broker_client import ask_versions
from kproxy.proxy.brokers import BrokerTable, Reachability
from kproxy.proxy.filter_runtime import FilterRuntime
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.sockets import pump
from kproxy.proxy.forwarding.tls_side import TlsSide
from kproxy.proxy.logs import log
from kproxy.proxy.messages import Connection
from kproxy.proxy.network.proxy_protocol import read_header
from kproxy.proxy.network.socket_addresses import OWN, from_sockaddr, original_destination
from kproxy.proxy.network.tls import Contexts, client_tls, handshake, server_name, server_name_of
from kproxy.proxy.network.upstream import Upstream
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.tapped import Opened

if TYPE_CHECKING:
    from kproxy.proxy.client_logins import ClientLogins


def client_of(link: Link) -> str:
    """Return the client's address; with PROXY protocol the one in the header."""
    return link.facts.client if link.facts is not None else join_address(*from_sockaddr(link.peer))


def broker_of(link: Link) -> str:
    """Return the broker's address; empty while it is not known."""
    return join_address(*link.target) if link.target else ""


def listener_of(link: Link) -> str:
    """Return the address that the client connected to."""
    return join_address(*from_sockaddr(link.local_address()))


def open_record(link: Link, cluster: str, from_start: bool) -> bytes:
    """Return the body of the tap's OPEN record."""
    known = link.facts
    opened = Opened(link.number, cluster, client_of(link), broker_of(link), from_start, in_frames=True)
    opened.tls = None if known is None else known.tls
    if link.is_authenticated and known is not None:
        opened.user_name, opened.sasl_mechanism = known.principal, known.mechanism
    return msgspec.json.encode(opened)


def connection_row(link: Link, cluster: str, now: int, worker: int) -> Connection:
    """Return the link as /connections shows it; *now* in ns of the monotonic clock."""
    requests, responses = link.frames_received
    received, sent = link.bytes_received
    api = facts().apis.get(link.last_request)
    return Connection(
        worker=worker,
        number=link.number,
        cluster=cluster,
        client=client_of(link),
        broker=broker_of(link),
        node_id=link.node_id,
        age_s=round((now - link.opened_at) / 1e9, 3),
        idle_s=round((now - link.last_at) / 1e9, 3),
        requests=requests,
        responses=responses,
        request_bytes=received,
        response_bytes=sent,
        in_flight=link.in_flight_count,
        last_api=api.name if api else None,
        tls=bool(link.tls and link.tls[0]),
    )


ClientTlsObjects: TypeAlias = tuple[
    ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO
]  # what a handshake leaves; see handshake()
MOST_PROXY_HEADER = 16 + 4_096  # bytes; see proxy_protocol.py


class LinkOpener:
    """Opens the links of a virtual cluster under one configuration.

    Raises UsageError if a certificate or a key cannot be used.

    Args:
        cluster, config: the configuration.
        counters: of the worker.
        brokers: the addresses of the brokers.
        reachability: notes whether a broker could be reached.
        facts_of: returns what filters may know of a link's connection; the opener adds client, principal and broker.
        runtime, chain: as in ClientLogins.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        counters: Counters,
        brokers: BrokerTable,
        reachability: Reachability,
        facts_of: Callable[[Link], ConnectionFacts],
        runtime: FilterRuntime,
        chain: Callable[[], Chain],
    ) -> None:
        self.upstream = Upstream.of(cluster, config.timeouts.connect)
        self.listener_tls: Contexts | None = None
        self.broker_tls: Contexts | None = None
        if cluster.listener_tls is not None:
            self.listener_tls = Contexts(cluster.listener_tls, names=cluster.addresses.mode == "sni")
        if cluster.broker_tls is not None:
            self.broker_tls = Contexts(cluster.broker_tls)
        self.logins: ClientLogins | None = None
        if cluster.authentication is not None:
            from kproxy.proxy import client_logins  # noqa: PLC0415 - few clusters end logins

            largest = config.limits.unauthenticated_frame_size
            self.logins = client_logins.ClientLogins(cluster, largest, counters, self._ask_versions, runtime, chain)
        self._counters = counters
        self._brokers = brokers
        self._reachability = reachability
        self._facts_of = facts_of
        self._cluster = cluster
        self._timeouts = config.timeouts
        self.is_plain = not (
            cluster.listener_tls
            or cluster.authentication
            or cluster.broker_tls
            or cluster.proxy_protocol
            or cluster.send_proxy_protocol
            or cluster.through
            or cluster.addresses.mode == "transparent"
        )

    def server_name(self, host: str) -> str:
        """Return the name that the certificate of a broker at *host* must have."""
        assert self._cluster.broker_tls is not None
        return server_name(self._cluster.broker_tls, host)

    def reload(self) -> None:
        """Read certificates and keys again; where the new ones cannot be used, the old ones stay in use."""
        for side, contexts in (("listener", self.listener_tls), ("broker", self.broker_tls)):
            why = contexts.reload() if contexts else None
            if why:
                log("warning", "certificates are kept as they were", cluster=self._cluster.name, path=side, reason=why)
        if self.logins is not None:
            try:
                self.logins.reload()
            except UsageError as error:
                log("warning", "users are kept as they were", cluster=self._cluster.name, reason=str(error))

    async def _ask_versions(self, target: tuple[str, int] | None, version: int) -> bytes:
        """Return the body of a broker's response to ApiVersions. Raises UpstreamError."""
        tls = self.broker_tls.current if self.broker_tls else None
        async with asyncio.timeout(self._timeouts.connect):
            return await ask_versions(self.upstream, tls, self.server_name, target, version)

    async def open(self, link: Link) -> None:
        """Take a link from an accepted socket to two joined sides, or close it with the right cause."""
        try:
            async with asyncio.timeout(self._timeouts.first_request + self._timeouts.connect):
                await self._open(link)
        except LoginRefused as refused:
            link.close(refused.cause)
        except ClientRefused as refused:
            if refused.cause is CloseCause.TLS_BROKER:  # as in give_up
                self._note_failure(str(refused))
                await asyncio.sleep(self.upstream.delay())
            self._close(link, refused.cause, str(refused))
        except UpstreamError as error:
            self._counters.add(Total.UPSTREAM_CONNECT_FAILURES)
            await self.give_up(link, str(error))
        except TimeoutError:
            self._close(link, CloseCause.FIRST_REQUEST_TIMEOUT, "the client did not begin in time")
        except EOFError as error:
            self._close(link, CloseCause.CLIENT_CLOSED, str(error))
        except OSError as error:
            self._close(link, CloseCause.ERROR, error.strerror or str(error))
        except Exception as error:
            log("error", "a fault", cluster=self._cluster.name, connection=link.number, reason=repr(error))
            link.close(CloseCause.ERROR)

    async def give_up(self, link: Link, why: str, cause: CloseCause = CloseCause.UPSTREAM_UNREACHABLE) -> None:
        """Close a link that cannot use its broker, after a delay, so that the client does not reconnect at once."""
        if link.closed:
            return
        about = {"connection": link.number, "client": client_of(link), "broker": broker_of(link)}
        event = "no login at a broker" if cause is CloseCause.BROKER_LOGIN else "no connection to a broker"
        log("warning", event, reason=why, **about)
        self._note_failure(f"{broker_of(link)}: {why}" if link.target else why)
        await asyncio.sleep(self.upstream.delay())
        link.close(cause)

    def _note_failure(self, why: str) -> None:
        if self._cluster.bootstrap:  # else each client has a destination of its own, which may be wrong
            self._reachability.failed(why)

    async def probe(self) -> None:
        """Connect to a bootstrap broker and close. Raises UpstreamError."""
        connected, endpoint = await self.upstream.connect_bootstrap()
        with connected:
            host, _ = split_address(endpoint)
            if self.broker_tls is None:
                return
            try:
                await asyncio.get_running_loop().sock_sendall(connected, self.upstream.own_proxy_header())
                _, writer = await asyncio.open_connection(
                    sock=connected,
                    ssl=self.broker_tls.current,
                    server_hostname=self.server_name(host),
                    ssl_handshake_timeout=self._timeouts.connect,
                )
            except (OSError, ssl.SSLError) as error:
                raise UpstreamError(f"TLS with {endpoint}: {error}") from error
            writer.close()

    def _close(self, link: Link, cause: CloseCause, why: str) -> None:
        about = {"connection": link.number, "client": client_of(link), "cause": cause.name.lower()}
        level = "warning" if cause is CloseCause.TLS_BROKER else "info"  # the fault is not the client's
        log(level, "closed before it began", reason=why, **about)
        link.close(cause)

    async def _open(self, link: Link) -> None:
        """Take the steps of opening a link, in order."""
        destination = await self._read_proxy_header(link) if self._cluster.proxy_protocol else None
        client = await self._client_tls(link) if self.listener_tls else None
        target = self._target(link, client)
        if self.logins is not None:
            await self._log_in_client(link, self.logins, client, target)
        connected = await self._connect(link, target)
        try:
            header = self.upstream.proxy_header(client_of(link), destination or listener_of(link))
            if header:
                await asyncio.get_running_loop().sock_sendall(connected, header)
            broker = await self._broker_tls(link, connected) if self.broker_tls else None
            if self._cluster.login is None:  # else once it has logged in
                self._reachability.reached()
            if not link.closed:
                side = None if client is None else TlsSide(*client)
                pump(link, link.take_client(), connected.detach(), side, broker)
        finally:
            connected.close()  # has no effect on a socket that the link took over

    async def _read_proxy_header(self, link: Link) -> str | None:
        """Read the PROXY header from the client, note the client address in it, and return its destination."""
        loop = asyncio.get_running_loop()
        # owned here, so that it is not closed while the loop watches it
        peeked = socket.socket(fileno=link.take_client())
        seen = 0
        try:
            while True:
                # wake up only for more than was seen
                peeked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, seen + 1)
                await _readable(loop, peeked.fileno())
                data = peeked.recv(MOST_PROXY_HEADER, socket.MSG_PEEK)
                header = read_header(data)
                if header is not None:
                    peeked.recv(header.size)
                    self._facts_of(link).client = header.source or client_of(link)
                    return header.destination
                if len(data) == seen:
                    raise ClientRefused(CloseCause.PROXY_PROTOCOL, "the client left within its PROXY header")
                seen = len(data)
        except ProxyProtocolError as error:
            raise ClientRefused(CloseCause.PROXY_PROTOCOL, str(error)) from error
        finally:
            with contextlib.suppress(OSError):
                peeked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            link.return_client(peeked.detach())

    async def _log_in_client(
        self, link: Link, logins: "ClientLogins", tls: ClientTlsObjects | None, target: tuple[str, int] | None
    ) -> None:
        """Have the client prove who it is."""
        from kproxy.proxy.client_logins import ClientStream  # noqa: PLC0415 - few clusters end logins

        # owned here, so that it is not closed while the loop watches it
        client = socket.socket(fileno=link.take_client())
        client.setblocking(False)
        try:
            await logins.authenticate(link, ClientStream(client, tls), self._facts_of(link), target)
        finally:
            link.return_client(client.detach())
        if link.closed:
            raise ClientRefused(CloseCause.FIRST_REQUEST_TIMEOUT, "it was closed before it began")

    async def _client_tls(self, link: Link) -> ClientTlsObjects:
        """Do the TLS handshake with the client; note its certificate and principal."""
        assert self.listener_tls is not None
        # owned here, so that it is not closed while the loop watches it
        client = socket.socket(fileno=link.take_client())
        try:
            tls = await handshake(client, self.listener_tls.current, None, self._timeouts.first_request)
        except OSError as error:
            self._counters.add(Total.TLS_HANDSHAKES_FAILED_CLIENT)
            raise ClientRefused(CloseCause.TLS_CLIENT, f"TLS with the client: {error}") from error
        finally:
            link.return_client(client.detach())
        self._counters.add(Total.TLS_HANDSHAKES_OK_CLIENT)
        if link.closed:
            raise ClientRefused(CloseCause.FIRST_REQUEST_TIMEOUT, "it was closed before it began")
        facts = self._facts_of(link)
        facts.tls = client_tls(tls[0])
        facts.principal = facts.tls.certificate
        return tls

    async def _connect(self, link: Link, target: tuple[str, int] | None) -> socket.socket:
        """Connect to the broker that the link is for."""
        self._counters.add(Total.UPSTREAM_CONNECTS)
        link.target = target
        if target is None:
            connected, endpoint = await self.upstream.connect_bootstrap()
            link.target = target = split_address(endpoint)
        else:
            connected = await self.upstream.connect(*target)
        if link.facts is not None:
            link.facts.broker = join_address(*target)
        return connected

    def _target(self, link: Link, client: ClientTlsObjects | None) -> tuple[str, int] | None:
        """Return the address to connect this client to; None: any bootstrap broker."""
        mode = self._cluster.addresses.mode
        if mode == "transparent":
            if OWN.has(split_address(client_of(link))):
                raise ClientRefused(CloseCause.LOOP, "kproxy's own connection to a broker was redirected back to it")
            destination = original_destination(link.sockets()[0])
            if destination is None:
                raise ClientRefused(
                    CloseCause.LOOP, "the client connected to the listener itself: nothing was redirected"
                )
            return destination
        if mode == "sni" and client is not None:
            name = server_name_of(client[0])
            link.node_id = self._brokers.node_of_name(name or "")
        return None if link.node_id is None else self._brokers.target(link.node_id)

    async def _broker_tls(self, link: Link, connected: socket.socket) -> TlsSide:
        assert self.broker_tls is not None
        assert link.target is not None
        host, port = link.target
        name, limit = self.server_name(host), self._timeouts.connect
        try:
            tls = TlsSide(*await handshake(connected, self.broker_tls.current, name, limit))
        except OSError as error:
            self._counters.add(Total.TLS_HANDSHAKES_FAILED_BROKER)
            raise ClientRefused(CloseCause.TLS_BROKER, f"TLS with {join_address(host, port)}: {error}") from error
        self._counters.add(Total.TLS_HANDSHAKES_OK_BROKER)
        return tls


async def _readable(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    ready = loop.create_future()
    loop.add_reader(fd, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
