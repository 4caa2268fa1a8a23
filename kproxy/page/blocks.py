"""Blocks: exchanges in compressed blocks, bounded in bytes. The oldest are dropped, or spilled to files.

An item is one exchange: its line of the decoded log, and both frames with their size field and with what is needed to read them.
Credentials are withheld, and contents of records unless they were asked for. Items are numbered from 1 on, without gaps.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec
import zstandard
from msgspec import Struct

from kproxy.page.spilling import Place, SpillFiles

BLOCK = 256 * 1024  # bytes before compression, about; a larger item has a block of its own
LEVEL = 1
MOST_OPEN = 6  # blocks that stay decompressed


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
        spill: files for the blocks that leave, closed with this object; None: they are dropped, and counted.
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
        self.most = most
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
    def dropped(self) -> int:
        """How many items were dropped."""
        return self.first - 1

    @property
    def held(self) -> int:
        """Bytes of all items in memory, in blocks and still outside of them (about)."""
        return self.size + self._open_size

    def append(self, item: T) -> int:
        """Add an item, and return its number."""
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
        with self._lock:
            if not self.first <= number <= self.last:
                return None
            first_open = self.last - len(self._open) + 1
            if number >= first_open:
                return self._open[number - first_open]
            block = self._block_of(number)
            return self._items(block)[number - block.first]

    def items(self, first: int, last: int) -> Iterator[tuple[int, T]]:
        """Yield the kept items between two numbers, each with its number."""
        number = first
        while number <= last:
            with self._lock:
                number = max(number, self.first)
                if number > min(last, self.last):
                    return
                first_open = self.last - len(self._open) + 1
                if number >= first_open:
                    start, block_items = first_open, list(self._open)
                else:
                    block = self._block_of(number)
                    start, block_items = block.first, self._items(block)
            for item in block_items[number - start :]:
                if number > last:
                    return
                yield number, item
                number += 1

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
            block = self._block_of(number)
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
            assert self._spill is not None and isinstance(oldest.data, bytes)
            place = self._spill.write(oldest.data)
            with self._lock:
                oldest.data = place
                self._in_memory -= 1
                self.size -= oldest.size

    def close(self) -> None:
        """Release the files."""
        if self._spill is not None:
            self._spill.close()

    def _close_block(self) -> None:
        data = zstandard.ZstdCompressor(level=LEVEL).compress(_encode(self._open))
        self._blocks.append(_Block(self.last - len(self._open) + 1, len(self._open), len(data), data))
        self._in_memory += 1
        self.size += len(data)
        self._open, self._open_size = [], 0
        while self.size > self.most and self._in_memory > 1:
            self._make_room()

    def _make_room(self) -> None:
        oldest = self._blocks[-self._in_memory]
        assert isinstance(oldest.data, bytes)
        try:
            place = None if self._spill is None else self._spill.write(oldest.data)
        except OSError:  # the disk is full: the oldest block, in a file if there are any, makes room
            place = None
        if place is None:
            self._remove_oldest()
            self.first = self._blocks[0].first
            return
        oldest.data = place
        self._in_memory -= 1
        self.size -= oldest.size

    def _remove_oldest(self) -> None:
        oldest = self._blocks.popleft()
        self._recent.pop(oldest.first, None)
        if isinstance(oldest.data, Place):
            assert self._spill is not None
            self._spill.release(oldest.data)
        else:
            self._in_memory -= 1
            self.size -= oldest.size

    def _block_of(self, number: int) -> _Block:
        low, high = 0, len(self._blocks) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._blocks[middle].first <= number:
                low = middle
            else:
                high = middle - 1
        return self._blocks[low]

    def _items(self, block: _Block) -> list[T]:
        items = self._recent.get(block.first)
        if items is None:
            items = self._recent[block.first] = self._decode(zstandard.ZstdDecompressor().decompress(self._data(block)))
            if len(self._recent) > MOST_OPEN:
                self._recent.popitem(last=False)
        else:
            self._recent.move_to_end(block.first)
        return items

    def _data(self, block: _Block) -> bytes:
        if isinstance(block.data, bytes):
            return block.data
        assert self._spill is not None
        return self._spill.read(block.data)
