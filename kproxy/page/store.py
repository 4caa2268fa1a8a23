"""Store: the exchanges that are open, as rows in DuckDB, filtered and sorted; and each exchange in detail.

A view (Index) is an array of exchange numbers in the requested order. A page of it is rows looked up by their numbers, so that
scrolling to any place costs the same. The views that were used last are kept.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from kproxy.errors import UsageError
from kproxy.page.blocks import Item
from kproxy.page.columns import COLUMNS, SHOWN, Column
from kproxy.page.filtering.filter import Filter, Unfinished
from kproxy.page.filtering.worker import Workers
from kproxy.page.kept_columns import KeptColumns
from kproxy.page.left_out import LeftOut, Narrowed, shown_gaps
from kproxy.page.work import Work
from kproxy.protocol.error_codes import error_name

if TYPE_CHECKING:
    import duckdb

    from kproxy.analyses.duck import Database

MOST_ROWS = 500  # of one answer
MOST_INDEXES, MOST_INDEX_BYTES = 6, 48 << 20  # that are kept, sorted and unsorted ones apart
LET_IN_S = 0.02  # pause in which another thread can take the lock
UNFINISHED = -1  # generation of a selection that was cancelled
MOST_EXACT = 1 << 53  # integers beyond are no numbers of JavaScript


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


class Store(ABC):
    """The exchanges of one or several sources. Its methods may be called by any thread."""

    name = ""
    sources: Sequence[Path] = ()
    live = False
    editable = False  # whether breakpoints may be set
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
    kept: KeptColumns | None = None  # of rows that stay as they are

    def __init__(self) -> None:
        self.damages: list[str] = []
        self.unread: list[str] = []  # sentences: what else sources have than exchanges, once they are read
        self.left_out = LeftOut()
        self.narrowed = Narrowed()
        self._indexes: OrderedDict[tuple[str, str], Index] = OrderedDict()
        self._selected: OrderedDict[str, Index] = OrderedDict()
        self._selecting = threading.Lock()
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
    def numbers_of(self, work: Work, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the numbers of exchanges by their keys in tables, connection_id and exchange. Raises Cancelled."""

    @abstractmethod
    def lines(self, numbers: list[int], names: list[str]) -> Iterator[bytes]:
        """Yield for each number a JSON object with these fields of the decoded log."""

    def held(self, work: Work) -> AbstractContextManager[object]:
        """Keep the tables readable within the block although rows are removed meanwhile; cancel *work* if too many are."""
        return nullcontext()

    @abstractmethod
    def lacking(self, names: set[str]) -> str:
        """Return why conditions on these fields of bodies cannot be answered; "" if they can."""

    def grown(self) -> str:
        """Return a sentence if a source has grown since it was read to its end; else ""."""
        return ""

    def look_for_damages(self) -> list[str]:
        """Return sentences on what cannot be read of the sources. Called after a question has failed; may take seconds."""
        return []

    def close(self) -> None:
        """Release memory, files and processes."""
        if self.kept is not None:
            self.kept.close()
        self.worker.close()

    # Rows

    @property
    def exchanges(self) -> int:
        """How many exchanges are here."""
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
        """Return what is missing in a span of time, as answers say it (left_out.shown_gaps); None where nothing is."""
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
        with self._lock:
            known = self._indexes.get((sort, condition))
            if known is not None and known.generation == generation:
                self._indexes.move_to_end((sort, condition))
                return known
        made = Index(self._sorted(work, sort, chosen), generation, last)
        with self._lock:
            self._indexes[sort, condition] = made
            _forget_old(self._indexes)
        return made

    def selected(self, work: Work, condition: str) -> Index | None:
        """Return the rows that meet a condition, ascending; None for no condition. Raises FilterError, Cancelled.

        One condition is evaluated at a time. Those that read bodies may take minutes, so they take turns. Only rows added since
        the last evaluation are checked, and one that was cancelled continues where it stopped.
        """
        if not condition.strip():
            return None
        filter_, read = Filter(condition), 0
        while True:
            try:
                return self._selected_in_turn(work, filter_, read)
            except Unfinished as part:
                if part.given_up:
                    raise
                read = part.read
            self._let_others_in()

    @staticmethod
    def _let_others_in() -> None:
        time.sleep(LET_IN_S)

    def _selected_in_turn(self, work: Work, filter_: Filter, read: int) -> Index:
        condition = filter_.condition
        work.wait_for(self._selecting, "another filter is evaluated, maybe for an export; ask again when that is done")
        try:
            generation, first, last = self.generation, self.first, self.last
            known = self._selected.get(condition)
            if known is None or known.generation != generation:
                after = first - 1 if known is None else max(known.through, first - 1)
                try:
                    selected = filter_.select(self, self.worker, work, after, last, read)
                except Unfinished as part:  # the next request, or the next turn, goes on from there
                    begun = part.numbers if known is None else _joined(known.numbers, part.numbers, first)
                    self._selected[condition] = Index(begun, UNFINISHED, part.through)
                    raise
                known = Index(selected if known is None else _joined(known.numbers, selected, first), generation, last)
                self._selected[condition] = known
            self._selected.move_to_end(condition)
            _forget_old(self._selected)
            return known
        finally:
            self._selecting.release()

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
        kept = None if self.kept is None else self.kept.rows(numbers, columns)
        rows = self._look_up(numbers, columns) if kept is None else kept
        return [[_plain(value, column) for value, column in zip(row, columns, strict=False)] for row in rows]

    def _look_up(self, numbers: Sequence[int], columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        listed = ", ".join(map(str, numbers))
        chosen = ", ".join(column.sql for column in columns) or "NULL"
        source = self.rows(["number", *(column.name for column in columns)], numbers)
        low, high = min(numbers), max(numbers)
        query = f"SELECT e.number, {chosen} FROM {source} WHERE e.number BETWEEN {low} AND {high} AND e.number IN ({listed})"
        with self.cursor() as cursor:
            by_number = {row[0]: row[1:] for row in cursor.execute(query).fetchall()}
        gone = (None,) * len(columns)
        return [by_number.get(number, gone) for number in numbers]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def times(self) -> tuple[int | None, int | None]:
        """Return the first and the last time of the exchanges, in nanoseconds."""
        with self.cursor() as cursor:
            latest = "max(coalesce(e.response_ns, e.request_ns))"
            query = f"SELECT min(e.request_ns), {latest} FROM {self.rows(['requestAt', 'responseAt'])}"
            ends = cursor.execute(query).fetchone()
        return (None, None) if ends is None else (ends[0], ends[1])


def numbers_among(
    cursor: "duckdb.DuckDBPyConnection", source: str, keys: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Return the numbers of the rows of *source* (SQL) with these keys, connection_id and exchange."""
    if not keys:
        return {}
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    connections, exchanges = zip(*keys, strict=True)
    wanted = {"connection_id": pa.array(connections, pa.string()), "exchange": pa.array(exchanges, pa.int64())}
    cursor.register("page_wanted", pa.table(wanted))
    query = (
        f"SELECT connection_id, exchange, number FROM {source} SEMI JOIN page_wanted USING (connection_id, exchange)"
    )
    return {(row[0], row[1]): row[2] for row in cursor.execute(query).fetchall()}


def _forget_old(indexes: OrderedDict[Any, Index]) -> None:
    """Forget the views that were used least lately; the last one stays, whatever its size."""
    sizes = [0 if isinstance(index.numbers, range) else index.numbers.nbytes for index in indexes.values()]
    size = sum(sizes)
    while len(indexes) > MOST_INDEXES or (len(indexes) > 1 and size > MOST_INDEX_BYTES):
        indexes.popitem(last=False)
        size -= sizes.pop(0)


def _joined(before: Any, new: Any, first: int) -> Any:
    """Join the numbers known before and the new ones, without those of removed rows."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
    import pyarrow.compute as pc  # noqa: PLC0415

    if len(before) and before[0].as_py() < first:
        before = before.filter(pc.greater_equal(before, first))
    return pa.concat_arrays([before, new])


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
