"""SpillFiles: files in a directory for what does not fit into memory; they have no names there.

A file without a name (O_TMPFILE of open(2), or one whose name is removed at once) ends with the process, however that ends:
after a crash nothing is left, and it cannot be opened by a path. ``ls`` does not show it; ``df`` does.
"""

import os
from collections import deque
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct

SEGMENT = 16 << 20  # bytes of a file after which the next piece begins another one
OF_MOST = 8  # a file has at most one in so many of the allowed bytes, so that few leave with it


class Segment(Struct):
    """A file that is written to its end, then released."""

    file: IO[bytes]
    size: int = 0
    pieces: int = 0  # how many are not released yet


class Place(Struct, frozen=True):
    """Where a piece is."""

    segment: Segment
    position: int
    size: int


class SpillFiles:
    """Keeps pieces of bytes, released about in the order in which they came: a file is released with its last piece.

    Args:
        folder: the directory.
        most: bytes that may be there.
    """

    def __init__(self, folder: Path, most: int = SEGMENT * OF_MOST) -> None:
        self.folder = folder
        self._segment = min(SEGMENT, most // OF_MOST)
        self.size = 0  # bytes of the files
        self._segments: deque[Segment] = deque()

    def open(self) -> IO[bytes]:
        """Return another file, which the caller owns. Raises OSError."""
        return TemporaryFile(dir=self.folder, prefix="kproxy-")

    def write(self, data: bytes) -> Place:
        """Write a piece, and return its place. Raises OSError if there is no room; then nothing has changed."""
        if not self._segments or self._segments[-1].size >= self._segment:
            self._segments.append(Segment(self.open()))
        segment = self._segments[-1]
        written = 0
        while written < len(data):
            written += os.pwrite(segment.file.fileno(), memoryview(data)[written:], segment.size + written)
        place = Place(segment, segment.size, len(data))
        segment.size += len(data)
        segment.pieces += 1
        self.size += len(data)
        return place

    def read(self, place: Place) -> bytes:
        """Return a piece. Raises OSError."""
        data = os.pread(place.segment.file.fileno(), place.size, place.position)
        if len(data) != place.size:
            raise OSError("a file is shorter than what was written to it")
        return data

    def release(self, place: Place) -> None:
        """Release a piece."""
        segment = place.segment
        segment.pieces -= 1
        if not segment.pieces and (segment.size >= self._segment or segment is not self._segments[-1]):
            self._segments.remove(segment)
            self.size -= segment.size
            segment.file.close()

    def close(self) -> None:
        """Release all pieces."""
        for segment in self._segments:
            segment.file.close()
        self._segments.clear()
        self.size = 0
