"""Rows of exchanges: every message of golden/ against Kafka's own JSON of it."""

from typing import Any

import msgspec

from kproxy.output.bodies import find_errors, read_bodies
from kproxy.output.tables.bodies import read_body
from kproxy.output.tables.contracts import EXCHANGES
from kproxy.output.tables.exchanges import TOP_FIELDS, exchange_row, gather_bodies, top_fields
from kproxy.session import Connection, Exchange
from tests.support.traffic import START, golden_exchanges

NAMES = [column.name for column in EXCHANGES.columns]


def row_of(exchange: Exchange) -> dict[str, Any]:
    request, response = read_body(exchange.request)[0], read_body(exchange.response)[0]
    found = gather_bodies(exchange, request, response)
    row = exchange_row(1, exchange, found, top_fields(request, response), None)
    return dict(zip(NAMES[1:], row, strict=False))


def test_columns_stand_in_the_order_of_the_contract() -> None:
    start = NAMES.index("member_id")
    assert NAMES[start : start + len(TOP_FIELDS)] == [column for column, _, _ in TOP_FIELDS]
    row = exchange_row(1, Exchange(Connection(1, "a:1", "b:2"), 0), *_nothing(), None)
    assert len(row) + 1 == NAMES.index("record_batches")


def _nothing() -> tuple[Any, Any]:
    exchange = Exchange(Connection(1, "a:1", "b:2"), 0)
    return gather_bodies(exchange, None, None), top_fields(None, None)


def test_error_codes_are_those_in_the_json() -> None:
    with_errors = 0
    for _, _, exchange in golden_exchanges():
        expected = [error.code for error in find_errors(read_bodies(exchange).response)]
        row = row_of(exchange)
        assert set(row["error_codes"]) == set(expected), exchange
        with_errors += bool(expected)
    assert with_errors > 100


def test_fields_at_the_top_are_those_in_kafkas_json() -> None:
    """Where Kafka's JSON has the field, and says something, the column has it."""
    compared = 0
    pairs = (("generation_id", "generationId"), ("transactional_id", "transactionalId"), ("acks", "acks"),
             ("max_wait_ms", "maxWaitMs"), ("isolation_level", "isolationLevel"), ("group_id", "groupId"),
             ("session_timeout_ms", "sessionTimeoutMs"), ("replica_id", "replicaId"), ("timeout_ms", "timeoutMs"))  # fmt: skip
    for request, response, exchange in golden_exchanges():
        row = row_of(exchange)
        for column, name in pairs:
            if name in request["json"] and request["json"][name] not in ("", None):
                assert row[column] == request["json"][name], (request["api"], column)
                compared += 1
        if "throttleTimeMs" in response["json"]:
            assert row["throttle_time_ms"] == response["json"]["throttleTimeMs"]
    assert compared > 300


def test_times_sizes_and_names() -> None:
    request, response, exchange = next(golden_exchanges())
    row = row_of(exchange)
    assert row["request_at"] == START // 1000
    assert row["latency_ms"] == 3.1
    assert row["request_size"] == len(bytes.fromhex(request["frameHex"]))
    assert row["response_size"] == len(bytes.fromhex(response["frameHex"]))
    assert (row["api_key"], row["api_version"]) == (request["apiKey"], request["version"])


def topics_in(value: Any) -> set[str]:
    """Values of Kafka's names for topics, wherever they are in its JSON."""
    found: set[str] = set()
    if isinstance(value, dict):
        for name, inner in value.items():
            named = name == "topicId" and any(value.get(other) for other in ("name", "topic", "topicName"))
            if name in ("topic", "topicName", "topicId") and isinstance(inner, str) and not named:
                found.add(inner)
            found |= topics_in(inner)
    elif isinstance(value, list):
        for inner in value:
            found |= topics_in(inner)
    return found - {"", "A" * 22}


def test_topics_under_any_name() -> None:
    for _, _, exchange in golden_exchanges():
        if exchange.api_key == 3:
            continue
        bodies = read_bodies(exchange)
        for body in (bodies.request, bodies.response):
            named = topics_in(msgspec.json.decode(body or b"null"))
            known = {exchange.topic_names.get(name, name) for name in named}
            assert known <= set(row_of(exchange)["topics"]), (exchange.api_key, exchange.api_version)
