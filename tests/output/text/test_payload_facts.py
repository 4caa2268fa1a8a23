"""Payloads in a few words."""

from typing import Any

import pytest

from kproxy.output.text.payload_facts import assigned, assignors, record_count, sasl_words
from kproxy.protocol.embedded import Embedded


def test_records_are_counted_over_all_partitions() -> None:
    fields: list[Any] = [{"count": 1_000}, {"count": 234}]
    embedded = [Embedded(f"p[{i}]", "response", "records", json) for i, json in enumerate(fields)]
    assert record_count(embedded) == "1,234 records"
    assert record_count(embedded[:0]) == ""
    assert record_count([Embedded("p", "response", "records", {"count": 1})]) == "1 record"
    assert record_count([Embedded("p", "response", "records", error="broken")]) == ""


def test_the_assignors_that_a_member_offers() -> None:
    embedded = [
        Embedded("protocols[0].metadata", "request", "consumer-subscription", {"assignor": "range"}),
        Embedded("protocols[1].metadata", "request", "consumer-subscription", error="broken"),
        Embedded("protocols[2].metadata", "request", "connect-metadata", {"protocol": "a\nb"}),
        Embedded("members[0].metadata", "response", "consumer-subscription", {"assignor": "sticky"}),
    ]
    assert assignors(embedded) == "range, a\\nb"


def test_what_a_member_is_given() -> None:
    topics = [
        {"topic": "orders", "partitions": list(range(9))},
        {"topic": "a b", "partitions": [1]},
        {"topic": "c", "partitions": []},
    ]
    given = Embedded("assignment", "response", "consumer-assignment", {"value": {"assignedPartitions": topics}})
    assert assigned([given]) == 'orders-0,1,2,3,4,5,…, "a b"-1 +1'
    none = Embedded("assignment", "response", "consumer-assignment", {"value": {"assignedPartitions": []}})
    assert assigned([none]) == "nothing"
    worker: Any = {"value": {"assigned": {"connectors": ["a"], "tasks": [{}, {}]}}}
    assert assigned([Embedded("assignment", "response", "connect-assignment", worker)]) == "1 connectors, 2 tasks"
    assert assigned([Embedded("assignments[0].assignment", "request", "consumer-assignment", {})]) == ""


@pytest.mark.parametrize(
    ("parts", "outcome"),
    [
        ({"success": True}, "→ authenticated"),
        ({}, "→ authenticated"),  # the server's signature, of which nothing is shown
        ({"success": False}, "→ refused"),
        ({"error": "invalid-proof"}, "→ refused invalid-proof"),
        ({"status": "invalid_token"}, "→ refused invalid_token"),
        ({"iterations": 4096}, "→ challenge"),
        ({"size": 90}, "→ token"),
    ],
)
def test_how_an_authentication_goes(parts: dict[str, Any], outcome: str) -> None:
    asked = Embedded("authBytes", "request", "sasl-token", {"username": "alice"})
    answer = Embedded("authBytes", "response", "sasl-token", parts)
    assert sasl_words([asked, answer], "SCRAM-SHA-256") == ["SCRAM-SHA-256", "user alice", outcome]


def test_a_broken_token_is_a_token() -> None:
    assert sasl_words([Embedded("authBytes", "response", "sasl-token", error="no")], None) == ["→ token"]
