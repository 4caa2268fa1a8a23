"""Link: one connection to a broker of the new cluster, with pipelined requests, answers in their order, and bounds on both."""

import asyncio
import ssl
from collections import deque
from struct import pack
from typing import Any

from kproxy.errors import UpstreamError
from kproxy.output.times import render_size
from kproxy.protocol import (
    ApiKey,
    read_response_header,
    request_header_version,
    request_message,
    response_header_version,
    response_message,
)
from kproxy.protocol.addresses import join_address
from kproxy.protocol.constants import SIZE_FIELD, uvarint
from kproxy.proxy.network.upstream import Upstream

MOST_ANSWER = 268_435_456  # bytes
LEAST_ANSWER = 4  # the correlation id
TLS_ALERT = 0x1503  # first bytes with which a TLS server answers plain text (RFC 8446, 5.1): an alert, version 3.x
CLIENT_ID = b"kproxy-replay"  # of replay's own requests
Tags = tuple[tuple[int, bytes], ...]


class LinkClosed(Exception):
    """Raised where no answer will come; the text says why."""


class Link:
    """An open connection; ``close`` it in the end. Requests get correlation ids of this connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, patience: float
    ) -> None:
        self.address = address
        self.closed: str | None = None  # why, once it is
        self._reader = reader
        self._writer = writer
        self._patience = patience
        self._next = 0
        self._waiting: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        self._receiving = asyncio.ensure_future(self._receive())

    @classmethod
    async def open(
        cls, upstream: Upstream, host: str, port: int, tls: tuple[ssl.SSLContext, str] | None, patience: float
    ) -> "Link":
        """Connect; *tls*: the context and the name to verify. Raises UpstreamError."""
        address = join_address(host, port)
        connected = await upstream.connect(host, port)
        options: dict[str, Any] = {}
        if tls is not None:
            options = {"ssl": tls[0], "server_hostname": tls[1], "ssl_handshake_timeout": patience}
        try:
            reader, writer = await asyncio.open_connection(sock=connected, **options)
        except OSError as error:  # ssl.SSLError is one
            connected.close()
            why = str(error) or "the handshake was not answered; is that a listener with TLS?"
            raise UpstreamError(f"no TLS with {address}: {why}") from error
        return cls(reader, writer, address, patience)

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting)

    async def send(
        self,
        api_key: int,
        version: int,
        body: bytes,
        *,
        client_id: bytes | None = CLIENT_ID,
        tags: Tags = (),
        answered: bool = True,
    ) -> "asyncio.Future[bytes] | None":
        """Send a request; the future gives the frame of its answer, or raises LinkClosed. None where none will come.

        Raises:
            LinkClosed: it is closed, or the broker reads no more.
        """
        if self.closed is not None:
            raise LinkClosed(self.closed)
        self._next = (self._next + 1) & 0x7FFFFFFF
        head = header(api_key, version, self._next, client_id, tags)
        future: asyncio.Future[bytes] | None = None
        if answered:
            future = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieve)
            self._waiting.append((self._next, future))
        self._writer.write(pack(">i", len(head) + len(body)) + head + body)
        try:
            async with asyncio.timeout(self._patience):
                await self._writer.drain()
        except TimeoutError:
            self.abort(f"{self.address} has read nothing for {self._patience:g} s")
        except OSError as error:
            self.abort(_words(error, self.address))
        return future

    async def ask(self, api_key: int, version: int, body: Any) -> Any:
        """Send a request of replay's own, as an object; return the decoded answer. Raises LinkClosed, DecodeError."""
        message = request_message(api_key)
        assert message is not None
        future = await self.send(api_key, version, message.encode(version, body))
        assert future is not None
        try:
            async with asyncio.timeout(self._patience):
                frame = await future
        except TimeoutError:
            self.abort(f"no answer from {self.address} within {self._patience:g} s")
            raise LinkClosed(self.closed) from None
        return decode_answer(api_key, version, frame)

    def abort(self, why: str) -> None:
        """Close it at once; requests that wait for an answer get LinkClosed."""
        if self.closed is None:
            self.closed = why
        self._receiving.cancel()
        self._writer.transport.abort()
        self._fail()

    async def _receive(self) -> None:
        """Hand each answer to its request, until the connection ends."""
        try:
            while True:
                self._give(await self._frame())
        except asyncio.IncompleteReadError:
            self._end(f"{self.address} closed the connection")
        except (OSError, LinkClosed) as error:
            self._end(str(error) if isinstance(error, LinkClosed) else _words(error, self.address))

    async def _frame(self) -> bytes:
        size = int.from_bytes(await self._reader.readexactly(SIZE_FIELD), "big", signed=True)
        if size >> 16 == TLS_ALERT:
            raise LinkClosed(f"{self.address} speaks TLS: give --tls, --tls-ca or --command-config")
        if not LEAST_ANSWER <= size <= MOST_ANSWER:
            raise LinkClosed(
                f"{self.address} sent a size field of {size}, where Kafka sends {LEAST_ANSWER} to"
                f" {render_size(MOST_ANSWER)}: is it a broker, without TLS?"
            )
        return await self._reader.readexactly(size)

    def _give(self, frame: bytes) -> None:
        if not self._waiting:
            raise LinkClosed(f"{self.address} sent an answer to nothing")
        correlation_id, future = self._waiting[0]
        if int.from_bytes(frame[:4], "big", signed=True) != correlation_id:
            raise LinkClosed(f"{self.address} answered in another order than it was asked")
        self._waiting.popleft()
        if not future.done():
            future.set_result(frame)

    def _end(self, why: str) -> None:
        self.closed = self.closed or why
        self._writer.transport.abort()
        self._fail()

    def _fail(self) -> None:
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(LinkClosed(self.closed))
        self._waiting.clear()


def header(api_key: int, version: int, correlation_id: int, client_id: bytes | None, tags: Tags = ()) -> bytes:
    """Return a request header, in the header version that belongs to the version of the API."""
    name = pack(">h", -1) if client_id is None else pack(">h", len(client_id)) + client_id
    start = pack(">hhi", api_key, version, correlation_id) + name
    if request_header_version(api_key, version) < 2:
        return start
    return start + uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in tags)


def decode_answer(api_key: int, version: int, frame: bytes) -> Any:
    """Decode the body of an answer; bytes behind it are ignored, as clients do. Raises DecodeError."""
    message = response_message(api_key)
    assert message is not None
    start = read_response_header(frame, response_header_version(api_key, version)).size
    trailing = message.check(version, frame, start, trailing=True).trailing
    return message.decode(version, frame, start, trailing=trailing)


def is_answered(api_key: int, body: Any) -> bool:
    """Return whether a broker answers a request: all but Produce with acks=0."""
    return api_key != ApiKey.PRODUCE or body.acks != 0


def _retrieve(future: "asyncio.Future[bytes]") -> None:
    """Take the exception of a future that nothing waits for any more."""
    if not future.cancelled():
        future.exception()


def _words(error: OSError, address: str) -> str:
    return f"{address}: {error.strerror or error or type(error).__name__}"
