"""Validate, against what Confluent's own serializers write and registries answer."""

import json
import time
from base64 import b64encode
from typing import Any
from unittest.mock import ANY

import pytest
from confluent_kafka.schema_registry import Schema as RegistrySchema
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kproxy.encryption.services import loading
from kproxy.errors import UsageError
from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, Outcome, Send
from kproxy.filters.dead_letters import NOT_LED, TOO_OLD, UNREADABLE, WRITES_ITSELF
from kproxy.filters.loading import load_filter
from kproxy.protocol import message
from kproxy.protocol.error_codes import ErrorCode, error_code
from kproxy.protocol.records import Codec, Record
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.schemas.registry import Registry
from kproxy.schemas.settings import RegistryOptions
from kproxy.schemas.store import Collection, Schema, Schemas, schema_of
from tests.support.encryption import GivenKeys, GivenService
from tests.support.filtering import Bench, CallingRuntime
from tests.support.messages import answer_frame, answer_in, request_frame, request_in
from tests.support.ports import free_ports

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "country", "type": "string"}]}
JSON_SCHEMA = {"title": "Bill", "type": "object", "properties": {"total": {"type": "number", "minimum": 0}}}
SECRET = "a secret of the client"


class Validating(Bench):
    """The filter in a chain, with the schemas of a mock registry of Confluent's."""

    def __init__(self, *sources: Any, chosen: Any = None, **rule: Any) -> None:
        self.registry = SchemaRegistryClient.new_client({"url": "mock://registry"})
        self.orders = AvroSerializer(self.registry, json.dumps(ORDER))
        self.bills = JSONSerializer(json.dumps(JSON_SCHEMA), self.registry)
        self.write("orders", {"country": "DE"})
        self.write("bills", {"total": 1})
        collection = Collection("a registry")
        for subject in ("orders-value", "bills-value"):
            latest = self.registry.get_latest_version(subject)
            fields = {"schema": latest.schema.schema_str, "schemaType": latest.schema.schema_type}
            collection.add(schema_of(fields, id=latest.schema_id, subject=subject, version=1))
        runtime = CallingRuntime()
        runtime.given_schemas = Schemas(sources or [collection], chosen)
        super().__init__(load_filter("validate", {"rules": [rule]}), runtime=runtime)

    def write(self, topic: str, value: Any) -> bytes:
        """What Confluent's serializer writes."""
        serializer = self.orders if topic == "orders" else self.bills
        data: bytes = serializer(value, SerializationContext(topic, MessageField.VALUE))
        return data

    def produced(self, *partitions: tuple[str, list[bytes | None]], version: int = 9, **record: Any) -> Outcome:
        """The outcome for partition 0 of each topic."""
        topics = []
        for topic, values in partitions:
            records = [Record(offset=at, timestamp=at, value=value, **record) for at, value in enumerate(values)]
            field = write_batches([RecordBatch(records, codec=Codec.GZIP)])
            topics.append({"name": topic, "partition_data": [{"index": 0, "records": field}]})
        return self.ask("ProduceRequest", version, acks=-1, topic_data=topics)


def response_in(outcome: Outcome, version: int = 9) -> dict[str, tuple[int, list[int], str]]:
    """Topic -> error of its partition, records that it names, and why the first."""
    answer = answer_in(0, version, outcome.frame)  # type: ignore[union-attr]
    rows = [(topic.name, partition) for topic in answer.responses for partition in topic.partition_responses]
    return {
        name: (one.error_code, [error.batch_index for error in one.record_errors], _first(one.record_errors))
        for name, one in rows
    }


def _first(errors: list[Any]) -> str:
    return errors[0].batch_index_error_message if errors else ""


def test_what_is_valid_leaves_as_it_came() -> None:
    for values in ("id", "payload"):
        bench = Validating(values=values)
        orders = [bench.write("orders", {"country": country}) for country in ("DE", "FR")]
        outcome = bench.produced(("orders", [*orders, None]), ("bills", [bench.write("bills", {"total": 7})]))
        assert isinstance(outcome, Send)
        assert outcome.frame == bench.frame
        assert bench.counted() == {}


