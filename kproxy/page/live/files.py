"""Rows of a live store as Parquet: files that are written once, which DuckDB queries where they are.

New rows become a file of each table in memory (memfd_create(2)). Few rows are joined with the rows before them, so that the
number of files stays small; a file of ROWS rows is final. The oldest files are removed, or written to a directory, several parts
as one. A file that is removed or replaced stays readable for LINGER_S, longer than a query may take (work.py), or as long as it
is held.

LiveRows collects exchanges as rows of all tables until they are shown.
"""

import functools
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from kproxy.analyses.loading import quoted
from kproxy.output.entities import Entities
from kproxy.output.escaping import well_formed
from kproxy.output.tables import TABLES, Table, Tables, schema_of
from kproxy.page.blocks import SpillFiles
from kproxy.page.columns import ADDED
from kproxy.page.recorded import added_of, login_of, with_added
from kproxy.session import Event, Exchange

if TYPE_CHECKING:
    import pyarrow

ROWS = 16_384  # a file with so many is final
LINGER_S = 25.0
SOURCE = "live"  # what the column ``capture`` of connections has
OPEN = "end of capture"  # the value of ``closed`` for open connections: findings look for it
KEY = "connection_id"  # identifies rows that are replaced
FORM: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "use_dictionary": True, "store_schema": False}
# Parts that are written to the directory as one: more, the more there are, so that the number of files stays small
FEWEST, SHARE, MOST = 4, 32, 16


class File(Struct):
    """The rows of one table."""

    fd: int
    size: int
    path: str  # which DuckDB opens
    in_memory: bool = True


class Part(Struct):
    """The rows of all tables that came with some exchanges."""

    first: int  # number of the first exchange
    last: int
    first_ns: int | None  # earliest and latest time
    last_ns: int | None
    files: dict[str, File]
    batches: "dict[str, list[pyarrow.RecordBatch]]"  # the rows by table; empty once the part is final

    @property
    def rows(self) -> int:
        """How many rows the largest table has; 0 once the part is final."""
        return max((sum(batch.num_rows for batch in batches) for batches in self.batches.values()), default=0)

    @property
    def size(self) -> int:
        """Bytes of the part's files."""
        return sum(file.size for file in self.files.values())

    @property
    def in_memory(self) -> bool:
        """Whether all files are in memory, not in the directory."""
        return all(file.in_memory for file in self.files.values())


class _State(Struct, frozen=True):
    """The files of one moment: the parts, and by table the files that are written anew as a whole (open connections)."""

    parts: tuple[Part, ...] = ()
    whole: dict[str, File] = {}
    behind: int = 0  # number of the last exchange when such a file was last written

    def rows_replaced(self, table: str) -> str:
        """Return SQL for FROM: the rows of a table that is replaced as a whole, except for rows that later parts have."""
        later = [part.files[table].path for part in self.parts if table in part.files and part.last >= self.behind]
        rows = _reader([self.whole[table].path])
        return f"(SELECT a.* FROM {rows} a ANTI JOIN {_reader(later)} b USING ({KEY}))" if later else rows


class _Hold(Struct):
    give_up: Callable[[str], object]
    most: int


