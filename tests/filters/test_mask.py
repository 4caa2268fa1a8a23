"""Fields of records hidden from those that fetch them."""

import asyncio
import importlib
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kproxy.errors import UsageError
from kproxy.filters.contract import RequestFacts, Send
from kproxy.filters.loading import load_filter
from kproxy.protocol.records import Codec, Record, read_batches
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.schemas.store import Collection, Schema, Schemas
from tests.support.filtering import Bench, CallingRuntime, connection
from tests.support.messages import answer_frame, answer_in

RULES = [{"topics": ["people*"], "fields": ["$.email", "$.card.number"]}]
PERSON = {"id": 1, "email": "canary@example.com", "card": {"number": "4111", "type": "x"}}
HIDDEN = {"id": 1, "email": "***", "card": {"number": "***", "type": "x"}}


def field(*values: bytes | None, codec: Codec = Codec.NONE, magic: int = 2, **fields: Any) -> bytes:
    records = [
        Record(offset=5 + at, timestamp=at, key=b'{"email":"k"}', value=value) for at, value in enumerate(values)
    ]
    return write_batches([RecordBatch(records, magic, codec=codec, base_offset=5, **fields)])


def person(**more: Any) -> bytes:
    return json.dumps({**PERSON, **more}).encode()


OTHER, PEOPLE = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"  # topic ids
UNKNOWN_TOPIC_ID = 100


class Masking(Bench):
    def __init__(self, **options: Any) -> None:
        super().__init__(load_filter("mask", {"rules": RULES, **options}), runtime=CallingRuntime())

    def fetch(self, records: bytes | None, topic: str = "people", version: int = 12) -> Any:
        return super().fetch(records, topic, version)

    def share_fetch(self, records: bytes, topic_id: str, ranges: Any = ()) -> Any:
        """The partition that a member of a share group reads."""
        acquired = [{"first_offset": a, "last_offset": b} for a, b in ranges]
        partition = {"partition_index": 2, "records": records, "acquired_records": acquired}
        told = {"topic_id": topic_id, "partitions": [partition]}
        sent = self.answer(RequestFacts(78, 1, 7), answer_frame("ShareFetchResponse", 1, responses=[told]))
        assert isinstance(sent, Send)
        self.given = sent.frame
        return answer_in(78, 1, self.given).responses[0].partitions[0]

    def withheld(self) -> dict[str, int]:
        """Why batches were not given out, and how many."""
        return {name: count for (event, name), count in self.counted().items() if event == "withheld"}


def first_value(partition: Any) -> bytes:
    """The value of the first record that a client gets."""
    return read_records(partition.records)[0].records[0].value or b""


@pytest.mark.parametrize("codec", Codec)
def test_fields_are_hidden_and_the_rest_is_as_it_was(codec: Codec) -> None:
    plain = b'{"id":1,"big":123456789012345678901234567890}'
    fields = {"producer_id": 4, "base_sequence": 2, "last_offset": 30}
    bench = Masking()
    partition = bench.fetch(field(person(), None, plain, codec=codec, **fields))
    assert b"canary" not in bench.given
    (batch,) = read_records(partition.records)
    assert [record.value and json.loads(record.value) for record in batch.records] == [HIDDEN, None, json.loads(plain)]
    assert batch.records[2].value == plain
    assert [(r.offset, r.timestamp, r.sequence, r.key) for r in batch.records] == [
        (5, 0, 2, b'{"email":"k"}'),
        (6, 1, 3, b'{"email":"k"}'),
        (7, 2, 4, b'{"email":"k"}'),
    ]
    assert (batch.codec, batch.producer_id, batch.last_offset, partition.high_watermark) == (codec, 4, 30, 9)
    assert read_batches(partition.records)[0].crc_valid


@pytest.mark.parametrize("magic", [0, 1])
def test_older_magics(magic: int) -> None:
    bench = Masking()
    assert json.loads(first_value(bench.fetch(field(person(), magic=magic), version=4))) == HIDDEN
    assert b"canary" not in bench.given


def test_topics_without_rules_and_records_without_the_fields_are_as_they_came() -> None:
    for records, topic in (
        (field(person()), "other"),
        (field(b'{"id":1}'), "people"),
        (None, "people"),
        (b"", "people"),
    ):
        bench = Masking()
        bench.fetch(records, topic)
        assert bench.given == bench.frame


@pytest.mark.parametrize(("policy", "expected"), [("pass", b"canary, no JSON"), ("blank", b"")])
def test_values_that_are_no_json(policy: str, expected: bytes) -> None:
    assert first_value(Masking(other_values=policy).fetch(field(b"canary, no JSON"))) == expected


def test_keys_when_asked_for() -> None:
    partition = Masking(keys=True).fetch(field(person()))
    assert read_records(partition.records)[0].records[0].key == b'{"email":"***"}'


def test_a_batch_that_cannot_be_read_is_not_given_out() -> None:
    damaged = bytearray(field(person()))
    damaged[-1] ^= 1
    bench = Masking()
    partition = bench.fetch(bytes(damaged))
    assert (partition.error_code, partition.records) == (2, b"")
    assert len(read_records(bench.fetch(field(person()) + bytes(damaged)).records)) == 1
    assert b"canary" not in bench.given
    assert bench.withheld() == {"cannot be read": 2}
    assert len(bench.runtime.warnings) == 1