@pytest.mark.parametrize("version", [7, 9])
def test_other_partitions_of_the_request_go_on(version: int) -> None:
    bench = Validating(values="payload")
    good, bill = bench.write("orders", {"country": "DE"}), bench.write("bills", {"total": 7})
    outcome = bench.produced(("orders", [good, good[:-1], good, good + b"x"]), ("bills", [bill]), version=version)
    assert isinstance(outcome, Send)
    sent = request_in(outcome.frame)
    assert [topic.name for topic in sent.topic_data] == ["bills"]
    assert [record.value for record in read_records(sent.topic_data[0].partition_data[0].records)[0].records] == [bill]
    topic = {"name": "bills", "partition_responses": [{"index": 0, "base_offset": 41}]}
    assert outcome.request is not None
    answered = bench.answer(outcome.request, answer_frame("ProduceResponse", version, responses=[topic]))
    answers = response_in(answered, version)
    assert answers["bills"] == (0, [], "")
    error, records, why = answers["orders"]
    assert error == ErrorCode.INVALID_RECORD
    assert records == ([1, 3] if version == 9 else [])  # records have errors since version 8 (KIP-467)
    assert ("does not fit the schema" in why) is (version == 9)
    assert bench.counted() == {("rejected", "payload"): 1}


@pytest.mark.parametrize(
    ("topic", "value", "said", "kind"),
    [
        ("orders", b"\0\0\0\0\x63\x04DE", "no schema with the id 99 is known", "unknown id"),
        ("orders", b"{}", "it names no schema", "without schema"),
        ("orders", b"", "it names no schema", "without schema"),
        ("bills", None, "the schema 1 is not registered under bills-value", "another subject"),
    ],
)
def test_ids(topic: str, value: bytes | None, said: str, kind: str) -> None:
    bench = Validating()
    value = bench.write("orders", {"country": "DE"}) if value is None else value
    valid = bench.write(topic, {"country": "DE"} if topic == "orders" else {"total": 1})
    outcome = bench.produced((topic, [valid, value]))
    assert isinstance(outcome, Answer)
    assert response_in(outcome) == {topic: (ErrorCode.INVALID_RECORD, [1], f"value: {said}")}
    assert bench.counted() == {("rejected", kind): 1}
    ((event, reason),) = bench.runtime.warnings
    assert (event, reason) == ("validate: records were rejected", f"{kind}: topic {topic}, partition 0, client app")


@pytest.mark.parametrize("then", ["reject", "report"])
def test_topics_by_id(then: str) -> None:
    bench = Validating(then=then)
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    field = write_batches([RecordBatch([Record(value=b"{}")])])
    topic = {"topic_id": topic_id, "partition_data": [{"index": 0, "records": field}]}
    frame = request_frame("ProduceRequest", 13, acks=-1, topic_data=[topic])
    for names, error in (({}, ErrorCode.UNKNOWN_TOPIC_ID), ({topic_id: "orders"}, ErrorCode.INVALID_RECORD)):
        bench.runtime.kept["topic_names"] = names
        outcome = bench.send(frame)
        if then == "report":
            assert isinstance(outcome, Send)
            assert outcome.frame == frame
        else:
            assert isinstance(outcome, Answer)
            assert response_in(outcome, 13)[""][0] == error


def test_an_id_in_a_header_counts() -> None:
    bench = Validating(values="payload")
    bench.orders = AvroSerializer(
        bench.registry, json.dumps(ORDER), conf={"schema.id.serializer": header_schema_id_serializer}
    )
    headers: list[tuple[str, bytes]] = []
    value = bench.orders({"country": "DE"}, SerializationContext("orders", MessageField.VALUE, headers))
    unknown = [(name, data[:1] + b"\1" * 16) for name, data in headers]
    assert isinstance(bench.produced(("orders", [value]), headers=unknown), Answer)
    assert bench.counted() == {("rejected", "unknown id"): 1}


def test_json_schema_holds() -> None:
    bench = Validating(values="payload")
    valid = bench.write("bills", {"total": 7})
    outcome = bench.produced(("bills", [valid, valid[:5] + json.dumps({"total": -1, "note": SECRET}).encode()]))
    assert isinstance(outcome, Answer)
    (answer,) = response_in(outcome).values()
    assert answer[1] == [1]
    assert "minimum" in answer[2]
    assert SECRET not in f"{answer}{bench.runtime.warnings}{bench.counted()}"


