"""OTLP/HTTP: a client for one URL over a connection that is kept open. h11 reads and writes; a time limit ends whatever hangs.

It follows no redirect and uses no proxy of the environment: what is exported goes where the configuration says.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread

import h11

from kproxy import __version__
from kproxy.errors import UpstreamError
from kproxy.protocol.addresses import join_address
from kproxy.proxy.network.resolver import Address, Resolve, Resolver, resolve_blocking
from kproxy.proxy.otlp.transport import LARGEST_ANSWER, LONGEST_WAIT_S, Outcome, Refused, Unavailable, outcome_of_answer

READ_SIZE = 16_384
RETRIED = (429, 502, 503, 504)
OK = range(200, 300)


async def resolve_in_a_thread(host: str, port: int) -> list[Address]:
    """Resolve in a daemon thread; unlike a thread of asyncio's, it does not hold up the end of the process."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[list[Address]] = loop.create_future()

    def answer(found: list[Address] | Exception) -> None:
        if not answered.done():
            answered.set_exception(found) if isinstance(found, Exception) else answered.set_result(found)

    def ask() -> None:
        found: list[Address] | Exception
        try:
            found = resolve_blocking(host, port)
        except (OSError, ValueError) as error:
            found = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(answer, found)

    Thread(target=ask, name="resolve", daemon=True).start()
    return await answered


class HttpClient:
    """Posts requests, one at a time. See Transport.

    Args:
        host, port, path: of the collector.
        headers: of each request, with names in small letters.
        context: for TLS; None: in the clear.
        timeout: seconds for one request, connecting included.
    """

    def __init__(
        self,
        host: str,
        port: int,
        path: str,
        headers: Mapping[str, str],
        *,
        context: ssl.SSLContext | None = None,
        timeout: float = 10.0,
        resolve: Resolve = resolve_in_a_thread,
    ) -> None:
        self._host, self._port, self._path = host, port, path
        self._headers = [
            ("host", join_address(host, port)),
            ("user-agent", f"kproxy/{__version__}"),
            ("content-type", "application/x-protobuf"),
            *headers.items(),
        ]
        self._context = context
        self._timeout = timeout
        self._resolver = Resolver(resolve)
        self._connection: _Connection | None = None

    async def send(self, body: bytes) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(body)
        except TimeoutError:
            reason = f"no answer within {self._timeout:g} s"
        except ssl.SSLError as error:
            reason = f"TLS: {error.reason or 'the handshake failed'}"
        except (OSError, EOFError, UpstreamError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        except h11.ProtocolError as error:
            self.close()
            return Refused(f"the answer is not HTTP: {error}")
        except BaseException:
            self.close()
            raise
        self.close()
        return Unavailable(reason)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _send(self, body: bytes) -> Outcome:
        before = self._connection
        if before is not None:
            try:
                return await self._ask(before, body)
            except (OSError, EOFError) as error:  # mostly it was closed while it was idle: a new one may do
                self.close()
                if before.answer_began:
                    raise EOFError(str(error)) from error
        self._connection = await self._connect()
        return await self._ask(self._connection, body)

    async def _connect(self) -> "_Connection":
        why: OSError = OSError("no address")
        for _, address in await self._resolver.addresses(self._host, self._port):
            try:
                reader, writer = await asyncio.open_connection(
                    address[0],
                    address[1],
                    ssl=self._context,
                    server_hostname=self._host if self._context is not None else None,
                    limit=READ_SIZE,
                )
            except OSError as error:
                why = error
            else:
                return _Connection(reader, writer)
        raise why

    async def _ask(self, connection: "_Connection", body: bytes) -> Outcome:
        request = h11.Request(
            method="POST", target=self._path, headers=[*self._headers, ("content-length", str(len(body)))]
        )
        await connection.write(request, h11.Data(data=body), h11.EndOfMessage())
        response = await connection.response()
        answer = await connection.body()
        if answer is None or not connection.can_be_used_again():
            self.close()
        status = response.status_code
        if status in RETRIED:
            return Unavailable(f"HTTP {status}", _retry_after(response))
        if status not in OK:
            return Refused(f"HTTP {status}")
        return (
            Refused(f"the answer has more than {LARGEST_ANSWER:,} bytes")
            if answer is None
            else outcome_of_answer(answer)
        )


class _Connection:
    """A connection with h11's state of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.CLIENT)
        self.answer_began = False

    async def write(self, *events: h11.Event) -> None:
        self.answer_began = False
        self._writer.write(b"".join(self._state.send(event) or b"" for event in events))
        await self._writer.drain()

    async def response(self) -> h11.Response:
        """The head of the final response. Raises EOFError, OSError, h11.RemoteProtocolError."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise EOFError("the connection was closed")

    async def body(self) -> bytes | None:
        """Return the body; None if it is too long: then the connection cannot be used again."""
        found = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            found += event.data
            if len(found) > LARGEST_ANSWER:
                return None
        return bytes(found)

    def can_be_used_again(self) -> bool:
        """Return whether both sides keep the connection, and begin a new cycle on it."""
        if self._state.our_state is not h11.DONE or self._state.their_state is not h11.DONE:
            return False
        self._state.start_next_cycle()
        return True

    def close(self) -> None:
        transport = self._writer.transport
        transport.abort()

    async def _next(self) -> h11.Event | type[h11.PAUSED]:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            data = await self._reader.read(READ_SIZE)
            if not data and not self.answer_began:
                raise EOFError("the connection was closed")
            self.answer_began = True
            self._state.receive_data(data)
        return event  # type: ignore[return-value]  # NEED_DATA is not returned


def _retry_after(response: h11.Response) -> float:
    """Return the seconds of a Retry-After header. A date is ignored, as it would need a clock that can be trusted."""
    for name, value in response.headers:
        if name == b"retry-after" and value.isdigit() and len(value) < 10:
            return min(float(value), LONGEST_WAIT_S)
    return 0.0
