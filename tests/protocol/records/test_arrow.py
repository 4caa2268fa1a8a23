"""Records as Arrow columns: the same as the objects are, and as Kafka reads them."""

from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.records.arrow import Problem, schema, to_arrow
from kproxy.protocol.records.editing import read_records
from kproxy.protocol.records.limits import Limits
from kproxy.protocol.records.reading import read_batches
from tests.support.corpus import golden_bytes, golden_lines
from tests.support.frames import batch, message, record


def rows(table: pyarrow.RecordBatch) -> list[dict[str, Any]]:
    table.validate(full=True)
    shown = []
    for row in table.to_pylist():
        headers = [{"key": h["key"].decode(), "valueHex": hex_or_none(h["value"])} for h in row["headers"]]
        fields = {"keyHex": hex_or_none(row["key"]), "valueHex": hex_or_none(row["value"]), "headers": headers}
        shown.append({"offset": row["offset"], "timestamp": row["timestamp"], **fields})
    return shown


def hex_or_none(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def test_columns_hold_what_kafka_reads() -> None:
    for line in golden_lines("records"):
        table = to_arrow(bytes.fromhex(line["hex"]))
        assert table.schema == schema()
        records = [r for b in line["batches"] for r in b["records"]]
        expected = [{k: v for k, v in r.items() if k not in ("control", "sequence")} for r in records]
        assert rows(table) == expected, line["kind"]


def test_batches_can_be_chosen() -> None:
    data = golden_bytes("several-batches-magic2")
    chosen = [b for b in read_batches(data) if not b.is_control]
    assert to_arrow(chosen)["offset"].to_pylist() == [100, 101, 102, 3801, 3802, 900000, 900001]


def test_values_are_not_copied() -> None:
    data = batch(record(b"k", bytes(1_000)), 1)
    view = to_arrow(data)["value"].buffers()[2]
    assert view.address == pyarrow.py_buffer(data).address and view.size == len(data)


def test_what_could_not_be_read_is_told_with_its_place() -> None:
    bomb = golden_bytes("magic2-zstd-large")
    broken = golden_bytes("malformed-count-too-large")
    data = message(b"v") + bomb + broken + golden_bytes("malformed-magic-9")
    problems: list[Problem] = []
    table = to_arrow(data, limits=Limits(decompressed=100), problems=problems)
    first = len(message(b"v"))
    assert [(p.position, p.kind) for p in problems] == [
        (first, "skipped"),
        (first + len(bomb), "error"),
        (first + len(bomb) + len(broken), "error"),
    ]
    assert problems[0].reason == "decompresses to more than 100 bytes"
    assert table.num_rows == 1 + 2


@pytest.mark.parametrize("data", [b"", batch(b"", 0), bytes(5)])
def test_nothing_is_a_table_too(data: bytes) -> None:
    table = to_arrow(data)
    table.validate(full=True)
    assert (table.num_rows, table.schema) == (0, schema())


@given(st.binary(max_size=60), st.integers(-2, 9), st.sampled_from([0, 1, 3, 8]))
def test_any_bytes_give_the_columns_that_the_objects_give(records: bytes, count: int, attributes: int) -> None:
    for data in (batch(records, count, attributes=attributes), message(records, attributes=attributes & 7), records):
        table = to_arrow(data * 2)
        table.validate(full=True)
        objects = [r for b in read_records(data * 2) for r in b.records]
        assert table["value"].to_pylist() == [r.value for r in objects]
        assert table["offset"].to_pylist() == [r.offset for r in objects]
