"""Rows into Arrow's memory, value by value: no list of rows is held, and no value is looked at twice."""

from collections.abc import Iterable
from typing import Any

class Columns:
    """Rows of a table so far: *kinds* are the types of its columns and whether they may be null, as the contracts say.

    Strings may hold lone surrogates (bytes that were not UTF-8): they become U+FFFD. Raises TypeError, OverflowError for
    what is of another type than its column.
    """

    def __init__(self, kinds: Iterable[tuple[str, bool]]) -> None: ...
    @property
    def count(self) -> int:
        """Rows."""

    @property
    def size(self) -> int:
        """Bytes of text and of lists in them: what is not bounded by their number."""

    def append(self, *parts: tuple[Any, ...]) -> None:
        """Take a row, a value a column; it may come in parts, one tuple behind the other."""

    def arrays(self, kinds: Iterable[Any]) -> list[Any]:
        """The columns as Arrow's, of the types *kinds*."""
