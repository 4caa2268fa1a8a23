"""A connected socket that reads and writes exact bytes."""

import socket
from struct import unpack_from
from types import TracebackType
from typing import Self

CHUNK = 1 << 18


class Exact:
    """Raises EOFError when the other side ends too early."""

    socket: socket.socket

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def exactly(self, size: int) -> bytes:
        """The next *size* bytes."""
        data = bytearray()
        while len(data) < size:
            more = self.socket.recv(min(size - len(data), CHUNK))
            if not more:
                raise EOFError(f"ended {size - len(data)} bytes early, after {len(data)}")
            data += more
        return bytes(data)

    def frame(self) -> bytes:
        """The next frame whole, size field included."""
        size = self.exactly(4)
        return size + self.exactly(unpack_from(">i", size)[0])
