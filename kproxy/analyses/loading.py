"""Load sources into DuckDB: decode captures and logs into tables, read Parquet directories as views; two sources for a diff."""

import functools
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kproxy.capture.reader import STANDARD_INPUT
from kproxy.errors import UsageError
from kproxy.output.tables import TABLES, Column, Table
from kproxy.output.tables.parquet import LIST, MARKER, STRUCT, check_marker, members_of, missing_parts
from kproxy.pipeline.inputs import Files, Input, files_of, find_inputs
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.table_output import TableOutput

if TYPE_CHECKING:
    import duckdb

    from kproxy.protocol.embedded.viewers import Viewers

SIDES = ("before", "after")
Span: TypeAlias = tuple[int, int]  # microseconds since the epoch: from, and until
ALWAYS: Span = (-2_208_988_800_000_000, 253_402_300_799_000_000)  # 1900 to 9999, the times that tables hold
MOST_HELD = 8_000_000  # bytes of rows before DuckDB is started, which keeps so few in memory
Watch: TypeAlias = Callable[[Files, Input, Iterator[None]], None]
Connect: TypeAlias = Callable[[bool], "duckdb.DuckDBPyConnection"]  # True: for few rows
SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:/")  # of a URI; Path makes one slash of two
LOGS = {"_delta_log": "Delta", "metadata": "Iceberg"}  # folders with which a table lists its current files
MICRO = 1_000_000
TYPES = {
    **{"bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT"},
    **{"double": "DOUBLE", "string": "VARCHAR", "binary": "BLOB"},
    **dict.fromkeys(("timestamp[ms, tz=UTC]", "timestamp[us, tz=UTC]"), "TIMESTAMP WITH TIME ZONE"),
}


class Reading:
    """Switches that the caller may change while sources are read.

    ``holds``: rows are kept in memory and DuckDB is not started, since its threads would not survive a fork.
    ``ended``: no other source is opened.
    ``separate``: captures are read one by one, not as one.
    ``is_part``: only the beginning of the sources was read, so that there are few rows; this process is one of several.
    """

    def __init__(self, *, holds: bool = False, separate: bool = False) -> None:
        self.holds = holds
        self.separate = separate
        self.ended = False
        self.is_part = False


class Kind(Enum):
    """The kinds of sources."""

    EVENTS = "captures and decoded logs"
    TABLES = "a directory of tables"


class Source(NamedTuple):
    """One source, which exists and is of that kind."""

    path: Path
    kind: Kind