def test_records_are_marked_or_reported() -> None:
    for then in ("mark", "report"):
        bench = Validating(then=then)
        valid = bench.write("orders", {"country": "DE"})
        outcome = bench.produced(("orders", [valid, b"{}"]), headers=[("own", b"x")])
        assert isinstance(outcome, Send)
        sent = request_in(outcome.frame)
        (batch,) = read_records(sent.topic_data[0].partition_data[0].records)
        marks = [("own", b"x"), ("kproxy-invalid", b"value: it names no schema")]
        assert [record.headers for record in batch.records] == [marks[:1], marks if then == "mark" else marks[:1]]
        assert bench.counted() == {("marked" if then == "mark" else "reported", "without schema"): 1}


def test_a_topic_with_a_schema_of_its_own() -> None:
    bench = Validating(chosen={("orders", "value"): Schema(json.dumps(ORDER))}, values="payload")
    framed = bench.write("orders", {"country": "DE"})
    outcome = bench.produced(("orders", [framed, framed[5:], b"\x99"]))
    assert isinstance(outcome, Answer)
    assert response_in(outcome)["orders"][1] == [2]


@pytest.mark.parametrize("away", ["pass", "invalid"])
def test_a_registry_that_is_away(away: str) -> None:
    registry = Registry(RegistryOptions(url=f"http://127.0.0.1:{free_ports()}"), wait_s=0.0)
    bench = Validating(registry, away=away)
    outcome = bench.produced(("orders", [bench.write("orders", {"country": "DE"})]))
    assert isinstance(outcome, Send if away == "pass" else Answer)
    assert list(bench.counted()) == [("unchecked" if away == "pass" else "rejected", "registry away")]


def test_without_sources_of_schemas() -> None:
    runtime = CallingRuntime()
    with pytest.raises(UsageError, match="validate needs schemas"):
        Chain([load_filter("validate", {"rules": [{}]})], runtime=runtime)


def test_deny_by_the_fields_of_records() -> None:
    rule = {
        "when": 'record.value.country == "DE" && clientId == "app"',
        "api_name": ["Produce"],
        "error": "POLICY_VIOLATION",
    }
    bench = Validating()
    bench.use(load_filter("deny", {"rules": [rule]}))
    german, french = (bench.write("orders", {"country": country}) for country in ("DE", "FR"))
    assert isinstance(bench.produced(("orders", [french, french])), Send)
    outcome = bench.produced(("orders", [french, german]))
    assert isinstance(outcome, Answer)
    assert response_in(outcome)["orders"][0] == ErrorCode.POLICY_VIOLATION
    mixed = bench.produced(("orders", [french, german]), ("bills", [bench.write("bills", {"country": "FR"})]))
    assert isinstance(mixed, Send)
    assert b"bills" in mixed.frame and b"orders" not in mixed.frame
    assert isinstance(bench.produced(("orders", [None])), Answer)  # a condition that cannot be answered refuses
    with pytest.raises(UsageError, match="for Produce alone"):
        load_filter("deny", {"rules": [{**rule, "api_name": ["Fetch"]}]})


def test_an_id_registered_under_several_subjects() -> None:
    bench = Validating()
    bench.registry.register_schema("returns-value", RegistrySchema(json.dumps(ORDER), "AVRO"))
    value = bench.write("orders", {"country": "DE"})
    assert isinstance(bench.produced(("returns", [value])), Answer)
    number = int.from_bytes(value[1:5], "big")
    bench.runtime.given_schemas.sources[1].add(Schema(json.dumps(ORDER), id=number, subject="returns-value"))  # type: ignore[attr-defined]
    assert isinstance(bench.produced(("returns", [value])), Send)
    assert isinstance(bench.produced(("orders", [value])), Send)


def metadata(bench: Validating, *topics: str, leader: int = 0, other: int = 8) -> tuple[list[str], list[str]]:
    """Ask about topics through the filter; return which the broker was asked about, and which the client sees."""
    outcome = bench.ask("MetadataRequest", 9, topics=[{"name": name} for name in topics])
    assert isinstance(outcome, Send)
    sent = request_in(outcome.frame)
    names = [topic.name for topic in sent.topics]
    host, port = bench.at.broker.split(":")
    brokers = [{"node_id": node, "host": host, "port": int(port) + node} for node in (0, 8)]
    of_topic = [{"partition_index": at, "leader_id": leader if at == 3 else other} for at in (1, 3)]
    known = [{"name": name, "partitions": of_topic} for name in names]
    seen = bench.answered(outcome, brokers=brokers, topics=known)
    return names, [topic.name for topic in seen.topics]


