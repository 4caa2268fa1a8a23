"""Decode one file into rows of all tables, in one task, as ``kproxy decode --format parquet`` does; write rows of a task.

PartWriter writes Parquet files in a staging folder, by table and day, which the catalog moves into the output:

    STAGING/<table>/day=<YYYY-MM-DD>/<prefix>.parquet

The day is that of the row's own time (UTC). Rows without a time, and rows of further days after MOST_DAYS (a damaged capture may
hold any), get *default_day*. For outputs that Spark itself writes, ChunkWriter makes chunks of an RDD instead: some thousands of
rows of a table and day, of one input file. A task yields chunks as they become full, so it holds at most one for each table and
day, as with files.

``share`` divides a file among tasks without a shuffle: each task reads all of it, so that numbers, names of topics and roles
are those of an undivided run, but makes only the rows of its share of the connections. Making rows is what costs most.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from msgspec import Struct
from pyarrow import compute
from pyarrow.types import is_timestamp

from kproxy import COLLECT_AFTER
from kproxy.capture import Capture, MergedCapture
from kproxy.errors import CaptureError, UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.tables import TABLES, Column, Table, Tables, schema_of
from kproxy.output.tables.parquet import TableFile
from kproxy.output.times import counted
from kproxy.pipeline.inputs import Input, find_inputs
from kproxy.pipeline.output import End
from kproxy.pipeline.run import Options as RunOptions
from kproxy.pipeline.run import Run
from kproxy.pipeline.table_output import TableOutput, Write
from kproxy.schemas.settings import SchemaSources
from kproxy.session import Event
from kproxy.spark.connections import View
from kproxy.spark.files import open_file

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TIMES = ("request_at", "seen_at", "response_at", "minute", "first_seen_at")  # the first that a row has gives its day
MOST_DAYS = 32
EPOCH = date(1970, 1, 1)
CHUNK_ROWS = 32_768
CHUNK_BYTES = 4 << 20  # in Arrow's memory
FILES = "files"
FILES_TABLE = Table(FILES, 1, "an input file", (Column("path", "string", "where it is", nullable=False),))


class Options(Struct, frozen=True):
    """Which rows to make; as the options of ``kproxy decode --format parquet``."""

    bodies: bool = False
    records: bool = False
    where: str | None = None
    keylog: str | None = None  # a path that every executor can open
    schemas: SchemaSources = SchemaSources()  # folders and files that every executor can open
    capture: str = ""  # the name of the capture in the tables, if all files are one; otherwise that of its first file

    def run_options(self) -> RunOptions:
        """The options for kproxy.pipeline.run. A connection that fails is counted, and does not end the task."""
        keylog = None if self.keylog is None else Path(self.keylog)
        return RunOptions(
            where=self.where, keylog=keylog, records=self.records, schemas=self.schemas, contain=(Exception,)
        )


class Share(Struct, frozen=True):
    """The connections of one task: part *number* (from 0) of *of* parts."""

    number: int = 0
    of: int = 1


class Rows(TableOutput):
    """Makes the rows of the connections in its share.

    Args:
        write: called with a table and an Arrow batch of its rows.
        options: which rows to make.
        share: which connections.
    """

    def __init__(self, write: Write, options: Options, share: Share = Share()) -> None:  # noqa: B008 - frozen
        super().__init__(write, bodies=options.bodies, records=options.records)
        self.at = 0  # ns: of the event whose rows are being made
        self._share = share

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        if self._owns(event.connection.number):
            self.at = event.at
            super().write(event, bodies, shown=shown, line=line)

    def end(self, end: End) -> None:
        if self._owns(end.connection):
            super().end(end)

    def _owns(self, number: int) -> bool:
        return number % self._share.of == self._share.number


class FileRows:
    """The rows of all tables of one file, some thousands of one table at a time.

    After ``read``, ``damages`` has a sentence for each place where the file could not be read, ``notes`` one for each file that
    is a copy of another, and ``cluster_ids`` the ids of the clusters whose traffic it has.

    Args:
        path: of a capture or a decoded log.
        name: the name of the capture in the tables.
        options: which rows to make.
        share: which connections.
        data: the bytes of the file, if they were read already.
        others: paths of files that are one capture with it.
    """

    def __init__(
        self,
        path: str,
        name: str,
        options: Options,
        share: Share = Share(),  # noqa: B008 - frozen
        data: bytes | None = None,
        others: Sequence[str] = (),
    ) -> None:
        self.damages: list[str] = []
        self.notes: list[str] = []
        self.cluster_ids: set[str] = set()
        self.first_at = 0  # ns: of the first event
        self.at = 0  # ns: of the event whose rows were yielded last
        self._path, self._name, self._options, self._data, self._others = path, name, options, data, others
        self._ready: list[tuple[Table, pa.RecordBatch]] = []
        self._output = Rows(lambda table, rows: self._ready.append((table, rows)), options, share)

    def read(self) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield the rows; of a damaged file, those before the damage."""
        try:
            source = self._open()
        except (CaptureError, UsageError) as error:
            self.damages.append(str(error))
            return
        view = View(lambda: 0)
        with source, Run(self._options.run_options()) as run:
            run.add_output(self._output)
            for _ in run.read(
                source, name=self._name, cluster=view if isinstance(source, Capture | MergedCapture) else None
            ):
                self.first_at = self.first_at or self._output.at
                yield from self._take()
            self._output.tables.flush()
            self.damages += [*run.damages, *faults_of(self._path, run)]
            self.notes += run.notes
        view.read_all()
        self.cluster_ids = view.cluster_ids
        yield from self._take()

    def _open(self) -> Input:
        if not self._others:
            return open_file(self._path, self._data)
        inputs = find_inputs(map(Path, (self._path, *self._others)))
        self.damages, self.notes = inputs.damages, inputs.notes
        return inputs.files[0].open()

    def _take(self) -> list[tuple[Table, pa.RecordBatch]]:
        ready, self._ready = self._ready, []
        self.at = self._output.at
        return ready


