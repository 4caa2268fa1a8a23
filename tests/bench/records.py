"""Records against aiokafka's compiled reader (aiokafka.record._crecords), on fields of about 1 MB.

    pip install -e '.[bench]' && python -m tests.bench.records

Every line is one pair measured in turn in this run: CPU time a call, medians, and the spread of the rounds' ratios. Both
sides hold all of the field's records at the end: aiokafka a list of its objects, kproxy Arrow columns, or its own objects.
The batches are written by aiokafka. Neither side checks the CRC.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokafka.record._crecords import DefaultRecordBatchBuilder, MemoryRecords

from kproxy.protocol.records import count_records, read_batches, read_records, to_arrow
from tests.bench.measuring import paired

FIELD_SIZE = 1_000_000
HEADERS = [("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]


@dataclass(frozen=True, slots=True)
class Case:
    """What a field is made of."""

    batch_size: int  # bytes of one batch, before compression
    value_size: int
    headers: tuple[tuple[str, bytes], ...] = ()
    codec: int = 0

    def __str__(self) -> str:
        codec = ("", ", gzip", ", snappy", ", lz4", ", zstd")[self.codec]
        return f"{self.value_size} B values, {len(self.headers)} headers, {self.batch_size:,} B batches{codec}"


CASES = [
    Case(1_000_000, 100),
    Case(16_000, 100),
    Case(16_000, 1_000),
    Case(16_000, 100, tuple(HEADERS)),
    Case(1_000_000, 10),
    Case(16_000, 100, codec=3),
    Case(16_000, 100, codec=2),
]


def field(case: Case) -> bytes:
    """The same batch again and again, until there are 1 MB."""
    chance = random.Random(1)
    builder = DefaultRecordBatchBuilder(2, case.codec, 0, -1, -1, -1, case.batch_size)
    words = [chance.randbytes(max(1, case.value_size // 10)) for _ in range(20)]
    offset = 0
    while True:
        value = b"".join(chance.choices(words, k=10))[: case.value_size]
        if builder.append(offset, 1_700_000_000_000 + offset, b"key-%06d" % offset, value, list(case.headers)) is None:
            break
        offset += 1
    batch = bytes(builder.build())
    return batch * max(1, FIELD_SIZE // max(len(batch), case.batch_size))


def aiokafka_objects(data: bytes) -> list[Any]:
    """Every record an object."""
    records: list[Any] = []
    batches = MemoryRecords(data)
    while batches.has_next():
        records.extend(batches.next_batch())
    return records


def report(case: Case) -> Iterator[str]:
    data = field(case)
    count = count_records(data)
    assert to_arrow(data)["value"].to_pylist() == [record.value for record in aiokafka_objects(data)]
    theirs = partial(aiokafka_objects, data)
    yield f"{case}: {count:,} records, {len(data):,} bytes"
    columns = paired(partial(to_arrow, data), theirs)
    yield columns.line("  to_arrow", "aiokafka objects") + f"  {count / columns.ours / 1e6:.1f} M records/s"
    yield paired(partial(read_records, data), theirs).line("  read_records", "aiokafka objects")
    yield paired(partial(read_batches, data), theirs).line("  read_batches", "aiokafka objects")


def main() -> None:
    for case in CASES:
        for line in report(case):
            print(line, flush=True)


if __name__ == "__main__":
    main()