@pytest.mark.parametrize("error", [0, ErrorCode.MESSAGE_TOO_LARGE])
def test_copies_of_refused_records_go_to_the_dead_letter_topic(error: int) -> None:
    bench = Validating(then="dead_letter", topics=["orders"])
    assert metadata(bench, "orders", "bills") == (["orders", "bills", "orders-dead-letters"], ["orders", "bills"])
    valid, bill = bench.write("orders", {"country": "DE"}), bench.write("bills", {"total": 7})
    outcome = bench.produced(("orders", [valid, b"{}"]), ("bills", [bill]), headers=[("own", b"x")], key=b"k")
    assert isinstance(outcome, Send) and outcome.request is not None
    sent = request_in(outcome.frame)
    assert [topic.name for topic in sent.topic_data] == ["bills", "orders-dead-letters"]
    (copies,) = sent.topic_data[1].partition_data
    assert copies.index == 3  # the partition that this broker leads
    ((letter,),) = (batch.records for batch in read_records(copies.records))
    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"{}", 1)
    said = {"kproxy-invalid": b"value: it names no schema", "kproxy-invalid-topic": b"orders"}
    assert dict(letter.headers) == {"own": b"x", **said, "kproxy-invalid-partition": b"0"}
    done = [{"index": 0}]
    refused = [{"index": 3, "error_code": error}]
    topics = [
        {"name": name, "partition_responses": rows}
        for name, rows in (("bills", done), ("orders-dead-letters", refused))
    ]
    answered = bench.answer(outcome.request, answer_frame("ProduceResponse", 9, responses=topics))
    assert {name: row[:2] for name, row in response_in(answered).items()} == {
        "bills": (0, []),
        "orders": (ErrorCode.INVALID_RECORD, [1]),
    }
    assert bench.counted()["dead letters", "refused by the broker" if error else "written"] == 1
    said = f"1 record for the topic orders-dead-letters: {error_code(error).name}: {error_code(error).meaning[:-1]}. What to do: "
    expected = ("validate: dead letters were refused by the broker", said + error_code(error).then)
    assert (expected in bench.runtime.warnings) is bool(error)


def test_without_a_partition_for_dead_letters_records_are_refused_alone() -> None:
    bench = Validating(then="dead_letter", topics=["orders"])
    metadata(bench, "orders", leader=8)  # another broker's
    assert isinstance(bench.produced(("orders", [b"{}"])), Answer)
    assert bench.counted()["dead letters", "not written"] == 1
    unreadable = write_batches([RecordBatch([Record(value=b"{}")], codec=Codec.GZIP)])[:-9] + bytes(9)
    dead = {"index": 3, "records": unreadable}
    orders = [{"name": "orders", "partition_data": [dead]}]
    itself = [*orders, {"name": "orders-dead-letters", "partition_data": [dead]}]
    bench.runtime.at += 1
    metadata(bench, "orders")
    for version, topics in ((2, orders), (9, itself), (9, orders)):
        bench.ask("ProduceRequest", version, acks=-1, topic_data=topics)
    said = [reason for event, reason in bench.runtime.warnings if event == "validate: dead letters were not written"]
    begin = "1 record for the topic orders-dead-letters: "
    assert said == [begin + why for why in (NOT_LED, TOO_OLD, WRITES_ITSELF, UNREADABLE)]


