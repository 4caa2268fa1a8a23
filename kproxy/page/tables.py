"""Tabled: the Store of directories of Parquet tables. DuckDB queries the files where they are; nothing is loaded."""

import re
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from kproxy.analyses.duck import SAFE, Database
from kproxy.analyses.loading import duckdb_type, quoted, table_files
from kproxy.errors import UsageError
from kproxy.output.bodies import find_errors
from kproxy.output.tables.contracts import EXCHANGES
from kproxy.output.tables.parquet import missing_parts
from kproxy.output.times import render_instant
from kproxy.page.blocks import Item
from kproxy.page.columns import ADDED, COLUMNS, IN_FILTERS, Column
from kproxy.page.store import Index, Store
from kproxy.page.work import Cancelled, Work
from kproxy.protocol import ApiKey
from kproxy.protocol.embedded.payload import to_json
from kproxy.protocol.embedded.viewers import Content
from kproxy.protocol.expressions import first_sentence
from kproxy.schemas.viewer import make_viewers

if TYPE_CHECKING:
    import duckdb
    import pyarrow

MEMORY = 192  # MB that DuckDB may use; the analyses may use as much again
# What each connection has; older tables of exchanges have no column broker
ENDS = frozenset(ADDED.keys() - {"number", "request_ns", "response_ns"}) | {"broker"}
MOST_LOOKED_UP = 2_000  # rows of a query
MOST_LOOKING_SECONDS = 10.0  # for damages in all files: every value is read
NAMED = re.compile(r'^.*Failed to read file "[^"]*": ')  # what DuckDB writes before the damage itself
MOST_RECORDS = 10_000  # of an exchange
MOST_KEPT_ROWS = 3_000_000
MOST_KEPT_BYTES = 96 << 20
PIECE = 100_000  # rows read at a time
NEAR = 10  # rows are far apart if they span more than so many times their count
SOON_S = 1.0
BODIES = ("request_json", "response_json")
END = (
    "CASE WHEN {side}_port = 0 THEN {side}_address"
    " WHEN contains({side}_address, ':') THEN '[' || {side}_address || ']:' || {side}_port"
    " ELSE {side}_address || ':' || {side}_port END"
)


PRINCIPAL = (
    "coalesce(CASE WHEN x.exchange >= c.login THEN c.user_name END, c.certificate) AS principal"  # from the login on
)


class _File(Struct, frozen=True):
    """A file of exchanges."""

    path: str
    first: int  # number of its first row
    rows: int
    columns: frozenset[str]


NO_FILE = _File("", 1, 0, frozenset())


