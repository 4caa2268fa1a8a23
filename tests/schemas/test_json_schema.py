"""JSON Schema: what is valid, against Confluent's own deserializer (which has another validator); references; hostile schemas."""

import json
import random
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from kproxy.schemas.formats import SchemaError
from kproxy.schemas.json_schema import JsonSchema

MONEY = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "money.json",
    "type": "object",
    "properties": {"currency": {"enum": ["EUR", "USD"]}, "units": {"type": "integer", "minimum": 0}},
    "required": ["currency", "units"],
}
ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
        "price": {"$ref": "money.json"},
        "lines": {"type": "array", "maxItems": 3, "items": {"$ref": "#/definitions/line"}},
        "note": {"oneOf": [{"type": "null"}, {"type": "string", "maxLength": 5}]},
    },
    "additionalProperties": False,
    "required": ["id"],
    "definitions": {"line": {"type": "object", "minProperties": 1, "patternProperties": {"^n": {"multipleOf": 2}}}},
}


def order(chance: random.Random) -> dict[str, Any]:
    """An order that is valid about one time in ten."""
    price = {"currency": chance.choice(["EUR", "USD", "EUR", "DM"]), "units": chance.choice([0, 5, 10**15, -1, 1.5])}
    line = [{"n": 2}, {"n": 4, "x": None}, {"nn": 6}, {}, {"n": 3}]
    value = {
        "id": chance.choice(["DE1", "FR22", "XX333", "de1", 7]),
        "price": price if chance.random() < 0.8 else {"units": 1},
        "lines": [chance.choice(line[: chance.choice([3, 3, 5])]) for _ in range(chance.choice([0, 1, 2, 4]))],
        "note": chance.choice([None, "short", "too long"]),
        "secret": 1,
    }
    return {name: value[name] for name in value if chance.random() < (0.1 if name == "secret" else 0.75)}


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_valid_is_what_the_deserializer_takes(count: int) -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://registry"})
    registry.register_schema("money", Registered(json.dumps(MONEY), "JSON"))
    schema = Registered(json.dumps(ORDER), "JSON", [SchemaReference("money.json", "money", 1)])
    write = JSONSerializer(schema, registry, conf={"validate": False})
    read = JSONDeserializer(schema, schema_registry_client=registry)
    ours = JsonSchema(json.dumps(ORDER), {"money.json": json.dumps(MONEY)})
    context, chance, valid = SerializationContext("orders", MessageField.VALUE), random.Random(count), 0
    for _ in range(count):
        data = write(order(chance), context)
        value, problems = ours.read(data[5:]), []
        try:
            assert read(data, context) == value
            valid += 1
        except SerializationError:
            problems = ours.problems(value)
            assert problems, value
        assert bool(problems) == bool(ours.problems(value)), value
    assert 0.05 < valid / count < 0.8


def test_a_problem_has_no_contents() -> None:
    schema = JsonSchema(json.dumps(ORDER), {"money.json": json.dumps(MONEY)})
    value = {"id": "canary", "canary": 1, "price": {"currency": "canary", "units": -1}, "lines": [{"n-canary": 3}]}
    problems = schema.problems(value)
    assert len(problems) == 5
    assert "canary" not in str(problems)
    assert "additionalProperties: there is a property that it does not allow" in problems


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "http://127.0.0.1:9/x.json", "other.json"])
def test_only_its_references_are_there(reference: str) -> None:
    schema = JsonSchema(json.dumps({"$ref": reference}), {"money.json": json.dumps(MONEY)})
    with pytest.raises(SchemaError, match="not present in a registry"):
        schema.problems({})
    assert not schema.is_bounded


def test_a_reference_is_found_next_to_the_schema() -> None:
    schema = JsonSchema(json.dumps({"$id": "http://shop/v1/order", "$ref": "money"}), {"money": '{"type": "string"}'})
    assert schema.problems("x") == []
    assert schema.problems(1) == ['type: the value is not of type "string"']


def test_a_schema_that_would_take_exponential_time_is_not_used_unasked() -> None:
    levels = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {"type": "string"}}
    assert not JsonSchema(json.dumps({"$defs": levels, "$ref": "#/$defs/a0"}), {}).is_bounded
    circle = {"allOf": [{"properties": {"a": {"$ref": "#"}}}] * 2}
    assert not JsonSchema(json.dumps(circle), {}).is_bounded
    assert JsonSchema(json.dumps(ORDER), {"money.json": json.dumps(MONEY)}).is_bounded
