"""Rows of records: what Kafka says it wrote, and any bytes."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.errors import CaptureError
from kproxy.output.from_jsonl import LogReader
from kproxy.output.jsonl import event_line
from kproxy.output.tables import TABLES, Tables
from kproxy.output.tables.records import record_columns
from kproxy.output.tables.rows import EARLIEST_US, LATEST_US, RecordsField
from kproxy.protocol.records.editing import read_records
from tests.output.test_from_jsonl import ANYTHING, encode
from tests.support.command import kproxy
from tests.support.corpus import CAPTURES, damaged, golden_exchanges, golden_lines
from tests.support.sampled import sampled
from tests.support.tables import MANIFEST, decode, query, tables_of


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


def test_any_bytes_give_columns() -> None:
    chance = random.Random(1)
    lines = list(golden_lines("records"))
    for _ in range(400):
        data = damaged(chance, bytes.fromhex(chance.choice(lines)["hex"]))
        field = field_of(data)
        columns, problems = record_columns("c", "b:9092", 1, field, field.batches())
        columns.validate(full=True)
        expected = [record for batch in read_records(data) if not batch.is_control for record in batch.records]
        assert columns.num_rows == len(expected)
        assert columns["value"].to_pylist() == [record.value for record in expected]
        assert all(isinstance(reason, str) for reason in problems.values())
        for time in columns["timestamp"].cast("int64").to_pylist():
            assert time is None or EARLIEST_US // 1000 <= time <= LATEST_US // 1000


FILES = [entry["file"] for entry in MANIFEST]
WRITTEN = [table for table in TABLES.values() if not table.optional]


@pytest.mark.parametrize("name", sampled(FILES, FILES[1:4]))
def test_tables_of_a_log_are_those_of_its_capture(tmp_path: Path, name: str) -> None:
    log = tmp_path / "capture.jsonl"
    assert kproxy("decode", "--quiet", "--format", "jsonl", "-o", log, CAPTURES / name) == 0
    for source, tables in ((CAPTURES / name, "of-capture"), (log, "of-log")):
        assert decode("-o", tmp_path / tables, source) == 0
    for table in WRITTEN:
        same = ", ".join(f'"{column.name}"' for column in table.columns if not column.from_log)
        of_capture, of_log = (
            query(tmp_path / tables, f"select {same} from {table.name} order by all")
            for tables in ("of-capture", "of-log")
        )
        assert of_log == of_capture, table.name


def rows_of(*events: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of events, each with its bodies, by table."""
    found: dict[str, list[dict[str, Any]]] = {table.name: [] for table in WRITTEN}
    tables = Tables(lambda table, rows: found[table.name].extend(rows.to_pylist()))
    for event, bodies in events:
        tables.add(event, "made", bodies=bodies)
    tables.flush()
    return found


def test_every_api_at_every_version_has_the_same_rows() -> None:
    exchanges = [exchange for _, _, exchange in golden_exchanges()]
    reader = LogReader()
    logged = [reader.read(event_line(exchange)) for exchange in exchanges]
    of_capture = rows_of(*((exchange, None) for exchange in exchanges))
    of_log = rows_of(*logged)
    assert len(of_capture["exchanges"]) == len(exchanges) > 400
    for table in WRITTEN[1:]:  # the golden exchanges are not those of a connection
        for name in [column.name for column in table.columns if not column.from_log]:
            expected, found = (Counter(repr(row[name]) for row in rows[table.name]) for rows in (of_capture, of_log))
            assert found == expected, (table.name, name)


BODY_FIELDS = [
    "groupId",
    "protocols",
    "members",
    "topics",
    "responses",
    "topicData",
    "errorCode",
    "memberEpoch",
    "coordinators",
]


@settings(max_examples=settings.default.max_examples * 4)
@given(
    st.sampled_from([0, 1, 8, 9, 10, 11, 12, 13, 14, 18, 36, 68, 76, 88]),
    st.integers(0, 12),
    st.dictionaries(st.sampled_from(BODY_FIELDS), ANYTHING),
    st.dictionaries(st.sampled_from(["embedded", "topicNames", "correlationId", "clientId"]), ANYTHING),
)
def test_any_line_has_whole_rows_or_none(
    api_key: int, version: int, body: dict[str, Any], changes: dict[str, Any]
) -> None:
    line = encode(**({"apiKey": api_key, "apiVersion": version, "request": body, "response": body} | changes))
    try:
        read = LogReader().read(line)
    except CaptureError:
        return
    assert len(rows_of(read)["exchanges"]) == 1


@pytest.mark.parametrize("broker", ["", "1.2.3.4:99999999999", "nonsense"])
def test_an_address_that_is_none_is_shown_without_a_port(broker: str) -> None:
    (row,) = rows_of(LogReader().read(encode(broker=broker)))["connections"]
    assert (row["broker_address"], row["broker_port"]) == (broker, 0)
