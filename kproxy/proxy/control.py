"""The channel between the supervisor and its children: JSON lines over a socket pair, and what is said on it.

The supervisor to a worker

    {"do": "configure", "config": {...}, "worker": i}   Config by msgspec.to_builtins; again after a reload. One that cannot be
                                                        done is answered by failed and leaves all as it was
    {"do": "certificates"}                              TLS files have changed: make contexts anew
    {"do": "brokers", "cluster": name, "brokers": [[node_id, host, port], ...]}   what another worker has learned
    {"do": "connections", "id": n}                      tell of the open ones
    {"do": "outlive"}                                   asked to stop, and going on until no client is connected
    {"do": "drain", "seconds": s}                       accept no more, answer what is in flight, close, exit

A worker to the supervisor

    {"said": "ready"}                   it listens; after each configure
    {"said": "failed", "why": text}     an address is in use, a filter does not load ...: one clear sentence
    {"said": "brokers", "cluster": name, "brokers": [...]}
    {"said": "connections", "id": n, "connections": [{...}, ...], "more": bool}     in as many lines as it takes
    {"said": "drained"}                 the last connection is closed; it exits
    {"said": "log", "level": "info", "event": "...", ...}   keys: KEYS of logs.py

The supervisor to the analyzer: configure and drain as above, and

    {"do": "forget", "worker": i}       that worker died: what it had open is over; another takes its place and its ring

The analyzer to the supervisor: ready, failed, log, drained as above, and once a second

    {"said": "counts", ...}             plain numbers for /metrics

Who hears what it does not know passes it over. When the channel ends, the child exits: its supervisor is gone.
"""

import asyncio
import ctypes
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from kproxy.errors import KproxyError

MOST_LINE = 1 << 20
PR_SET_PDEATHSIG = 1

Message = dict[str, Any]
_decoder = msgspec.json.Decoder(Message)


class ChannelError(KproxyError):
    """The other end says what cannot be understood, or a message is too big for a line."""


class Channel:
    """One end. ``async for message in channel`` goes on until the other end is closed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, end: socket.socket | int) -> Self:
        """The channel over a socket, or over an inherited file descriptor; it owns it from here."""
        opened = socket.socket(fileno=end) if isinstance(end, int) else end
        opened.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=opened, limit=MOST_LINE + 1))

    async def send(self, message: Message) -> None:
        """Send; waits while the other end does not read. To one that is gone nothing is sent: its end is noticed by reading.

        Raises ChannelError where the message does not fit in MOST_LINE bytes.
        """
        line = msgspec.json.encode(message) + b"\n"
        if len(line) > MOST_LINE:
            raise ChannelError(f"a message has {len(line):,} bytes, at most {MOST_LINE:,} go in a line")
        if self._writer.is_closing():
            return
        self._writer.write(line)
        try:
            await self._writer.drain()
        except ConnectionError:
            self.close()

    async def say_log(self, level: str, event: str, **keys: Any) -> None:
        """An event for the supervisor's log; *keys* are some of KEYS in logs.py."""
        await self.send({"said": "log", "level": level, "event": event, **keys})

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages as they come. Raises ChannelError for a line that is no JSON object or too long."""
        while (line := await self._line()).endswith(b"\n"):  # half a line: the other end died over it
            try:
                yield _decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ChannelError(f"a line cannot be understood: {error}") from None

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ValueError:
            raise ChannelError(f"a line has more than {MOST_LINE:,} bytes") from None
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Close this end: the other hears that it is over."""
        self._writer.close()


class ChildArguments(NamedTuple):
    """What a child's command line says, as words like ``control=5``. Numbers of inherited file descriptors."""

    parent: int  # process id of the supervisor
    control: int
    counters: int = -1  # a worker's; -1: none
    taps: tuple[int, ...] = ()  # a worker's one; of all workers for the analyzer
    others: tuple[int, ...] = ()  # counters of the other workers: limits hold for all together

    def words(self) -> list[str]:
        """For the command line."""
        return [f"{name}={_joined(value)}" for name, value in self._asdict().items()]

    def fds(self) -> list[int]:
        """What the child inherits."""
        return [fd for fd in (self.control, self.counters, *self.taps, *self.others) if fd >= 0]


def parse_child_arguments(words: Sequence[str]) -> ChildArguments:
    """The inverse of ``words()``; other words are passed over. Raises ValueError or KeyError."""
    found = dict(word.split("=", 1) for word in words if "=" in word)
    taps, others = (tuple(int(fd) for fd in found[name].split(",") if fd) for name in ("taps", "others"))
    return ChildArguments(int(found["parent"]), int(found["control"]), int(found["counters"]), taps, others)


def _joined(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else ",".join(str(fd) for fd in value)


def begin_child(arguments: ChildArguments) -> None:
    """First thing in a child: it does not outlive its parent, even a killed one, and leaves signals of the group to it.

    Linux kills it with the parent (prctl(2), PR_SET_PDEATHSIG), so that even a child that hangs goes. Exits at once where the
    parent is gone already.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != arguments.parent:
        os._exit(1)
