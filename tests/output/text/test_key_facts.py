"""What a line tells of an exchange: from JSON as Kafka writes it, for every API and version of the corpus."""

import json
from typing import Any

import pytest

from kproxy.output.bodies import Bodies, read_bodies
from kproxy.output.text.key_facts import FACTS, key_facts
from kproxy.protocol import facts
from tests.support.traffic import golden_exchanges, golden_pairs

LEADS = {"generationId": 3, "protocolName": "range", "leader": "m", "memberId": "m", "members": [{}, {}]}
TOPIC_ID = "MTIzNDU2Nzg5MDEyMzQ1Ng"


def told(api_key: int, request: Any = None, response: Any = None, names: dict[str, str] | None = None) -> str:
    """The facts of an exchange given as Python values."""
    bodies = Bodies(*(None if body is None else json.dumps(body).encode() for body in (request, response)))
    return key_facts(api_key, bodies, names or {})


def test_nothing_in_the_corpus_is_beyond_the_table() -> None:
    for asked, answered in golden_pairs():
        shown = told(asked["apiKey"], asked["json"], answered["json"])
        assert "details with" not in shown, (asked["message"], asked["version"])
        assert shown.isprintable()


def test_sizes_of_produce_are_those_of_kafkas_records() -> None:
    for asked, _, exchange in golden_exchanges():
        if asked["apiKey"] == 0:
            size = sum(len(records) // 2 for records in asked.get("records", {}).values())
            assert size >= 1000 or f"{size} B" in key_facts(0, read_bodies(exchange), {})


def test_every_key_of_the_table_is_an_api() -> None:
    assert set(FACTS) <= set(facts().apis)


def test_produce_names_topic_partition_size_acks_and_transaction() -> None:
    partitions = [{"index": 2, "recordsSizeInBytes": 1500}, {"index": 0, "records": None}]
    request = {"acks": -1, "transactionalId": "tx-1", "topicData": [{"topicId": TOPIC_ID, "partitionData": partitions}]}
    assert told(0, request, names={TOPIC_ID: "orders"}) == "orders-2,0  1.5 KB  acks=all  transaction tx-1"
    assert told(0, request).startswith(TOPIC_ID)


def test_fetch_names_what_was_answered() -> None:
    request = {"replicaId": 2, "sessionId": 7, "sessionEpoch": 3, "topics": []}
    response = {
        "responses": [{"topic": "a", "partitions": [{"partitionIndex": n, "recordsSizeInBytes": 10} for n in range(9)]}]
    }
    assert told(1, request, response) == "a  9 partitions  90 B  replica 2  session 7/3"


def test_many_topics_are_counted() -> None:
    topics = [{"name": f"t{n}"} for n in range(10)]
    assert (
        told(3, {"topics": topics}, {"topics": topics, "brokers": [{}, {}]}) == "t0, t1, t2 +7  → 10 topics, 2 brokers"
    )
    assert told(3, {"topics": None}) == "all topics"


@pytest.mark.parametrize(
    ("api_key", "request_body", "response_body", "shown"),
    [
        (2, {"topics": [{"name": "a", "partitions": [{"partitionIndex": 0, "timestamp": -2}]}]}, None, "a-0  earliest"),
        (10, {"keyType": 1, "key": "tx"}, {"nodeId": 4, "host": "b", "port": 9}, "transaction tx  → node 4 b:9"),
        (10, {"coordinatorKeys": ["g", "h"]}, {"coordinators": [{"nodeId": 4}]}, "group g, h  → node 4 \"\":-1"),
        (11, {"groupId": "g", "memberId": "m"}, LEADS, "group g  member m  → generation 3, range, leader of 2"),
        (12, {"groupId": "g", "generationId": 3, "memberId": "m"}, None, "group g  member m  generation 3"),
        (18, {"clientSoftwareName": "lib", "clientSoftwareVersion": "1"}, {"apiKeys": [{}]}, "lib 1  → 1 APIs"),
        (26, {"producerId": 5, "producerEpoch": 1, "committed": False}, None, "producer 5/1  abort"),
        (22, {"transactionalId": "t", "producerId": -1}, {"producerId": 5, "producerEpoch": 0}, "transaction t  → producer 5/0"),
        (24, {"transactions": [{"transactionalId": "t", "topics": [{"name": "a"}]}]}, None, "transaction t  a"),
        (24, {"v3AndBelowTransactionalId": "t", "v3AndBelowTopics": [{"name": "a"}]}, None, "transaction t  a"),
        (27, {"markers": [{"producerId": 5, "producerEpoch": 1, "transactionResult": True}]}, None, "commit producer 5/1"),
        (32, {"resources": [{"resourceType": 2, "resourceName": "a"}]}, None, "topic a"),
        (42, {"groupsNames": ["a", "b", "c", "d"]}, None, "group a, b, c +1"),
        (68, {"groupId": "g", "memberEpoch": -1}, {"memberEpoch": -1}, "group g  epoch -1 (leave)  → epoch -1"),
        (9_999, None, None, ""),
    ],
)  # fmt: skip
def test_facts(api_key: int, request_body: Any, response_body: Any, shown: str) -> None:
    assert told(api_key, request_body, response_body) == shown


@pytest.mark.parametrize("api_key", sorted(facts().apis))
def test_nothing_is_told_of_what_could_not_be_read(api_key: int) -> None:
    assert told(api_key) == ""
    assert told(api_key, None, {}) in ("", "→ 0 topics, 0 brokers", "→ 0 APIs", "0 B")  # what the response says


def test_of_a_huge_body_only_the_size_is_told() -> None:
    topics = [{"name": ""}] * 400_000
    answer: dict[str, Any] = {"topics": [], "brokers": [{}]}
    assert told(3, {"topics": topics}, answer) == "request of 5.6 MB as JSON  → 0 topics, 1 brokers"
    assert told(3, {"topics": None}, answer | {"topics": topics}) == "response of 5.6 MB as JSON  all topics"


def test_hostile_names_are_printable() -> None:
    assert told(12, {"groupId": "g\n\x1b[2J\u202e", "generationId": 1}) == "group g\\n\\x1b[2J\\u202e  generation 1"


def test_json_of_another_shape_is_told_apart() -> None:
    assert told(0, {"topicData": "not a list"}) == "(details with -v)"
