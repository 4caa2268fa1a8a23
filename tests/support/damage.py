"""Kafka's own bytes and ways to damage them, for the fuzz tests and the hammer."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden"

# What breaks decoders most often: lengths and counts at the edges of their types, endless varints, nulls.
EDGES = [
    bytes.fromhex(digits)
    for digits in (
        *("00", "01", "7f", "80", "ff"),
        *("7fff", "8000", "ffff"),
        *("7fffffff", "80000000", "ffffffff", "fffffffe", "7fffffffffffffff"),
        *("ffffffff07", "ffffffff0f", "ffffffffff01"),
    )
]


def golden(group: str) -> Iterator[dict[str, Any]]:
    """Lines of one file of the corpus (tests/golden/README.md says what is in them)."""
    with gzip.open(GOLDEN / f"{group}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def golden_bodies() -> list[tuple[str, int, bytes]]:
    """(message, version, bytes) of every API message and every other message of the corpus."""
    return [
        (line["message"], line["version"], bytes.fromhex(line["hex"]))
        for group in ("messages", "structs")
        for line in golden(group)
    ]


def damaged(chance: random.Random, data: bytes) -> bytes:
    """*data* with one to four things wrong with it, each of a kind that real damage or an attacker makes."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        place = chance.randrange(len(out) + 1)
        match chance.randrange(6):
            case 0 if place < len(out):
                out[place] ^= 1 << chance.randrange(8)
            case 1:
                edge = chance.choice(EDGES)
                out[place : place + len(edge)] = edge
            case 2:
                out[place:place] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                del out[place : place + chance.randrange(1, 9)]
            case 4:
                del out[place:]
            case _:
                start = chance.randrange(len(out) + 1)
                out[place:place] = out[start : start + chance.randrange(1, 64)]
    return bytes(out)
