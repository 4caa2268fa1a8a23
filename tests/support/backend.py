"""Listening sockets of a test: any that serves its connections, one that echoes, and one that answers by a script."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from struct import pack

READ_SIZE = 65_536
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(
    serve: Serve, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """A server; gives its port. A connection is closed when *serve* returns or the client leaves; at the end, all are ended."""
    tasks: set[asyncio.Task[None]] = set()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                await serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            tasks.discard(task)

    async with await asyncio.start_server(once, host, port, ssl=tls) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def frame_from(reader: asyncio.StreamReader) -> bytes:
    """The next frame, without its size."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def answer_to(request: bytes, body: bytes) -> bytes:
    """The response frame to a request frame without its size."""
    return pack(">i", 4 + len(body)) + request[4:8] + body


@contextlib.asynccontextmanager
async def echo(host: str = "127.0.0.1") -> AsyncIterator[tuple[int, list[str]]]:
    """A server that sends back what it gets: its port, and the address of every client that came."""
    came: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("peername")[0])
        while data := await reader.read(READ_SIZE):
            writer.write(data)

    async with listening(serve, host=host) as port:
        yield port, came


@contextlib.asynccontextmanager
async def scripted(script: Sequence[tuple[int, Sequence[bytes]]]) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server for one client: reads so many bytes, answers each of the pieces in a segment of its own, and so on; then closes.

    Gives its port and what was read.
    """
    read: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size, pieces in script:
            read.append(await reader.readexactly(size))
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.01)  # so that they are not one segment

    async with listening(serve) as port:
        yield port, read


async def said_back(connected: socket.socket, data: bytes) -> bytes:
    """What an echoing server at the other end says to *data*; closes the socket."""
    loop = asyncio.get_running_loop()
    with connected:
        await loop.sock_sendall(connected, data)
        received = b""
        while len(received) < len(data) and (piece := await loop.sock_recv(connected, READ_SIZE)):
            received += piece
        return received