class Loader:
    """Fills the tables of one connection to DuckDB.

    Args:
        connect: gives DuckDB's connection; called when the first rows are written, with whether these are all, and few.
        wanted: the tables to fill; the others exist and are empty.
        options: of the decoding.
        watch: reads a source to its end, and shows how far it is.
        reading: what the caller may change meanwhile.

    ``damages`` has a sentence for each place where a source could not be read, ``notes`` for each file that was left out as it
    is a copy; ``parquet`` are the files that views read.
    """

    def __init__(
        self, connect: Connect, wanted: set[str], options: Options, watch: Watch | None, reading: Reading
    ) -> None:
        self.damages: list[str] = []
        self.notes: list[str] = []
        self.segments_again: int | None = 0  # see Run; None if a source has tables
        self.parquet: list[Path] = []  # files that are read in place
        self.viewers: Viewers | None = None  # of records, as the last source was read
        self._connect = connect
        self._wanted = wanted
        self._options = options
        self._watch = watch or _read_all
        self._reading = reading
        self._holds_all = False

    @functools.cached_property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        return self._connect(self._holds_all)

    def load(self, sources: list[Source], prefix: str = "") -> None:
        """Create all tables, named with the prefix, and fill them from the sources."""
        directories = [source.path for source in sources if source.kind is Kind.TABLES]
        self._count(None if directories else 0)
        self.damages += [sentence for directory in directories for sentence in missing_parts(directory)]
        files = [source.path for source in sources if source.kind is Kind.EVENTS]
        decoded = f"{prefix}_decoded_" if directories else prefix
        inserted = _Inserter(
            lambda: self._connection, decoded, lambda: self._create_all(directories, prefix, decoded), self._reading
        )
        if files:
            self._decode(files, inserted)
        self._holds_all = (
            bool(files) and not (prefix or directories or inserted.begun) and inserted.held_bytes <= MOST_HELD
        )
        inserted.finish()

    def _create_all(self, directories: list[Path], prefix: str, decoded: str) -> None:
        for name, table in TABLES.items():
            self._create(table, decoded + name)
            if directories:
                parts = [
                    self._read_parquet(table, table_files(path).get(name, []), decoded + name) for path in directories
                ]
                every = " UNION ALL BY NAME ".join([f"SELECT * FROM {decoded}{name}", *filter(None, parts)])
                self._connection.execute(f"CREATE VIEW {prefix}{name} AS {every}")

    def load_sides(self, before: Source, after: Source) -> None:
        """Create all tables with the rows of both sources, and the table ``sides``, which tells them apart.

        Connection ids get their side as a prefix, since a source may be compared with itself.
        """
        for side, source in zip(SIDES, (before, after), strict=True):
            self.load([source], f"_{side}_")
        for name in TABLES:
            both = " UNION ALL ".join(
                f"SELECT * REPLACE ('{side} ' || connection_id AS connection_id) FROM _{side}_{name}" for side in SIDES
            )
            self._connection.execute(f"CREATE VIEW {name} AS {both}")
        self.divide(None)

    def divide(self, spans: tuple[Span, Span] | None) -> None:
        """Create the table ``sides`` of what was loaded; see ``sides_of``."""
        self._connection.execute(f"CREATE TABLE sides AS {sides_of(spans)}")

    def _decode(self, files: list[Path], inserted: "_Inserter") -> None:
        inputs = find_inputs(files, separate=self._reading.separate)
        with Run(self._options, [_Rows(inserted, self._wanted)]) as run:
            for each in inputs.files:
                if self._reading.ended:
                    break
                with each.open() as source:
                    self._watch(each, source, run.read(source))
            self.damages += [*inputs.damages, *run.damages]
            self._count(run.segments_again)
            self.viewers = run.viewers
        self.notes += [*inputs.notes, *run.notes]

    def _count(self, segments_again: int | None) -> None:
        if self.segments_again is None or segments_again is None:
            self.segments_again = None
        else:
            self.segments_again += segments_again

    def _create(self, table: Table, name: str) -> None:
        columns = ", ".join(f'"{column.name}" {duckdb_type(column.type)}' for column in table.columns)
        self._connection.execute(f"CREATE TABLE {name} ({columns})")

    def _read_parquet(self, table: Table, files: list[Path], like: str) -> str:
        """Return a SELECT of the contract's columns; columns that files of an older kproxy lack are NULL."""
        if not files:
            return ""
        self.parquet += files
        listed = ", ".join(quoted(str(file)) for file in files)
        reader = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
        have = {row[0] for row in self._connection.execute(f"DESCRIBE SELECT * FROM {reader}").fetchall()}
        types = {row[0]: row[1] for row in self._connection.execute(f"DESCRIBE {like}").fetchall()}
        columns = [_column(column, types[column.name], column.name in have) for column in table.columns]
        return f"SELECT {', '.join(columns)} FROM {reader}"


class _Inserter:
    """Inserts batches of rows in one transaction: DuckDB compresses and writes each group of rows that is full.

    Args:
        connection: gives DuckDB's.
        prefix: of the names of the tables.
        create: makes the tables.
        reading: while it holds, batches are only kept.

    ``begun``: batches are written as they come. Until there are more than MOST_HELD bytes, they are kept.
    """

    def __init__(
        self,
        connection: Callable[[], "duckdb.DuckDBPyConnection"],
        prefix: str,
        create: Callable[[], None],
        reading: Reading,
    ) -> None:
        self._connection = connection
        self._prefix = prefix
        self._create = create
        self._reading = reading
        self._held: list[tuple[str, Any]] = []
        self.held_bytes = 0
        self.begun = False

    def add(self, name: str, batch: Any) -> None:
        """Take rows of the table *name*."""
        self._held.append((name, batch))
        self.held_bytes += batch.nbytes
        if not self._reading.holds and (self.begun or self.held_bytes > MOST_HELD):
            self._write()

    def finish(self) -> None:
        """Write what is left; the tables exist now."""
        self._write()
        self._connection().commit()

    def _write(self) -> None:
        connection = self._connection()
        if not self.begun:
            self.begun = True
            connection.begin()
            self._create()
        for name, batch in self._held:
            connection.from_arrow(batch).insert_into(self._prefix + name)
        self._held.clear()


