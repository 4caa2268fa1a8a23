"""Rows of topic_activity against what the workloads counted; when rows are written."""

from typing import Any

import pytest

from kproxy.output.tables import Tables
from kproxy.output.tables.activity import MOST_KEYS
from kproxy.protocol import ApiKey, message
from kproxy.protocol.structs import struct_types
from kproxy.session import Connection, Exchange, Frame
from tests.support.record_batches import batch, record
from tests.support.tables import MANIFEST, query, tables_of

MINUTE = 60 * 10**9
WORKLOADS = [entry for entry in MANIFEST if entry.get("expect") and entry["file"][:2] not in ("04", "05", "10")]


@pytest.mark.parametrize("entry", WORKLOADS, ids=lambda entry: entry["file"])
def test_records_are_those_that_producers_and_consumers_counted(entry: dict[str, Any]) -> None:
    rows = query(
        tables_of(entry["file"]),
        "select direction, topic, sum(records - refused_records)::bigint from topic_activity "
        "where topic not like '\\_\\_%' escape '\\' group by all",
    )
    found = {(direction, topic): records for direction, topic, records in rows}
    expected = {("produce", topic): count for topic, count in entry["expect"]["records_produced_acked"].items()}
    for name, count in entry["expect"]["records_consumed_by_group_and_topic"].items():
        expected["fetch", name.split("/")[1]] = count
    assert found == expected


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_sums_are_those_of_the_batches(entry: dict[str, Any]) -> None:
    tables = tables_of(entry["file"])
    columns = "connection_id, direction, topic, topic_id, partition, date_trunc('minute', b.\"at\")"
    of_batches = query(
        tables,
        f"select {columns}, count(distinct exchange), count(*), sum(greatest(coalesce(count, 0), 0))::bigint, "
        "sum(size)::bigint from record_batches b where error is null group by all order by all",
    )
    of_activity = query(
        tables,
        "select connection_id, direction, topic, topic_id, partition, minute, sum(exchanges)::bigint, "
        "sum(batches)::bigint, sum(records)::bigint, sum(bytes)::bigint from topic_activity group by all order by all",
    )
    assert of_activity == of_batches


# By hand

VERSION = 9
CONNECTION = Connection(1, "10.0.0.1:1000", "10.0.0.2:9092")


def produce(at: int, partitions: int = 1) -> Exchange:
    """A Produce with acks=0 of two records for each partition."""
    layout, types = message("ProduceRequest"), struct_types("ProduceRequest")
    data = batch(record(None, b"v") + record(None, b"v", 1), 2)
    sent = [types["PartitionProduceData"](index=index, records=data) for index in range(partitions)]
    topic = types["TopicProduceData"](name="orders", partition_data=sent)
    body = layout.encode(VERSION, types["ProduceRequest"](topic_data=[topic]))
    frame = Frame(body, at, at, None, 0, layout, VERSION)
    return Exchange(CONNECTION, at, ApiKey.PRODUCE, VERSION, 1, "app", frame, None, expects_response=False)


def activity_of(*exchanges: Exchange) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    tables = Tables(lambda table, rows: found.extend(rows.to_pylist()) if table.name == "topic_activity" else None)
    for exchange in exchanges:
        tables.add(exchange, "made.pcap")
    tables.flush()
    return found


def test_a_minute_has_one_row_for_a_partition_and_begins_at_its_first_second() -> None:
    rows = activity_of(produce(61 * 10**9), produce(119 * 10**9), produce(120 * 10**9))
    counted = [(row["minute"].minute, row["minute"].second, row["exchanges"], row["records"]) for row in rows]
    assert counted == [(1, 0, 2, 4), (2, 0, 1, 2)]
    assert {(row["client_id"], row["topic"], row["direction"]) for row in rows} == {("app", "orders", "produce")}


def test_what_comes_late_for_a_minute_has_a_row_of_its_own() -> None:
    rows = activity_of(produce(0), produce(MINUTE), produce(1))
    assert sorted((row["minute"].minute, row["records"]) for row in rows) == [(0, 2), (0, 2), (1, 2)]


def test_memory_is_bounded_and_nothing_is_lost_where_it_is_full() -> None:
    rows = activity_of(produce(0, MOST_KEYS + 1), produce(1, MOST_KEYS))
    assert len(rows) == 2 * MOST_KEYS + 1  # the first is full and written, and what follows begins anew
    assert sum(row["records"] for row in rows) == 2 * (2 * MOST_KEYS + 1)
    assert {row["minute"].minute for row in rows} == {0}
