"""Kafka's own messages with one field as no program expects it: null, empty, at the edge of its type, not text."""

import random
from collections.abc import Iterator
from typing import Any

from kproxy.errors import EncodeError
from kproxy.protocol import message
from kproxy.protocol.facts import Field
from kproxy.protocol.object_codec import encode
from kproxy.protocol.structs import Struct
from tests.support.corpus import golden_pairs

Pair = tuple[bytes, bytes]  # frames of a request and of its response
YEAR_10000_MS = 253_402_300_800_000
EDGES: dict[str, list[Any]] = {
    **{f"int{bits}": [-(1 << bits - 1), -1, 0, (1 << bits - 1) - 1] for bits in (8, 16, 32)},
    "int64": [-(1 << 63), -1, 0, (1 << 63) - 1, YEAR_10000_MS],
    "uint16": [0, 0xFFFF],
    "uint32": [0, 0xFFFFFFFF],
    "float64": [float("nan"), float("inf"), float("-inf")],
    "bool": [False, True],
    "string": [None, "", "a\n\x1b[31m\0\u202e\"'%s{}", "\udc80\udcff", "x" * 32_767],
    "bytes": [None, b"", b"\xff" * 5, bytes(100)],
    "records": [None, b"", b"\xff" * 70],
    "uuid": ["A" * 22, "_" * 21 + "w", "A" * 21 + "Q"],
}


def altered_pairs(request: dict[str, Any], response: dict[str, Any]) -> Iterator[Pair]:
    """A pair of golden_pairs as it is, and with each field of both sides altered in turn, in each way."""
    frames = [bytes.fromhex(line["frameHex"]) for line in (request, response)]
    yield frames[0], frames[1]
    for side, line in enumerate((request, response)):
        for body in altered_bodies(line["message"], line["version"], frames[side], line["bodyOffset"]):
            changed = frames[side][4 : line["bodyOffset"]] + body
            both = [*frames[:side], len(changed).to_bytes(4, "big") + changed, *frames[side + 1 :]]
            yield both[0], both[1]


def altered_bodies(name: str, version: int, data: bytes, start: int) -> Iterator[bytes]:
    """The message in *data*, with each field altered in turn. Null is written for any string and bytes, as kproxy reads it."""
    program = message(name).lenient_program(version)
    decoded = message(name).decode(version, data, start)
    for owner, field in _fields(decoded, version):
        before = getattr(owner, field.attribute)
        for value in _values(field, before):
            setattr(owner, field.attribute, value)
            try:
                yield encode(program, decoded)
            except EncodeError:
                continue  # this layout has no null there
        setattr(owner, field.attribute, before)


def _fields(struct: Struct, version: int) -> Iterator[tuple[Struct, Field]]:
    """Each field of a message, with the first struct that has it."""
    for field in struct.fields:
        if version in field.versions:
            yield struct, field
        if field.is_struct:
            value = getattr(struct, field.attribute)
            for below in value[:1] if isinstance(value, list) else [value]:
                if below is not None:
                    yield from _fields(below, version)


def _values(field: Field, before: Any) -> list[Any]:
    edges = EDGES.get(field.type, [])
    if field.is_array:
        elements = [value for value in edges if value is not None]
        return [None, [], elements * 2, (before or [])[:1] * 2]
    return edges or [None]


def some_altered_pairs(chance: random.Random, most: int) -> list[Pair]:
    """Altered pairs of one API and version."""
    pairs = list(altered_pairs(*chance.choice(golden_pairs())))
    return chance.sample(pairs, min(most, len(pairs)))


def outermost_altered_pairs() -> Iterator[list[Pair]]:
    """All altered pairs of the oldest and the newest version of each API, a version at a time."""
    pairs = [pair for pair in golden_pairs() if pair[0]["sample"] == 0]
    chosen = [{pair[0]["apiKey"]: pair for pair in ordered} for ordered in (reversed(pairs), pairs)]
    return (list(altered_pairs(*pair)) for outermost in chosen for pair in outermost.values())


def all_altered_pairs() -> Iterator[list[Pair]]:
    """Those of every version."""
    return (list(altered_pairs(*pair)) for pair in golden_pairs())
