"""Forward a browser's request to the process of the live page, over its Unix domain socket, and stream the answer back.

Only GET and HEAD are forwarded, and no body: where a request ends is then decided here alone, and two readers of one request
cannot see different ends (request smuggling).
"""

import asyncio
from contextlib import suppress

import h11
from starlette.types import Receive, Scope, Send

READ = 65_536
OF_ONE_HOP = {b"connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade", b"proxy-connection", b"trailer"}
EVENTS = b"text/event-stream"
OF_BODIES = {b"content-length", b"expect"}


async def forward(path: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Forward one GET or HEAD. Raises OSError or h11.ProtocolError if the process ends or breaks before it has answered."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        exchange = _Exchange(reader, writer, send)
        await exchange.ask(scope)
        answering = asyncio.ensure_future(exchange.answer())
        leaving = asyncio.ensure_future(_until_left(receive))
        try:
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _until_left(receive: Receive) -> None:
    """Wait until the browser has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _Exchange:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, send: Send) -> None:
        self._connection = h11.Connection(h11.CLIENT)
        self._reader, self._writer, self._send = reader, writer, send
        self._is_of_events = False

    async def ask(self, scope: Scope) -> None:
        """Send the request, without a body."""
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        headers = [(name, value) for name, value in scope["headers"] if name not in OF_ONE_HOP | OF_BODIES]
        await self._write(h11.Request(method=scope["method"], target=target, headers=headers))
        await self._write(h11.EndOfMessage())

    async def answer(self) -> None:
        """Pass the answer on. A stream of events simply ends with the process, as another process may follow."""
        try:
            await self._pass_on()
        except (OSError, h11.RemoteProtocolError):
            if not self._is_of_events:
                raise
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self) -> None:
        while True:
            event = self._connection.next_event()
            match event:
                case h11.NEED_DATA:
                    self._connection.receive_data(await self._reader.read(READ))
                case h11.Response():
                    headers = [(name, value) for name, value in event.headers if name not in OF_ONE_HOP]
                    await self._send({"type": "http.response.start", "status": event.status_code, "headers": headers})
                    self._is_of_events = dict(headers).get(b"content-type", b"").startswith(EVENTS)
                case h11.Data():
                    body = bytes(event.data)
                    await self._send({"type": "http.response.body", "body": body, "more_body": True})
                case h11.EndOfMessage() | h11.ConnectionClosed():
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                    return

    async def _write(self, event: "h11.Request | h11.EndOfMessage") -> None:
        data = self._connection.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()
