"""Values of rows as text, for tables that people read."""

import re
from datetime import UTC, date, datetime
from typing import Any

from kproxy.output.escaping import printable

LONGEST = 200
INSTANT = re.compile(r"(?:first|last|at|began|ended|from|to)_(?P<unit>micros|ms)")
LEAST_INSTANT = 100_000_000_000_000  # microseconds, in 1973: less is a span of time


def cell_of(column: str, value: Any, limit: int = LONGEST) -> str:
    """As cell, and what a column has as microseconds or milliseconds since the epoch as time."""
    named = INSTANT.fullmatch(column)
    if named and type(value) is int:
        micros = value if named["unit"] == "micros" else value * 1000
        if LEAST_INSTANT <= micros < 40 * LEAST_INSTANT:
            return cell(datetime.fromtimestamp(micros // 1000 / 1000, UTC), limit)
    return cell(value, limit)


def cell(value: Any, limit: int = LONGEST) -> str:
    """One value as text without anything that a terminal would obey."""
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
            text = ", ".join(f"{name} {cell(one, 60)}" for name, one in value.items())
        case list() | tuple():
            text = ", ".join(cell(one, 60) for one in value[:50])
        case _:
            text = str(value)
    return printable(text, limit)


def is_number(value: Any) -> bool:
    """Whether it is aligned to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)
