"""Describe special values: what a number, a boolean, a word or a null in a field means.

The table is special_values.txt, which cites Kafka's class for each set; this module computes the rest: bit fields, times, API
keys and error codes. Nothing raises for an unexpected value: it has no description.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kproxy.protocol.error_codes import error_codes
from kproxy.protocol.facts import facts, read_data_file

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_TIME_MS = 253_402_300_799_999  # the last millisecond of the year 9999, datetime's last


@dataclass(slots=True)
class ValueSet:
    """A named set of special values."""

    name: str  # "config-source"
    kind: str  # names, flags, time, api, error
    of: str  # flags: the set whose values are the bit numbers
    source: str  # Kafka's class
    texts: dict[str, str] = field(default_factory=dict)  # the value as in the file -> its text
    fields: list[tuple[str, str]] = field(default_factory=list)  # (message or *, field)

    def describe(self, value: object) -> str | None:
        """Return the text for *value*; None if it is not special."""
        text = self.texts.get(_key(value))
        if text is not None or not isinstance(value, int) or isinstance(value, bool):
            return text
        if self.kind == "names":
            return self.texts.get("<0") if value < 0 else None
        return COMPUTED[self.kind](self, value)


def describe(message: str, path: str | Sequence[str], value: object) -> str | None:
    """Return the meaning of *value* in a field, or None if it stands for itself.

    Args:
        message: Kafka's name of the message ("FetchRequest").
        path: the field by its JSON name ("replicaId"), or the names from the message down ("replicaState",
            "replicaId"); array indexes are left out.
        value: as in Kafka's JSON: int, bool, str or None.

    >>> describe("ListOffsetsRequest", "timestamp", -2)
    'earliest'
    """
    values = value_set(message, (path,) if isinstance(path, str) else tuple(path[-2:]))
    return values.describe(value) if values is not None else None


@functools.lru_cache(maxsize=8192)
def value_set(message: str, path: tuple[str, ...]) -> ValueSet | None:
    """Return the set for a field: by message and parent, else by message, else for any message."""
    table = _table()
    name = path[-1] if path else ""
    return (
        table.get((message, ".".join(path[-2:])))
        or table.get((message, name))
        or table.get(("*", name))
        or (table["*", "errorCode"] if name.endswith("ErrorCode") else None)
    )


@functools.cache
def value_sets() -> dict[str, ValueSet]:
    """Return every set by its name, in the order of the file."""
    text = read_data_file("special_values.txt")
    sets: dict[str, ValueSet] = {}
    current: ValueSet | None = None
    for line in text.splitlines():
        if line.startswith("  ") and current is not None:
            _add_line(current, line.strip())
        elif line and not line.startswith("#"):
            current = _read_head(line)
            sets[current.name] = current
    return sets


def render_time_ms(milliseconds: int) -> str | None:
    """Return milliseconds since the epoch as RFC 3339 in UTC; None for 0, negative numbers and times after the year 9999."""
    if not 0 < milliseconds <= LONGEST_TIME_MS:
        return None
    return (EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@functools.cache
def _table() -> dict[tuple[str, str], ValueSet]:
    return {place: values for values in value_sets().values() for place in values.fields}


def _read_head(line: str) -> ValueSet:
    """Parse the first line of a set: ``NAME = KIND [OTHER]   SOURCE``."""
    head, _, source = line.partition("   ")
    name, _, kind = head.partition(" = ")
    kind, _, other = kind.partition(" ")
    return ValueSet(name, kind, other, source.strip())


def _add_line(values: ValueSet, line: str) -> None:
    first, _, rest = line.partition(" ")
    if first == "@":
        message, *names = rest.split(" ")
        values.fields += [(message, name) for name in names]
    else:
        values.texts[first] = rest


def _key(value: object) -> str:
    """Return a JSON value in the form used in the file."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _describe_flags(values: ValueSet, value: int) -> str:
    """Return the names of the set bits, as ``READ | WRITE``; bit n is value n of the other set (Utils.from32BitField)."""
    names = value_sets()[values.of].texts
    bits = [bit for bit in range(32) if value >> bit & 1]
    return " | ".join(names.get(str(bit), f"bit {bit}") for bit in bits)


def _describe_time(_values: ValueSet, value: int) -> str | None:
    return render_time_ms(value)


def _describe_api(_values: ValueSet, value: int) -> str | None:
    api = facts().apis.get(value)
    return api.name if api is not None else None


def _describe_error(_values: ValueSet, value: int) -> str | None:
    known = error_codes().get(value)
    return known.name if known is not None else None


COMPUTED = {"flags": _describe_flags, "time": _describe_time, "api": _describe_api, "error": _describe_error}
