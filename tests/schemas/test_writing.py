"""Values written back by their schemas, against fastavro, protobuf and the words of the specifications."""

import io
import json
import random
import zlib
from typing import Any
from uuid import UUID

import fastavro
import pytest

from kproxy.schemas.formats import Compiled, SchemaError, ValueMismatch, compile_schema
from kproxy.schemas.framings import find_framing, reframed

LOOK_ALIKES: dict[str, Any] = {
    "type": "record",
    "name": "A",
    "namespace": "x.y",
    "fields": [
        {
            "name": "n",
            "type": [
                *("null", "int", "long", "float", "double", "bytes", "string"),
                {"type": "fixed", "name": "F", "size": 4},
                {"type": "enum", "name": "E", "symbols": ["P", "Q"]},
            ],
        },
        {
            "name": "k",
            "type": [
                *("null", "A"),
                {
                    "type": "record",
                    "name": "B",
                    "fields": [
                        {"name": "n", "type": "null"},
                        {"name": "k", "type": ["null", "A"]},
                        {"name": "l", "type": {"type": "array", "items": ["F", "E"]}},
                    ],
                },
            ],
        },
        {"name": "l", "type": {"type": "array", "items": ["F", "E"]}},
    ],
}
NUMBERS = [None, ("int", 5), ("long", 5), ("float", 0.5), ("double", 0.5), ("double", 5.0)]
TEXTS = [("string", "abcd"), ("bytes", b"i\xb7\x1d"), ("x.y.F", b"i\xb7\x1di"), ("x.y.E", "P"), ("string", "P")]


def look_alike(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    items = [chance.choice([("x.y.F", b"abcd"), ("x.y.E", "Q")]) for _ in range(chance.randrange(3))]
    below = [
        None,
        ("x.y.A", look_alike(chance, depth + 1)) if depth < 3 else None,
        ("x.y.B", {"n": None, "k": None, "l": items}),
    ]
    return {"n": chance.choice(NUMBERS + TEXTS), "k": chance.choice(below), "l": items}


def test_values_of_unions_keep_their_types() -> None:
    compiled, parsed = compile_schema("AVRO", json.dumps(LOOK_ALIKES), {}), fastavro.parse_schema(LOOK_ALIKES)
    chance = random.Random(1)
    for _ in range(500):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, look_alike(chance))
        value = compiled.read(stream.getvalue())
        assert compiled.write(value, stream.getvalue()) == stream.getvalue()
        assert (
            compiled.read(compiled.write(value)) == value
        )  # without what was there, as another type that has this JSON


LOGICAL = {
    "type": "record",
    "name": "L",
    "fields": [
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "n", "type": {"type": "long", "logicalType": "local-timestamp-nanos"}},
        {"name": "s", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "u", "type": ["null", {"type": "string", "logicalType": "uuid"}]},
        {"name": "i", "type": "int"},
        {"name": "f", "type": "float"},
    ],
}
VALUE: dict[str, Any] = {
    "d": "-1.28",  # 0x80 in one byte
    "t": "1970-01-01T00:00:00.001Z",
    "n": "1969-12-31T23:59:59.999999999",
    "s": "00:00:01",
    "u": str(UUID(int=7)),
    "i": -1,
    "f": "inf",
}
MESSAGE = """
syntax = "proto3";
message O {
  message L { int32 q = 1; bytes b = 2; E e = 4; float f = 5; }
  enum E { X = 0; Y = 1; }
  repeated L lines = 1;
  map<bool, L> m = 2;
  oneof c { string a = 4; int64 z = 5; }
}
"""
LINES = {"lines": [{"q": 1}, {"q": 2}]}


@pytest.fixture(scope="module")
def formats() -> dict[str, Compiled]:
    return {
        "avro": compile_schema("AVRO", json.dumps(LOGICAL), {}),
        "protobuf": compile_schema("PROTOBUF", MESSAGE, {}),
    }