class LiveFiles:
    """The files. One thread adds and removes; any thread may read.

    Args:
        schemas: the columns of each table.
        clock: the time in seconds.
    """

    def __init__(self, schemas: "Mapping[str, pyarrow.Schema]", clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._replaced: deque[tuple[float, File]] = deque()
        self._holds: dict[int, _Hold] = {}  # by a number; changed in single steps, as several threads do
        self._hold_numbers = itertools.count()
        self.lingering = 0  # bytes of files in memory that were replaced or removed
        self._empty = {name: _written([], schema) for name, schema in schemas.items()}
        self._schemas = schemas
        self._now = _State()  # changed in one assignment, as other threads read it

    @property
    def parts(self) -> tuple[Part, ...]:
        """The present parts, the oldest first."""
        return self._now.parts

    @property
    def size(self) -> int:
        """Bytes of all files in memory."""
        of_parts = sum(part.size for part in self.parts if part.in_memory)
        return self.lingering + of_parts + sum(file.size for file in self._now.whole.values())

    @property
    def in_memory(self) -> int:
        """How many parts are not in the directory."""
        return sum(part.in_memory for part in self.parts)

    @property
    def spilled(self) -> int:
        """Bytes of all files in the directory, except for removed ones."""
        return sum(part.size for part in self.parts if not part.in_memory)

    def add(self, part: Part) -> None:
        """Add a part, which has only ``batches``, after all others."""
        before = self.parts
        parts = list(before)
        while parts and parts[-1].batches and parts[-1].rows <= 2 * part.rows:
            part = _joined(parts.pop(), part)
        part.files = {name: _written(batches, self._schemas[name]) for name, batches in part.batches.items()}
        if part.rows >= ROWS:
            part.batches = {}
        self._now = replace(self._now, parts=(*parts, part))
        self._linger([file for one in before[len(parts) :] for file in one.files.values()])

    def replace(self, table: str, batches: "Sequence[pyarrow.RecordBatch]") -> None:
        """Replace the rows that a table has in addition to those of the parts, such as open connections.

        If a part that comes later has a row with the same key, the part's row counts (``query``).
        """
        before = self._now.whole
        behind = self.parts[-1].last if self.parts else 0
        whole = {**before, table: _written(batches, self._schemas[table])}
        self._now = replace(self._now, whole=whole, behind=behind)
        self._linger([before[table]] if table in before else [])

    def remove_oldest(self) -> int:
        """Remove the oldest part; return the number of the first exchange that stays."""
        oldest, *parts = self.parts
        self._now = replace(self._now, parts=tuple(parts))
        self._linger(oldest.files.values())
        return oldest.last + 1

    def spill_oldest(self, into: SpillFiles) -> int:
        """Write the oldest parts in memory to a directory; return the number of the first exchange that is not there.

        Raises OSError: then nothing has changed.
        """
        parts = self.parts
        before = sum(not part.in_memory for part in parts)
        many = min(max(FEWEST, before // SHARE), MOST, len(parts) - before - 1)
        chosen = parts[before : before + many]
        joined = replace(
            functools.reduce(_joined, chosen), files=_spilled(chosen, self._schemas, into), batches={}
        )  # a new part: queries of other threads still use the chosen ones
        self._now = replace(self._now, parts=(*parts[:before], joined, *parts[before + many :]))
        self._linger([file for part in chosen for file in part.files.values()])
        return joined.last + 1

    @contextmanager
    def held(self, give_up: Callable[[str], object], most: int) -> Iterator[list[Callable[[str], str]]]:
        """Keep all present files readable within the block; yield for each part a function like ``query`` for its rows.

        If more than *most* bytes would be kept for it, *give_up* is called with the reason, and the hold ends.
        """
        number = next(self._hold_numbers)
        self._holds[number] = _Hold(give_up, most)
        try:
            now = self._now
            yield [
                *(functools.partial(self._query, part.files) for part in now.parts),
                lambda table: now.rows_replaced(table) if table in now.whole else self._query({}, table),
            ]
        finally:
            self._holds.pop(number, None)

    def _query(self, files: Mapping[str, File], table: str) -> str:
        return _reader([(files[table] if table in files else self._empty[table]).path])

    def close_replaced(self) -> None:
        """Close the files that no query can need any more."""
        for number, hold in list(self._holds.items()):
            if self.lingering > hold.most:
                hold.give_up(f"more traffic came meanwhile than fits in memory ({hold.most >> 20} MiB); select less")
                self._holds.pop(number, None)
        if self._holds:
            return
        now = self._clock()
        while self._replaced and self._replaced[0][0] <= now:
            _, file = self._replaced.popleft()
            self.lingering -= file.size if file.in_memory else 0
            os.close(file.fd)

    def close(self) -> None:
        files = [file for part in self.parts for file in part.files.values()]
        files += [*self._now.whole.values(), *self._empty.values(), *(file for _, file in self._replaced)]
        self._now, self._empty = _State(), {}
        self._replaced.clear()
        for file in files:
            os.close(file.fd)

    def query(self, table: str, first: int | None = None, last: int | None = None) -> str:
        """Return SQL for FROM: the rows of a table; with *first* or *last*, at least those of exchanges in that range."""
        now = self._now
        paths = [
            part.files[table].path
            for part in now.parts
            if table in part.files and (first is None or part.last >= first) and (last is None or part.first <= last)
        ]
        rows = _reader(paths or [self._empty[table].path])
        return (
            f"(SELECT * FROM {rows} UNION ALL SELECT * FROM {now.rows_replaced(table)})" if table in now.whole else rows
        )

    def _linger(self, files: Iterable[File]) -> None:
        until = self._clock() + LINGER_S
        for file in files:
            self._replaced.append((until, file))
            self.lingering += file.size if file.in_memory else 0


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
    """Return the smaller number, ignoring None."""
    return a if b is None else b if a is None else min(a, b)


def most(a: int | None, b: int | None) -> int | None:
    """Return the larger number, ignoring None."""
    return a if b is None else b if a is None else max(a, b)


def _written(batches: "Sequence[pyarrow.RecordBatch]", schema: "pyarrow.Schema") -> File:
    """Write these rows to a file in memory, and return it."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    stream = pa.BufferOutputStream()
    rows: Any = pa.Table.from_batches(batches, schema)
    pq.write_table(rows, stream, row_group_size=max(rows.num_rows, 1), **FORM)
    data = stream.getvalue()
    fd = os.memfd_create("kproxy-page", os.MFD_CLOEXEC)
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += os.write(fd, view[written:])
    return File(fd, data.size, f"/proc/self/fd/{fd}")


def _spilled(parts: Sequence[Part], schemas: "Mapping[str, pyarrow.Schema]", into: SpillFiles) -> dict[str, File]:
    """Write the rows of these parts to files of a directory, one row group for each part. Raises OSError."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    made: dict[str, File] = {}
    try:
        for name in dict.fromkeys(name for part in parts for name in part.files):
            with into.open() as file:
                with pq.ParquetWriter(file, schemas[name], **FORM) as writer:
                    for part in parts:
                        if name in part.files:
                            rows = pq.ParquetFile(part.files[name].path).read().cast(schemas[name])
                            writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
                file.flush()
                fd = os.dup(file.fileno())
            made[name] = File(fd, os.fstat(fd).st_size, f"/proc/self/fd/{fd}", in_memory=False)
    except BaseException:
        for file_ in made.values():
            os.close(file_.fd)
        raise
    return made


class LiveRows:
    """The rows that are not shown yet."""

    def __init__(self) -> None:
        self._tables = Tables(self._take)
        self._entities = Entities()
        self._batches: dict[str, list[Any]] = {}
        self._added: deque[tuple[Any, ...]] = deque()  # values of the columns ADDED
        self.count = 0  # exchanges
        self._first_ns: int | None = None
        self._last_ns: int | None = None

    def add(self, number: int, exchange: Exchange) -> None:
        added = added_of(number, exchange, self._principal(exchange))
        request_ns, response_ns = added[3:5]
        self._added.append(added)
        self._tables.add(exchange, SOURCE)  # which may write rows, this one among them
        self._first_ns = least(self._first_ns, request_ns)
        self._last_ns = most(self._last_ns, request_ns if response_ns is None else response_ns)
        self.count += 1

    def note(self, event: Event) -> None:
        """Count an event that is no exchange for its connection; a mere Event makes the connection known."""
        self._tables.add(event, SOURCE)

    def ended(self, number: int, side: str | None, at: int, reason: str | None) -> None:
        """Note the end of a connection, or of one side of it."""
        if side is not None:
            self._tables.ended(number, side, at)
        else:
            self._tables.closed(number, reason or "finished")

    def take(self, first: int, *, with_activity: bool = False) -> Part:
        """Return the rows since the last call, or also of what open connections did; *first*: number of their first exchange."""
        if with_activity:
            self._tables.write_activity()
        self._tables.write_rows()
        part = Part(first, first + self.count - 1, self._first_ns, self._last_ns, {}, self._batches)
        self._batches, self.count, self._first_ns, self._last_ns = {}, 0, None, None
        return part

    def open_connections(self) -> "list[pyarrow.RecordBatch]":
        """Return the present rows of the open connections."""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        batches: list[Any] = []
        self._tables.write_open(OPEN, lambda table, batch: batches.append(batch))
        return [pa.RecordBatch.from_arrays(batch.columns, schema=schemas()["connections"]) for batch in batches]

    def _principal(self, exchange: Exchange) -> str | None:
        """Return the principal as tables of a capture have it; for logins before the feed began, as the analyzer knows it."""
        seen = self._entities.principal(exchange, login_of(exchange))
        connection = exchange.connection
        if seen is not None or (connection.user_name is None and connection.tls_to_proxy is None):
            return seen
        tls = connection.tls_to_proxy
        known = connection.user_name or (None if tls is None else tls.client_certificate)
        return None if known is None else well_formed(known)

    def _take(self, table: Table, batch: "pyarrow.RecordBatch") -> None:
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        rows = with_added(batch, self._added) if table.name == "exchanges" else batch
        batch = pa.RecordBatch.from_arrays(rows.columns, schema=schemas()[table.name])
        self._batches.setdefault(table.name, []).append(batch)


@functools.cache
def schemas() -> "dict[str, pyarrow.Schema]":
    """Return the columns of each table, those ADDED to exchanges included; without descriptions, which each file would repeat."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    by_table = {name: pa.schema([pa.field(f.name, f.type) for f in schema_of(table)]) for name, table in TABLES.items()}
    for name, sql in ADDED.items():
        kind = pa.string() if sql == "VARCHAR" else pa.int64()
        by_table["exchanges"] = by_table["exchanges"].append(pa.field(name, kind))
    return by_table