def test_dead_letters_never_make_a_request_so_large_that_valid_records_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As compressed records are a thousand times larger where they are not compressed."""
    bench = Validating(then="dead_letter", topics=["orders"])
    metadata(bench, "orders")
    called: list[Any] = []
    in_thread = bench.runtime.in_thread
    monkeypatch.setattr(bench.runtime, "in_thread", lambda work: called.append(work) or in_thread(work))
    large = write_batches(
        [RecordBatch([Record(offset=at, value=b"%d" % at + bytes(400_000)) for at in range(20)], codec=Codec.GZIP)]
    )
    small = write_batches([RecordBatch([Record(value=b"{}", headers=[("\udcff", b"")])])])
    bill = write_batches([RecordBatch([Record(value=bench.write("bills", {"total": 7}))])])
    topics = [
        {"name": name, "partition_data": [{"index": at, "records": field} for at, field in enumerate(fields)]}
        for name, fields in (("bills", [bill]), ("orders", [large, large, large, small]))
    ]
    outcome = bench.ask("ProduceRequest", 9, acks=-1, topic_data=topics)
    assert len(bench.frame) < 100_000
    assert isinstance(outcome, Send)
    assert len(outcome.frame) < 1_048_576
    sent = request_in(outcome.frame)
    assert [topic.name for topic in sent.topic_data] == ["bills", "orders-dead-letters"]
    assert sent.topic_data[0].partition_data[0].records == bill
    (batch,) = read_records(sent.topic_data[1].partition_data[0].records)
    assert [(record.value or b"")[:2] for record in batch.records] == [b"0\0", b"1\0", b"{}"]
    assert bench.counted()["dead letters", "not written"] == 58
    assert ("validate: dead letters were not written", ANY) in bench.runtime.warnings
    assert len(called) >= 4  # they are made in a thread


def test_all_workers_know_who_leads_a_dead_letter_partition_now() -> None:
    """Also when a broker leads again what it led before: first one, then the other, then the first."""
    benches = [Validating(then="dead_letter", topics=["orders"]) for _ in range(2)]
    sets = [BoundedSet(on_new=lambda text, at=at: sets[1 - at].receive([text])) for at in range(2)]  # type: ignore[misc]
    for bench, shared in zip(benches, sets, strict=True):
        bench.runtime.kept["shared validate dead letters"] = shared
    for leader, other in ((0, 8), (8, 0), (0, 8), (8, 8)):
        benches[0].runtime.at += 1
        metadata(benches[0], "orders", leader=leader, other=other)
        for bench in benches:
            outcome = bench.produced(("orders", [b"{}"]))
            if leader == other == 8:
                assert isinstance(outcome, Answer)
                continue
            assert isinstance(outcome, Send)
            sent = request_in(outcome.frame)
            assert sent.topic_data[0].partition_data[0].index == (3 if leader == 0 else 1)


def test_all_invalid_records_are_named_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer takes the others for valid, and sends them again."""
    bench = Validating(topics=["orders"])
    outcome = bench.produced(("orders", [b"{}"] * 3_000))
    assert isinstance(outcome, Answer)
    assert response_in(outcome)["orders"][1] == list(range(3_000))
    monkeypatch.setattr("kproxy.filters.validate.MOST_NAMED", 50)
    monkeypatch.setattr("kproxy.filters.validate.MOST_SENTENCES", 100)
    outcome = bench.produced(("orders", [b"{}"] * 60))
    assert isinstance(outcome, Answer)
    answer: Any = message("ProduceResponse").decode(9, outcome.frame, 9)
    (partition,) = answer.responses[0].partition_responses
    said = [error.batch_index_error_message for error in partition.record_errors]
    assert said == ["value: it names no schema"] * 4 + [None] * 46
    assert partition.error_message == "a record is not what its schema describes; 10 more invalid records are not named"


def test_dead_letters_fit_into_a_batch_when_they_are_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the broker takes 1,048,588 bytes; on the first request the data key of their topic is not known yet."""
    monkeypatch.setitem(loading.BUILT_IN, "given", "tests.support.encryption:GivenService")
    GivenService.keys = GivenKeys()
    bench = Validating(then="dead_letter", topics=["orders"])
    wrapped = b64encode(GivenService.keys.new_data_key("kek-k").wrapped).decode()
    of_keys = {"key": "kek-k", "wrapped": wrapped}
    rule = {"topics": ["orders*"], "key": "kek", "headers": ["*"], "record_keys": of_keys}
    filters = [*bench.chain.filters, load_filter("encrypt", {"keys": {"use": "given"}, "rules": [rule]})]
    bench.use(*(one for one in filters if one.name in ("validate", "encrypt")))
    metadata(bench, "orders")

    async def sleep(seconds: float) -> None:
        bench.runtime.at += seconds
        time.sleep(0.01)  # the key service is asked in a thread

    monkeypatch.setattr(bench.runtime, "sleep", sleep)
    for _ in range(2):
        outcome = bench.produced(("orders", [b"x" * 100] * 3_000))
        assert isinstance(outcome, Send)
        sent = request_in(outcome.frame)
        (copies,) = sent.topic_data[0].partition_data
        (batch,) = read_records(copies.records)
        written = len(batch.records)
    assert all((record.value or b"").startswith(b"\xc3KPE") for record in batch.records)
    assert 950_000 < len(copies.records) <= 1_048_588
    (said,) = (reason for event, reason in bench.runtime.warnings if event == "validate: dead letters were not written")
    assert "for the topic orders-dead-letters: a request has room for 1,040,000 bytes" in said
    assert bench.counted()["dead letters", "not written"] > 3_000 - written > 0