def test_logical_types(formats: dict[str, Compiled]) -> None:
    """The bytes of the specification: zigzag varints, a decimal of as few bytes as it needs, a float in little endian."""
    uuid = str(UUID(int=7)).encode().hex()
    assert formats["avro"].write(VALUE).hex() == f"0280 02 01 d00f 0248{uuid} 01 0000807f".replace(" ", "")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("avro", {**VALUE, "d": "1.234"}, "d has more than 2 digits after the point"),
        ("avro", {**VALUE, "d": "123.4"}, "d has more than 4 digits"),
        ("avro", {**VALUE, "d": 1.25}, "d is not decimal in quotes"),
        ("avro", {**VALUE, "t": "1970-01-01T00:00:00.0001Z"}, "t is finer than millis"),
        ("avro", {**VALUE, "t": "1970-13-01T00:00:00Z"}, 't is not a time, as "2026-01-31T23:59:59Z"'),
        ("avro", {**VALUE, "n": "1970-01-01T00:00:00Z"}, 'n is not a time, as "2026-01-31T23:59:59"'),
        ("avro", {**VALUE, "u": "7"}, "u is not a UUID"),
        ("avro", {**VALUE, "i": 2**31}, "i is beyond int"),
        ("avro", {**VALUE, "i": True}, "i is not a whole number"),
        ("avro", {**VALUE, "f": 1e39}, "f is beyond float"),
        ("avro", {**VALUE, "x": 1}, "x is not a field of the schema"),
        ("avro", {name: VALUE[name] for name in "dtnsui"}, "f is missing"),
        ("avro", 5, "the value is not an object"),
        ("protobuf", {"lines": [{"q": 1}, {"q": "2"}]}, "lines[1].q is not a whole number"),
        ("protobuf", {"lines": [{"q": 2**31}]}, "lines[0].q is refused: Value out of range: 2147483648"),
        ("protobuf", {"lines": [{"b": "!"}]}, "lines[0].b is not bytes in base64"),
        ("protobuf", {"lines": [{"e": "Z"}]}, "lines[0].e is none of X, Y"),
        ("protobuf", {"m": {"True": {"f": 1e39}}}, "m.True.f is beyond float"),
        ("protobuf", {"m": {"yes": {}}}, "m has a key that is not True or False"),
        ("protobuf", {"a": "x", "z": 4}, "z cannot be there with a: both are of the oneof c"),
        ("protobuf", {"y": 1}, "y is not a field of the schema"),
    ],
)
def test_a_value_that_does_not_fit(formats: dict[str, Compiled], name: str, value: object, sentence: str) -> None:
    with pytest.raises(ValueMismatch) as raised:
        formats[name].write(value)
    assert str(raised.value) == sentence


def test_fields_that_the_schema_does_not_name_stay(formats: dict[str, Compiled]) -> None:
    """Of a newer schema: field 15 of the message, and of its second line."""
    before = bytes.fromhex("0a020801" + "0a0408027801" + "7a0161")
    assert formats["protobuf"].write({"lines": [{"q": 1}, {"q": 3}]}, before).hex() == "0a0208010a04080378017a0161"
    assert formats["protobuf"].write(LINES).hex() == "0a0208010a020802"


def test_unions_that_take_exponential_time() -> None:
    below = {"type": "record", "name": "B", "fields": [{"name": "x", "type": ["null", "A", "B"]}]}
    schema = {"type": "record", "name": "A", "fields": [{"name": "x", "type": ["null", "A", below]}]}
    value: Any = 5
    for _ in range(60):
        value = {"x": value}
    with pytest.raises(SchemaError, match="it takes too long to find the types of unions"):
        compile_schema("AVRO", json.dumps(schema), {}).write(value)


def test_another_payload_in_a_packed_value() -> None:
    data = b"\3\5" + UUID(int=9).bytes + zlib.compress(b"before")
    after = reframed(data, find_framing(data), b"after")
    assert (after[:18], zlib.decompress(after[18:])) == (data[:18], b"after")
