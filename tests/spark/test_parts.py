"""Rows by day: each in the folder of its own time; what has none, and too many days, in that of the capture."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kproxy.output.tables import TABLES, schema_of
from kproxy.spark.parts import MOST_DAYS, PartWriter, day_of

OFFSETS = TABLES["offsets"]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def offsets(*times: datetime | None) -> pa.RecordBatch:
    rows = [
        {"connection_id": "c", "exchange": at, "at": time, "kind": "list", "partition": 0}
        for at, time in enumerate(times)
    ]
    return pa.RecordBatch.from_pylist(rows, schema_of(OFFSETS))


def days(files: list[tuple[str, int]]) -> dict[str, int]:
    return dict(files)


def test_each_row_goes_to_its_day(tmp_path: Path) -> None:
    writer = PartWriter(str(tmp_path), "x", "2026-02-28")
    writer.write(OFFSETS, offsets(NOON, NOON + timedelta(hours=11, minutes=59), NOON + timedelta(hours=12), None))
    writer.write(OFFSETS, offsets(NOON))
    files = writer.close()
    assert {file.day: file.rows for file in files} == {"2026-02-28": 1, "2026-03-01": 3, "2026-03-02": 1}
    assert {Path(file.path).relative_to(tmp_path).as_posix() for file in files} == {
        f"offsets/day={day}/x.parquet" for day in ("2026-02-28", "2026-03-01", "2026-03-02")
    }
    assert sum(pq.ParquetFile(file.path).metadata.num_rows for file in files) == 5


def test_days_are_bounded(tmp_path: Path) -> None:
    writer = PartWriter(str(tmp_path), "x", "2026-01-01")
    writer.write(OFFSETS, offsets(*(NOON + timedelta(days=number) for number in range(100))))
    files = writer.close()
    assert len(files) == MOST_DAYS
    assert sum(file.rows for file in files) == 100


def test_rows_without_a_time_go_with_their_exchange(tmp_path: Path) -> None:
    records = TABLES["records"]
    writer = PartWriter(str(tmp_path), "x", "2026-01-01")
    writer.day = "2026-01-02"
    row = {"connection_id": "c", "exchange": 1, "direction": "produce", "partition": 0, "offset": 0, "headers": []}
    writer.write(records, pa.RecordBatch.from_pylist([row], schema_of(records)))
    assert [file.day for file in writer.close()] == ["2026-01-02"]


def test_any_time_has_a_day() -> None:
    assert day_of(1_763_000_000_000_000_000) == "2025-11-13"
    assert day_of((1 << 63) - 1) == "2262-04-11"
    assert day_of(-(1 << 63)) == "1677-09-21"