class _Rows(TableOutput):
    """Makes rows of the wanted tables and inserts them into DuckDB."""

    needs_frames = False

    def __init__(self, inserted: _Inserter, wanted: set[str]) -> None:
        super().__init__(self._insert, records="records" in wanted)
        self._inserted = inserted
        self._wanted = wanted

    def _insert(self, table: Table, batch: Any) -> None:
        if table.name in self._wanted:
            self._inserted.add(table.name, batch)


def _read_all(files: Files, source: Input, steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def duckdb_type(text: str) -> str:
    """Return DuckDB's type for a type as the contracts of the tables write it. Raises KeyError for any other text."""
    if inner := LIST.fullmatch(text):
        return f"{duckdb_type(inner[1])}[]"
    if inner := STRUCT.fullmatch(text):
        return f"STRUCT({', '.join(f'{name} {duckdb_type(kind)}' for name, kind in members_of(inner))})"
    return TYPES[text]


def _column(column: Column, kind: str, exists: bool) -> str:
    name = f'"{column.name}"'
    return f"CAST({name if exists else 'NULL'} AS {kind}) AS {name}"


def sides_of(spans: tuple[Span, Span] | None) -> str:
    """The query of the table ``sides`` for two ranges of time; None: for two sources.

    Of two sources, the connection ids begin with their side.
    """
    return " UNION ALL ".join(
        f"SELECT '{side}' AS side, connection_id, make_timestamptz({since}) AS from_at, make_timestamptz({until}) AS to_at"
        f" FROM connections" + ("" if spans else f" WHERE starts_with(connection_id, '{side} ')")
        for side, (since, until) in zip(SIDES, spans or (ALWAYS, ALWAYS), strict=True)
    )


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def identify_source(path: Path) -> Source:
    """Find out what kind of source a path is: a file, folder or pattern. Raises UsageError if it is not there."""
    if str(path) == STANDARD_INPUT:
        return Source(path, Kind.EVENTS)
    if not path.exists():
        if SCHEME.match(str(path)):
            raise UsageError(f"{path}: this reads files of this machine; kproxy-spark report reads object stores, too")
        files_of(path)  # a pattern; raises UsageError if nothing matches
    if path.is_dir():
        _refuse_table_formats(path)
        is_marked = (path / MARKER).is_file()
        if tables := table_files(path):
            check_marker(str(path), (path / MARKER).read_bytes() if is_marked else None, tables)
            return Source(path, Kind.TABLES)
        if is_marked:
            raise UsageError(f"{path} has no tables: its Parquet files are gone")
    return Source(path, Kind.EVENTS)


def _refuse_table_formats(directory: Path) -> None:
    """Raise UsageError for Delta and Iceberg: their folders also hold Parquet files that are no longer part of the table."""
    for name in TABLES:
        for log, kind in LOGS.items():
            if (directory / name / log).is_dir():
                raise UsageError(
                    f"{directory} has tables of {kind}: kproxy-spark report reads them, with a Spark that has {kind}"
                )


def holds_tables(directory: Path) -> bool:
    """Whether a directory has tables of Parquet files, not those of Delta or Iceberg."""
    in_lakes = any((directory / name / log).is_dir() for name in TABLES for log in LOGS)
    return not in_lakes and bool(table_files(directory))


def table_files(directory: Path) -> dict[str, list[Path]]:
    """Table -> its Parquet files, including those in folders of partitions."""
    tables = {name: sorted((directory / name).rglob("*.parquet")) for name in TABLES if (directory / name).is_dir()}
    return {name: files for name, files in tables.items() if files}


def parse_span(name: str, text: str) -> Span:
    """Parse FROM/TO to microseconds. Each is RFC 3339 (UTC by default) or empty. Raises UsageError that begins with *name*."""
    begins, slash, ends = text.partition("/")
    if not slash:
        raise UsageError(
            f"{name} wants FROM/TO, for instance 2026-11-21T09:00:00Z/2026-11-21T09:10:00Z, not {text[:80]!r}"
        )
    span = _micros(name, begins, ALWAYS[0]), _micros(name, ends, ALWAYS[1])
    if span[0] >= span[1]:
        raise UsageError(f"{name}: {text[:80]} ends before it begins")
    return span


def _micros(name: str, text: str, otherwise: int) -> int:
    if not text.strip():
        return otherwise
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{name}: {text[:40]!r} is no time; write 2026-11-21T09:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * MICRO + since.microseconds
