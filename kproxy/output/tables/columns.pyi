"""Rows into Arrow's memory, value by value: no list of rows is held, and no value is looked at twice."""

from collections.abc import Callable
from typing import Any

from kproxy.output.tables.contracts import Table

ROWS: int  # held until they are given on
BYTES: int  # of text and of lists in them

class Rows:
    """Rows of a table, given on as Arrow's (a pyarrow.RecordBatch) when there are enough.

    Strings may hold lone surrogates (bytes that were not UTF-8): they become U+FFFD. Raises TypeError, OverflowError for
    what is of another type than its column; nothing is to be appended afterwards.
    """

    def __init__(self, table: Table, give: Callable[[Table, Any], None]) -> None: ...
    @property
    def table(self) -> Table: ...
    @property
    def count(self) -> int:
        """Rows that are held."""

    @property
    def size(self) -> int:
        """Bytes of text and of lists in them."""

    def append(self, row: tuple[Any, ...]) -> None:
        """Take a row, a value a column in their order."""

    def flush(self) -> None:
        """Give on what is held."""
