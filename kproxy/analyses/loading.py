"""Sources into DuckDB: captures and logs decoded into tables, Parquet directories as views; two side by side for a diff."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kproxy.analyses.sources import Kind, Source, table_files
from kproxy.output.tables import TABLES, Column, Table, schema_of
from kproxy.pipeline.decoded_log import open_named
from kproxy.pipeline.run import Input, Options, Run
from kproxy.pipeline.table_output import TableOutput

if TYPE_CHECKING:
    import duckdb

SIDES = ("before", "after")
Span: TypeAlias = tuple[int, int]  # microseconds since the epoch: from, and until
ALWAYS: Span = (-2_208_988_800_000_000, 253_402_300_799_000_000)  # 1900 to 9999, the times that tables hold
MOST_UNCOMMITTED = 64_000_000  # bytes of rows as Arrow has them
Watch: TypeAlias = Callable[[Path, Input, Iterator[None]], None]
Connect: TypeAlias = Callable[[], "duckdb.DuckDBPyConnection"]


class Reading:
    """Switches that the caller may change while sources are read.

    ``holds``: rows are kept in memory and DuckDB is not started, since its threads would not survive a fork.
    ``ended``: no other source is opened.
    ``is_part``: only the beginning of the sources was read, so that there are few rows; this process is one of several.
    """

    def __init__(self, *, holds: bool = False) -> None:
        self.holds = holds
        self.ended = False
        self.is_part = False


class Loader:
    """Fills the tables of one connection to DuckDB.

    Args:
        connect: gives DuckDB's connection; called when the first rows are written.
        wanted: the tables to fill; the others exist and are empty.
        options: of the decoding.
        watch: reads a source to its end, and shows how far it is.
        reading: what the caller may change meanwhile.

    ``damages`` has a sentence for each place where a source could not be read, ``parquet`` the files that views read.
    """

    def __init__(
        self, connect: Connect, wanted: set[str], options: Options, watch: Watch | None, reading: Reading
    ) -> None:
        self.damages: list[str] = []
        self.parquet: list[Path] = []  # files that are read in place
        self._connect = connect
        self._wanted = wanted
        self._options = options
        self._watch = watch or _read_all
        self._reading = reading

    @functools.cached_property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        return self._connect()

    def load(self, sources: list[Source], prefix: str = "") -> None:
        """Create all tables, named with the prefix, and fill them from the sources."""
        directories = [source.path for source in sources if source.kind is Kind.TABLES]
        files = [source.path for source in sources if source.kind is Kind.EVENTS]
        decoded = f"{prefix}_decoded_" if directories else prefix
        inserted = _Inserter(
            lambda: self._connection, decoded, lambda: self._create_all(directories, prefix, decoded), self._reading
        )
        if files:
            self._decode(files, inserted)
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
        both = " UNION ALL ".join(
            f"SELECT '{side}' AS side, '{side} ' || connection_id AS connection_id FROM _{side}_connections"
            for side in SIDES
        )
        self._create_sides(f"SELECT *, {_instant(ALWAYS[0])} AS from_at, {_instant(ALWAYS[1])} AS to_at FROM ({both})")

    def divide(self, before: Span, after: Span) -> None:
        """Create the table ``sides`` for two ranges of time of the sources that were loaded."""
        both = " UNION ALL ".join(
            f"SELECT '{side}' AS side, connection_id, {_instant(span[0])} AS from_at, {_instant(span[1])} AS to_at"
            " FROM connections"
            for side, span in zip(SIDES, (before, after), strict=True)
        )
        self._create_sides(both)

    def _create_sides(self, select: str) -> None:
        self._connection.execute(f"CREATE TABLE sides AS {select}")

    def _decode(self, files: list[Path], inserted: "_Inserter") -> None:
        with Run(self._options, [_Rows(inserted, self._wanted)]) as run:
            for path in files:
                if self._reading.ended:
                    break
                with open_named(path) as source:
                    self._watch(path, source, run.read(source))
            self.damages += run.damages

    def _create(self, table: Table, name: str) -> None:
        self._connection.register("_empty", schema_of(table).empty_table())
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM _empty")
        self._connection.unregister("_empty")

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
    """Inserts batches of rows, many in each transaction: DuckDB compresses rows when they are committed.

    Args:
        connection: gives DuckDB's.
        prefix: of the names of the tables.
        create: makes the tables.
        reading: while it holds, batches are only kept.
    """

    def __init__(self, connection: Connect, prefix: str, create: Callable[[], None], reading: Reading) -> None:
        self._connection = connection
        self._prefix = prefix
        self._create = create
        self._reading = reading
        self._held: list[tuple[str, Any]] = []
        self._begun = False
        self._uncommitted = 0  # bytes

    def add(self, name: str, batch: Any) -> None:
        """Take rows of the table *name*."""
        self._held.append((name, batch))
        if not self._reading.holds:
            self._write()

    def finish(self) -> None:
        """Write what is left; the tables exist now."""
        self._write()
        self._connection().commit()

    def _write(self) -> None:
        connection = self._connection()
        if not self._begun:
            self._begun = True
            connection.begin()
            self._create()
        for name, batch in self._held:
            connection.from_arrow(batch).insert_into(self._prefix + name)
            self._uncommitted += batch.nbytes
        self._held.clear()
        if self._uncommitted > MOST_UNCOMMITTED:
            self._uncommitted = 0
            connection.commit()
            connection.begin()


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


def _read_all(path: Path, source: Input, steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def _column(column: Column, kind: str, exists: bool) -> str:
    name = f'"{column.name}"'
    return f"CAST({name if exists else 'NULL'} AS {kind}) AS {name}"


def _instant(micros: int) -> str:
    return f"make_timestamptz({micros})"


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
