"""Keys and values of stopped messages edited by their schemas, against fastavro and Confluent's wire format."""

import io
import json
from typing import Any

import fastavro
import pytest

from kproxy.filters.breakpoints.described import DescribedContents
from kproxy.filters.breakpoints.editing import Mistake, from_json, shown
from kproxy.protocol import message
from kproxy.protocol.records import Codec, Record
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.schemas.store import Collection, Schema, Schemas
from tests.support.messages import make

PRODUCE = message("ProduceRequest")
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string", "bytes"]}],
}
PROTO = 'syntax = "proto3"; message Other { int32 x = 1; } message Order { int64 id = 1; }'
HEAD, PROTO_HEAD = b"\0\0\0\0\x07", b"\0\0\0\0\x08\x02\x02"  # the id of the schema; the second message of the file
AVRO_NAME, PROTO_NAME = "orders-value, version 3, id 7 (confluent)", "id 8 (confluent)"


def avro(value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(ORDER), value)
    return HEAD + stream.getvalue()


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    collection = Collection("a folder")
    collection.add(Schema(json.dumps(ORDER), id=7, subject="orders-value", version=3))
    collection.add(Schema(PROTO, "PROTOBUF", id=8))
    return Schemas([collection])


def produce(*records: Record) -> bytes:
    batch = RecordBatch(list(records), codec=Codec.GZIP)
    topic = {"name": "orders", "partition_data": [{"index": 0, "records": write_batches([batch])}]}
    return PRODUCE.encode(9, make(PRODUCE.name, topic_data=[topic]))


def records_of(body: bytes) -> list[Record]:
    decoded: Any = PRODUCE.decode(9, body)
    (batch,) = read_records(decoded.topic_data[0].partition_data[0].records)
    return batch.records


BODY = produce(
    Record(offset=0, timestamp=5, key=b"k", value=avro({"id": 1, "note": ("bytes", b"i\xb7\x1d")})),  # abcd in base64
    Record(offset=1, timestamp=6, key=PROTO_HEAD + b"\x08\x01\x78\x09", value=avro({"id": 2, "note": "x"})),
    Record(offset=2, timestamp=7, key=None, value=b"\0\0\0\0\x07too much"),
)


def edited(schemas: Schemas, change: Any) -> bytes:
    """The body after *change* was applied to the list of its records."""
    tree = json.loads(shown(PRODUCE, 9, BODY, contents=DescribedContents(schemas)))
    change(tree["topicData"][0]["partitionData"][0]["records"][0]["records"])
    return from_json(PRODUCE, 9, json.dumps(tree), BODY, DescribedContents(schemas))


def test_a_value_is_edited_as_json(schemas: Schemas) -> None:
    def change(records: list[Any]) -> None:
        assert records[0]["key"] == "k"
        assert records[0]["value"] == {"schema": AVRO_NAME, "json": {"id": 1, "note": "abcd"}}
        assert records[1]["key"] == {"schema": PROTO_NAME, "json": {"id": 1}}
        assert records[2]["value"] == "\0\0\0\0\7too much"  # what its schema does not describe stays as it is
        records[0]["value"]["json"]["id"] = 100
        records[1]["key"]["json"]["id"] = 2
        records.append({**records[1], "key": None, "value": {"schema": AVRO_NAME, "json": {"id": 3, "note": None}}})

    records = records_of(edited(schemas, change))
    assert records[0].value == avro({"id": 100, "note": ("bytes", b"i\xb7\x1d")})  # the type of the union as it was
    assert records[1].value == avro({"id": 2, "note": "x"})
    assert records[1].key == PROTO_HEAD + b"\x08\x02\x78\x09"  # field 15, which the schema does not name, too
    assert records[2].value == b"\0\0\0\0\7too much"
    assert records[3].value == avro({"id": 3, "note": None})


def test_an_unchanged_message_keeps_its_bytes(schemas: Schemas) -> None:
    assert edited(schemas, lambda records: None) == BODY


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda one: one["json"].update(id="x"), ".json.id: is not a whole number"),
        (lambda one: one["json"].update(more=1), ".json.more: is not a field of the schema"),
        (lambda one: one.update(schema="bills"), ".schema: is none of the schemas of a value in this message"),
        (lambda one: one.pop("json"), ": has schema and json, and nothing else"),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(schemas: Schemas, change: Any, sentence: str) -> None:
    with pytest.raises(Mistake) as raised:
        edited(schemas, lambda records: change(records[0]["value"]))
    assert str(raised.value) == f"topicData[0].partitionData[0].records[0].records[0].value{sentence}"
    assert raised.value.line is not None
