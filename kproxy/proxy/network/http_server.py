"""PageServer: an ASGI application served over HTTP/1.1, for the supervisor and the live page.

h11 knows the protocol, asyncio moves the bytes. uvicorn and Starlette took 5 MB more of each proxy that is scraped.
There are no WebSockets, no lifespan, and no headers that identify the server; who asks is what the socket says, as a header must
not claim another address in the audit log.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import h11
import msgspec

MOST_REQUESTS = 64  # at a time; further ones get 503
REQUEST_S = 30.0  # within which a request must arrive
STOP_S = 1.0  # for answers that are under way when the server stops
LINGER_S = 1.0  # in which a client reads why it is refused: closed with unread bytes, the connection would be reset
READ = 65_536  # bytes

# As in starlette.types, which the supervisor does not load
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]


class Answer(NamedTuple):
    """An answer that is there as a whole, as an ASGI application."""

    body: bytes
    content_type: str
    status: int = 200
    headers: Headers = ()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """See the ASGI specification, version 3."""
        size = (b"content-length", str(len(self.body)).encode())
        headers = [size, (b"content-type", self.content_type.encode()), *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def to_json(value: Any, status: int = 200) -> Answer:
    return Answer(msgspec.json.encode(value), "application/json", status)


def plain(text: str, status: int = 200, headers: Headers = ()) -> Answer:
    return Answer(text.encode(), "text/plain; charset=utf-8", status, headers)


class PageServer:
    """Serves *app* at a socket that listens, within an event loop.

    A client that connects and sends nothing, or a byte now and then, takes a place from scrapers and health checks. It is closed
    after REQUEST_S, or earlier when all places are taken: then the one that has waited for longest is closed.
    """

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self._app = app
        self._listener = listener
        self._server: asyncio.Server | None = None
        self._tasks: dict[Connection, asyncio.Task[None]] = {}
        self.is_stopping = False

    async def start(self) -> None:
        """Answer from now on."""
        loop = asyncio.get_running_loop()

        def accepted() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(_Reader(READ), self._serve)

        self._server = await loop.create_server(accepted, sock=self._listener)

    async def stop(self) -> None:
        """Accept no more and close what is open, within about a second."""
        self.is_stopping = True
        if self._server is not None:
            self._server.close()
        for connection in self._tasks:
            if connection.is_waiting:
                connection.give_up()
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    @property
    def is_full(self) -> bool:
        """Whether a request that came now would be one too many."""
        return sum(not connection.is_waiting for connection in self._tasks) > MOST_REQUESTS

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, _Reader)
        connection, task = Connection(self, self._app, reader, writer), asyncio.current_task()
        assert task is not None
        self._tasks[connection] = task
        try:
            waiting = [one for one in self._tasks if one.is_waiting]
            if len(self._tasks) >= MOST_REQUESTS and len(waiting) > 1:
                first = min(waiting, key=lambda one: one.waits_until)
                del self._tasks[first]
                first.give_up()
            await connection.serve()
        finally:
            self._tasks.pop(connection, None)
            writer.close()


class _Reader(asyncio.StreamReader):
    """A stream with an event for the end of the connection, which is also set while no read waits."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()


