"""Rows of offsets against what the brokers logged of the same requests."""

from collections import Counter
from typing import Any

import pytest

from kproxy.output.tables.offsets import offset_rows
from kproxy.output.tables.rows import Body
from kproxy.protocol import message
from kproxy.session import Connection, Exchange
from tests.support.tables import broker_log, query, tables_of

CAPTURES = pytest.mark.parametrize("name", ["01-java-produce-consume-group.pcap", "03-classic-rebalance-range.pcap"])


def logged(name: str, api_key: int) -> list[tuple[Any, Any]]:
    rows = [row for row in broker_log(name) if row["requestHeader"]["requestApiKey"] == api_key]
    return [(row["request"], row["response"]) for row in rows]


@CAPTURES
def test_commits_are_what_the_broker_logged(name: str) -> None:
    expected = Counter(
        (request["groupId"], topic["name"], partition["partitionIndex"], partition["committedOffset"])
        for request, _ in logged(name, 8)
        for topic in request["topics"]
        for partition in topic["partitions"]
    )
    rows = query(tables_of(name), "select group_id, topic, partition, \"offset\" from offsets where kind = 'commit'")
    assert Counter(rows) == expected
    assert expected


@CAPTURES
def test_what_was_committed_is_what_the_broker_told(name: str) -> None:
    expected = Counter(
        (group["groupId"], partition["partitionIndex"], partition["committedOffset"], partition["errorCode"])
        for _, response in logged(name, 9)
        for group in response["groups"]
        for topic in group["topics"]
        for partition in topic["partitions"]
    )
    rows = query(
        tables_of(name), "select group_id, partition, \"offset\", error_code from offsets where kind = 'committed'"
    )
    assert Counter(rows) == expected


@CAPTURES
def test_listed_offsets_are_what_the_broker_told(name: str) -> None:
    expected = Counter(
        (topic["name"], partition["partitionIndex"], partition["offset"])
        for _, response in logged(name, 2)
        for topic in response["topics"]
        for partition in topic["partitions"]
    )
    rows = query(tables_of(name), "select topic, partition, \"offset\" from offsets where kind = 'list'")
    assert Counter(rows) == expected
    assert expected
    asked = query(tables_of(name), "select distinct asked_timestamp_ms from offsets where kind = 'list'")
    assert asked == [(-2,)]  # auto.offset.reset=earliest


@CAPTURES
def test_fetches_are_what_the_broker_logged(name: str) -> None:
    asked, ends = Counter[Any](), Counter[Any]()
    for request, response in logged(name, 1):
        for topic in request["topics"]:
            asked.update((p["partition"], p["fetchOffset"]) for p in topic["partitions"])
        for topic in response["responses"]:
            ends.update((p["partitionIndex"], p["highWatermark"], p["lastStableOffset"]) for p in topic["partitions"])
    rows = query(
        tables_of(name), 'select partition, "offset" from offsets where kind = \'fetch\' and "offset" is not null'
    )
    assert Counter(rows) == asked
    rows = query(
        tables_of(name),
        "select partition, high_watermark, last_stable_offset from offsets "
        "where kind = 'fetch' and high_watermark is not null",
    )
    assert Counter(rows) == ends
    assert query(tables_of(name), "select distinct topic is null, replica_id from offsets where kind = 'fetch'") == [
        (False, -1)
    ]


def test_version_0_and_1_of_old_brokers() -> None:
    rows = query(
        tables_of("08-old-broker-0.9-format0.pcap"),
        "select kind, topic, max(\"offset\") from offsets where kind in ('commit', 'list') group by all order by all",
    )
    assert {topic for _, topic, _ in rows} == {"t09c"}
    assert {kind for kind, _, _ in rows} == {"commit", "list"}


def test_followers_say_who_they_are() -> None:
    rows = query(
        tables_of("10-kraft-interbroker.pcap"),
        "select distinct replica_id from offsets where kind = 'fetch' and topic = 'rep' order by 1",
    )
    assert {replica for (replica,) in rows} <= {1, 2, 3}
    assert rows


def test_what_a_fetch_left_out_as_unchanged_is_null_and_not_0() -> None:
    request = message("FetchRequest").from_json(
        11,
        '{"replicaId": -1, "maxWaitMs": 1, "minBytes": 1, "maxBytes": 1, "isolationLevel": 0, "sessionId": 7, '
        '"sessionEpoch": 3, "topics": [], "forgottenTopicsData": [], "rackId": ""}',
    )
    response = message("FetchResponse").from_json(
        11,
        '{"throttleTimeMs": 0, "errorCode": 0, "sessionId": 7, "responses": [{"topic": "orders", "partitions": '
        '[{"partitionIndex": 2, "errorCode": 6, "highWatermark": 90, "lastStableOffset": 80, "logStartOffset": 10, '
        '"abortedTransactions": null, "preferredReadReplica": -1, "records": null}]}]}',
    )
    bodies = (
        Body(message(f"Fetch{side}"), 11, struct) for side, struct in (("Request", request), ("Response", response))
    )
    exchange = Exchange(Connection(1, "10.0.0.5:51234", "10.0.0.9:9092"), 0)
    (row,) = offset_rows(exchange, *bodies)
    assert row == (None, "fetch", None, None, -1, "orders", None, 2, None, 90, 80, 10, None, 6)
