"""Fit values from traffic into a line of a journal: with bounded length, and as text that every reader of JSON accepts."""

import itertools
import json
from typing import Any

LONGEST_NAME = 1_000  # characters of a name in a line
LONGEST_LIST = 48_000  # bytes of JSON of what a request names, so that a line stays under 64 KiB


def shortened(value: Any) -> Any:
    """Return text with a bounded length and U+FFFD for bytes that were not UTF-8; other values as they are."""
    if not isinstance(value, str):
        return value
    return value[:LONGEST_NAME].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def that_fit(values: list[Any], room: int = LONGEST_LIST) -> list[Any]:
    """Return the first values that together take at most *room* bytes as JSON."""
    ends = itertools.accumulate(len(json.dumps(value)) + 1 for value in values)
    return [value for value, end in zip(values, ends, strict=True) if end <= room]
