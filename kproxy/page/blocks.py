"""Blocks: exchanges in compressed blocks, bounded in bytes. The oldest are dropped, or spilled to files.

An item is one exchange: its line of the decoded log, and both frames with their size field and with what is needed to read them.
Credentials are withheld, and contents of records unless they were asked for. Items are numbered from 1 on, without gaps.

SpillFiles are files without names. Such a file (O_TMPFILE of open(2), or one whose name is removed at once) ends with the
process, however that ends: after a crash nothing is left, and it cannot be opened by a path. ``df`` shows it; ``ls`` does not.
"""

import os
import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Generic, TypeVar

import msgspec
import zstandard
from msgspec import Struct

BLOCK = 256 * 1024  # bytes before compression, about; a larger item has a block of its own
LEVEL = 1
MOST_OPEN = 6  # blocks that stay decompressed
SEGMENT = 16 << 20  # bytes of a file after which the next piece begins another one
OF_MOST = 8  # a file has at most one in so many of the allowed bytes, so that few leave with it


class Side(Struct, frozen=True, omit_defaults=True):
    """A frame: its bytes, and how its body is read."""

    data: bytes  # with the size field; b"" where only the decoded log is there
    size: int  # on the wire
    message: str | None = None  # Kafka's name; None: the body cannot be read
    version: int = 0  # the one that the body is laid out as
    layout: str | None = None  # the release of an older layout of this version
    body_start: int = 0  # in data
    trailing: int = 0  # bytes after the message
    cut: str = ""  # why data is only its beginning, in words
    note: str = ""  # what was withheld from data, in words


class Item(Struct, frozen=True, omit_defaults=True):
    """One exchange."""

    line: bytes
    request: Side | None = None
    response: Side | None = None


def size_of(item: Item) -> int:
    """Return about how many bytes an item takes."""
    return len(item.line) + sum(len(side.data) for side in (item.request, item.response) if side is not None)


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
        segment = place.segment
        segment.pieces -= 1
        if not segment.pieces and (segment.size >= self._segment or segment is not self._segments[-1]):
            self._segments.remove(segment)
            self.size -= segment.size
            segment.file.close()

    def close(self) -> None:
        for segment in self._segments:
            segment.file.close()
        self._segments.clear()
        self.size = 0


class _Block(Struct):
    first: int  # number of its first item
    count: int
    size: int  # compressed
    data: bytes | Place


T = TypeVar("T", bound=Struct)
_encode = msgspec.msgpack.Encoder().encode


class Blocks(Generic[T]):
    """The items. One thread appends; any may read.

    Args:
        most: bytes of compressed blocks that are kept in memory; beyond these the oldest blocks leave.
        spill: files for the blocks that leave, closed with this object; None: they are dropped.
        kind: of the items.
        size_of: returns about how many bytes an item has.
    """

    def __init__(
        self,
        most: int,
        spill: SpillFiles | None = None,
        kind: type[T] = Item,  # type: ignore[assignment]
        size_of: Callable[[T], int] = size_of,  # type: ignore[assignment]
    ) -> None:
        self._size_of = size_of
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]
        self._most = most
        self.size = 0  # bytes of blocks in memory
        self.first = 1  # number of the first item that is here
        self.last = 0  # number of the last item
        self._blocks: deque[_Block] = deque()
        self._in_memory = 0  # how many blocks, those at the end, are in memory
        self._open: list[T] = []
        self._open_size = 0
        self._recent: OrderedDict[int, list[T]] = OrderedDict()  # number of the first item -> the items of its block
        self._lock = threading.Lock()
        self._spill = spill

    @property
    def held(self) -> int:
        """Bytes of all items in memory, in blocks and still outside of them (about)."""
        return self.size + self._open_size

    def append(self, item: T) -> int:
        size = self._size_of(item)
        with self._lock:
            self._open.append(item)
            self._open_size += size
            self.last += 1
            if self._open_size >= BLOCK:
                self._close_block()
            return self.last

    def get(self, number: int) -> T | None:
        """Return the item with this number; None if it was dropped or has not come yet."""
        return next(self.some([number]))

    def some(self, numbers: Iterable[int]) -> Iterator[T | None]:
        """Yield the items with these ascending numbers, None for each that is not kept. Only their blocks are decompressed."""
        start, items = 0, list[T]()
        for number in numbers:
            if not start <= number < start + len(items):
                start, items = self._around(number)
            yield items[number - start] if start <= number < start + len(items) else None

    def _around(self, number: int) -> tuple[int, list[T]]:
        """Return the number of the first item of the block that holds *number*, and its items; none if it is not kept."""
        with self._lock:
            if not self.first <= number <= self.last:
                return number, []
            first_open = self.last - len(self._open) + 1
            if number >= first_open:
                return first_open, list(self._open)
            block = self._blocks[bisect_right(self._blocks, number, key=lambda one: one.first) - 1]
            return block.first, self._items(block)

    def drop_before(self, first: int) -> None:
        """Drop the items before this one; their bytes are released in whole blocks."""
        with self._lock:
            while self._blocks and self._blocks[0].first + self._blocks[0].count <= first:
                self._remove_oldest()
            self.first = max(self.first, first)

    def spill_before(self, first: int) -> None:
        """Write the blocks that end before this item to the files. Raises OSError: then nothing has moved."""
        while self._in_memory:
            with self._lock:
                oldest = self._blocks[-self._in_memory]
                if oldest.first + oldest.count > first:
                    return
            place = self._written(oldest)
            with self._lock:
                self._move(oldest, place)

    def close(self) -> None:
        if self._spill is not None:
            self._spill.close()

    def _close_block(self) -> None:
        data = zstandard.ZstdCompressor(level=LEVEL).compress(_encode(self._open))
        self._blocks.append(_Block(self.last - len(self._open) + 1, len(self._open), len(data), data))
        self._in_memory += 1
        self.size += len(data)
        self._open, self._open_size = [], 0
        while self.size > self._most and self._in_memory > 1:
            self._make_room()

    def _make_room(self) -> None:
        oldest = self._blocks[-self._in_memory]
        try:
            place = None if self._spill is None else self._written(oldest)
        except OSError:  # the disk is full: the oldest block, in a file if there are any, makes room
            place = None
        if place is None:
            self._remove_oldest()
            self.first = self._blocks[0].first
        else:
            self._move(oldest, place)

    def _written(self, block: _Block) -> Place:
        assert self._spill is not None and isinstance(block.data, bytes)
        return self._spill.write(block.data)

    def _move(self, block: _Block, place: Place) -> None:
        block.data = place
        self._in_memory -= 1
        self.size -= block.size

    def _remove_oldest(self) -> None:
        oldest = self._blocks.popleft()
        self._recent.pop(oldest.first, None)
        if isinstance(oldest.data, Place):
            assert self._spill is not None
            self._spill.release(oldest.data)
        else:
            self._in_memory -= 1
            self.size -= oldest.size

    def _items(self, block: _Block) -> list[T]:
        items = self._recent.get(block.first)
        if items is None:
            data = block.data
            if isinstance(data, Place):
                assert self._spill is not None
                data = self._spill.read(data)
            items = self._recent[block.first] = self._decode(zstandard.ZstdDecompressor().decompress(data))
            if len(self._recent) > MOST_OPEN:
                self._recent.popitem(last=False)
        else:
            self._recent.move_to_end(block.first)
        return items
