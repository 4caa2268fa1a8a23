"""The shuffle of a divided capture through files in the staging folder: written by part, read by connection.

    FOLDER/<part>.blocks     the blocks of a part of the capture, as they became full
    FOLDER/<part>.index      for each partition where its entries are and how many; then the entries: key, first packet, place

A task writes both under temporary names and renames them, so a second attempt of the task does no harm. Reading takes the
entries of a partition from all indexes, sorts them, and reads block by block: memory holds one block, and 57 bytes for each
entry.

If a capture stays in place (divided.py), blocks hold the places of payloads instead of payloads: 44 bytes are written for each
packet, and reading a block reads its payloads from the capture.

Spark's own shuffle (``sorted_by_spark`` in divided.py) takes twice the CPU. It is for clusters whose staging folder is slower
than the executors' disks.
"""

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO, TypeAlias

from kproxy.capture.segments import fill
from kproxy.errors import CaptureError
from kproxy.spark.files import open_raw

Key: TypeAlias = tuple[bytes, int]
Block: TypeAlias = tuple[bytes, int, bytes]
SLOT = struct.Struct("<QQ")
ENTRY = struct.Struct("<B36sQQI")
MOST_OPEN = 256


class BlockFiles:
    """The files of one capture; plain values, so that it can be sent to executors.

    Args:
        folder: that all tasks see.
        parts: of the capture.
        partitions: of the connections.
        capture: the path of the file that has the payloads; empty: blocks have them.
    """

    def __init__(self, folder: str, parts: int, partitions: int, capture: str = "") -> None:
        self.folder = folder
        self.parts = parts
        self.partitions = partitions
        self.capture = capture

    def write(self, part: int, blocks: Iterable[Block], partition_of: Callable[[Key], int], attempt: str) -> None:
        """Write the blocks of a part."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        entries: list[list[bytes]] = [[] for _ in range(self.partitions)]
        temporary = folder / f"{part}.{attempt}"
        at = 0
        with temporary.open("wb") as file:
            for key, first, block in blocks:
                file.write(block)
                entries[partition_of((key, first))].append(ENTRY.pack(len(key), key, first, at, len(block)))
                at += len(block)
        temporary.replace(folder / f"{part}.blocks")
        at = SLOT.size * self.partitions
        with temporary.open("wb") as file:
            for own in entries:
                file.write(SLOT.pack(at, len(own)))
                at += ENTRY.size * len(own)
            for own in entries:
                file.write(b"".join(own))
        temporary.replace(folder / f"{part}.index")

    def read(self, partition: int) -> Iterator[tuple[Key, bytes]]:
        """Yield the blocks of a partition, connection by connection, in the order of packets.

        Raises CaptureError if payloads stayed in the capture, and it has changed.
        """
        if not self.capture:
            yield from self._read(partition)
            return
        with closing(open_raw(self.capture)) as capture:
            for key, block in self._read(partition):
                try:
                    yield key, fill(block, capture.fileno())
                except (OSError, EOFError) as error:
                    raise CaptureError(f"{self.capture}: it changed while it was being read") from error

    def _read(self, partition: int) -> Iterator[tuple[Key, bytes]]:
        places: list[tuple[bytes, int, int, int, int]] = []
        for part in range(self.parts):
            with (Path(self.folder) / f"{part}.index").open("rb") as index:
                index.seek(SLOT.size * partition)
                begin, count = SLOT.unpack(index.read(SLOT.size))
                index.seek(begin)
                for size, key, first, at, length in ENTRY.iter_unpack(index.read(ENTRY.size * count)):
                    places.append((key[:size], first, part, at, length))
        places.sort()
        with ExitStack() as stack:
            opened: dict[int, BinaryIO] = {}
            for key, first, part, at, length in places:
                if part not in opened and len(opened) >= MOST_OPEN:
                    stack.close()
                    opened.clear()
                if part not in opened:
                    opened[part] = stack.enter_context((Path(self.folder) / f"{part}.blocks").open("rb", buffering=0))
                yield (key, first), os.pread(opened[part].fileno(), length, at)