def collect_rarely() -> None:
    """Set up the garbage collector of a task's process: a decode makes many objects that die young, and nearly no cycles."""
    if gc.get_threshold() != COLLECT_AFTER:
        gc.freeze()  # modules are never collected
        gc.set_threshold(*COLLECT_AFTER)


def faults_of(path: str, run: Run) -> list[str]:
    """A sentence for each way in which the decode of connections failed."""
    return [
        f"{path}: {counted(count, 'connection')} could not be decoded ({fault}), which is a bug of kproxy"
        for fault, count in run.faults.items()
    ]


class PartFile(Struct, frozen=True):
    """A complete file."""

    table: str
    day: str
    path: str
    rows: int


class RowsFile(Protocol):
    """A file for the rows of a table and day."""

    path: Path
    rows: int

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class PartWriter:
    """Writes rows into files by table and day; ``close`` returns the files. Memory: one row group for each file.

    Args:
        staging: a folder that all tasks see.
        prefix: of the names of files, of this task alone.
        default_day: of rows that have none.
    """

    def __init__(self, staging: str, prefix: str, default_day: str) -> None:
        self.default_day = default_day
        self.day: str | None = None  # for rows of tables without a time
        self._staging = Path(staging)
        self._prefix = prefix
        self._files: dict[tuple[str, str], RowsFile] = {}
        self._days: set[str] = {default_day}

    def write(self, table: Table, rows: pa.RecordBatch) -> None:
        for day, some in self._by_day(rows):
            self._file(table, day).write(some)

    def take(self) -> "list[Chunk]":
        """Return the chunks that are full since the last call; none if the rows go into files."""
        return []

    def close(self) -> list[PartFile]:
        done = []
        for (table, day), file in sorted(self._files.items()):
            file.close()
            done.append(PartFile(table, day, str(file.path), file.rows))
        return done

    def _file(self, table: Table, day: str) -> RowsFile:
        if day not in self._days:
            day = self.default_day if len(self._days) >= MOST_DAYS else day
            self._days.add(day)
        file = self._files.get((table.name, day))
        if file is None:
            file = self._files[table.name, day] = self._open(table, day)
        return file

    def _open(self, table: Table, day: str) -> RowsFile:
        folder = self._staging / table.name / f"day={day}"
        folder.mkdir(parents=True, exist_ok=True)
        return TableFile(table, folder / f"{self._prefix}.parquet")

    def _by_day(self, rows: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
        names = [name for name in TIMES if name in rows.schema.names]
        if not names:
            return [(self.day or self.default_day, rows)]
        times = [rows.column(name).cast(pa.timestamp("us", "UTC")) for name in names]
        days = compute.coalesce(*times).cast(pa.date32()).cast(pa.int32())
        different: list[Any] = compute.unique(days).to_pylist()
        if len(different) == 1:
            return [(self._name(different[0]), rows)]
        by_day = []
        for each in different:
            mask = compute.is_null(days) if each is None else compute.equal(days, each)
            by_day.append((self._name(each), rows.filter(mask)))
        return by_day

    def _name(self, day: int | None) -> str:
        return self.default_day if day is None else (EPOCH + timedelta(days=day)).isoformat()


def day_of(time_ns: int) -> str:
    """The day (UTC) of a time in a capture, which may be any 64-bit number."""
    try:
        return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return EPOCH.isoformat()


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
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._held_rows >= CHUNK_ROWS or self._held_bytes >= CHUNK_BYTES:
            self.close()

    def close(self) -> None:

        if self._held:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self._held[0].schema) as stream:
                for batch in self._held:
                    stream.write_batch(batch)
            self._put(Chunk(*self._begins, sink.getvalue().to_pybytes()))
        self._held, self._held_rows, self._held_bytes = [], 0, 0


def numbered(rows: pa.RecordBatch, numbers: list[int]) -> pa.RecordBatch:
    """Rows of the table connections with their connections numbered: from 1, by the place of the first packet in *numbers*."""
    index = rows.schema.get_field_index("connection")
    places = compute.index_in(rows.column(index), value_set=pa.array(numbers, pa.int64()))
    return rows.set_column(index, rows.schema.field(index), compute.add(places.cast(pa.int64()), 1))


def contract(name: str, options: Options = Options()) -> Table:  # noqa: B008 - frozen
    """Return the table of this name, with the columns that the options add. Raises UsageError."""
    if name == FILES:
        return FILES_TABLE
    if name not in TABLES:
        raise UsageError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    made = {table.name: table for table in Tables(lambda table, rows: None, bodies=options.bodies, records=True).tables}
    return made[name]


def spark_schema(table: Table) -> "StructType":
    """The columns of a table; each with its meaning as its comment, which DESCRIBE shows."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - ingest on one machine does without

    schema = from_arrow_schema(_micros(schema_of(table)))
    for field, column in zip(schema.fields, table.columns, strict=True):
        field.metadata["comment"] = column.explained
    return schema


def for_spark(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast rows to Spark's types: its only unit of time is the microsecond."""
    arrays = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _micros(schema: pa.Schema) -> pa.Schema:
    micros = pa.timestamp("us", "UTC")
    return pa.schema([field.with_type(micros) if is_timestamp(field.type) else field for field in schema])
