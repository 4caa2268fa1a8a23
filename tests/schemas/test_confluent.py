"""Values that Confluent's own serializers wrote, against what Confluent's own deserializers read."""

import datetime
import importlib
import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format

from kproxy.output.rewriting.anonymize import Pseudonyms, ValuePseudonyms
from kproxy.protocol.embedded.viewers import Content, Viewers
from kproxy.schemas.formats import ValueMismatch
from kproxy.schemas.store import Collection, Schemas, schema_of
from kproxy.schemas.viewer import NO_INDEXES, SchemaViewer, make_viewers

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "number", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "parent", "type": ["null", "Order"], "default": None},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
import "money.proto";
import "google/protobuf/timestamp.proto";
message Other { int32 x = 1; }
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { string sku = 1; sint32 count = 2; }
  uint64 id = 1;
  repeated Line lines = 2;
  shop.Money price = 3;
  google.protobuf.Timestamp at = 4;
  oneof contact { string email = 5; fixed32 phone = 6; }
  map<string, double> weights = 7;
  State state = 8;
  bytes hash = 9;
  optional bool gift = 10;
}
"""
KAFKAJS = "0000000002080b1202444519499224499224f93f22050a03733131"
MONEY = 'syntax = "proto3"; package shop; message Money { string currency = 1; int64 units = 2; }'


def order(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    return {
        "id": chance.randrange(-(2**63), 2**63),
        "amount": Decimal(chance.randrange(-(10**11), 10**11)) / 100,
        "at": datetime.datetime.fromtimestamp(chance.randrange(2 * 10**9), datetime.UTC),
        "day": datetime.date.fromordinal(chance.randrange(700_000, 750_000)),
        "country": chance.choice([None, "DE", "Ελλάδα"]),
        "number": str(UUID(int=chance.getrandbits(128))),
        "state": chance.choice(["NEW", "PAID"]),
        "lines": [{"a": chance.random(), "ü": -1e300} for _ in range(chance.randrange(4))],
        "hash": chance.randbytes(4),
        "parent": order(chance, depth + 1) if depth < 3 and chance.random() < 0.5 else None,
    }


def as_json(value: Any) -> Any:
    """What the deserializer returned, as JSON has it; written for this test."""
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return __import__("base64").b64encode(value).decode()
    return str(value) if isinstance(value, Decimal | UUID | datetime.date) else value


@pytest.fixture
def registry() -> SchemaRegistryClient:
    return SchemaRegistryClient.new_client({"url": "mock://registry"})


def viewers_of(registry: SchemaRegistryClient, *subjects: str) -> Viewers:
    """Viewers that know what the registry has of some subjects."""
    collection = Collection("a registry")
    for subject in subjects:
        latest = registry.get_latest_version(subject)
        references = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in latest.schema.references or ()
        ]
        fields = {"schema": latest.schema.schema_str, "schemaType": latest.schema.schema_type, "references": references}
        collection.add(schema_of(fields, id=latest.schema_id, subject=subject, version=latest.version))
        if latest.guid:
            collection.add(schema_of(fields, id=latest.guid, subject=subject, version=latest.version))
    return make_viewers(Schemas([collection]))


def shown(viewers: Viewers, data: bytes, *headers: tuple[str, bytes | None]) -> dict[str, Any]:
    view = viewers.view(data, Content("orders", "value", headers))
    assert view is not None
    assert viewers.faults == {}
    result: dict[str, Any] = json.loads(json.dumps(view))["schema"]
    return result


def rewritten(viewers: Viewers, data: bytes, value: object, *headers: tuple[str, bytes | None]) -> bytes:
    """A key or value with another value in it, in the same framing."""
    schemas = SchemaViewer.of(viewers).schemas
    located = schemas.locate(data, "orders", "value", headers)
    assert located is not None
    return schemas.write(located, value)


SUBSTITUTES = ValuePseudonyms(Pseudonyms(b"a key of the tests"))


def anonymized(viewers: Viewers, data: bytes) -> bytes:
    schemas = SchemaViewer.of(viewers).schemas
    located = schemas.locate(data, "orders")
    assert located is not None
    return schemas.substituted(located, SUBSTITUTES)


def same_layout(before: Any, after: Any) -> bool:
    """Both have the same fields, of the same types; only names in maps are others."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = {"ü", "a", "k", "", "Ω"} & before.keys()
        return (names or before.keys() == after.keys()) and all(map(same_layout, before.values(), after.values()))
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(same_layout, before, after))
    return type(before) is type(after)