class Connection:
    """One connection of a client: request after request."""

    def __init__(self, server: PageServer, app: ASGIApp, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._app = app
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)
        self._broken: Exception | None = None  # why the rest of a request has not come
        self._is_head = False
        self.is_waiting = True  # for a request, or for the rest of one
        self.waits_until = _now() + REQUEST_S  # by the event loop's clock

    async def serve(self) -> None:
        """Answer until the client leaves, is too slow, or sends what is not HTTP."""
        try:
            while isinstance(request := await self._next_event(), h11.Request):
                await self._answer(request)
                if not await self._can_go_on():
                    return
                self._http.start_next_cycle()
                self.waits_until = _now() + REQUEST_S
        except h11.RemoteProtocolError:
            await self._refuse(plain("this is not a request of HTTP/1.1\n", 400))
        except (OSError, TimeoutError):
            pass

    def give_up(self) -> None:
        """Close the connection, on which no request has come."""
        self._writer.close()

    async def _answer(self, request: h11.Request) -> None:
        self._is_head = request.method == b"HEAD"
        if self._server.is_full:
            await self._refuse(plain("too many requests at a time; ask again\n", 503))
            return
        try:
            await self._app(self._scope(request), self._receive, self._send)
        except Exception as error:  # one answer fails, others go on
            if not self._is_left:
                what = {"message": "a request could not be answered", "exception": error}
                asyncio.get_running_loop().call_exception_handler(what)
                await self._refuse(plain("kproxy could not answer\n", 500))
        if self._broken is not None:
            raise self._broken

    async def _can_go_on(self) -> bool:
        """Read what the application has not read of a request; return whether another one may follow."""
        if self._http.our_state is h11.DONE:
            while self._http.their_state is h11.SEND_BODY:
                await self._next_event()
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return done and not self._server.is_stopping

    def _scope(self, request: h11.Request) -> Scope:
        path, _, query = request.target.partition(b"?")
        peer = self._writer.get_extra_info("peername")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.http_version.decode("ascii"),
            "method": request.method.decode("ascii"),
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers),
            "client": tuple(peer[:2]) if peer else None,  # a Unix socket has no address
            "server": None,
        }

    async def _receive(self) -> Message:
        """See the ASGI specification, version 3. A request that does not come whole is one whose client has left."""
        if self._http.their_state is h11.SEND_BODY and self._broken is None:
            try:
                event = await self._next_event()
            except (h11.RemoteProtocolError, OSError, TimeoutError) as error:
                self._broken = error
                return {"type": "http.disconnect"}
            body = bytes(event.data) if isinstance(event, h11.Data) else b""
            return {"type": "http.request", "body": body, "more_body": isinstance(event, h11.Data)}
        if self._broken is None:
            await self._reader.ended.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        """See the ASGI specification, version 3. Nothing is written once the client has left."""
        if self._is_left:
            return
        if message["type"] == "http.response.start":
            self._write(_head(message["status"], message.get("headers", ())))
            return
        if message.get("body") and not self._is_head:
            self._write(h11.Data(data=message["body"]))
        if not message.get("more_body", False):
            self._write(h11.EndOfMessage())
        with suppress(OSError):  # the client has left
            await self._writer.drain()

    @property
    def _is_left(self) -> bool:
        return self._broken is not None or self._reader.ended.is_set() or self._writer.is_closing()

    async def _next_event(self) -> Any:
        """Return the client's next event. Raises h11.RemoteProtocolError, OSError, TimeoutError."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                self._write(h11.InformationalResponse(status_code=100, headers=[]))
            self.is_waiting = True
            async with asyncio.timeout_at(self.waits_until):
                self._http.receive_data(await self._reader.read(READ))
            self.is_waiting = False
        self.is_waiting = False
        return event

    async def _refuse(self, answer: Answer) -> None:
        """Answer in place of the application, if no answer has begun, and take no more from this client."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or self._writer.is_closing():
            return
        headers = (
            (b"content-type", answer.content_type.encode()),
            (b"content-length", str(len(answer.body)).encode()),
            (b"connection", b"close"),
        )
        self._write(_head(answer.status, headers))
        self._write(h11.Data(data=b"" if self._is_head else answer.body))
        self._write(h11.EndOfMessage())
        with suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_S):
                while await self._reader.read(READ):
                    pass

    def _write(self, event: "h11.Response | h11.InformationalResponse | h11.Data | h11.EndOfMessage") -> None:
        self._writer.write(self._http.send(event) or b"")


def _head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> h11.Response:
    return h11.Response(status_code=status, headers=list(headers), reason=HTTPStatus(status).phrase.encode())


def _now() -> float:
    return asyncio.get_running_loop().time()
