"""Schemas made by chance, and wide ones: what kproxy reads is what the formats' own libraries read.

Other seeds: KPROXY_SEEDS="20261 777" python -m pytest -m "" tests/schemas/test_random_schemas.py
"""

import io
import json
import os
import random
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import json_format, message_factory

from kproxy.schemas.formats import compile_schema
from kproxy.schemas.protobuf import ProtobufSchema
from tests.schemas.test_confluent import as_json

SEEDS = [int(seed) for seed in os.environ.get("KPROXY_SEEDS", "1").split()]
PLAIN = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}
WIDE = 2_000


class Made:
    """A schema of Avro, and values of it."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._names = chance, 0
        self.schema = self._record(0)

    def _name(self) -> str:
        self._names += 1
        return f"{self._chance.choice(['a', 'b.c'])}.N{self._names}"

    def _record(self, depth: int) -> dict[str, Any]:
        name = self._name()
        fields = [{"name": f"f{at}", "type": self._type(depth + 1)} for at in range(self._chance.randrange(1, 6))]
        return {"type": "record", "name": name, "fields": fields}

    def _type(self, depth: int, *, in_union: bool = False) -> Any:
        kinds = ["plain", "plain", "decimal", "enum", "fixed"]
        if depth < 4:
            kinds += ["record", "array", "map", *([] if in_union else ["union", "union"])]
        kind = self._chance.choice(kinds)
        if kind == "union":
            members = {json.dumps(one if isinstance(one, str) else one["type"]): one for one in self._members(depth)}
            return list(members.values())
        if kind == "enum":
            return {"type": "enum", "name": self._name(), "symbols": ["A", "B", "C"]}
        if kind == "fixed":
            return {"type": "fixed", "name": self._name(), "size": self._chance.randrange(1, 9)}
        if kind in ("array", "map"):
            items = self._type(depth + 1)
            items = "int" if items == "null" else items  # items that take no bytes are refused
            return {"type": kind, ("items" if kind == "array" else "values"): items}
        if kind == "record":
            return self._record(depth)
        return DECIMAL if kind == "decimal" else self._chance.choice(PLAIN)

    def _members(self, depth: int) -> list[Any]:
        return [self._type(depth + 1, in_union=True) for _ in range(self._chance.randrange(2, 5))]

    def value(self, schema: Any) -> Any:
        chance = self._chance
        if isinstance(schema, list):
            chosen = chance.choice(schema)
            kind = chosen if isinstance(chosen, str) else chosen["type"]
            name = chosen["name"] if kind in ("record", "enum", "fixed") else kind
            return (name, self.value(chosen))
        kind = schema if isinstance(schema, str) else schema["type"]
        if schema == DECIMAL:
            return Decimal(chance.randrange(-(10**11), 10**11)) / 1000
        if kind == "record":
            return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(chance.randrange(4))]
        if kind == "map":
            return {chance.choice("abü𝄞"): self.value(schema["values"]) for _ in range(chance.randrange(4))}
        plain = {
            "null": None,
            "boolean": chance.random() < 0.5,
            "int": chance.randrange(-(2**31), 2**31),
            "long": chance.randrange(-(2**63), 2**63),
            "float": chance.randrange(-999, 999) / 8,
            "double": chance.gauss(0, 1e100),
            "bytes": chance.randbytes(chance.randrange(20)),
            "string": chance.choice(["", "Ελλάδα", "x" * 300]),
            "enum": chance.choice("ABC"),
        }
        return chance.randbytes(schema["size"]) if kind == "fixed" else plain[kind]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("schemas", [10, pytest.param(250, marks=pytest.mark.slow)])
def test_avro(schemas: int, seed: int) -> None:
    """40 values of each schema."""
    chance, unions = random.Random(f"{seed} {schemas}"), 0
    for _ in range(schemas):
        made = Made(chance)
        text = json.dumps(made.schema)
        ours, theirs = compile_schema("AVRO", text, {}), fastavro.parse_schema(json.loads(text))
        unions += text.count("[[") + text.count('"type": [')
        for _ in range(40):
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, theirs, made.value(made.schema))
            data = stream.getvalue()
            value = ours.read(data)
            assert value == as_json(fastavro.schemaless_reader(io.BytesIO(data), theirs, None)), (text, data.hex())
            assert ours.write(value, data) == data, (text, data.hex())
    assert unions > schemas / 4


def test_avro_of_2_000_fields() -> None:
    kinds = ["long", "string", ["null", "double"], {"type": "map", "values": "int"}, DECIMAL]
    made = Made(random.Random(1))
    schema = {
        "type": "record",
        "name": "W",
        "fields": [{"name": f"f{at}", "type": kinds[at % 5]} for at in range(WIDE)],
    }
    parsed, stream = fastavro.parse_schema(json.loads(json.dumps(schema))), io.BytesIO()
    fastavro.schemaless_writer(stream, parsed, made.value(schema))
    ours, data = compile_schema("AVRO", json.dumps(schema), {}), stream.getvalue()
    value = ours.read(data)
    assert value == as_json(fastavro.schemaless_reader(io.BytesIO(data), parsed, None))
    assert ours.write(value, data) == data
    assert len(ours.kinds()) == WIDE


def test_protobuf_of_2_000_fields() -> None:
    kinds = ["sint64 {0} = {1};", "repeated string {0} = {1};", "map<string, double> {0} = {1};", "Line {0} = {1};"]
    fields = [kinds[at % 4].format(f"f{at}", at + 1) for at in range(WIDE)]
    text = f'syntax = "proto3"; message Wide {{ message Line {{ float x = 1; }} {" ".join(fields)} }}'
    ours, chance = ProtobufSchema(text, {}), random.Random(1)
    message: Any = message_factory.GetMessageClass(ours.file.message_types_by_name["Wide"])()
    for at in range(0, WIDE, 4):
        setattr(message, f"f{at}", chance.randrange(-(2**50), 2**50))
        getattr(message, f"f{at + 1}").extend(["a", "ü"][: chance.randrange(3)])
        getattr(message, f"f{at + 2}")["k"] = chance.random()
        if chance.random() < 0.5:
            getattr(message, f"f{at + 3}").x = 0.5
    data = message.SerializeToString()
    expected = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    expected |= {f"f{at}": int(expected[f"f{at}"]) for at in range(0, WIDE, 4)}  # Protobuf's JSON has text for 64 bits
    assert ours.read(data) == expected
    assert message.FromString(ours.write(expected, data)) == message
    assert len(ours.kinds()) == WIDE


def test_json_schema_of_2_000_properties() -> None:
    properties = {f"f{at}": {"type": ["integer", "string"][at % 2]} for at in range(WIDE)}
    ours = compile_schema("JSON", json.dumps({"type": "object", "properties": properties, "required": ["f1999"]}), {})
    value: dict[str, Any] = {f"f{at}": [at, str(at)][at % 2] for at in range(WIDE)}
    assert ours.read(json.dumps(value).encode()) == value
    assert ours.problems(value) == []
    assert ours.problems({**value, "f7": 7}) != []
