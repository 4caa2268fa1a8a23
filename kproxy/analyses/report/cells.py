"""Values of rows as text, for tables that people read."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from kproxy.output.escaping import printable

LONGEST = 200  # characters of a cell of a table on a terminal
WHOLE = 10_000  # characters of a cell where there is room
MOST_ITEMS, LONGEST_ITEM = 50, 60  # of a list in a cell of a table on a terminal
INSTANT = re.compile(r"(?:first|last|at|began|ended|from|to)_(?P<unit>micros|ms)")
LEAST_INSTANT = 100_000_000_000_000  # microseconds, in 1973: less is a span of time


def cell_of(column: str, value: Any, limit: int = LONGEST) -> str:
    """As ``cell``, but show microseconds and milliseconds since the epoch as times, by the name of the column."""
    named = INSTANT.fullmatch(column)
    if named and type(value) is int:
        micros = value if named["unit"] == "micros" else value * 1000
        if LEAST_INSTANT <= micros < 40 * LEAST_INSTANT:
            return cell(datetime.fromtimestamp(micros // 1000 / 1000, UTC), limit)
    return cell(value, limit)


def cell(value: Any, limit: int = LONGEST) -> str:
    """Return a value as text without control characters."""
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case int():
            text = str(value)  # not 9,092: ports, ids and offsets are numbers too
        case float():
            text = f"{value:.10g}"
        case bytes():
            text = "0x" + value[:limit].hex()
        case datetime():
            text = f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03d}"
        case date():
            text = value.isoformat()
        case dict():
            text = ", ".join(f"{name} {cell(one, max(limit // 4, LONGEST_ITEM))}" for name, one in value.items())
        case list() | tuple():
            text = _items(value, limit)
        case _:
            text = str(value)
    return printable(text, limit)


def _items(values: Sequence[Any], limit: int) -> str:
    """As many items as fit, each shortened, and the number of the rest; all if *limit* is large."""
    if limit >= WHOLE:
        return ", ".join(cell(one, limit) for one in values)
    text = ", ".join(cell(one, LONGEST_ITEM) for one in values[:MOST_ITEMS])
    return text if len(values) <= MOST_ITEMS else f"{text} and {len(values) - MOST_ITEMS} more"


def is_number(value: Any) -> bool:
    """Whether the value is a number, which tables align to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)