class Tabled(Store):
    """The exchanges of directories of tables. Raises UsageError if a table cannot be read."""

    def __init__(self, directories: Sequence[Path]) -> None:
        super().__init__()
        import duckdb  # noqa: PLC0415 - heavy, and an extra

        self.name = ", ".join(directory.name or str(directory) for directory in directories)
        self.sources = list(directories)
        self.kept: KeptColumns | None = None
        self._database: Database | None = None
        self._opening = threading.Lock()
        self._connection = duckdb.connect(config=SAFE)
        self._connection.execute(f"SET memory_limit = '{MEMORY}MB'")
        self._connection.execute("SET TimeZone = 'UTC'")
        self._looking = threading.Lock()
        self.damages = self._missing = [sentence for directory in directories for sentence in missing_parts(directory)]
        tables = [table_files(directory) for directory in directories]
        records = [quoted(str(path)) for files in tables for path in files.get("records", [])]
        self._records_reader = (
            f"read_parquet([{', '.join(records)}], union_by_name = true, hive_partitioning = false)" if records else ""
        )
        self._paths = [path for files in tables for paths in files.values() for path in paths]
        try:
            self._files = self._look_at([path for files in tables for path in files.get("exchanges", [])])
            self._make_ends([path for files in tables for path in files.get("connections", [])])
        except duckdb.Error as error:
            self.close()
            reasons = "; ".join(self.look_for_damages()) or first_sentence(error)
            raise UsageError(f"{self.name}: a table cannot be read: {reasons}") from error
        self.last = sum(file.rows for file in self._files)
        self.kept = KeptColumns(self)
        self.has_bodies = bool(self._files) and all(set(BODIES) <= file.columns for file in self._files)

    @property
    def database(self) -> Database:
        """See Store. Opened for the first analysis."""
        with self._opening:
            if self._database is None:
                self._database = Database(self.sources, memory=MEMORY)
            return self._database

    def cursor(self) -> "duckdb.DuckDBPyConnection":
        with self._lock:
            return self._connection.cursor()

    def rows(self, names: Sequence[str], numbers: Sequence[int] | None = None) -> str:
        wanted = sorted({COLUMNS[name].sql.removeprefix("e.") for name in names} | {"number"})
        own = [name for name in wanted if name not in ENDS]
        keys = ", connection_id, exchange" if len(own) < len(wanted) else ""
        parts = [
            f"SELECT {', '.join(_expression(name, file) for name in own)}{keys} FROM {_reader(file)}{_inside(file, numbers)}"
            for file in self._files
            if _has(file, numbers)
        ]
        empty = ", ".join(_expression(name, NO_FILE).replace("file_row_number", "0") for name in own)
        none = f"SELECT {empty}, NULL::VARCHAR AS connection_id, NULL::BIGINT AS exchange WHERE false"
        every = " UNION ALL BY NAME ".join(parts) or none
        if not ENDS & set(wanted):
            return f"({every}) e"
        kept = ", ".join(f"x.{name}" for name in own)
        ends = ", ".join([PRINCIPAL, *(f"c.{name}" for name in sorted(ENDS - {"principal"}))])
        return f"(SELECT {kept}, {ends} FROM ({every}) x LEFT JOIN page_ends c USING (connection_id)) e"

    def values(self, numbers: Sequence[int], columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        kept = None if self.kept is None else self.kept.rows(numbers, columns)
        return super().values(numbers, columns) if kept is None else kept

    def item(self, number: int) -> Item | None:
        """Return bodies and records, as far as the tables have them (``kproxy decode --bodies``, ``--records``); no bytes."""
        if not self.first <= number <= self.last:
            return None
        file = self._files[bisect_right([file.first for file in self._files], number) - 1]
        bodies = BODIES if self.has_bodies else ()
        with self.cursor() as cursor:
            columns = ", ".join(("connection_id", "exchange", *bodies))
            query = f"SELECT {columns} FROM {_reader(file)} WHERE file_row_number = {number - file.first}"
            connection, exchange, *texts = cursor.execute(query).fetchone() or (None, None)
            line: dict[str, Any] = {
                name.removesuffix("_json"): msgspec.Raw((text or "null").encode())
                for name, text in zip(bodies, texts, strict=False)
            }
            if self._records_reader:
                line["embedded"] = self._records(cursor, connection, exchange)
        return Item(to_json(line) if line else b"")

    def _records(self, cursor: "duckdb.DuckDBPyConnection", connection: Any, exchange: Any) -> list[dict[str, Any]]:
        """Return the records of an exchange by partition, as the decoded log has them."""
        query = (
            "SELECT direction, topic, topic_id, partition, partition_offset, epoch_ms(timestamp), key, value, headers"
            f" FROM {self._records_reader} WHERE connection_id = ? AND exchange = ? LIMIT {MOST_RECORDS}"
        )
        viewers, partitions = make_viewers(), dict[tuple[Any, ...], list[dict[str, Any]]]()
        for *place, offset, timestamp, key, value, headers in cursor.execute(query, (connection, exchange)).fetchall():
            topic, named = place[1], [((one["key"] or b"").decode("utf-8", "replace"), one["value"]) for one in headers]
            partitions.setdefault(tuple(place), []).append(
                {
                    "offset": offset,
                    "timestamp": timestamp,
                    "key": viewers.view(key, Content(topic, "key", named)),
                    "value": viewers.view(value, Content(topic, "value", named, key)),
                    "headers": [
                        {"key": name, "value": viewers.view(one, Content(topic, name, key=key, is_header=True))}
                        for name, one in named
                    ],
                }
            )
        return [
            {
                "path": "",
                "in": "request" if direction == "produce" else "response",
                "kind": "records",
                "json": {
                    "topic": topic,
                    "topicId": topic_id,
                    "partition": partition,
                    "count": len(rows),
                    "records": rows,
                },
            }
            for (direction, topic, topic_id, partition), rows in partitions.items()
        ]

    def logged(self, numbers: Sequence[int], names: Sequence[str]) -> Iterator[bytes]:
        columns = [COLUMNS[name] for name in names if name in COLUMNS]
        columns += [COLUMNS[f"{side}TrailingBytes"] for side in ("request", "response") if "trailing" in names]
        bodies = [name for name in ("request", "response") if name in names]
        bodies += ["response"] if "errors" in names and "response" not in bodies else []
        for start in range(0, len(numbers), MOST_LOOKED_UP):
            some = numbers[start : start + MOST_LOOKED_UP]
            texts = self._bodies(some, bodies)
            for row, texts_of_row in zip(self.look_up(some, columns), texts, strict=True):
                line: dict[str, Any] = {"event": "exchange"}
                line |= {column.name: _as_in_the_log(column, value) for column, value in zip(columns, row, strict=True)}
                for name, text in zip(bodies, texts_of_row, strict=True):
                    line[name] = msgspec.Raw((text or "null").encode())
                if "errors" in names:
                    line["errors"] = find_errors(bytes(line["response"]))
                if "trailing" in names:
                    sizes = {side: line[f"{side}TrailingBytes"] for side in ("request", "response")}
                    line["trailing"] = {side: size for side, size in sizes.items() if size} or None
                yield msgspec.json.encode(line)

    def lacking(self, names: set[str]) -> str:
        known = IN_FILTERS | {"event", "address", "errorNames"}
        if self.has_bodies:
            known |= {"request", "response", "errors", "trailing"}
        missing = sorted(names - known)
        if not missing:
            return ""
        if missing == ["errors"]:
            return (
                "tables have each error code once: errors.exists(e, e.code == 16) and size(errors) > 0 can be answered"
            )
        if set(missing) <= {"request", "response"}:
            return f"these tables do not have {missing[0]}: decode with --bodies, or open the capture"
        return f"tables do not have {' and '.join(missing)}: open the capture, or its decoded log"

    def keyed_rows(self) -> str:
        every = " UNION ALL BY NAME ".join(
            f"SELECT connection_id, exchange, file_row_number + {file.first} AS number FROM {_reader(file)}"
            for file in self._files
        )
        return f"({every})"

    def times(self) -> tuple[int | None, int | None]:
        """See Store. Raises UsageError where the times are damaged."""
        import duckdb  # noqa: PLC0415 - heavy, and an extra

        try:
            return super().times()
        except duckdb.Error as error:
            if not self.look_for_damages():
                raise
            raise UsageError("; ".join(self.damages)) from error

    def look_for_damages(self) -> list[str]:
        with self._looking:
            if self.damages == self._missing:  # nothing was found so far
                self.damages = [*self._missing, *damages_of(self._paths)]
            return self.damages

    def keys(self, chosen: Index, exchanges: str) -> "pyarrow.Table":
        """See Store. The rows are those of the files, as the tables of the database have no numbers."""
        return super().keys(chosen, self.keyed_rows())

    def close(self) -> None:
        if self.kept is not None:
            self.kept.close()
        super().close()
        self._connection.close()
        if self._database is not None:
            self._database.close()

    def _bodies(self, numbers: Sequence[int], names: Sequence[str]) -> list[tuple[str | None, ...]]:
        parts = [
            f"SELECT file_row_number + {file.first} AS number, {', '.join(BODIES)} FROM {_reader(file)}{_inside(file, numbers)}"
            for file in self._files
            if names and _has(file, numbers)
        ]
        by_number: dict[int, dict[str, str | None]] = {}
        if parts:
            with self.cursor() as cursor:
                rows = cursor.execute(" UNION ALL BY NAME ".join(parts)).fetchall()
            by_number = {row[0]: {"request": row[1], "response": row[2]} for row in rows}
        return [tuple(by_number.get(number, {}).get(name) for name in names) for number in numbers]

    def _look_at(self, paths: list[Path]) -> list[_File]:
        files: list[_File] = []
        for path in paths:
            named = quoted(str(path))
            counted = self._connection.execute(f"SELECT num_rows FROM parquet_file_metadata({named})").fetchone()
            described = self._connection.execute(f"DESCRIBE SELECT * FROM read_parquet({named})").fetchall()
            rows = int(counted[0]) if counted else 0
            first = files[-1].first + files[-1].rows if files else 1
            if rows:
                files.append(_File(str(path), first, rows, frozenset(row[0] for row in described)))
        return files

    def _make_ends(self, paths: list[Path]) -> None:
        """Make a table of both ends of each connection: few rows compared with those of exchanges."""
        texts = ("client", "broker", "user_name", "certificate", "software", "software_version", "mechanism")
        columns = ["connection_id VARCHAR", "connection BIGINT", "login BIGINT", *(f"{name} VARCHAR" for name in texts)]
        self._connection.execute(f"CREATE TABLE page_ends ({', '.join(columns)})")
        if paths:
            listed = ", ".join(quoted(str(path)) for path in paths)
            ends = ", ".join(f"any_value({END.format(side=side)})" for side in ("client", "broker"))
            ends += ", any_value(user_name), any_value(tls_client_certificate)"
            ends += ", any_value(client_software_name), any_value(client_software_version), any_value(sasl_mechanism)"
            self._connection.execute(
                f"INSERT INTO page_ends SELECT connection_id, any_value(connection), NULL, {ends}"
                f" FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false) GROUP BY connection_id"
            )
        every = ", ".join(quoted(file.path) for file in self._files)
        (users,) = self._connection.execute("SELECT count(user_name) FROM page_ends").fetchone() or (0,)
        if users and every:
            self._connection.execute(
                "UPDATE page_ends SET login = found.login FROM (SELECT connection_id, min(exchange) AS login"
                f" FROM read_parquet([{every}], union_by_name = true, hive_partitioning = false)"
                f" WHERE api_key = {ApiKey.SASL_AUTHENTICATE:d} GROUP BY connection_id) AS found"
                " WHERE page_ends.connection_id = found.connection_id AND user_name IS NOT NULL"
            )


def _as_in_the_log(column: Column, value: Any) -> Any:
    if column.type == "time":
        return None if value is None else render_instant(int(value))
    return int(value) if column.type == "integer" and isinstance(value, str) else value


def _reader(file: _File) -> str:
    return f"read_parquet({quoted(file.path)}, file_row_number = true, hive_partitioning = false)"


def _expression(name: str, file: _File) -> str:
    if name == "number":
        return f"file_row_number + {file.first} AS number"
    if name in ("request_ns", "response_ns"):
        column = f"{name.removesuffix('ns')}at"
        return f"epoch_us({column}) * 1000 AS {name}" if column in file.columns else f"NULL::BIGINT AS {name}"
    if name in file.columns:
        return f'"{name}"'
    kind = next(column.type for column in EXCHANGES.columns if column.name == name)
    return f'NULL::{duckdb_type(kind)} AS "{name}"'


def _has(file: _File, numbers: Sequence[int] | None) -> bool:
    return numbers is None or any(file.first <= number < file.first + file.rows for number in numbers)


def _inside(file: _File, numbers: Sequence[int] | None) -> str:
    """Return a WHERE for these rows of the file, with which DuckDB skips the other parts of the file."""
    if numbers is None:
        return ""
    rows = sorted(number - file.first for number in numbers if file.first <= number < file.first + file.rows)
    listed = f"file_row_number IN ({', '.join(map(str, rows))})"
    return f" WHERE file_row_number BETWEEN {rows[0]} AND {rows[-1]} AND {listed}"


def damages_of(paths: Iterable[Path]) -> list[str]:
    """Return a sentence for each Parquet file that cannot be read to its end, as far as there is time to look.

    Only called once a question has failed: DuckDB rarely names the file.
    """
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    damages: list[str] = []
    work = Work(MOST_LOOKING_SECONDS)
    with duckdb.connect(config=SAFE) as connection:  # its own connection: a fault may have broken the other one
        connection.execute(f"SET memory_limit = '{MEMORY}MB'")
        for path in paths:
            try:
                with work.ended_by(connection.interrupt):
                    connection.execute(f"SELECT max(hash(e)) FROM read_parquet({quoted(str(path))}) e").fetchall()
            except Cancelled:
                break
            except duckdb.OutOfMemoryException:
                continue  # this says nothing about the file
            except duckdb.Error as error:
                damages.append(f"{path} is damaged: {NAMED.sub('', first_sentence(error))}")
    return damages


class KeptColumns:
    """Columns of tables in memory, so that rows far apart, as those of a sorted view, are shown without reading files.

    Files are compressed in pieces of many rows, so that reading some tens of rows from all over them takes as long as a filter. A
    thread reads the columns of the requested rows: at once if those rows are far apart, else SOON_S later, so that the first
    requests of a browser come first. Until then, and for tables that are too large, the rows are read from the files.

    Args:
        tables: their store.
        most: bytes of all columns; a column that would exceed them is not kept.
    """

    def __init__(self, tables: Tabled, most: int = MOST_KEPT_BYTES) -> None:
        self._tables = tables
        self._most = most
        self._columns: dict[str, pyarrow.Array | None] = {}  # None: it is too large
        self._size = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._hurry = threading.Event()
        self._cursor: duckdb.DuckDBPyConnection | None = None

    def rows(self, numbers: Sequence[int], columns: Sequence[Column]) -> list[tuple[Any, ...]] | None:
        """Return the values of rows; None if the files must be read, as some columns are not here (yet)."""
        first, last = self._tables.first, self._tables.last
        low, high = min(numbers), max(numbers)
        if last - first >= MOST_KEPT_ROWS or not first <= low <= high <= last:
            return None
        missing = [column for column in columns if column.name not in self._columns]
        if missing:
            self._start(missing)
            if high - low >= NEAR * len(numbers):
                self._hurry.set()
            return None
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        places = pa.array([number - first for number in numbers], pa.int64())
        kept = [self._columns[column.name] for column in columns]
        values = [one.take(places).to_pylist() for one in kept if one is not None]
        return list(zip(*values, strict=True)) if len(values) == len(columns) > 0 else None

    def wait(self) -> None:
        """Wait until the requested columns are read."""
        self._hurry.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        with self._lock:
            self._stopped = True
            if self._cursor is not None:
                self._cursor.interrupt()
        self.wait()

    def _start(self, columns: list[Column]) -> None:
        with self._lock:
            if self._stopped or (self._thread is not None and self._thread.is_alive()):
                return
            self._hurry.clear()
            self._thread = threading.Thread(target=self._read, args=(columns,), name="kproxy-columns", daemon=True)
            self._thread.start()

    def _read(self, columns: list[Column]) -> None:
        import duckdb  # noqa: PLC0415 - heavy, and an extra

        self._hurry.wait(SOON_S)
        with self._tables.cursor() as cursor:
            with self._lock:
                self._cursor = cursor
            try:
                for column in columns:
                    if self._stopped:
                        return
                    try:
                        self._columns[column.name] = self._column(cursor, column)
                    except (duckdb.Error, OSError):  # what fails after the first rows is an OSError, an interrupt too
                        # the files are damaged, or memory is short, which the request itself will report; or the page ends
                        self._columns[column.name] = None
            finally:
                with self._lock:
                    self._cursor = None

    def _column(self, cursor: "duckdb.DuckDBPyConnection", column: Column) -> "pyarrow.Array | None":
        """Return a column in the order of numbers; None if it is too large, which is noticed before all of it is read."""
        import pyarrow as pa  # noqa: PLC0415 - as above

        source = self._tables.rows([column.name, "number"])
        pieces, size = [], 0
        for batch in cursor.sql(f"SELECT {column.sql} FROM {source} ORDER BY e.number").to_arrow_reader(PIECE):
            piece = batch.column(0)
            if pa.types.is_string(piece.type):
                piece = piece.dictionary_encode()
            pieces.append(piece)
            size += piece.nbytes
            if self._size + size > self._most:
                return None
        self._size += size
        return pa.chunked_array(pieces).unify_dictionaries().combine_chunks()
