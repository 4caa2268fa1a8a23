"""Rows of records: what Kafka says it wrote, and any bytes."""

import random

import pytest

from kproxy.output.tables.records import record_columns
from kproxy.output.tables.rows import EARLIEST_US, LATEST_US, RecordsField
from kproxy.protocol.records import read_records
from tests.support.damage import damaged
from tests.support.record_batches import golden
from tests.support.tables import query, tables_of


def field_of(data: bytes) -> RecordsField:
    return RecordsField("fetch", "orders", None, 3, 0, None, data)


def test_headers_of_the_first_capture() -> None:
    rows = query(
        tables_of("01-java-produce-consume-group.pcap"),
        "select decode(h.key), h.value is null, count(*) from records, unnest(headers) as u(h) "
        "where direction = 'produce' group by all",
    )
    assert ("trace-id", False, 200) in rows  # captures/README.md: record headers trace-id and a null header
    assert any(is_null for _, is_null, _ in rows)


def test_consumers_read_what_producers_wrote() -> None:
    tables = tables_of("09-old-broker-0.10-format1.pcap")
    written, read = (
        query(tables, f"select key, value from records where direction = '{side}' and topic = 't10b' order by all")
        for side in ("produce", "fetch")
    )
    assert written == read
    assert len(written) == 320


def test_a_record_of_magic_0_has_no_time() -> None:
    rows = query(tables_of("08-old-broker-0.9-format0.pcap"), 'select distinct "timestamp" is null from records')
    assert rows == [(True,)]


@pytest.mark.parametrize("seed", range(40))
def test_any_bytes_give_columns(seed: int) -> None:
    chance = random.Random(seed)
    lines = list(golden())
    for _ in range(10):
        data = damaged(chance, bytes.fromhex(chance.choice(lines)["hex"]))
        field = field_of(data)
        columns, problems = record_columns("c", 1, field, field.batches())
        columns.validate(full=True)
        expected = [record for batch in read_records(data) if not batch.is_control for record in batch.records]
        assert columns.num_rows == len(expected)
        assert columns["value"].to_pylist() == [record.value for record in expected]
        assert all(isinstance(reason, str) for reason in problems.values())
        for time in columns["timestamp"].cast("int64").to_pylist():
            assert time is None or EARLIEST_US // 1000 <= time <= LATEST_US // 1000
