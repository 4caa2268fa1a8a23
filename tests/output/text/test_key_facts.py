"""What a line tells of an exchange: from JSON as Kafka writes it, for every API and version of the corpus."""

import inspect
import json
from typing import Any

import msgspec
import pytest

from kproxy.output.bodies import Bodies
from kproxy.output.exchange_line import read_bodies
from kproxy.output.text import body_fields
from kproxy.output.text.body_fields import Partition, ProduceRequest, Topic
from kproxy.output.text.key_facts import FACTS, assigned, assignors, key_facts, record_count, sasl_words
from kproxy.protocol import facts
from kproxy.protocol.embedded.payload import Embedded
from kproxy.protocol.facts import Field
from tests.support.corpus import golden_exchanges, golden_pairs

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
        (18, {"clientSoftwareName": "lib", "clientSoftwareVersion": "1"}, {"apiKeys": [{}]}, "lib 1  → 1 API"),
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


def test_nothing_is_told_of_what_could_not_be_read() -> None:
    for api_key in facts().apis:
        assert told(api_key) == ""
        assert told(api_key, None, {}) in ("", "→ 0 topics, 0 brokers", "→ 0 APIs", "0 B")  # what the response says


def test_of_a_huge_body_only_the_size_is_told() -> None:
    topics = [{"name": ""}] * 400_000
    answer: dict[str, Any] = {"topics": [], "brokers": [{}]}
    assert told(3, {"topics": topics}, answer) == "request of 5.6 MB as JSON  → 0 topics, 1 broker"
    assert told(3, {"topics": None}, answer | {"topics": topics}) == "response of 5.6 MB as JSON  all topics"


def test_hostile_names_are_printable() -> None:
    assert told(12, {"groupId": "g\n\x1b[2J\u202e", "generationId": 1}) == "group g\\n\\x1b[2J\\u202e  generation 1"


def test_json_of_another_shape_is_told_apart() -> None:
    assert told(0, {"topicData": "not a list"}) == "(details with -v)"


STRUCTS = [kind for _, kind in inspect.getmembers(body_fields, inspect.isclass) if issubclass(kind, msgspec.Struct)]
OF_JSON = {"recordsSizeInBytes", "unalignedRecordsSizeInBytes"}  # how Kafka's JSON shows a records field


def names_of(fields: tuple[Field, ...]) -> set[str]:
    return {field.json_name for field in fields}.union(*(names_of(field.fields) for field in fields))


ALL_NAMES = OF_JSON.union(*(names_of(x.fields) for message in facts().messages() for x in facts().layouts(message)))


def test_every_field_is_one_of_kafkas_and_optional() -> None:
    for kind in STRUCTS:
        assert set(kind.__struct_fields__) <= ALL_NAMES, kind
        assert msgspec.json.decode(b'{"fieldOfTheFuture":[1]}', type=kind) == kind()


def test_partitions_are_read_under_all_their_names() -> None:
    for asked, _ in golden_pairs():
        if asked["apiKey"] == 0:
            read = msgspec.json.decode(msgspec.json.encode(asked["json"]), type=ProduceRequest)
            sizes = [len(records) // 2 for _, records in sorted(asked.get("records", {}).items())]
            found = [p.size for topic in read.topicData for p in topic.all_partitions() if p.size]
            assert sorted(found) == sorted(size for size in sizes if size)
    assert [Partition(index=1).number, Partition(partition=2).number, Partition(partitionIndex=0).number] == [1, 2, 0]
    assert Partition().number is None


def test_a_topic_is_known_by_name_else_by_id() -> None:
    assert Topic(name="a").label({}) == "a"
    assert Topic(topicId="B" * 22).label({"B" * 22: "orders"}) == "orders"
    assert Topic(topicId="B" * 22).label({}) == "B" * 22
    assert Topic(topicId="A" * 22).label({}) == '""'


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
