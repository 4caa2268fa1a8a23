"""Fields of values that Confluent's serializers write through the filter encrypt: on a real broker, and back."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kproxy.encryption.envelope import MARKER
from tests.interop.clients import consumed
from tests.interop.conftest import Behind
from tests.interop.test_encryption import CANARY, create
from tests.support.kafka.jars import NEWEST

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]

COUNT = 60
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "total", "type": "long"},
        {"name": "email", "type": ["null", "string"]},
        {
            "name": "card",
            "type": {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "bytes"}]},
        },
    ],
}
JSON = {
    "title": "Order",
    "type": "object",
    "properties": {"total": {"type": "number"}, "email": {"type": ["string", "null"]}, "card": {"type": "object"}},
}


def test_consumers_that_go_round_kproxy_read_valid_values_without_the_canary(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, tmp_path: Path
) -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://registry"})
    folder = tmp_path / "schemas"
    folder.mkdir()
    canary = CANARY.decode()
    formats = {
        "avro": (AvroSerializer(registry, json.dumps(AVRO)), AvroDeserializer(registry, json.dumps(AVRO)), CANARY),
        "json": (JSONSerializer(json.dumps(JSON), registry), JSONDeserializer(json.dumps(JSON)), canary),
    }
    places = {name: SerializationContext(f"{topic_name}-{name}", MessageField.VALUE) for name in formats}
    data = {
        name: [
            {"total": at, "email": None if at % 5 == 0 else f"{canary} {at}", "card": {"number": number}}
            for at in range(COUNT)
        ]
        for name, (_, _, number) in formats.items()
    }
    values = {name: [formats[name][0](one, places[name]) for one in data[name]] for name in formats}
    for name, place in places.items():
        known = registry.get_latest_version(f"{place.topic}-value")
        ending = {"avro": "avsc", "json": "json"}[name]
        (folder / f"{known.schema_id}.{ending}").write_text(known.schema.schema_str or "")
    options = encrypting["with"]
    rule = {**options["rules"][0], "fields": ["$.email", "$.card.number"], "plain": "fail"}
    encrypt = {**encrypting, "with": {**options, "rules": [rule]}}
    entrance = behind(encrypt, schemas={"folders": [str(folder)]})
    refused: list[str] = []
    for name, codec in (("avro", "lz4"), ("json", "none")):
        topic = places[name].topic
        create(behind, topic)
        producer = Producer(
            {"bootstrap.servers": entrance.bootstrap, "enable.idempotence": True, "compression.type": codec}
        )
        for at, value in enumerate(values[name]):
            producer.produce(topic, value, key=b"%d" % at)
        producer.produce(topic, None, key=b"gone")
        assert producer.flush(60) == 0
        *stored, tombstone = [value for *_, value in consumed(behind.broker, topic)]
        assert tombstone is None and len(stored) == COUNT
        for at, value in enumerate(stored):
            assert value is not None and CANARY not in value
            around = formats[name][1](value, places[name])
            assert around is not None and around["total"] == at
            email, number = around["email"], around["card"]["number"]
            assert (email is None) == (at % 5 == 0)
            for sealed in (number if name == "avro" else b64decode(number), *([b64decode(email)] if email else [])):
                assert sealed.startswith(MARKER)
        through = {"bootstrap.servers": entrance.bootstrap}
        assert [value for *_, value in consumed(behind.broker, topic, **through)] == [*values[name], None]
        for bad in (b"no value of a schema", b"\0\0\0\x27\x0f" + CANARY):
            producer.produce(topic, bad, on_delivery=lambda error, _: refused.append(error.name() if error else ""))
            producer.flush(60)
    assert refused == ["POLICY_VIOLATION"] * 4
    files = [file.read_bytes() for file in behind.broker.folder.rglob(f"{topic_name}-*/*.log")]
    assert files and not any(CANARY in one for one in files)
