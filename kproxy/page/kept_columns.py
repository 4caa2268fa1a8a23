"""KeptColumns: columns of tables in memory, so that rows far apart, as those of a sorted view, are shown without reading files.

Files are compressed in pieces of many rows, so that reading some tens of rows from all over them takes as long as a filter. A
thread reads the columns of the requested rows: at once if those rows are far apart, else SOON_S later, so that the first requests
of a browser come first. Until then, and for tables that are too large, the rows are read from the files.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kproxy.page.columns import Column

if TYPE_CHECKING:
    import duckdb
    import pyarrow

MOST_ROWS = 3_000_000
MOST_BYTES = 96 << 20
PIECE = 100_000  # rows read at a time
NEAR = 10  # rows are far apart if they span more than so many times their count
SOON_S = 1.0


class Tables(Protocol):
    """What KeptColumns needs of a store."""

    first: int
    last: int

    def cursor(self) -> "duckdb.DuckDBPyConnection": ...

    def rows(self, names: Sequence[str], numbers: Sequence[int] | None = None) -> str: ...


class KeptColumns:
    """See the module.

    Args:
        tables: the store, whose rows must not change.
        most: bytes of all columns; a column that would exceed them is not kept.
    """

    def __init__(self, tables: Tables, most: int = MOST_BYTES) -> None:
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
        if last - first >= MOST_ROWS or not first <= low <= high <= last:
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
        """Read no more."""
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
                    except duckdb.Error:  # the files are damaged, or memory is short: the request itself will report it
                        self._columns[column.name] = None
            finally:
                with self._lock:
                    self._cursor = None

    def _column(self, cursor: "duckdb.DuckDBPyConnection", column: Column) -> "pyarrow.Array | None":
        """Return a column in the order of numbers; None if it is too large, which is noticed before all of it is read."""
        query = f"SELECT e.number, {column.sql} FROM {self._tables.rows([column.name, 'number'])}"
        values = self._in_order(cursor, query)  # as files have them; joined columns may come in another order
        if values is None and self._size < self._most:
            values = self._in_order(cursor, f"{query} ORDER BY e.number")
        self._size += 0 if values is None else values.nbytes
        return values

    def _in_order(self, cursor: "duckdb.DuckDBPyConnection", query: str) -> "pyarrow.Array | None":
        """Return the second column of a query; None if it is too large, or the first one lacks numbers or their order."""
        import pyarrow as pa  # noqa: PLC0415 - as above

        pieces, size, expected = [], 0, self._tables.first
        for batch in cursor.sql(query).to_arrow_reader(PIECE):
            piece = batch.column(1)
            if pa.types.is_string(piece.type):
                piece = piece.dictionary_encode()
            pieces.append(piece)
            size += piece.nbytes
            if self._size + size > self._most or not _are_next(batch.column(0), expected):
                return None
            expected += len(piece)
        if expected != self._tables.last + 1:
            return None
        return pa.chunked_array(pieces).unify_dictionaries().combine_chunks()


def _are_next(numbers: "pyarrow.Array", first: int) -> bool:
    """Return whether the numbers go on from *first*, ascending and without a gap."""
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    ascending = pc.all(pc.less(numbers[:-1], numbers[1:])).as_py() is not False
    return ascending and numbers[0].as_py() == first and numbers[-1].as_py() == first + len(numbers) - 1
