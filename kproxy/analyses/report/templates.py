"""The template of a verdict: one sentence over the rows of an analysis, with numbers.

    {column}              its value in the first row: rows are ordered by what matters most
    {rows}                how many rows there are
    {count column}        how many different values; NULL is none
    {sum column}          also max, min; NULL is passed over
    {most column}         Most; One of 3 with most, if two more rows have as much; First, if another row has more
    {counts column}       the MOST_COUNTS most frequent values with their number of rows: 3 joined, 1 left; with ``by number``,
                          with the sum of that column: topic created (3), settings set (1)
    {... where c=value}   of the rows whose column c has that value, as in {rows where breaks=true}
    {...:format}          ``,`` 1,234; bytes 1.2 KB; ms 12.5 ms; s 5 h 20 min; % 12 % of a share; client/clients 3 clients;
                          ? nothing; 200 at most so many characters of a text; else as in Python
    [text|otherwise]      text; otherwise (it may be left out) where the first field of text is 0, empty, none, false or NULL

A time is shown in UTC, as everywhere in a report: 2026-11-21T09:30:00Z. A name from the traffic is escaped and shortened.
What is NULL is shown as "unknown", an empty client_id as "(no client id)".
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from string import Formatter
from typing import Any, NamedTuple, TypeAlias

from kproxy.output.escaping import printable
from kproxy.output.times import render_size, render_span

Row: TypeAlias = Mapping[str, Any]
FIELD = re.compile(
    r"(?:(?P<function>counts?|sum|max|min|most) +)?(?P<column>[a-z_][a-z0-9_]*)(?: +by +(?P<weight>[a-z_][a-z0-9_]*))?"
    r"(?: +where +(?P<key>[a-z_][a-z0-9_]*)=(?P<value>.*))?"
)
MARKS = re.compile(r"([\[\]|])")
PLURAL = re.compile(r"[^/]+/[^/]+")
UNKNOWN = "unknown"
NO_CLIENT_ID = "(no client id)"  # null in the request header, or empty
LONGEST = 80  # characters of a name or a reason
MOST_COUNTS = 8  # values of {counts column}


class TemplateError(ValueError):
    """A mistake in a template; the text says what is wrong."""


class Section(NamedTuple):
    """``[text|otherwise]``: each is a list of literal text, fields and sections."""

    text: "Nodes"
    otherwise: "Nodes"


class Field(NamedTuple):
    """``{value:spec}``."""

    value: re.Match[str]
    spec: str


Nodes: TypeAlias = list[str | Field | Section]


def check_template(template: str) -> None:
    """Raise TemplateError for a template that cannot be filled in whatever the rows are."""
    _nodes(template)


def fields_of(template: str) -> set[str]:
    """Return the columns that the template needs."""
    return _columns(_fields(_nodes(template)))


def shown_by(template: str) -> set[str]:
    """Return the columns whose values the template shows, without those that only decide what it says."""
    return _columns(field for field in _fields(_nodes(template)) if field.spec != "?")


def _columns(fields: Iterable[Field]) -> set[str]:
    return {name for field in fields for name in field.value.group("column", "weight", "key") if name} - {"rows"}


def fill(template: str, rows: Sequence[Row]) -> str:
    """Fill the template with at least one row. Raises TemplateError."""
    return _fill(_nodes(template), rows)


def _fill(nodes: Nodes, rows: Sequence[Row]) -> str:
    parts = []
    for node in nodes:
        match node:
            case Section(text, otherwise):
                parts.append(_fill(text if _applies(text, rows) else otherwise, rows))
            case Field(value, spec):
                parts.append(show(_value(value, rows), spec) if spec != "?" else "")
            case _:
                parts.append(node)
    return "".join(parts)


def _applies(nodes: Nodes, rows: Sequence[Row]) -> bool:
    first = next((node for node in nodes if isinstance(node, Field)), None)
    return first is None or (_value(first.value, rows) or "none") != "none"


def show(value: Any, spec: str = "") -> str:
    """Return a value as text. Raises TemplateError for a format that does not fit it."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return printable(value, int(spec) if spec.isdecimal() else LONGEST)
    if isinstance(value, list | tuple):
        return ", ".join(show(item) for item in value[:5]) + (f" and {len(value) - 5} more" if len(value) > 5 else "")
    if not isinstance(value, int | float):
        return f"{value:%Y-%m-%dT%H:%M:%S}Z" if isinstance(value, datetime) else printable(str(value), LONGEST)
    return _number(value, spec)


