"""Rows of errors against the brokers' own request logs, and what a code is of."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.output.tables.errors import LONGEST, error_rows
from kproxy.output.tables.rows import Body, gather_bodies
from kproxy.protocol import ApiKey, message
from kproxy.protocol.structs import Struct, struct_types
from kproxy.session import Connection, Exchange
from tests.support.tables import MANIFEST, broker_log, query, tables_of

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


# By hand


def rows_of(api: str, version: int, request: dict[str, Any], response: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(code, message, kind, resource, partition, count) of each row of an exchange."""
    asked, answered = (
        Body(message(side), version, struct_types(side)[side](**fields))
        for side, fields in ((f"{api}Request", request), (f"{api}Response", response))
    )
    names = {TOPIC_ID: "orders"}
    exchange = Exchange(Connection(1, "10.0.0.1:1000", "10.0.0.2:9092"), 0, topic_names=names)
    exchange.api_key = ApiKey[re.sub(r"(?<!^)(?=[A-Z])", "_", api).upper()]
    found = gather_bodies(exchange, asked, answered)
    return [(row[4], *row[6:]) for row in error_rows(exchange, asked, answered, found)]


def struct(response: str, name: str, **fields: Any) -> Struct:
    return struct_types(response)[name](**fields)


def test_the_code_of_a_partition_names_topic_and_partition() -> None:
    partitions = [struct("FetchResponse", "PartitionData", partition_index=n, error_code=6) for n in (0, 1)]
    topic = struct("FetchResponse", "FetchableTopicResponse", topic_id=TOPIC_ID, partitions=partitions)
    assert rows_of("Fetch", 13, {}, {"responses": [topic], "error_code": 71}) == [
        (71, None, "none", None, None, 1),
        (6, None, "topic", "orders", 0, 1),
        (6, None, "topic", "orders", 1, 1),
    ]


def test_a_code_that_stands_alone_is_of_the_group_or_the_transactional_id_asked_for() -> None:
    assert rows_of("Heartbeat", 4, {"group_id": "g"}, {"error_code": 27}) == [(27, None, "group", "g", None, 1)]
    both = {"transactional_id": "t", "group_id": "g"}
    assert rows_of("AddOffsetsToTxn", 3, both, {"error_code": 47}) == [(47, None, "transactional_id", "t", None, 1)]
    heartbeat = {"broker_id": 3}
    assert rows_of("BrokerHeartbeat", 1, heartbeat, {"error_code": 77}) == [(77, None, "broker", "3", None, 1)]


@pytest.mark.parametrize(("key_type", "kind"), [(0, "group"), (1, "transactional_id"), (2, "none")])
def test_coordinators_are_of_what_was_asked_for(key_type: int, kind: str) -> None:
    found = struct("FindCoordinatorResponse", "Coordinator", key="k", error_code=15, error_message="not yet")
    asked = {"key_type": key_type, "coordinator_keys": ["k"]}
    assert rows_of("FindCoordinator", 4, asked, {"coordinators": [found]}) == [(15, "not yet", kind, "k", None, 1)]


def test_settings_are_of_topics_groups_and_brokers() -> None:
    results = [
        struct("DescribeConfigsResponse", "DescribeConfigsResult", error_code=29, resource_type=kind, resource_name="x")
        for kind in (2, 4, 32, 77)
    ]
    rows = rows_of("DescribeConfigs", 4, {}, {"results": results})
    assert [row[2] for row in rows] == ["topic", "broker", "group", "none"]


def test_the_same_code_is_counted_and_its_message_is_escaped_and_cut() -> None:
    said = "\x1b[2Jgone" + "x" * 1000
    results = [struct("CreateAclsResponse", "AclCreationResult", error_code=42, error_message=said) for _ in range(3)]
    ((code, text, kind, resource, partition, count),) = rows_of("CreateAcls", 3, {}, {"results": results})
    assert (code, kind, resource, partition, count) == (42, "none", None, None, 3)
    assert text.startswith("\\x1b[2Jgone")
    assert len(text) < LONGEST + 10
