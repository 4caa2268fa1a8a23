"""Store: the exchanges that are open, as rows in DuckDB, filtered and sorted; and each exchange in detail.

A view (Index) is an array of exchange numbers in the requested order. A page of it is rows looked up by their numbers, so that
scrolling to any place costs the same. The views that were used last are kept.
"""

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from kproxy.capture.reader import ClosedOnExit
from kproxy.errors import UsageError
from kproxy.page.blocks import Item
from kproxy.page.columns import COLUMNS, NOT_IN_LINES, SHOWN, Column
from kproxy.page.filtering.filter import Filter, Unfinished
from kproxy.page.filtering.worker import Workers
from kproxy.page.left_out import LeftOut, Narrowed, shown_gaps
from kproxy.page.work import Work
from kproxy.protocol.error_codes import error_name

if TYPE_CHECKING:
    import duckdb
    import pyarrow

    from kproxy.analyses.duck import Database

MOST_ROWS = 500  # of one answer
MOST_INDEXES, MOST_INDEX_BYTES = 6, 48 << 20  # that are kept, sorted and unsorted ones apart
UNFINISHED = -1  # generation of a selection that was cancelled
MOST_EXACT = 1 << 53  # integers beyond are no numbers of JavaScript
GONE = b"{}"  # the line of an exchange that has left meanwhile


K = TypeVar("K")


class Loading(Struct, frozen=True):
    """Progress of reading the sources, in bytes."""

    done: int
    of: int


class Spill(Struct, frozen=True):
    """The directory to which older exchanges are written."""

    directory: str
    bytes: int
    most: int  # bytes
    trouble: str = ""  # why nothing can be written there, as a sentence


class Index(Struct):
    """Exchange numbers of a view, in its order: a pyarrow.Array, or a range for a view of all rows."""

    numbers: Any
    generation: int
    through: int  # the last number that was examined

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, offset: int, limit: int) -> list[int]:
        """Return at most *limit* numbers from an offset on."""
        numbers = self.numbers[offset : offset + limit]
        return list(numbers) if isinstance(numbers, range) else list(numbers.to_pylist())

    def offset_of(self, number: int) -> int | None:
        """Return the offset of a number; None if the view lacks it."""
        if isinstance(self.numbers, range):
            return self.numbers.index(number) if number in self.numbers else None
        import pyarrow.compute as pc  # noqa: PLC0415 - heavy, and an extra

        at = int(pc.index(self.numbers, number).as_py())
        return None if at < 0 else at


class Page(Struct, frozen=True):
    """Some rows of a view."""

    total: int
    offset: int
    generation: int
    numbers: list[int]
    columns: list[str]
    rows: list[list[Any]]


