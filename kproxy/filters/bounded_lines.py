"""Values from traffic made fit for a line of a journal: of bounded length, and text that every reader of JSON takes."""

import itertools
import json
from typing import Any

LONGEST_NAME = 1_000  # characters of a name in a line
LONGEST_LIST = 48_000  # bytes of JSON of what a request names, so that a line stays under 64 KiB


def shortened(value: Any) -> Any:
    """Text of bounded length, with U+FFFD for bytes that were no UTF-8; other values as they are."""
    if not isinstance(value, str):
        return value
    return value[:LONGEST_NAME].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def that_fit(values: list[Any], room: int = LONGEST_LIST) -> list[Any]:
    """The first of the values, those that together take at most *room* bytes as JSON."""
    ends = itertools.accumulate(len(json.dumps(value)) + 1 for value in values)
    return [value for value, end in zip(values, ends, strict=True) if end <= room]
