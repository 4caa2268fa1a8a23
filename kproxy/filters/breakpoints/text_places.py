"""Line and column, from 1, of something in text that a person edits: of a path in JSON, of a byte in hex digits."""

import json
import re
from itertools import islice

STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")  # of topicData[0].name
SPACE = re.compile(r"[ \t\n\r]*")
DIGITS = re.compile(r"[0-9A-Fa-f]{2}")
_decoder = json.JSONDecoder()

Place = tuple[int, int]


def place_of(text: str, position: int) -> Place:
    """Return the place of the character at a position."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def place_of_path(text: str, path: str) -> Place:
    """Return the place of the value at a path ("topicData[0].name"); if there is none, of the nearest value around it.

    *text* is valid JSON.
    """
    position = _after_space(text, 0)
    for name, index in STEP.findall(path):
        inner = _member(text, position, name) if name else _element(text, position, int(index))
        if inner is None:
            break
        position = inner
    return place_of(text, position)


def place_of_byte(text: str, number: int) -> Place:
    """Return the place of a byte in hex digits, counted from 0; the end of the text if there are not so many."""
    match = next(islice(DIGITS.finditer(text), number, None), None)
    return place_of(text, len(text.rstrip()) if match is None else match.start())


def _member(text: str, at: int, wanted: str) -> int | None:
    """Return the position of a member's value in the object at *at*. Of equal names the last counts, as for json.loads."""
    if not text.startswith("{", at):
        return None
    position = None
    at = _after_space(text, at + 1)
    while not text.startswith("}", at):
        name, at = _decoder.raw_decode(text, at)
        at = _after_space(text, _after_space(text, at) + 1)
        if name == wanted:
            position = at
        at = _next(text, at)
    return position


def _element(text: str, at: int, wanted: int) -> int | None:
    """Return the position of an element of the array at *at*."""
    if not text.startswith("[", at):
        return None
    at = _after_space(text, at + 1)
    while not text.startswith("]", at):
        if not wanted:
            return at
        wanted -= 1
        at = _next(text, at)
    return None


def _next(text: str, at: int) -> int:
    """Return the position behind the value at *at* and its comma, or of the bracket that closes the array or object."""
    _, at = _decoder.raw_decode(text, at)
    at = _after_space(text, at)
    return _after_space(text, at + 1) if text.startswith(",", at) else at


def _after_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    assert match is not None  # it may be empty
    return match.end()
