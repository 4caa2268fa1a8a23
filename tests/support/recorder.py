"""A relay that keeps all bytes that pass it: put before kproxy and behind it, it says what each side sent."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from struct import unpack_from
from threading import Thread
from typing import Any, Self

from kproxy.protocol import read_request_header
from kproxy.protocol.constants import SIZE_FIELD

HOST = "127.0.0.1"
CHUNK = 1 << 18
PATIENCE_S = 30.0


@dataclass
class Recorded:
    """One connection."""

    asked: bytearray = field(default_factory=bytearray)  # from the client
    answered: bytearray = field(default_factory=bytearray)
    is_open: bool = True

    def requests(self) -> list[bytes]:
        """Its whole request frames."""
        return _frames(self.asked)

    def responses(self) -> list[bytes]:
        """Its whole response frames."""
        return _frames(self.answered)

    def client_id(self) -> str | None:
        """Of its first request."""
        requests = self.requests()
        return read_request_header(requests[0], SIZE_FIELD).client_id if requests else None


def _frames(data: bytearray) -> list[bytes]:
    found, at = [], 0
    while len(data) - at >= SIZE_FIELD:
        end = at + SIZE_FIELD + int(unpack_from(">i", data, at)[0])
        if end > len(data):
            break
        found.append(bytes(data[at:end]))
        at = end
    return found


class Recorder:
    """Relays on any number of ports, in a thread of its own, for as long as the block lasts."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="recorder", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._connections: dict[int, list[Recorded]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def listen(self, target: str, port: int = 0) -> int:
        """Relay what comes to *port*, or to one that is free, to *target*; returns the port."""
        return self._run(self._listen(target, port))

    def connections(self, port: int) -> Sequence[Recorded]:
        """Those that came to a port, in their order."""
        return list(self._connections[port])

    def _run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE_S)

    async def _listen(self, target: str, port: int) -> int:
        host, _, number = target.rpartition(":")

        async def opened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)  # the loop itself does not keep it
            try:
                with contextlib.suppress(OSError):
                    await self._relay(kept, (host, int(number)), reader, writer)
            finally:
                self._tasks.discard(task)

        server = await asyncio.start_server(opened, HOST, port, limit=CHUNK)
        self._servers.append(server)
        found = int(server.sockets[0].getsockname()[1])
        kept = self._connections[found] = []
        return found

    async def _relay(
        self, kept: list[Recorded], target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = Recorded()
        kept.append(connection)
        writers = [writer]
        try:
            inner_reader, inner_writer = await asyncio.open_connection(*target, limit=CHUNK)
            writers.append(inner_writer)
            await asyncio.gather(
                _pass_on(reader, inner_writer, connection.asked), _pass_on(inner_reader, writer, connection.answered)
            )
        finally:
            connection.is_open = False
            for each in writers:
                each.close()
            for each in writers:
                with contextlib.suppress(OSError):
                    await each.wait_closed()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    """Keep what comes before it is passed on: what the other side has, is kept."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            kept += data
            writer.write(data)
            await writer.drain()
        writer.write_eof()
