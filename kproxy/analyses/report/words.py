"""Phrases that all forms of a report share: what was read, when, how much."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from kproxy.analyses.report.verdicts import Summary
from kproxy.output.escaping import printable
from kproxy.output.times import counted, render_instant, render_size, render_span

MOST_ERRORS = 3  # that are named
LONGEST = 200  # characters of a cell of a table on a terminal
WHOLE = 10_000  # characters of a cell where there is room
MOST_ITEMS, LONGEST_ITEM = 50, 60  # of a list in a cell of a table on a terminal
INSTANT = re.compile(r"(?:first|last|at|began|ended|from|to)_(?P<unit>micros|ms)")
MOST_DECIMALS = 4  # with which the numbers of a column line up; with more, each is shown as it is
LEAST_INSTANT = 100_000_000_000_000  # microseconds, in 1973: less is a span of time


def source_names(summary: Summary) -> str:
    """The names of the sources, at most three."""
    names = [printable(name, 60) for name in summary.sources]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def overview(summary: Summary) -> str:
    """What was read, in numbers, or why there is nothing to report."""
    if not summary.requests:
        return _nothing(summary)
    parts = [
        counted(summary.requests, "request"),
        counted(summary.kafka_connections, "connection"),
        counted(summary.clients, "client id"),
        render_size(summary.bytes),
    ]
    if summary.errors:
        parts.append(f"{counted(summary.errors, 'answer')} with errors" + _named(summary.error_names))
    if summary.segments_again:
        parts.append(f"{counted(summary.segments_again, 'TCP segment')} sent again, or captured twice")
    return ", ".join(parts) + when(summary)


def when(summary: Summary) -> str:
    """From when to when, with both dates where it is not one day, and for how long."""
    if summary.first_micros is None or summary.last_micros is None:
        return ""
    began, ended = (render_instant(micros * 1000)[:19] for micros in (summary.first_micros, summary.last_micros))
    until = ended[11:] if began[:10] == ended[:10] else ended
    return f", {began}Z to {until}Z ({render_span((summary.last_micros - summary.first_micros) / 1e6)})"


def _named(errors: dict[str, int]) -> str:
    listed = [f"{count:,} {name}" for name, count in errors.items()]
    if len(listed) > MOST_ERRORS + 1:  # one more takes no more room than to say so
        listed[MOST_ERRORS:] = [f"{len(listed) - MOST_ERRORS:,} more kinds"]
    return f" ({', '.join(listed)})" if listed else ""


def _nothing(summary: Summary) -> str:
    if not summary.connections:
        return "no Kafka traffic, and no other TCP connection with data, was found"
    if summary.not_kafka:
        others = ", ".join(f"{count:,} {printable(kind, 30)}" for kind, count in summary.not_kafka.items())
        hint = "; for TLS give the session keys with --keylog" if "tls" in summary.not_kafka else ""
        return f"no Kafka request was found in {counted(summary.connections, 'connection')} ({others}){hint}"
    return f"no Kafka request was found in {counted(summary.connections, 'connection')}"


def column_cells(column: str, values: Sequence[Any], limit: int = LONGEST) -> list[str]:
    """The values of a column as ``cell_of`` shows them, all with the same number of decimals."""
    texts = [cell_of(column, value, limit) for value in values]
    numbers = [text for text, value in zip(texts, values, strict=True) if isinstance(value, float)]
    decimals = max((len(text.partition(".")[2]) for text in numbers), default=0)
    if not 0 < decimals <= MOST_DECIMALS or any("e" in text for text in numbers):
        return texts
    return [
        f"{value:.{decimals}f}" if isinstance(value, float) else text for text, value in zip(texts, values, strict=True)
    ]


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
