"""Rows of one task as chunks of an RDD instead of files, for outputs that Spark itself writes (writers.py).

A chunk has some thousands of rows of a table and day, of one input file, as an Arrow stream. A task yields chunks as they
become full, so it holds at most one chunk for each table and day, as with files.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from kproxy.output.tables import Table
from kproxy.spark.parts import PartWriter, RowsFile

if TYPE_CHECKING:
    import pyarrow

CHUNK_ROWS = 32_768
CHUNK_BYTES = 4 << 20  # in Arrow's memory


class Chunk(Struct, frozen=True):
    """Rows of the input file whose key is *source*."""

    source: str
    table: str
    day: str
    rows: bytes


class ChunkWriter(PartWriter):
    """Writes rows as chunks; ``take`` returns full chunks, ``close`` completes the rest.

    Args:
        source: key of the input file.
        default_day: see PartWriter.
    """

    def __init__(self, source: str, default_day: str) -> None:
        super().__init__("", "", default_day)
        self._source = source
        self._ready: list[Chunk] = []

    def take(self) -> list[Chunk]:
        """Return the full chunks since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def _open(self, table: Table, day: str) -> RowsFile:
        return _Chunks(self._source, table.name, day, self._ready_chunk)

    def _ready_chunk(self, chunk: Chunk) -> None:
        self._ready.append(chunk)


class _Chunks:
    def __init__(self, source: str, table: str, day: str, put: Callable[[Chunk], None]) -> None:
        self.path = Path()  # there is no file
        self.rows = 0
        self._begins = source, table, day
        self._put = put
        self._held: list[pyarrow.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0

    def write(self, batch: "pyarrow.RecordBatch") -> None:
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._held_rows >= CHUNK_ROWS or self._held_bytes >= CHUNK_BYTES:
            self.close()

    def close(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        if self._held:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self._held[0].schema) as stream:
                for batch in self._held:
                    stream.write_batch(batch)
            self._put(Chunk(*self._begins, sink.getvalue().to_pybytes()))
        self._held, self._held_rows, self._held_bytes = [], 0, 0
