"""Rows of a live store as Parquet in memory: files that are written once, which DuckDB queries where they are.

New rows become a file of each table (memfd_create(2)). Few rows are put together with
those before them, so that the number of files stays small; a file of ROWS rows is final. The oldest are removed. A file that is
removed or replaced stays readable for LINGER_S, longer than a query may take (work.py), or as long as it is held.
"""

import functools
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kproxy.analyses.loading import quoted

if TYPE_CHECKING:
    import pyarrow

ROWS = 16_384  # from which on a file is final
LINGER_S = 25.0
LEVEL = 1  # of zstd


class File(Struct):
    """The rows of one table."""

    fd: int
    size: int
    path: str  # which DuckDB opens


class Part(Struct):
    """The rows of all tables that came with some exchanges."""

    first: int  # number of the first exchange
    last: int
    first_ns: int | None  # earliest and latest time
    last_ns: int | None
    files: dict[str, File]
    batches: "dict[str, list[pyarrow.RecordBatch]]"  # of one that is not final

    @property
    def rows(self) -> int:
        """Of the table with the most of them, as far as they are not in a final file."""
        return max((sum(batch.num_rows for batch in batches) for batches in self.batches.values()), default=0)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files.values())


class _Hold(Struct):
    give_up: Callable[[str], object]
    most: int


class LiveFiles:
    """The files. One thread adds and removes; any may ask which there are.

    Args:
        schemas: the columns of each table.
        clock: the time in seconds.
    """

    def __init__(self, schemas: "Mapping[str, pyarrow.Schema]", clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._replaced: deque[tuple[float, File]] = deque()
        self._holds: list[_Hold] = []
        self.lingering = 0  # bytes of files that were replaced or removed
        self._empty = {name: _written([], schema) for name, schema in schemas.items()}
        self._schemas = schemas
        # Changed in one assignment, as others ask meanwhile: the parts, and files of tables that are replaced as a whole
        self._now: tuple[tuple[Part, ...], dict[str, File]] = (), {}

    @property
    def parts(self) -> tuple[Part, ...]:
        """Those that are there."""
        return self._now[0]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        parts, whole = self._now
        return self.lingering + sum(part.size for part in parts) + sum(file.size for file in whole.values())

    def add(self, part: Part, table: str = "", batches: "Sequence[pyarrow.RecordBatch]" = ()) -> None:
        """Add the rows behind all others, of which only ``batches`` are there; at the same time as ``replace`` of a *table*."""
        before, whole = self._now
        parts = list(before)
        while parts and parts[-1].batches and parts[-1].rows <= 2 * part.rows:
            part = _joined(parts.pop(), part)
        part.files = {name: _written(batches, self._schemas[name]) for name, batches in part.batches.items()}
        if part.rows >= ROWS:
            part.batches = {}
        replaced = {table: _written(batches, self._schemas[table])} if table else {}
        self._now = (*parts, part), {**whole, **replaced}
        self._linger([file for one in before[len(parts) :] for file in one.files.values()])
        self._linger([whole[table]] if table in whole else [])

    def replace(self, table: str, batches: "Sequence[pyarrow.RecordBatch]") -> None:
        """Let these be all rows of a table, beside those of the parts."""
        parts, whole = self._now
        self._now = parts, {**whole, table: _written(batches, self._schemas[table])}
        self._linger([whole[table]] if table in whole else [])

    def remove_oldest(self) -> int:
        """Remove the oldest part; the number of the first exchange that stays."""
        (oldest, *parts), whole = self._now
        self._now = tuple(parts), whole
        self._linger(oldest.files.values())
        return oldest.last + 1

    @contextmanager
    def held(self, give_up: Callable[[str], object], most: int) -> Iterator[list[Callable[[str], str]]]:
        """Keep all files that are there readable within the block: for each part what ``query`` gives of it.

        Where more than *most* bytes would be kept for it, *give_up* is called with the reason, and they are not held any more.
        """
        hold = _Hold(give_up, most)
        self._holds.append(hold)
        try:
            parts, whole = self._now
            found = [part.files for part in parts]
            yield [functools.partial(self._query, files) for files in (*found, whole)]
        finally:
            self._holds = [one for one in self._holds if one is not hold]

    def _query(self, files: Mapping[str, File], table: str) -> str:
        return _reader([(files[table] if table in files else self._empty[table]).path])

    def close_replaced(self) -> None:
        """Close the files of which no query can be in need any more."""
        for hold in self._holds:
            if self.lingering > hold.most:
                hold.give_up(f"more came meanwhile than can be kept beside it ({hold.most >> 20} MiB); ask for less")
                self._holds = [one for one in self._holds if one is not hold]
        if self._holds:
            return
        now = self._clock()
        while self._replaced and self._replaced[0][0] <= now:
            _, file = self._replaced.popleft()
            self.lingering -= file.size
            os.close(file.fd)

    def close(self) -> None:
        """Close all files."""
        parts, whole = self._now
        files = [file for part in parts for file in part.files.values()]
        files += [*whole.values(), *self._empty.values(), *(file for _, file in self._replaced)]
        self._now, self._empty = ((), {}), {}
        self._replaced.clear()
        for file in files:
            os.close(file.fd)

    def query(self, table: str, first: int | None = None, last: int | None = None) -> str:
        """What stands behind FROM for the rows of a table; of exchanges in a range of numbers alone, where that is given."""
        low, high = first, last
        parts, all_of = self._now
        paths = [
            part.files[table].path
            for part in parts
            if table in part.files and (low is None or part.last >= low) and (high is None or part.first <= high)
        ]
        whole = all_of.get(table)
        paths += [] if whole is None else [whole.path]
        return _reader(paths or [self._empty[table].path])

    def _linger(self, files: Iterable[File]) -> None:
        until = self._clock() + LINGER_S
        for file in files:
            self._replaced.append((until, file))
            self.lingering += file.size


def _reader(paths: Sequence[str]) -> str:
    return f"read_parquet([{', '.join(map(quoted, paths))}])"


def _joined(before: Part, after: Part) -> Part:
    names = [*before.batches, *(name for name in after.batches if name not in before.batches)]
    batches = {name: [*before.batches.get(name, []), *after.batches.get(name, [])] for name in names}
    return Part(
        before.first,
        after.last,
        least(before.first_ns, after.first_ns),
        most(before.last_ns, after.last_ns),
        {},
        batches,
    )


def least(a: int | None, b: int | None) -> int | None:
    """The smaller one of those that are there."""
    return a if b is None else b if a is None else min(a, b)


def most(a: int | None, b: int | None) -> int | None:
    """The larger one of those that are there."""
    return a if b is None else b if a is None else max(a, b)


def _written(batches: "Sequence[pyarrow.RecordBatch]", schema: "pyarrow.Schema") -> File:
    """A file of these rows."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    stream = pa.BufferOutputStream()
    rows: Any = pa.Table.from_batches(batches, schema)
    pq.write_table(
        rows,
        stream,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=True,
        store_schema=False,
        row_group_size=max(rows.num_rows, 1),
    )
    data = stream.getvalue()
    fd = os.memfd_create("kproxy-page", os.MFD_CLOEXEC)
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += os.write(fd, view[written:])
    return File(fd, data.size, f"/proc/self/fd/{fd}")