MANY = [300, pytest.param(10_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", MANY)
def test_avro(registry: SchemaRegistryClient, count: int) -> None:
    write = AvroSerializer(registry, json.dumps(ORDER))
    read = AvroDeserializer(registry)
    context, chance = SerializationContext("orders", MessageField.VALUE), random.Random(count)
    written = [write(order(chance), context) for _ in range(count)]
    viewers = viewers_of(registry, "orders-value")
    for data, other in zip(written, written[1:] + written[:1], strict=True):
        view = shown(viewers, data)
        assert (view["framing"], view["subject"], view["type"]) == ("confluent", "orders-value", "AVRO")
        assert view["value"] == as_json(read(data, context))
        assert rewritten(viewers, data, view["value"]) == data
        assert read(rewritten(viewers, other, view["value"]), context) == read(data, context)
        replaced = read(anonymized(viewers, data), context)
        assert same_layout(read(data, context), replaced)
        kept = {"id", "amount", "at", "day", "number", "hash"} & {
            n for n in replaced if replaced[n] == read(data, context)[n]
        }
        assert not kept


def test_json_schema(registry: SchemaRegistryClient) -> None:
    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    write = JSONSerializer(json.dumps(schema), registry)
    context = SerializationContext("orders", MessageField.VALUE)
    data = write({"id": 7, "note": "ü"}, context)
    viewers = viewers_of(registry, "orders-value")
    assert shown(viewers, data)["value"] == {"id": 7, "note": "ü"}
    read = JSONDeserializer(None, schema_registry_client=registry)
    assert read(rewritten(viewers, data, {"id": 8, "note": "Ελ"}), context) == {"id": 8, "note": "Ελ"}
    replaced = read(anonymized(viewers, data), context)
    assert replaced.keys() == {"id", SUBSTITUTES.text("note")}  # which is not among the properties of the schema
    assert replaced["id"] in range(10)
    with pytest.raises(ValueMismatch, match=r"^id is not valid by properties/id/type: the value is not of type"):
        rewritten(viewers, data, {"id": "x"})


@pytest.fixture
def generated(tmp_path: Path) -> Any:
    """The module that protoc makes of PROTO."""
    (tmp_path / "money.proto").write_text(MONEY)
    (tmp_path / "order.proto").write_text(PROTO)
    words = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{tmp_path}",
        f"--python_out={tmp_path}",
        "money.proto",
        "order.proto",
    ]
    subprocess.run(words, check=True, cwd=tmp_path)
    sys.path.insert(0, str(tmp_path))
    try:
        yield importlib.import_module("order_pb2")
    finally:
        sys.path.remove(str(tmp_path))


def test_protobuf(registry: SchemaRegistryClient, generated: Any) -> None:
    sent = generated.Order(id=2**63, email="a@b", hash=b"\xff\x00", weights={"k": 1.5}, state=1, gift=False)
    sent.lines.add(sku="s", count=-3)
    sent.price.currency, sent.price.units = "EUR", -(2**40)
    sent.at.FromJsonString("2026-11-27T01:02:03.5Z")
    context = SerializationContext("orders", MessageField.VALUE)
    viewers = None
    for message in (sent, generated.Order(), generated.Order.Line(sku="nested"), generated.Other(x=5)):
        write = ProtobufSerializer(type(message), registry, {"use.deprecated.format": False})
        data = write(message, context)
        viewers = viewers or viewers_of(registry, "orders-value", "money.proto")
        expected = json_format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for holder in (expected, expected.get("price", {})):  # Protobuf's JSON writes 64-bit integers as text
            holder.update({name: int(holder[name]) for name in ("id", "units") if name in holder})
        assert shown(viewers, data)["value"] == expected


@pytest.mark.parametrize("count", MANY)
def test_random_messages(registry: SchemaRegistryClient, generated: Any, count: int) -> None:
    conf = {"use.deprecated.format": False}
    write = ProtobufSerializer(generated.Order, registry, conf)
    read = ProtobufDeserializer(generated.Order, conf, registry)
    context, chance = SerializationContext("orders", MessageField.VALUE), random.Random(count)
    written = [write(message(generated.Order, chance), context) for _ in range(count)]
    viewers = viewers_of(registry, "orders-value", "money.proto")
    for data, other in zip(written, written[1:] + written[:1], strict=True):
        view = shown(viewers, data)
        assert read(rewritten(viewers, other, view["value"]), context) == read(data, context)
        replaced = read(anonymized(viewers, data), context)
        assert {one.name for one, _ in replaced.ListFields()} - {"state"} == {
            one.name for one, _ in read(data, context).ListFields()
        } - {"state"}
        assert replaced.id != read(data, context).id
        expected = json_format.MessageToDict(
            read(data, context), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for holder in (expected, expected.get("price", {})):  # Protobuf's JSON writes 64-bit integers as text
            holder.update({name: int(holder[name]) for name in ("id", "units") if name in holder})
        assert view["value"] == expected


def message(kind: Any, chance: random.Random) -> Any:
    """A message in which each field may be missing."""
    made = kind(id=chance.getrandbits(64), state=chance.choice([0, 1, 7]), hash=chance.randbytes(chance.randrange(9)))
    for _ in range(chance.randrange(4)):
        made.lines.add(sku=chance.choice(["", "ü", "x" * 300]), count=chance.randrange(-(2**31), 2**31))
    if chance.random() < 0.5:
        made.price.currency, made.price.units = "EUR", chance.randrange(-(2**63), 2**63)
    if chance.random() < 0.5:
        made.at.FromMicroseconds(chance.randrange(2**50))
    if chance.random() < 0.6:
        made.phone = chance.getrandbits(32)
    elif chance.random() < 0.5:
        made.email = ""
    made.weights.update({chance.choice(["a", "", "Ω"]): chance.uniform(-1e300, 1e300) for _ in range(3)})
    if chance.random() < 0.5:
        made.gift = chance.random() < 0.5
    return made


def test_a_value_has_the_fields_with_which_it_was_written(registry: SchemaRegistryClient) -> None:
    """Both versions of a subject are in the topic; a reader of Confluent's without a schema of its own sees the same."""
    fields: list[dict[str, Any]] = [{"name": "id", "type": "long"}]
    context, collection = SerializationContext("orders", MessageField.VALUE), Collection("a registry")
    written = []
    for version, value in ((1, {"id": 1}), (2, {"id": 2, "note": None}), (3, {"id": 3, "note": "x", "tags": ["a"]})):
        text = json.dumps({"type": "record", "name": "Order", "fields": fields})
        written.append(AvroSerializer(registry, text)(value, context))
        latest = registry.get_latest_version("orders-value")
        known = {"id": latest.schema_id, "subject": "orders-value", "version": version}
        collection.add(schema_of({"schema": text}, **known))
        more = {1: {"name": "note", "type": ["null", "string"], "default": None}}
        fields += [more.get(version, {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []})]
    viewers, read = make_viewers(Schemas([collection])), AvroDeserializer(registry)
    assert [shown(viewers, data)["version"] for data in written] == [1, 2, 3]
    assert [shown(viewers, data)["value"] for data in written] == [read(data, context) for data in written]


def test_protobuf_as_text() -> None:
    collection = Collection("files")
    references = [{"name": "money.proto", "subject": "money", "version": 1}]
    collection.add(schema_of({"schema": MONEY, "schemaType": "PROTOBUF"}, subject="money", version=1))
    collection.add(schema_of({"schema": PROTO, "schemaType": "PROTOBUF", "references": references}, id=5))
    viewers, header = make_viewers(Schemas([collection])), bytes.fromhex("0000000005")
    line = header + bytes.fromhex("040200") + b"\x0a\x01z\x10\x05"  # two indexes, 1 and 0: Order.Line; sint32 -3
    assert shown(viewers, line)["value"] == {"sku": "z", "count": -3}
    view = shown(viewers, header + bytes.fromhex("0202") + b"\x0a\x01z")  # Order, whose field 1 is a number
    assert view["problem"] == "the payload does not fit the schema: field 1 (id) is of another type"


def test_protobuf_without_message_indexes() -> None:
    """Bytes of @kafkajs/confluent-schema-registry 3.9, and what its own decode makes of them; Confluent's readers fail."""
    text = """syntax = "proto3"; package shop; message Order { uint32 id = 1; string country = 2; double total = 3;
        repeated Line lines = 4; message Line { string sku = 1; } }"""
    collection = Collection("files")
    collection.add(schema_of({"schema": text, "schemaType": "PROTOBUF"}, id=2))
    data = bytes.fromhex(KAFKAJS)
    view = shown(make_viewers(Schemas([collection])), data)
    assert view["value"] == {"id": 11, "country": "DE", "total": 11 / 7, "lines": [{"sku": "s11"}]}
    assert (view["fits"], view["problem"]) == (False, NO_INDEXES)
    damaged = shown(make_viewers(Schemas([collection])), data[:-1])
    assert "value" not in damaged


def test_a_guid_in_the_headers(registry: SchemaRegistryClient) -> None:
    write = AvroSerializer(registry, json.dumps(ORDER), conf={"schema.id.serializer": header_schema_id_serializer})
    headers: list[tuple[str, bytes | None]] = []
    context = SerializationContext("orders", MessageField.VALUE, headers)
    value = order(random.Random(3))
    data = write(value, context)
    assert [name for name, _ in headers] == ["__value_schema_id"]
    viewers = viewers_of(registry, "orders-value")
    assert shown(viewers, data, *headers)["value"] == as_json(value)
    other = order(random.Random(4))
    data = rewritten(viewers, data, as_json(other), *headers)
    assert as_json(AvroDeserializer(registry)(data, context)) == as_json(other)
