"""Times of exchanges as SQL: as the text of the decoded log, and as the timestamps and durations of CEL."""

import re
from datetime import UTC, datetime

from kproxy.page.filtering.values import Value, quoted

SECONDS = "strftime(make_timestamp(CASE WHEN {column} < 0 THEN 0 ELSE {column} END // 1000), '%Y-%m-%dT%H:%M:%S.%f')"
NANOS = "CASE WHEN {column} % 1000 = 0 THEN '' ELSE lpad(CAST({column} % 1000 AS VARCHAR), 3, '0') END"
INSTANT = f"({SECONDS} || {NANOS} || 'Z')"  # as kproxy.output.times has it
WHOLE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
FRACTION = re.compile(r"\.([0-9]{1,6})")
EMPTY = "0000-01-01T00:00:00"
SECOND = 1_000_000_000
LONGEST_SPAN = 30  # characters
STAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z")
SPAN = re.compile(r"(?:[0-9]{1,6}(?:h|ms|us|m|s))+")
PART = re.compile(r"([0-9]+)([a-z]+)")
FRACTIONAL = re.compile(r"([0-9]{1,6})\.([0-9]{1,3})(h|m|s)")
UNITS = {"h": 3600 * SECOND, "m": 60 * SECOND, "s": SECOND, "ms": 1_000_000, "us": 1_000}
PARTS = {  # method of a timestamp -> part of DuckDB's, and what to add
    "getFullYear": ("year", 0),
    "getMonth": ("month", -1),
    "getDate": ("day", 0),
    "getDayOfMonth": ("day", -1),
    "getDayOfWeek": ("dayofweek", 0),
    "getDayOfYear": ("dayofyear", -1),
    "getHours": ("hour", 0),
    "getMinutes": ("minute", 0),
}
REMAINDERS = {
    "getSeconds": (SECOND, 60),
    "getMilliseconds": (1_000_000, 1000),
}  # method of a timestamp -> unit, how many
WHOLE_SPANS = {"getHours": 3600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND, "getMilliseconds": 1_000_000}
WRITTEN = """(strftime(make_timestamp({ns} // 1000), '%Y-%m-%dT%H:%M:%S') || CASE WHEN {ns} % 1000000000 = 0 THEN ''
 WHEN {ns} % 1000000 = 0 THEN '.' || lpad(CAST({ns} // 1000000 % 1000 AS VARCHAR), 3, '0')
 WHEN {ns} % 1000 = 0 THEN '.' || lpad(CAST({ns} // 1000 % 1000000 AS VARCHAR), 6, '0')
 ELSE '.' || lpad(CAST({ns} % 1000000000 AS VARCHAR), 9, '0') END || '+00:00')"""


def of_time(column: str) -> Value:
    """A time in nanoseconds as the text of the decoded log."""
    return Value(INSTANT.format(column=column), "text", nullable=True, plain=True, nanoseconds=column)


def compared_with(operator: str, time: Value, text: str) -> Value:
    """A time, as text, and a text that it is before or behind."""
    first = _first_not_before(text)
    if first is None:
        sql = f"({time.sql} {operator} {quoted(text)})"
    else:
        sql = f"({time.nanoseconds} {'>=' if operator[0] == '>' else '<'} {first})"
    return Value(sql, "truth", fails=True)


def _first_not_before(text: str) -> int | None:
    """The first time, in nanoseconds, whose text is behind *text*; None where texts are not in the order of times.

    The text of a time is longer than the beginnings taken here, so that none is equal to one. A ``Z`` comes behind ``.`` and
    behind all digits: the times of its second, or of the part of a second, are before it.
    """
    beginning, ends = text.removesuffix("Z"), text.endswith("Z")
    seconds, fraction = beginning[:19], beginning[19:]
    digits = FRACTION.fullmatch(fraction)
    if (fraction and digits is None) or len(seconds) not in ((19,) if ends else (4, 7, 10, 13, 16, 19)):
        return None
    if not WHOLE.fullmatch(seconds + EMPTY[len(seconds) :]) or (ends and len(fraction) > 6):
        return None
    try:
        at = datetime.fromisoformat(seconds + EMPTY[len(seconds) :]).replace(tzinfo=UTC)
    except ValueError:
        return None
    if not 1971 <= at.year <= 2200:
        return None
    unit = SECOND // 10 ** (len(fraction) - 1) if fraction else SECOND
    return int(at.timestamp()) * SECOND + (int(digits[1]) * unit if digits else 0) + (unit if ends else 0)


def stamp_of(value: Value) -> Value | None:
    """``timestamp(value)``"""
    if time := value.nanoseconds:
        return Value(f"(CASE WHEN {time} < 0 THEN 0 ELSE {time} END)", "stamp", fails=True)
    found = STAMP.fullmatch(value.literal) if isinstance(value.literal, str) else None
    if found is None:
        return None
    try:
        at = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    ns = int(at.timestamp()) * SECOND + int((found[2] or "").ljust(9, "0"))
    return Value(f"({ns}::BIGINT)", "stamp") if 1971 <= at.year <= 2200 else None


def text_of(stamp: Value) -> Value:
    """``string(stamp)``"""
    return Value(WRITTEN.format(ns=stamp.sql), "text", fails=stamp.fails, plain=True)


def span_of(value: Value) -> Value | None:
    """``duration(value)``"""
    text = value.literal
    if not isinstance(text, str) or len(text) > LONGEST_SPAN:
        return None
    if SPAN.fullmatch(text):
        return Value(f"({sum(int(count) * UNITS[unit] for count, unit in PART.findall(text))}::BIGINT)", "span")
    found = FRACTIONAL.fullmatch(text)
    if found is None:
        return None
    ns = int(found[1] + found[2].ljust(3, "0")) * (UNITS[found[3]] // 1000)
    # CEL multiplies doubles, and takes what is before the point
    return Value(f"({ns}::BIGINT)", "span") if int(float(f"{found[1]}.{found[2]}") * UNITS[found[3]]) == ns else None


def part_of(stamp: Value, method: str) -> Value | None:
    """``stamp.getHours()`` and the like; also of a duration, whose hours are all of it."""
    if stamp.type == "span" and method in WHOLE_SPANS:
        return Value(f"({stamp.sql} // {WHOLE_SPANS[method]})", "integer", fails=stamp.fails)
    if stamp.type == "stamp" and method in REMAINDERS:
        unit, count = REMAINDERS[method]
        return Value(f"({stamp.sql} // {unit} % {count})", "integer", fails=stamp.fails)
    if stamp.type != "stamp" or method not in PARTS:
        return None
    part, add = PARTS[method]
    return Value(f"(date_part('{part}', make_timestamp({stamp.sql} // 1000)) + {add})", "integer", fails=stamp.fails)
