"""Listening sockets of a test: one that echoes, and one that answers by a script."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence

READ_SIZE = 65_536


@contextlib.asynccontextmanager
async def echo(host: str = "127.0.0.1") -> AsyncIterator[tuple[int, list[str]]]:
    """A server that sends back what it gets: its port, and the address of every client that came."""
    came: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("peername")[0])
        with contextlib.closing(writer):
            while data := await reader.read(READ_SIZE):
                writer.write(data)

    server = await asyncio.start_server(serve, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


@contextlib.asynccontextmanager
async def scripted(script: Sequence[tuple[int, Sequence[bytes]]]) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server for one client: reads so many bytes, answers each of the pieces in a segment of its own, and so on; then closes.

    Gives its port and what was read.
    """
    read: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for size, pieces in script:
                read.append(await reader.readexactly(size))
                for piece in pieces:
                    writer.write(piece)
                    await asyncio.sleep(0.01)  # so that they are not one segment

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], read


async def said_back(connected: socket.socket, data: bytes) -> bytes:
    """What an echoing server at the other end says to *data*; closes the socket."""
    loop = asyncio.get_running_loop()
    with connected:
        await loop.sock_sendall(connected, data)
        received = b""
        while len(received) < len(data) and (piece := await loop.sock_recv(connected, READ_SIZE)):
            received += piece
        return received
