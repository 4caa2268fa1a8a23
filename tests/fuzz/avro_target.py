"""What must hold for any bytes given as a payload of Avro; used by tests/schemas/test_hostile.py and by the hammer."""

import io
import json
import random
from typing import Any

import fastavro

from kproxy.schemas.avro import AvroSchema
from tests.support.corpus import damaged

TREE = """{"type": "record", "name": "Tree", "fields": [
  {"name": "text", "type": "string"}, {"name": "maybe", "type": ["null", "long", "string"]},
  {"name": "few", "type": {"type": "enum", "name": "Few", "symbols": ["A", "B"]}},
  {"name": "five", "type": {"type": "fixed", "name": "Five", "size": 5}},
  {"name": "bits", "type": "bytes"}, {"name": "small", "type": "int"}, {"name": "real", "type": "double"},
  {"name": "half", "type": "float"}, {"name": "yes", "type": "boolean"},
  {"name": "named", "type": {"type": "map", "values": "long"}},
  {"name": "below", "type": {"type": "array", "items": "Tree"}}]}"""
SCHEMA = AvroSchema(TREE, {})
PARSED = fastavro.parse_schema(json.loads(TREE))


def payload(chance: random.Random, depth: int = 0) -> bytes:
    """A value of TREE, written by fastavro."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, PARSED, _tree(chance, depth))
    return stream.getvalue()


def _tree(chance: random.Random, depth: int) -> dict[str, Any]:
    return {
        "text": chance.choice(["", "plain", "ö€😀" * 3]),
        "maybe": chance.choice([None, -(2**63), "x"]),
        "few": chance.choice("AB"),
        "five": chance.randbytes(5),
        "bits": chance.randbytes(chance.randrange(20)),
        "small": chance.randrange(-(2**31), 2**31),
        "real": 0.5,
        "half": -1.0,
        "yes": True,
        "named": {str(n): n for n in range(chance.randrange(3))},
        "below": [_tree(chance, depth + 1) for _ in range(chance.randrange(3) if depth < 3 else 0)],
    }


def check_avro(data: bytes) -> bool:
    """Whether *data* fits. What the walk accepts is what fastavro reads to its end."""
    fits = SCHEMA.walk.fits(data)
    if fits:
        stream = io.BytesIO(data)
        fastavro.schemaless_reader(stream, PARSED, None)
        assert stream.tell() == len(data), data.hex()
    assert (SCHEMA.walk.hidden(data) is not None) == fits, data.hex()
    return bool(fits)


def damaged_payload(chance: random.Random) -> bytes:
    """A payload that is whole in one case of eight."""
    data = payload(chance)
    return damaged(chance, data) if chance.randrange(8) else data
