"""Rows of errors against the brokers' own request logs, and what a code is of."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.output.tables.errors import LONGEST
from kproxy.protocol.structs import Struct
from tests.support import tables
from tests.support.tables import MANIFEST, broker_log, exchange_of, query, tables_of

LOGGED = [entry["file"] for entry in MANIFEST if entry.get("error_codes_in_responses")]
TOPIC_ID = "A" * 21 + "Q"


@pytest.mark.parametrize("name", LOGGED)
def test_every_code_is_counted_as_often_as_the_broker_logged_it(name: str) -> None:
    expected: Counter[str] = Counter()
    for row in broker_log(name):
        expected.update(f"{row['requestHeader']['requestApiKey']}:{code}" for code in _codes(row["response"]))
    rows = query(tables_of(name), "select api_key || ':' || error_code, sum(count)::bigint from errors group by all")
    assert dict(rows) == expected
    assert expected


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        yield from (code for name, code in value.items() if name.endswith("rrorCode") and code)
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _codes(inner)


def test_resources_of_the_admin_capture() -> None:
    rows = query(
        tables_of("05-admin.pcap"), "select api_name, error_name, resource_type, resource, message from errors"
    )
    assert ("CreateTopics", "TOPIC_ALREADY_EXISTS", "topic", "adm-a", "Topic 'adm-a' already exists.") in rows
    assert {row[2] for row in rows if row[0] == "ConsumerGroupDescribe"} == {"group"}


def rows_of(api: str, version: int, request: dict[str, Any], response: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(code, message, kind, resource, partition, count) of each row of an exchange."""
    exchange = exchange_of(api, version, request, response)
    exchange.topic_names = {TOPIC_ID: "orders"}
    columns = ("error_code", "message", "resource_type", "resource", "partition", "count")
    return [tuple(row[column] for column in columns) for row in tables.rows_of(exchange, "errors")]


def test_the_code_of_a_partition_names_topic_and_partition() -> None:
    partitions = [{"partition_index": n, "error_code": 6} for n in (0, 1)]
    topic = {"topic_id": TOPIC_ID, "partitions": partitions}
    assert rows_of("Fetch", 13, {}, {"responses": [topic], "error_code": 71}) == [
        (6, None, "topic", "orders", 0, 1),
        (6, None, "topic", "orders", 1, 1),
        (71, None, "none", None, None, 1),
    ]


def test_a_code_that_stands_alone_is_of_the_group_or_the_transactional_id_asked_for() -> None:
    assert rows_of("Heartbeat", 4, {"group_id": "g"}, {"error_code": 27}) == [(27, None, "group", "g", None, 1)]
    both = {"transactional_id": "t", "group_id": "g"}
    assert rows_of("AddOffsetsToTxn", 3, both, {"error_code": 47}) == [(47, None, "transactional_id", "t", None, 1)]
    heartbeat = {"broker_id": 3}
    assert rows_of("BrokerHeartbeat", 1, heartbeat, {"error_code": 77}) == [(77, None, "broker", "3", None, 1)]


@pytest.mark.parametrize(("key_type", "kind"), [(0, "group"), (1, "transactional_id"), (2, "none")])
def test_coordinators_are_of_what_was_asked_for(key_type: int, kind: str) -> None:
    found = {"key": "k", "error_code": 15, "error_message": "not yet"}
    asked = {"key_type": key_type, "coordinator_keys": ["k"]}
    assert rows_of("FindCoordinator", 4, asked, {"coordinators": [found]}) == [(15, "not yet", kind, "k", None, 1)]


def test_settings_are_of_topics_groups_and_brokers() -> None:
    results = [{"error_code": 29, "resource_type": kind, "resource_name": "x"} for kind in (2, 4, 32, 77)]
    rows = rows_of("DescribeConfigs", 4, {}, {"results": results})
    assert [row[2] for row in rows] == ["topic", "broker", "group", "none"]


def test_the_same_code_is_counted_and_its_message_is_escaped_and_cut() -> None:
    said = "\x1b[2Jgone" + "x" * 1000
    results = [{"error_code": 42, "error_message": said} for _ in range(3)]
    ((code, text, kind, resource, partition, count),) = rows_of("CreateAcls", 3, {}, {"results": results})
    assert (code, kind, resource, partition, count) == (42, "none", None, None, 3)
    assert text.startswith("\\x1b[2Jgone")
    assert len(text) < LONGEST + 10


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
    rows = query(
        tables_of(name), "select group_id, topic, partition, partition_offset from offsets where kind = 'commit'"
    )
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
        tables_of(name),
        "select group_id, partition, partition_offset, error_code from offsets where kind = 'committed'",
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
    rows = query(tables_of(name), "select topic, partition, partition_offset from offsets where kind = 'list'")
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
        tables_of(name),
        "select partition, partition_offset from offsets where kind = 'fetch' and partition_offset is not null",
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


def test_followers_say_who_they_are() -> None:
    rows = query(
        tables_of("10-kraft-interbroker.pcap"),
        "select distinct replica_id from offsets where kind = 'fetch' and topic = 'rep' order by 1",
    )
    assert {replica for (replica,) in rows} <= {1, 2, 3}
    assert rows


def test_what_a_fetch_left_out_as_unchanged_is_null_and_not_0() -> None:
    offsets = {"high_watermark": 90, "last_stable_offset": 80, "log_start_offset": 10}
    partition = {"partition_index": 2, "error_code": 6, **offsets}
    topic = {"topic": "orders", "partitions": [partition]}
    exchange = exchange_of("Fetch", 11, {"replica_id": -1, "session_id": 7}, {"session_id": 7, "responses": [topic]})
    (row,) = tables.rows_of(exchange, "offsets")
    assert (row["kind"], row["replica_id"], row["topic"], row["partition"]) == ("fetch", -1, "orders", 2)
    assert (row["partition_offset"], row["error_code"]) == (None, 6)
    assert (row["high_watermark"], row["last_stable_offset"], row["log_start_offset"]) == (90, 80, 10)


def test_partitions_of_a_response_are_found_whatever_their_order() -> None:
    """Kafka's classes keep no order between a request and its response; a partition that is named twice counts once."""

    def committed(numbers: list[int]) -> list[Struct]:
        return [{"partition_index": n, "committed_offset": i}
                for i, n in enumerate(numbers)]  # fmt: skip

    asked = [{"name": name, "partitions": committed(numbers)}
             for name, numbers in (("b", [7, 0, 3, 7]), ("a", [0]))]  # fmt: skip
    answered = [
        {"name": name, "partitions": [
            {"partition_index": n, "error_code": code}
            for n, code in codes
        ]}
        for name, codes in (("a", [(0, 22)]), ("b", [(3, 25), (7, 27)]))
    ]  # fmt: skip
    rows = tables.rows_of(
        exchange_of("OffsetCommit", 8, {"group_id": "g", "topics": asked}, {"topics": answered}), "offsets"
    )
    assert [(row["topic"], row["partition"], row["partition_offset"], row["error_code"]) for row in rows] == [
        ("b", 7, 3, 27),
        ("b", 0, 1, None),
        ("b", 3, 2, 25),
        ("a", 0, 0, 22),
    ]
