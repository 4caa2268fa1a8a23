"""Payloads of Avro and Protobuf with other texts and bytes in the places that PayloadWalk.marked found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from kproxy.schemas.fields import ChangeField, Place

MOST_NODES = 100_000  # of a plan
EACH = -1  # in a template: an item of an array
BLOCK, INSIDE = -1, -2  # in place of a node: see PayloadWalk.marked
Step = str | int | Callable[[bytes], str]  # the last is a key of a map: it returns it of its bytes
Template = tuple[Step, ...]  # a place


def edited(
    payload: bytes, marked: bytes, leaves: Mapping[int, tuple[Template, bool]], change: ChangeField, shift: int
) -> bytes:
    """Return a payload with its marked fields changed; the same object if all stay.

    Args:
        payload, marked: of a PayloadWalk.
        leaves: the place of a marked node, and whether it is a text.
        change: what becomes of a field.
        shift: bits by which sizes and counts are shifted: 1 in Avro (zigzag), 0 in Protobuf.
    """
    numbers = memoryview(marked).cast("q").tolist()
    parts: list[bytes] = []
    around: list[
        tuple[int, int, int, int]
    ] = []  # messages: their end, their size's part, their size, growth before them
    at = copied = growth = 0
    is_changed = False
    while at < len(numbers):
        node, start, end, size = numbers[at : at + 4]
        trail = numbers[at + 4 : at + 4 + size]
        at += 4 + size
        while around and around[-1][0] <= start:
            growth = _resized(parts, *around.pop(), growth)
        if node == INSIDE:
            around.append((trail[0], len(parts) + 1, trail[0] - end, growth))
            new = payload[start:end]
        elif node == BLOCK:
            new = varint(abs(trail[0]) << shift)  # without its size, which may change
        else:
            place, is_text = leaves[node]
            if trail:
                place = tuple(_steps(place, trail, payload))
            begin = start
            while payload[begin] >= 0x80:
                begin += 1
            before = payload[begin + 1 : end]
            after = change(cast("Place", place), before, is_text)
            if after is before:
                continue
            is_changed = True
            new = varint(len(after) << shift) + after
        growth += len(new) - (end - start)
        parts += (payload[copied:start], new)
        copied = end
    while around:
        growth = _resized(parts, *around.pop(), growth)
    return b"".join((*parts, payload[copied:])) if is_changed else payload


def _resized(parts: list[bytes], _: int, part: int, size: int, before: int, growth: int) -> int:
    """Write the size of a message that has grown anew; return the growth of all that is before its end."""
    if growth == before:
        return growth
    old = len(parts[part])
    parts[part] = varint(size + growth - before)
    return growth + len(parts[part]) - old


def _steps(template: Template, trail: Sequence[int], payload: bytes) -> Iterator[str | int]:
    """Yield the steps of a place, with the indexes of items and the keys of maps that a walk came through."""
    numbers = iter(trail)
    for step in template:
        if isinstance(step, str):
            yield step
        else:
            at, number = next(numbers), next(numbers)
            yield number if isinstance(step, int) else step(payload[at : at + number])


def shown(template: Template) -> str:
    """Return a path to the places of a template."""
    return "$" + "".join(f".{step}" if isinstance(step, str) else "[*]" for step in template)


def varint(number: int) -> bytes:
    """Return a number that is not negative in groups of seven bits, the lowest first."""
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))
