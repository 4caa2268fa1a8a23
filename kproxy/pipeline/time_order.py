"""Sort any number of items with little memory: sort runs, keep them in an unnamed temporary file, then merge them."""

import heapq
import os
import tempfile
from collections.abc import Iterator
from struct import Struct

RUN = 64 * 1024 * 1024  # bytes of items sorted in memory at a time
OVERHEAD = 120  # bytes of memory that each item takes in addition to its data
BLOCK = 256 * 1024  # bytes read from a run at a time

_SIZES = Struct("<II")


class TimeOrder:
    """Sorts items by bytes keys: add them all, then iterate. Close it, or use `with`.

    Args:
        run: bytes of items to hold in memory.

    Raises OSError if the temporary file cannot be written.
    """

    def __init__(self, *, run: int = RUN) -> None:
        self._run = run
        self._held: list[tuple[bytes, bytes]] = []
        self._size = 0
        self._runs: list[tuple[int, int]] = []  # start and end in the file
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close

    def add(self, key: bytes, item: bytes) -> None:
        """Add one item."""
        self._held.append((key, item))
        self._size += len(key) + len(item) + OVERHEAD
        if self._size >= self._run:
            self._spill()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the items in the order of their keys; equal keys keep the order in which they were added."""
        self._held.sort(key=_key)
        if not self._runs:
            return (item for _, item in self._held)
        self._spill()
        runs = [self._read(start, end) for start, end in self._runs]
        return (item for _, item in heapq.merge(*runs, key=_key))

    def _spill(self) -> None:
        """Write the items in memory as a run."""
        held, self._held, self._size = self._held, [], 0
        held.sort(key=_key)
        start = self._file.tell()
        for key, item in held:
            self._file.write(_SIZES.pack(len(key), len(item)) + key + item)
        self._file.flush()
        self._runs.append((start, self._file.tell()))

    def _read(self, position: int, end: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the items of a run, read in blocks."""
        block, at = b"", 0
        while at < len(block) or position < end:
            need = _SIZES.size
            if len(block) - at >= need:
                key_size, item_size = _SIZES.unpack_from(block, at)
                need += key_size + item_size
            if len(block) - at < need:
                more = os.pread(self._file.fileno(), min(max(BLOCK, need), end - position), position)
                position += len(more)
                block, at = block[at:] + more, 0
                continue
            key_end = at + _SIZES.size + key_size
            yield block[at + _SIZES.size : key_end], block[key_end : at + need]
            at += need

    def close(self) -> None:
        """Remove the temporary file with the items in it."""
        self._file.close()

    def __enter__(self) -> "TimeOrder":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _key(pair: tuple[bytes, bytes]) -> bytes:
    return pair[0]
