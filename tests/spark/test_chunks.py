"""Rows as chunks: all come out once, by day; a task holds no more than a chunk of each."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from kproxy.output.tables import TABLES, schema_of
from kproxy.spark import chunks
from kproxy.spark.chunks import ChunkWriter

OFFSETS = TABLES["offsets"]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def offsets(*exchanges: int, at: datetime = NOON) -> pa.RecordBatch:
    rows = [
        {"connection_id": "c", "exchange": number, "at": at, "kind": "list", "partition": 0} for number in exchanges
    ]
    return pa.RecordBatch.from_pylist(rows, schema_of(OFFSETS))


def test_chunks_have_all_rows_by_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 3)
    writer = ChunkWriter("key", "2026-01-01")
    writer.write(OFFSETS, offsets(1, 2))
    assert writer.take() == []
    writer.write(OFFSETS, offsets(3, 4))
    full = writer.take()
    assert [pa.ipc.open_stream(chunk.rows).read_all()["exchange"].to_pylist() for chunk in full] == [[1, 2, 3, 4]]
    writer.write(OFFSETS, offsets(5, at=NOON + timedelta(days=1)))
    counts = writer.close()
    [last] = writer.take()
    assert (last.source, last.table, last.day) == ("key", "offsets", "2026-03-02")
    assert pa.ipc.open_stream(last.rows).read_all().schema.equals(schema_of(OFFSETS))
    assert {(part.day, part.rows) for part in counts} == {("2026-03-01", 4), ("2026-03-02", 1)}