def test_a_batch_that_unpacks_to_too_much_is_not_given_out() -> None:
    bench = Masking()
    bomb = write_batches([RecordBatch([Record(value=bytes(4 << 20))], codec=Codec.ZSTD)])
    partition = bench.fetch(bomb)
    assert (partition.error_code, partition.records) == (2, b"")
    assert bench.withheld() == {"unpack to too much": 1}


def test_the_part_of_a_batch_at_the_end_is_not_given_out() -> None:
    assert Masking().fetch(field(b'{"id":1}') + field(person())[:-3]).records == field(b'{"id":1}')


@pytest.mark.parametrize(("version", "records"), [(2, field(person())[:12]), (3, b""), (12, b"")])
def test_a_first_batch_that_is_cut_off_is_as_brokers_give_it(version: int, records: bytes) -> None:
    # ReplicaManager.readFromLog gives the part to clients of Fetch before version 3, which ask for more; to others nothing
    partition = Masking().fetch(field(person())[:-3], version=version)
    assert (partition.records, partition.error_code) == (records, 0)


@pytest.mark.parametrize(
    "records", [b"\0" * 8 + b"\0\0\0\1" + b"x" * 40, field(person())[:16] + b"\3" + field(person())[17:]]
)
def test_what_is_no_batch_is_not_given_out(records: bytes) -> None:
    bench = Masking()
    partition = bench.fetch(records)
    assert (partition.error_code, partition.records, bench.withheld()) == (2, b"", {"cannot be read": 1})


def test_share_fetch_acquires_only_what_is_given_out() -> None:
    bench = Masking()
    bench.runtime.kept["topic_names"][PEOPLE] = "people"
    damaged = bytearray(field(person()))
    damaged[-1] ^= 1
    ranges = [(3, 4), (5, 5), (5, 7), (6, 9)]
    partition = bench.share_fetch(field(person()) + bytes(damaged), PEOPLE, ranges)
    assert [(each.first_offset, each.last_offset) for each in partition.acquired_records] == [(3, 4), (5, 5), (5, 5)]
    assert partition.error_code == 0
    partition = bench.share_fetch(bytes(damaged), PEOPLE, ranges)
    assert (partition.acquired_records, partition.error_code) == ([], 2)


def large(batches: int) -> bytes:
    """A Fetch response with so many batches of 300 KB."""
    records = field(*[person()] * 3_000) * batches
    return answer_frame("FetchResponse", 12, responses=[{"topic": "people", "partitions": [{"records": records}]}])


def test_many_records_are_masked_aside_and_in_turns() -> None:
    """In a thread, of which there is one for all: what came later and is less has not to wait until what came before is done."""
    bench = Masking()
    asides: list[Any] = []
    done: list[str] = []

    async def scenario() -> list[Send]:
        with ThreadPoolExecutor(1) as pool:

            async def in_thread(function: Callable[[], Any]) -> Any:
                result = await asyncio.get_running_loop().run_in_executor(pool, function)
                asides.append(result)
                return result

            async def answer(name: str, frame: bytes) -> Send:
                outcome = bench.chain.on_response(connection(), RequestFacts(1, 12, 7), frame)
                assert isinstance(outcome, Awaitable)
                sent = await outcome
                assert isinstance(sent, Send)
                done.append(name)
                return sent

            bench.runtime.in_thread = in_thread  # type: ignore[method-assign]
            return await asyncio.gather(answer("long", large(8)), answer("short", large(1)))

    long, short = asyncio.run(scenario())
    assert done == ["short", "long"]
    assert len(asides) == 9 + 2  # a batch at a time, and each frame is finished
    for sent, batches in ((long, 8), (short, 1)):
        assert b"canary" not in sent.frame
        found = read_records(answer_in(1, 12, sent.frame).responses[0].partitions[0].records)
        assert [len(batch.records) for batch in found] == [3_000] * batches


def test_a_damaged_batch_among_many_ends_what_is_given_out() -> None:
    bench = Masking()
    bench.runtime.in_thread = CallingRuntime().in_thread
    whole, damaged = field(*[person()] * 500), bytearray(field(person()))
    damaged[-1] ^= 1
    assert len(read_records(bench.fetch(whole * 5 + bytes(damaged) + whole).records)) == 5
    assert (b"canary" in bench.given, bench.withheld()) == (False, {"cannot be read": 1})


def test_topics_by_id() -> None:
    bench = Masking()
    bench.runtime.kept["topic_names"] = {OTHER: "other", PEOPLE: "people"}
    bench.fetch(field(person()), OTHER, 13)
    assert bench.given == bench.frame
    assert json.loads(first_value(bench.fetch(field(person()), PEOPLE, 13))) == HIDDEN


