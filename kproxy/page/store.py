"""Store: the exchanges that are open, as rows of DuckDB; which of them a filter and a sort give; one exchange whole.

A view of the rows (Index) is an array of numbers in the order asked for: a page of it is rows looked up by their numbers, so that
scrolling anywhere costs the same. Views are kept while they are used, a few at a time.
"""

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from kproxy.errors import UsageError
from kproxy.page.blocks import Item
from kproxy.page.columns import COLUMNS, SHOWN, Column
from kproxy.protocol.error_codes import error_name

if TYPE_CHECKING:
    import duckdb

    from kproxy.analyses.duck import Database

MOST_ROWS = 500  # of one answer
MOST_INDEXES = 6  # that are kept
MOST_EXACT = 1 << 53  # integers beyond are no numbers of JavaScript


class Loading(Struct, frozen=True):
    """How far a source is read, in bytes."""

    done: int
    of: int


class Index(Struct):
    """The numbers of rows in the order asked for. ``numbers`` is a pyarrow.Array, or a range where it is all of them."""

    numbers: Any
    generation: int
    through: int  # the last number that was looked at

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, offset: int, limit: int) -> list[int]:
        """The numbers from an offset on."""
        found = self.numbers[offset : offset + limit]
        return list(found) if isinstance(found, range) else list(found.to_pylist())

    def offset_of(self, number: int) -> int | None:
        """Where a number is; None of one that is not among them."""
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
    """The exchanges of one or several sources. Any thread may ask."""

    name = ""
    live = False
    size = 0  # bytes kept in memory
    first = 1  # number of the first exchange
    last = 0  # number of the last one
    generation = 0  # grows when rows come or leave
    loading: Loading | None = None

    def __init__(self) -> None:
        self.damages: list[str] = []
        self._indexes: OrderedDict[tuple[str, str], Index] = OrderedDict()
        self._lock = threading.Lock()

    # What kinds of sources differ in

    @property
    @abstractmethod
    def database(self) -> "Database":
        """The tables, for analyses."""

    @abstractmethod
    def rows(self, names: Sequence[str]) -> str:
        """What stands behind FROM for rows ``e`` that have these columns."""

    @abstractmethod
    def item(self, number: int) -> Item | None:
        """The exchange of that number as far as it is known; None where there is none."""

    @abstractmethod
    def close(self) -> None:
        """Release memory and files."""

    # Rows

    @property
    def exchanges(self) -> int:
        """How many there are."""
        return self.last - self.first + 1

    @property
    def dropped(self) -> int:
        """How many have left."""
        return self.first - 1

    def cursor(self) -> "duckdb.DuckDBPyConnection":
        """A connection for the thread that asks. The caller closes it."""
        with self._lock:
            return self.database.connection.cursor()

    def page(self, sort: str = "number", offset: int = 0, limit: int = 100, columns: Sequence[str] = SHOWN) -> Page:
        """Rows of a view from an offset on. Raises UsageError for a column that there is not."""
        wanted = [_column(name) for name in columns]
        index = self.index(sort)
        numbers = index.part(max(offset, 0), min(max(limit, 0), MOST_ROWS))
        rows = self.look_up(numbers, wanted)
        return Page(len(index), offset, index.generation, numbers, list(columns), rows)

    def index(self, sort: str) -> Index:
        """The numbers in an order. Raises UsageError for a column that there is not."""
        generation, first, last = self.generation, self.first, self.last
        name = sort.removeprefix("-")
        column = _column(name)
        if name == "number":
            every = range(first, last + 1)
            return Index(every if sort == name else every[::-1], generation, last)
        key = (sort, "")
        with self._lock:
            known = self._indexes.get(key)
            if known is not None and known.generation == generation:
                self._indexes.move_to_end(key)
                return known
        order = "DESC NULLS LAST" if sort.startswith("-") else "ASC NULLS LAST"
        cursor = self.cursor()
        try:
            table = cursor.sql(
                f"SELECT e.number FROM {self.rows([name, 'number'])} ORDER BY {column.sql} {order}, e.number"
            ).to_arrow_table()
        finally:
            cursor.close()
        made = Index(table.column(0).combine_chunks(), generation, last)
        with self._lock:
            self._indexes[key] = made
            while len(self._indexes) > MOST_INDEXES:
                self._indexes.popitem(last=False)
        return made

    def look_up(self, numbers: Sequence[int], columns: Sequence[Column]) -> list[list[Any]]:
        """Values of exchanges as JSON has them; a row of None for one that has left meanwhile."""
        if not numbers:
            return []
        listed = ", ".join(map(str, numbers))
        chosen = ", ".join(column.sql for column in columns) or "NULL"
        source = self.rows(["number", *(column.name for column in columns)])
        low, high = min(numbers), max(numbers)
        query = f"SELECT e.number, {chosen} FROM {source} WHERE e.number BETWEEN {low} AND {high} AND e.number IN ({listed})"
        cursor = self.cursor()
        try:
            found = {row[0]: row[1:] for row in cursor.execute(query).fetchall()}
        finally:
            cursor.close()
        gone = (None,) * len(columns)
        return [
            [_plain(value, column) for value, column in zip(found.get(n, gone), columns, strict=False)] for n in numbers
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def times(self) -> tuple[int | None, int | None]:
        """First and last time of the exchanges, in nanoseconds."""
        cursor = self.cursor()
        try:
            latest = "max(coalesce(e.response_ns, e.request_ns))"
            query = f"SELECT min(e.request_ns), {latest} FROM {self.rows(['requestAt', 'responseAt'])}"
            found = cursor.execute(query).fetchone()
        finally:
            cursor.close()
        return (None, None) if found is None else (found[0], found[1])


def _column(name: str) -> Column:
    column = COLUMNS.get(name)
    if column is None:
        raise UsageError(f"there is no column {name[:60]!r}")
    return column


def _plain(value: Any, column: Column) -> Any:
    """A value as the page has it."""
    if value is None:
        return None
    if column.type == "time":
        return str(value)
    if column.name == "errorCodes":
        return [error_name(code) for code in value]
    if isinstance(value, int) and not -MOST_EXACT < value < MOST_EXACT:
        return str(value)
    return value