class Store(ClosedOnExit):
    """The exchanges of one or several sources. Its methods may be called by any thread."""

    name = ""
    sources: Sequence[Path] = ()
    live = False
    editable = False  # whether breakpoints may be set
    may_have_edits = True  # whether filters or breakpoints of kproxy may have changed what is here
    most_size = 0  # bytes in memory beyond which the oldest exchanges leave; 0: none leaves
    client_addresses: Sequence[str] = ()  # of a running proxy: what to give clients as bootstrap address
    size = 0  # bytes kept in memory
    first = 1  # number of the first exchange
    last = 0  # number of the last one
    generation = 0  # grows when rows come or leave
    dropped = 0  # exchanges that did not come here, as there was no time for them
    share = 1.0  # the part of the exchanges that comes here now
    fed = True  # whether all that comes from now on is counted: an analyzer is connected
    loading: Loading | None = None
    spill: Spill | None = None

    def __init__(self) -> None:
        self.damages: list[str] = []
        self.unread: list[str] = []  # sentences: what else sources have than exchanges, once they are read
        self.left_out = LeftOut()
        self.narrowed = Narrowed()
        self._indexes: OrderedDict[tuple[str, str], Index] = OrderedDict()
        self._selected: OrderedDict[str, Index] = OrderedDict()
        self._turns: WeakValueDictionary[str, threading.Lock] = (
            WeakValueDictionary()
        )  # by the condition that is evaluated
        self._lock = threading.Lock()
        self.worker = Workers()

    # What each kind of source implements

    @property
    @abstractmethod
    def database(self) -> "Database":
        """The tables, for analyses."""

    @abstractmethod
    def rows(self, names: Sequence[str], numbers: Sequence[int] | None = None) -> str:
        """Return SQL for FROM that gives rows ``e`` with these columns: all rows, or at least those with some numbers."""

    @abstractmethod
    def item(self, number: int) -> Item | None:
        """Return the exchange with that number, as far as it is known; None if there is none."""

    @abstractmethod
    def logged(self, numbers: Sequence[int], names: Sequence[str]) -> Iterator[bytes]:
        """Yield the line in the decoded log, with these fields at least, for each of these ascending numbers; GONE if it left."""

    def keyed_rows(self) -> str:
        """Return SQL for FROM: all exchanges with number, connection_id and exchange."""
        return "exchanges"

    def held(self, work: Work) -> AbstractContextManager[list[Callable[[str], str]]]:
        """Keep removed rows readable within the block; yield for each part of the rows a function: a table -> SQL for FROM.

        Cancels *work* if too many rows are removed meanwhile.
        """
        return nullcontext([lambda table: table])

    def keys(self, chosen: Index, exchanges: str) -> "pyarrow.Table":
        """Return connection_id and exchange, the keys that other tables have, of the chosen rows of *exchanges* (SQL)."""
        with self.cursor() as cursor:
            only = self.register(cursor, chosen)
            query = f"SELECT e.connection_id, e.exchange FROM {exchanges} e WHERE true{only}"
            return cursor.sql(query).to_arrow_table()

    def lacking(self, names: set[str]) -> str:
        """Return why conditions on these fields of bodies cannot be answered; "" if they can."""
        return ""

    def grown(self) -> str:
        """Return a sentence if a source has grown since it was read to its end; else ""."""
        return ""

    def look_for_damages(self) -> list[str]:
        """Return sentences on what cannot be read of the sources. Called after a question has failed; may take seconds."""
        return []

    def close(self) -> None:
        """Release memory, files and processes."""
        self.worker.close()

    # Rows

    @property
    def exchanges(self) -> int:
        return self.last - self.first + 1

    @property
    def default_sort(self) -> str:
        """The column by which rows are sorted unless another one is requested: several sources are merged by time."""
        return "requestAt" if len(self.sources) > 1 else "number"

    @property
    def left(self) -> int:
        """How many were removed to make room."""
        return self.first - 1

    @property
    def seen(self) -> int:
        """How many exchanges there were: those here, removed, and dropped."""
        return self.exchanges + self.left + self.dropped

    def rows_between(self, names: Sequence[str], first: int, last: int) -> str:
        """Return SQL as ``rows`` does, for at least the rows of these numbers."""
        return self.rows(names)

    def gaps(self, start: int | None, end: int | None) -> dict[str, Any] | None:
        """Return what is missing in a span of time, as answers say it (left_out.shown_gaps); None if nothing is missing."""
        if self.left_out.is_empty and self.narrowed.is_empty and not self.left:
            return None
        return shown_gaps(self.left_out, self.narrowed, self.left, self.times(), start, end)

    def cursor(self) -> "duckdb.DuckDBPyConnection":
        """Return a DuckDB connection for the calling thread, which closes it."""
        with self._lock:
            return self.database.connection.cursor()

    def page(
        self,
        work: Work,
        condition: str = "",
        sort: str = "number",
        offset: int = 0,
        limit: int = 100,
        columns: Sequence[str] = SHOWN,
    ) -> Page:
        """Return rows of a view from an offset on. Raises UsageError for an unknown column, FilterError, Cancelled."""
        wanted = [_column(name) for name in columns]
        index = self.index(work, condition, sort)
        numbers = index.part(max(offset, 0), min(max(limit, 0), MOST_ROWS))
        rows = self.look_up(numbers, wanted)
        return Page(len(index), offset, index.generation, numbers, list(columns), rows)

    def index(self, work: Work, condition: str = "", sort: str = "number") -> Index:
        """Return the view of a filter and a sort. Raises as ``page``."""
        generation, first, last = self.generation, self.first, self.last
        name = sort.removeprefix("-")
        _column(name)
        chosen = self.selected(work, condition)
        if name == "number":
            every: Any = range(first, last + 1) if chosen is None else chosen.numbers
            return Index(every if sort == name else every[::-1], generation, last)
        known = self._recalled(self._indexes, (sort, condition))
        if known is not None and known.generation == generation:
            return known
        return self._remembered(
            self._indexes, (sort, condition), Index(self._sorted(work, sort, chosen), generation, last)
        )

    def selected(self, work: Work, condition: str) -> Index | None:
        """Return the rows that meet a condition, ascending; None for no condition. Raises FilterError, Cancelled.

        Who asks for a condition that is evaluated already waits for its answer. Only rows added since the last evaluation are
        checked, and one that was cancelled continues where it stopped.
        """
        if not condition.strip():
            return None
        filter_ = Filter(condition)
        condition = filter_.condition
        with self._lock:
            turn = self._turns.setdefault(condition, threading.Lock())
        work.wait_for(turn, "this filter is evaluated already, maybe for an export; ask again when that is done")
        try:
            generation, first, last = self.generation, self.first, self.last
            known = self._recalled(self._selected, condition)
            if known is not None and known.generation == generation:
                return known
            after = first - 1 if known is None else max(known.through, first - 1)
            try:
                numbers = _joined(known, filter_.select(self, self.worker, work, after, last), first)
            except Unfinished as part:  # the next request goes on from there
                begun = Index(_joined(known, part.numbers, first), UNFINISHED, part.through)
                self._remembered(self._selected, condition, begun)
                raise
            return self._remembered(self._selected, condition, Index(numbers, generation, last))
        finally:
            turn.release()

    def _recalled(self, indexes: OrderedDict[K, Index], key: K) -> Index | None:
        with self._lock:
            if key in indexes:
                indexes.move_to_end(key)
            return indexes.get(key)

    def _remembered(self, indexes: OrderedDict[K, Index], key: K, index: Index) -> Index:
        with self._lock:
            indexes[key] = index
            indexes.move_to_end(key)
            _forget_old(indexes)
        return index

    def _sorted(self, work: Work, sort: str, chosen: Index | None) -> Any:
        column = _column(sort.removeprefix("-"))
        order = "DESC NULLS LAST" if sort.startswith("-") else "ASC NULLS LAST"
        with self.cursor() as cursor, work.ended_by(cursor.interrupt):
            only = self.register(cursor, chosen)
            source = self.rows([column.name, "number"])
            query = f"SELECT e.number FROM {source} WHERE true{only} ORDER BY {column.sql} {order}, e.number"
            return cursor.sql(query).to_arrow_table().column(0).combine_chunks()

    @staticmethod
    def register(cursor: "duckdb.DuckDBPyConnection", chosen: Index | None) -> str:
        """Register the chosen numbers with the cursor, and return what to append to the WHERE of a query."""
        if chosen is None:
            return ""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        cursor.register("page_chosen", pa.table({"number": chosen.numbers}))
        return " AND e.number IN (SELECT number FROM page_chosen)"

    def look_up(self, numbers: Sequence[int], columns: Sequence[Column]) -> list[list[Any]]:
        """Return values of exchanges as the page has them; a row of None for each that was removed meanwhile."""
        if not numbers:
            return []
        rows = self.values(numbers, columns)
        return [[_plain(value, column) for value, column in zip(row, columns, strict=False)] for row in rows]

    def values(self, numbers: Sequence[int], columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        """As ``look_up``, with the values that SQL gives."""
        listed = ", ".join(map(str, numbers))
        chosen = ", ".join(column.sql for column in columns) or "NULL"
        source = self.rows(["number", *(column.name for column in columns)], numbers)
        low, high = min(numbers), max(numbers)
        query = f"SELECT e.number, {chosen} FROM {source} WHERE e.number BETWEEN {low} AND {high} AND e.number IN ({listed})"
        with self.cursor() as cursor:
            by_number = {row[0]: row[1:] for row in cursor.execute(query).fetchall()}
        gone = (None,) * len(columns)
        return [by_number.get(number, gone) for number in numbers]

    def lines(self, numbers: list[int], names: list[str]) -> Iterator[bytes]:
        """Yield for each of these ascending numbers a JSON object with these names of filters; without names, all of its line."""
        added = [COLUMNS[name] for name in names if name in NOT_IN_LINES]
        if not added:
            yield from self.logged(numbers, names)
            return
        in_log = [name for name in names if name not in NOT_IN_LINES] or ["event"]
        for line, row in zip(self.logged(numbers, in_log), self.look_up(numbers, added), strict=True):
            yield _with_more(line, {column.name: value for column, value in zip(added, row, strict=True)})

    def numbers_of(self, work: Work, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the numbers of exchanges by their keys in tables, connection_id and exchange. Raises Cancelled."""
        if not keys:
            return {}
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        connections, exchanges = zip(*keys, strict=True)
        wanted = {"connection_id": pa.array(connections, pa.string()), "exchange": pa.array(exchanges, pa.int64())}
        with self.cursor() as cursor, work.ended_by(cursor.interrupt):
            cursor.register("page_wanted", pa.table(wanted))
            source = f"{self.keyed_rows()} SEMI JOIN page_wanted USING (connection_id, exchange)"
            rows = cursor.execute(f"SELECT connection_id, exchange, number FROM {source}").fetchall()
        return {(row[0], row[1]): row[2] for row in rows}

    def times(self) -> tuple[int | None, int | None]:
        """Return the first and the last time of the exchanges, in nanoseconds."""
        with self.cursor() as cursor:
            latest = "max(coalesce(e.response_ns, e.request_ns))"
            query = f"SELECT min(e.request_ns), {latest} FROM {self.rows(['requestAt', 'responseAt'])}"
            ends = cursor.execute(query).fetchone()
        return (None, None) if ends is None else (ends[0], ends[1])


def _forget_old(indexes: OrderedDict[Any, Index]) -> None:
    """Forget the views that were used least lately; the last one stays, whatever its size."""
    sizes = [0 if isinstance(index.numbers, range) else index.numbers.nbytes for index in indexes.values()]
    size = sum(sizes)
    while len(indexes) > MOST_INDEXES or (len(indexes) > 1 and size > MOST_INDEX_BYTES):
        indexes.popitem(last=False)
        size -= sizes.pop(0)


def _joined(known: Index | None, new: Any, first: int) -> Any:
    """Join the numbers known before and the new ones, without those of removed rows."""
    if known is None:
        return new
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
    import pyarrow.compute as pc  # noqa: PLC0415

    before = known.numbers
    if len(before) and before[0].as_py() < first:
        before = before.filter(pc.greater_equal(before, first))
    return pa.concat_arrays([before, new])


def _with_more(line: bytes, more: dict[str, Any]) -> bytes:
    """Return a line of the decoded log with more fields at its end."""
    fields = line.rstrip().removesuffix(b"}")
    return fields + (b"," if len(fields) > 1 else b"") + msgspec.json.encode(more)[1:]


def _column(name: str) -> Column:
    column = COLUMNS.get(name)
    if column is None:
        raise UsageError(f"there is no column {name[:60]!r}")
    return column


def _plain(value: Any, column: Column) -> Any:
    """Convert a value to the page's JSON."""
    if value is None:
        return None
    if column.type == "time":
        return str(value)
    if column.name == "errorCodes":
        return [error_name(code) for code in value]
    if isinstance(value, int) and not -MOST_EXACT < value < MOST_EXACT:
        return str(value)
    return value
