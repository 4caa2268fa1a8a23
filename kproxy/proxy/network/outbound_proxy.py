"""OutboundProxy: SOCKS5 (RFC 1928, 1929) or HTTP CONNECT (RFC 9110, section 9.3.6) on the way to brokers (setting ``through``).

python-socks does SOCKS5. For HTTP CONNECT it takes what one read returns for the whole answer, so the rest of an answer in two
segments would be taken for the broker's bytes; here h11 reads to the answer's end.
"""

import asyncio
import base64
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import h11
from python_socks import ProxyError, ProxyType
from python_socks.async_.asyncio import Proxy as SocksProxy

from kproxy.errors import UpstreamError, UsageError
from kproxy.protocol.addresses import join_address

if TYPE_CHECKING:
    from kproxy.proxy.network.upstream import Address

DEFAULT_PORTS = {"socks5": 1080, "http": 3128}
READ_SIZE = 4_096


@dataclass(frozen=True, slots=True)
class OutboundProxy:
    """The proxy that a URL names (setting ``through``)."""

    kind: Literal["socks5", "http"]
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def from_url(cls, url: str) -> "OutboundProxy":
        """Parse "socks5://user:password@host:port" or "http://..."; the port may be left out (1080, 3128).

        Raises UsageError; its text does not repeat the URL, as there may be a password in it.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            wanted = '"socks5://host:port" or "http://host:port"'
            raise UsageError(f"the URL of the proxy to brokers is not {wanted}") from None
        if parts.scheme not in DEFAULT_PORTS:
            raise UsageError('the URL of the proxy to brokers begins with neither "socks5://" nor "http://"')
        kind: Literal["socks5", "http"] = "socks5" if parts.scheme == "socks5" else "http"
        if not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise UsageError(f'the URL of the proxy to brokers is not "{kind}://[user:password@]host:port"')
        port = port or DEFAULT_PORTS[kind]
        return cls(kind, parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""))

    def __str__(self) -> str:
        return f"{self.kind}://{join_address(self.host, self.port)}"

    async def connect(self, proxy: "Address", host: str, port: int) -> socket.socket:
        """Connect to *host* and *port* through *proxy*, the numeric address of this proxy, which resolves the name.

        Raises:
            OSError: the proxy itself cannot be reached.
            UpstreamError: it refuses, or its answer breaks its protocol.
        """
        return await (
            self._connect_socks(proxy, host, port) if self.kind == "socks5" else self._connect_http(proxy, host, port)
        )

    async def _connect_socks(self, proxy: "Address", host: str, port: int) -> socket.socket:
        numeric_host, numeric_port = proxy[1][:2]
        socks = SocksProxy(ProxyType.SOCKS5, numeric_host, numeric_port, self.user, self.password, rdns=True)
        try:
            return await socks.connect(host, port)
        except (ProxyError, UnicodeError, ValueError) as error:
            raise UpstreamError(f"{self} does not connect to {join_address(host, port)}: {error}") from None

    async def _connect_http(self, proxy: "Address", host: str, port: int) -> socket.socket:
        connected = socket.socket(proxy[0], socket.SOCK_STREAM)
        connected.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connected, proxy[1])
            await self._ask_http(connected, join_address(host, port))
        except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            connected.close()
            raise UpstreamError(f"{self} does not connect to {join_address(host, port)}: {error}") from None
        except BaseException:
            connected.close()
            raise
        return connected

    async def _ask_http(self, connected: socket.socket, target: str) -> None:
        loop = asyncio.get_running_loop()
        dialogue = h11.Connection(h11.CLIENT)
        headers = [("Host", target)]
        if self.user:
            secret = base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
            headers.append(("Proxy-Authorization", f"Basic {secret}"))
        request = dialogue.send(h11.Request(method="CONNECT", target=target, headers=headers))
        await loop.sock_sendall(connected, (request or b"") + (dialogue.send(h11.EndOfMessage()) or b""))
        answer = await self._answer(dialogue, connected)
        if not 200 <= answer.status_code < 300:
            reason = answer.reason.decode("ascii", "replace")
            raise UpstreamError(f"{self} does not connect to {target}: {answer.status_code} {reason}".rstrip())
        if dialogue.trailing_data[0]:  # no broker speaks first
            raise UpstreamError(f"{self} sends more than that it connected to {target}")

    @staticmethod
    async def _answer(dialogue: h11.Connection, connected: socket.socket) -> h11.Response:
        """Read the head of the final answer, in any number of parts; h11 refuses one of more than 16 KiB."""
        while True:
            event = dialogue.next_event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                dialogue.receive_data(await asyncio.get_running_loop().sock_recv(connected, READ_SIZE))
