"""Listening sockets of a test: one that echoes, and one that answers by a script."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from struct import unpack_from
from typing import Self

from tests.support.frames import heartbeat_answer

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


class HeldBroker:
    """Listens on a port of its own; a thread a connection. ``asked`` is set when a request has come."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept, which would keep the port open
        self._listener.close()

    def hold(self) -> None:
        """Keep the answers from here on."""
        self.asked.clear()
        self.may_answer.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as requests, contextlib.suppress(OSError):
            while size := requests.read(4):
                body = requests.read(unpack_from(">i", size)[0])
                self.asked.set()
                self.may_answer.wait()
                client.sendall(heartbeat_answer(unpack_from(">i", body, 4)[0]))