def test_a_topic_whose_name_is_not_known_is_not_given_out_until_the_client_has_asked_for_metadata() -> None:
    """Neither are its fields given out, nor is one that no rule names changed. An empty response needs no name."""
    bench = Masking()
    partition = bench.fetch(field(person()), PEOPLE, 13)
    assert (partition.error_code, partition.records) == (UNKNOWN_TOPIC_ID, b"")
    partition = bench.share_fetch(field(person()), PEOPLE, [(5, 5)])
    assert (partition.error_code, partition.records, partition.acquired_records) == (UNKNOWN_TOPIC_ID, b"", [])
    bench.fetch(b"", PEOPLE, 13)
    assert bench.given == bench.frame


def test_rules_for_all_topics_need_no_names() -> None:
    bench = Masking(rules=[{"fields": ["$.email", "$.card.number"]}])
    assert not bench.filter.names_topics
    for partition in (bench.fetch(field(person()), PEOPLE, 13), bench.share_fetch(field(person()), PEOPLE)):
        assert b"canary" not in partition.records and b"***" in partition.records


def test_control_batches_are_as_they_came() -> None:
    control = field(b"\0\0\0\0\0\0", attributes=0x30, producer_id=4)
    bench = Masking()
    bench.fetch(control)
    assert bench.given == bench.frame


def test_mistakes_in_options() -> None:
    for rule, words in (
        ({"fields": []}, r"rules\[0\].fields: the list is empty"),
        ({}, r"rules\[0\].fields: it is missing"),
        ({"fields": ["$.a"], "topics": []}, r"rules\[0\].topics: the list is empty"),
        ({"fields": ["$.a", "email"]}, r"rules\[0\].fields\[1\]: 'email' is no JSON path"),
        ({"fields": ["$.a"], "topics": "people"}, r"rules\[0\].topics: expected a list; found .*: write \[.people.\]"),
    ):
        with pytest.raises(UsageError, match=words):
            load_filter("mask", {"rules": [rule]})
    with pytest.raises(UsageError, match="rules: the list is empty"):
        load_filter("mask", {"rules": []})


@pytest.mark.parametrize("written", ["null", None])
def test_null_with_and_without_quotes(written: str | None) -> None:
    assert json.loads(first_value(Masking(replace_by=written).fetch(field(person()))))["email"] is None


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "email", "type": "string"},
        {
            "name": "card",
            "type": ["null", {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "long"}]}],
        },
        {"name": "lines", "type": {"type": "array", "items": ["null", "Card"]}},
        {"name": "note", "type": "bytes"},
    ],
}
PROTO = """
syntax = "proto3";
message Card { int64 number = 1; string owner = 2; }
message Order { int64 id = 1; string email = 2; Card card = 3; map<string, Card> lines = 4; repeated string notes = 5; }
"""


def test_fields_are_hidden_by_schema(tmp_path: Path) -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://masks"})
    context = SerializationContext("people", MessageField.VALUE)
    card = {"number": 4111}
    order = {"id": 7, "email": "canary@example.com", "card": card, "lines": [card, None, card], "note": b"n"}
    avro = AvroSerializer(registry, json.dumps(ORDER))(order, context)
    (tmp_path / "mask_order.proto").write_text(PROTO)
    words = [sys.executable, "-m", "grpc_tools.protoc", f"-I{tmp_path}", f"--python_out={tmp_path}", "mask_order.proto"]
    subprocess.run(words, check=True)
    sys.path.insert(0, str(tmp_path))
    try:
        made = importlib.import_module("mask_order_pb2")
    finally:
        sys.path.remove(str(tmp_path))
    value = made.Order(id=7, email="canary", card=made.Card(number=4111, owner="x"), notes=["a", "b"])
    value.lines["one"].number = 4111
    protobuf = ProtobufSerializer(made.Order, registry)(value, SerializationContext("people-proto", MessageField.VALUE))

    bench = Masking(rules=[{"fields": ["$.email", "$.card.number", "$.lines[*].number", "$.notes[0]"]}])
    collection = Collection("a registry")
    for subject in ("people-value", "people-proto-value"):
        latest = registry.get_latest_version(subject)
        collection.add(Schema(latest.schema.schema_str, latest.schema.schema_type or "AVRO", latest.schema_id, subject))
    bench.runtime = CallingRuntime()
    bench.runtime.given_schemas = Schemas([collection])
    bench.use(bench.filter)
    unknown = b"\0\0\0\0\x63" + avro[5:]
    masked = bench.fetch(field(avro, protobuf, person(), unknown, avro[:-1], codec=Codec.GZIP))
    first, second, third, *blank = (record.value for record in read_records(masked.records)[0].records)
    none = {"number": 0}
    assert AvroDeserializer(registry)(first, context) == {
        **order,
        "email": "***",
        "card": none,
        "lines": [none, None, none],
    }
    read = ProtobufDeserializer(made.Order, {"use.deprecated.format": False}, registry)(second, context)
    expected = made.Order(id=7, email="***", card=made.Card(owner="x"), notes=["***", "***"])
    expected.lines["one"].number = 0
    assert read == expected
    assert json.loads(third) == HIDDEN | {"card": {"number": "***", "type": "x"}}
    assert blank == [b"", b""]
