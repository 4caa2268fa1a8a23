"""Record batches by hand, from the layouts in Kafka's DefaultRecordBatch, DefaultRecord and LegacyRecord; and Kafka's own."""

import functools
import gzip
import json
import struct
import zlib
from pathlib import Path
from typing import Any

from tests.bench.traffic import crc32c

GOLDEN = Path(__file__).parents[1] / "golden" / "records.jsonl.gz"


@functools.cache
def golden() -> tuple[dict[str, Any], ...]:
    """The lines of records.jsonl.gz."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines)


def golden_line(kind: str) -> dict[str, Any]:
    """The first line of that kind."""
    return next(line for line in golden() if line["kind"] == kind)


def golden_bytes(kind: str) -> bytes:
    return bytes.fromhex(golden_line(kind)["hex"])


def varint(value: int) -> bytes:
    """Zig-zag, as short as can be."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(key: bytes | None, value: bytes | None, delta: int = 0, headers: bytes = b"\x00") -> bytes:
    """A record of magic 2; *headers* from their count on."""
    body = b"\x00" + varint(0) + varint(delta) + sized(key) + sized(value) + headers
    return varint(len(body)) + body


def batch(
    records: bytes, count: int, *, attributes: int = 0, base_offset: int = 0, last_delta: int | None = None
) -> bytes:
    """A batch of magic 2 with the right CRC, whatever is in it."""
    delta = max(0, count - 1) if last_delta is None else last_delta
    covered = struct.pack(">hiqqqhii", attributes, delta, 1_000, 2_000, -1, -1, -1, count) + records
    return struct.pack(">qiibI", base_offset, len(covered) + 9, -1, 2, crc32c(covered)) + covered


def message(
    value: bytes | None,
    *,
    key: bytes | None = None,
    magic: int = 1,
    attributes: int = 0,
    offset: int = 0,
    timestamp: int = 7,
) -> bytes:
    """A message of magic 0 or 1 with the right CRC, whatever is in it."""
    covered = struct.pack(">bB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        covered += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered
