"""A program that stands before a broker's listener and says who comes: `python gate.py HOST TARGET_HOST:PORT ...`.

Its first line of output is the list of ports it listens on, one a target. Then it answers every line of its input with a line of
JSON: the mark of every process that has connected since the last time (the environment variable KPROXY_TEST_MARK it was started
with, "" for none) with its number and command line.
"""

import asyncio
import contextlib
import itertools
import json
import socket
import sys
from pathlib import Path

MARK = "KPROXY_TEST_MARK"
_CHUNK = 1 << 18
_MOST_RECENT = 8


def inode_of(local: tuple[str, int], remote: tuple[str, int]) -> str | None:
    """The inode of the socket bound to *local* and connected to *remote*, both IPv4.

    A program that takes IPv6 sockets for everything, as Java does, is in the other file, with mapped addresses.
    """
    for file, mapped in (("/proc/net/tcp", ""), ("/proc/net/tcp6", "0000000000000000FFFF0000")):
        ends = [f"{mapped}{_written(end)}" for end in (local, remote)]
        for line in Path(file).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[1:3] == ends:
                return columns[9]
    return None


def _written(end: tuple[str, int]) -> str:
    return f"{int.from_bytes(socket.inet_aton(end[0]), 'little'):08X}:{end[1]:04X}"


_recent: list[str] = []  # processes that owned sockets, the last first: most often one of them connects again


def owner_of(inode: str | None) -> int:
    """The number of a process that holds socket *inode*; 0 when there is none to be seen."""
    wanted = f"socket:[{inode}]"
    others = (folder.name for folder in Path("/proc").iterdir() if folder.name.isdigit())
    for process in itertools.chain(list(_recent), others):
        if _holds(process, wanted):
            _recent[:] = [process, *(each for each in _recent if each != process)][:_MOST_RECENT]
            return int(process)
    return 0


def _holds(process: str, wanted: str) -> bool:
    with contextlib.suppress(OSError):
        return any(str(held.readlink()) == wanted for held in Path("/proc", process, "fd").iterdir())
    return False


def visitor(local: tuple[str, int], remote: tuple[str, int]) -> dict[str, object]:
    """Who has the other end of a connection."""
    pid = owner_of(inode_of(local, remote))
    mark = command = b""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        mark = next((line.partition(b"=")[2] for line in variables if line.startswith(MARK.encode() + b"=")), b"")
    return {"pid": pid, "mark": mark.decode(), "command": command.decode(errors="replace")}


class Gate:
    """Relays, and remembers who came."""

    def __init__(self) -> None:
        self.visitors: list[dict[str, object]] = []

    async def relay(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                sink.write(data)
                await sink.drain()
            sink.write_eof()

    async def opened(self, target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visitors.append(visitor(writer.get_extra_info("peername"), writer.get_extra_info("sockname")))
        try:
            inner_reader, inner_writer = await asyncio.open_connection(*target, limit=_CHUNK)
        except OSError:  # as a broker that is not there: refused, as near as one can come
            writer.transport.abort()
            return
        try:
            await asyncio.gather(self.relay(reader, inner_writer), self.relay(inner_reader, writer))
        finally:
            for one in (writer, inner_writer):
                one.transport.abort()


async def main(host: str, targets: list[str]) -> None:
    """Listen for every target; then answer until standard input ends."""
    gate = Gate()
    ports = []
    for target in targets:
        name, _, port = target.rpartition(":")

        async def opened(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: tuple[str, int] = (name, int(port))
        ) -> None:
            await gate.opened(end, reader, writer)

        server = await asyncio.start_server(opened, host, 0, limit=_CHUNK, backlog=1024)
        ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    questions = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    while await questions.readline():
        seen, gate.visitors = gate.visitors, []
        print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
