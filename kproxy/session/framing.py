"""Cutting one direction of a connection into frames. Not here: what a frame means, finding a lost frame boundary."""

from dataclasses import dataclass
from struct import Struct

from kproxy.session.events import Frame

_read_size = Struct(">i").unpack_from


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may take; sizes in bytes."""

    frame_size: int = 104_857_600  # socket.request.max.bytes of a broker
    unauthenticated_frame_size: int = 524_288  # sasl.server.max.receive.size of a broker
    in_flight: int = 10_000  # requests
    in_flight_size: int = 268_435_456  # of their frames together; one frame of the largest size always fits
    fetch_partitions: int = 100_000  # of one fetch session


class FrameBuffer:
    """Cuts the bytes of one direction into frames, whatever the chunks; holds no more than what came of one frame.

    ``push`` a chunk, then call ``next`` until it gives None. A size field that is negative or above ``limit`` stops it:
    ``refused`` is then that size, and ``rest`` gives back everything from that size field on.
    """

    __slots__ = ("_at", "_chunk", "_needed", "_partial", "_position", "_started_at", "count", "limit", "refused")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0  # frames given out
        self.refused: int | None = None
        self._chunk = b""
        self._position = 0
        self._at = 0
        self._partial: bytearray | None = None  # size field and what followed it so far
        self._needed = 4
        self._started_at = 0

    @property
    def held(self) -> int:
        """Bytes of an unfinished frame, its size field included."""
        return 0 if self._partial is None else len(self._partial)

    @property
    def missing(self) -> int | None:
        """Bytes that the unfinished frame still lacks; None when its size field is not whole, 0 when there is none."""
        if self._partial is None:
            return 0
        return self._needed - len(self._partial) if len(self._partial) >= 4 else None

    def push(self, chunk: bytes, at: int) -> None:
        """Take a chunk that arrived at *at* (ns); the one before must have been used up."""
        self._chunk = chunk
        self._position = 0
        self._at = at

    def next(self) -> Frame | None:
        """The next whole frame, or None when the chunk is used up or a size was refused."""
        chunk = self._chunk
        length = len(chunk)
        if self._partial is None:
            start = self._position + 4
            if start <= length:
                (size,) = _read_size(chunk, start - 4)
                end = start + size
                if start <= end <= length and size <= self.limit:
                    self._position = end
                    self.count += 1
                    return Frame(chunk[start:end], self._at, self._at)
            elif start == length + 4:
                return None
        return self._next_from_pieces()

    def _next_from_pieces(self) -> Frame | None:
        """As ``next``, for a frame that does not lie whole in the chunk."""
        if self.refused is not None:
            return None
        partial = self._partial
        if partial is None:
            partial = self._partial = bytearray()
            self._started_at = self._at
            self._needed = 4
        if len(partial) < 4:
            self._take(partial, 4)
            if len(partial) < 4:
                return None
            (size,) = _read_size(partial)
            if not 0 <= size <= self.limit:
                self.refused = size
                return None
            self._needed = size + 4
        self._take(partial, self._needed)
        if len(partial) < self._needed:
            return None
        with memoryview(partial) as view:
            frame = Frame(bytes(view[4:]), self._started_at, self._at)
        self._partial = None
        self.count += 1
        return frame

    def _take(self, partial: bytearray, until: int) -> None:
        end = self._position + until - len(partial)
        partial += self._chunk[self._position : end]
        self._position = min(end, len(self._chunk))

    def rest(self) -> list[tuple[bytes, int]]:
        """Give back what was not cut, as (bytes, time) in order, and start anew."""
        pieces = []
        if self._partial is not None:
            pieces.append((bytes(self._partial), self._started_at))
        if self._position < len(self._chunk):
            pieces.append((self._chunk[self._position :], self._at))
        self._partial = None
        self.refused = None
        self._chunk = b""
        self._position = 0
        return pieces
