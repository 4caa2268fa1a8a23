"""The channel between the supervisor and a child: messages (messages.py) as JSON lines over a socket pair.

A line that is no message of the receiver's union is passed to ``on_malformed`` and skipped. When the channel ends, the child
exits: its supervisor is gone.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from types import UnionType
from typing import Generic, Self, TypeVar

import msgspec

from kproxy.proxy.logs import log
from kproxy.proxy.messages import Message

LONGEST_LINE = 1 << 20
MESSAGE_DROPPED = "a message to another process is too long and is dropped"

Received = TypeVar("Received", bound=Message)


def _log_too_long(reason: str) -> None:
    log("error", MESSAGE_DROPPED, reason=reason)


class Channel(Generic[Received]):
    """One end. ``async for message in channel`` ends when the other end is closed."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        received: UnionType,
        on_malformed: Callable[[str], None],
        on_too_long: Callable[[str], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.json.Decoder[Received] = msgspec.json.Decoder(received)
        self._on_malformed = on_malformed
        self._on_too_long = on_too_long

    @classmethod
    async def open(
        cls,
        end: socket.socket | int,
        received: UnionType,
        on_malformed: Callable[[str], None],
        on_too_long: Callable[[str], None] = _log_too_long,
    ) -> Self:
        """Open the channel over a socket or an inherited file descriptor, and own it from here on.

        Args:
            end: the socket or file descriptor.
            received: the union of the messages that may be received.
            on_malformed: called with the reason for each line that is none of them.
            on_too_long: called with the size of each message that is dropped by ``send``.
        """
        opened = socket.socket(fileno=end) if isinstance(end, int) else end
        opened.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=opened, limit=LONGEST_LINE + 1)
        return cls(reader, writer, received, on_malformed, on_too_long)

    async def send(self, message: Message) -> bool:
        """Send, waiting while the other end does not read. If the other end is gone, nothing is sent: reading notices its end.

        A message of more than LONGEST_LINE bytes is passed to ``on_too_long`` and dropped; the result is then False.
        """
        line = msgspec.json.encode(message) + b"\n"
        if len(line) > LONGEST_LINE:
            name = type(message).__name__
            self._on_too_long(f"{name} has {len(line):,} bytes, at most {LONGEST_LINE:,} go in a line")
            return False
        if self._writer.is_closing():
            return True
        self._writer.write(line)
        try:
            await self._writer.drain()
        except ConnectionError:
            self.close()
        return True

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Iterate over the messages as they arrive."""
        while True:
            try:
                line = await self._reader.readline()
                if not line.endswith(b"\n"):  # the end; after half a line the other end died while it wrote
                    return
                message = self._decoder.decode(line)
            except ConnectionError:
                return
            except (msgspec.MsgspecError, ValueError) as error:  # ValueError: the line is too long, or no UTF-8
                self._on_malformed(str(error))
                continue
            yield message

    def close(self) -> None:
        """Close this end; the other end's iteration ends."""
        self._writer.close()