def _number(value: float, spec: str) -> str:
    if PLURAL.fullmatch(spec):
        one, many = spec.split("/")
        return f"{value:,} {one if value == 1 else many}"
    match spec:
        case "bytes" | "s":
            return render_size(int(value)) if spec == "bytes" else render_span(value)
        case "ms":
            return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"
        case "%":
            return f"{100 * value:.3g} %"
        case "":
            return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    try:
        return format(value, spec)
    except ValueError as error:
        raise TemplateError(f"the format {spec[:40]!r} is not one of a number: {error}") from None


def _value(field: re.Match[str], rows: Sequence[Row]) -> Any:
    function, column, weight, key, wanted = field.group("function", "column", "weight", "key", "value")
    if key is not None:
        rows = [row for row in rows if _text(row.get(key)) == wanted]
    if column == "rows" and function is None:
        return len(rows)
    if rows and (missing := {column, weight or column} - rows[0].keys()):
        raise TemplateError(f"the rows have no column {missing.pop()!r}")
    if column == "client_id":
        rows = [{column: row[column] or NO_CLIENT_ID} for row in rows]
    first = rows[0][column] if rows else None
    if function == "counts":
        counted = ((row[column], row[weight] or 0 if weight else 1) for row in rows if row[column] is not None)
        return _counts(counted, bool(weight))
    return (
        first
        if function is None
        else _of_all(function, first, [row[column] for row in rows if row[column] is not None])
    )


def _counts(values: Iterable[tuple[Any, int]], are_weighed: bool) -> str:
    counted: Counter[str] = Counter()
    for value, number in values:
        counted[str(value)] += number
    most_first = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{value} ({number:,})" if are_weighed else f"{number:,} {value}" for value, number in most_first]
    more = [f"{len(shown) - MOST_COUNTS} more kinds"] if len(shown) > MOST_COUNTS + 1 else []
    return ", ".join((shown[:MOST_COUNTS] if more else shown) + more)


def _of_all(function: str, first: Any, values: Sequence[Any]) -> Any:
    match function:
        case "count":
            return len({str(value) for value in values})
        case "sum":
            return sum(values)
        case "most":
            return _most(first, values)
        case _:
            return (max if function == "max" else min)(values, default=None)


def _most(first: Any, values: Sequence[Any]) -> str:
    if first is None or first < max(values):
        return "First"
    equal = values.count(first)
    return "Most" if equal == 1 else f"One of {equal:,} with most"


def _text(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fields(nodes: Nodes) -> Iterator[Field]:
    for node in nodes:
        if isinstance(node, Field):
            yield node
        elif isinstance(node, Section):
            yield from _fields(node.text)
            yield from _fields(node.otherwise)


def _nodes(template: str) -> Nodes:
    """Parse a template. Each level of the stack is a section that is open: its parts before and after the bar."""
    stack: list[list[Nodes]] = [[[]]]
    for text, field, spec, _ in _split(template):
        for part in MARKS.split(text):
            if part == "[":
                stack.append([[]])
            elif part == "|" and len(stack) > 1:
                stack[-1].append([])
            elif part == "]" and len(stack) > 1:
                before, *after = stack.pop()
                if len(after) > 1:
                    raise TemplateError(f"two | in one section of {template[:80]!r}")
                stack[-1][-1].append(Section(before, after[0] if after else []))
            elif part:
                stack[-1][-1].append(part)
        if field is not None:
            stack[-1][-1].append(Field(_parse(field), spec or ""))
    if len(stack) > 1:
        raise TemplateError(f"a section is not closed, ] is missing in {template[:80]!r}")
    return stack[0][0]


def _split(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(template))
    except ValueError as error:
        raise TemplateError(f"{str(error).lower()} in {template[:80]!r}") from None


def _parse(field: str) -> re.Match[str]:
    match = FIELD.fullmatch(field.strip())
    if match is None:
        raise TemplateError(
            f"{{{field[:60]}}} is not a column, rows, or count, counts, sum, max, min, most of a column"
        )
    return match
