"""Fields of values that Confluent's serializers write through the filter encrypt: on a real broker, and back."""

import json
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from kproxy.encryption.envelope import MARKER
from tests.interop.clients import consumed
from tests.interop.conftest import Behind
from tests.interop.test_encryption import CANARY
from tests.support.kafka.jars import NEWEST, fetch, folder_of

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]

COUNT = 60
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "total", "type": "long"},
        {"name": "email", "type": ["null", "string"]},
        {"name": "card", "type": {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "bytes"}]}},
    ],
}
JSON = {
    "title": "Order",
    "type": "object",
    "properties": {"total": {"type": "number"}, "email": {"type": ["string", "null"]}, "card": {"type": "object"}},
}


PROTOBUF = """syntax = "proto3"; message Order { int64 total = 1; optional string email = 2; Card card = 3; }
    message Card { bytes number = 1; }"""
Fields = dict[str, Any]
# The artifacts of Confluent are not at Maven Central; what its deserializers are made of is
READERS = (
    ("org.apache.kafka", "kafka-clients", NEWEST),
    ("org.apache.avro", "avro", "1.12.0"),
    ("com.google.protobuf", "protobuf-java", "3.25.5"),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)


class Format:
    """Serializes and deserializes orders as Confluent's client does."""

    def __init__(self, topic: str, serializer: Any, deserializer: Any) -> None:
        self.topic = topic
        self._serializer, self._deserializer = serializer, deserializer
        self._place = SerializationContext(topic, MessageField.VALUE)

    def written(self, order: Fields) -> bytes:
        made: bytes = self._serializer(self._shaped(order), self._place)
        return made

    def read(self, value: bytes) -> Fields:
        return self._order(self._deserializer(value, self._place))

    def _shaped(self, order: Fields) -> Any:
        return order

    def _order(self, read: Any) -> Fields:
        order: Fields = read
        return order


class OfMessages(Format):
    def __init__(self, topic: str, registry: Any, descriptors: Path) -> None:
        file = FileDescriptorSet.FromString(descriptors.read_bytes()).file[0]
        pool = DescriptorPool()
        pool.Add(file)
        self._type: Any = GetMessageClass(pool.FindMessageTypeByName("Order"))
        of_today = {"use.deprecated.format": False}
        super().__init__(
            topic, ProtobufSerializer(self._type, registry, of_today), ProtobufDeserializer(self._type, of_today)
        )

    def _shaped(self, order: Fields) -> Any:
        return self._type(**order)

    def _order(self, read: Any) -> Fields:
        email = read.email if read.HasField("email") else None
        return {"total": read.total, "email": email, "card": {"number": read.card.number}}


def formats_of(topic: str, registry: Any, folder: Path) -> dict[str, Format]:
    """With schemas in a folder, named by the ids that values begin with."""
    folder.mkdir()
    (proto := folder.parent / "order.proto").write_text(PROTOBUF)
    descriptors = folder.parent / "order.descriptors"
    assert protoc.main(["protoc", f"-I{folder.parent}", f"--descriptor_set_out={descriptors}", str(proto)]) == 0
    (folder.parent / "order.avsc").write_text(json.dumps(AVRO))
    formats = {
        "avro": Format(
            f"{topic}-avro", AvroSerializer(registry, json.dumps(AVRO)), AvroDeserializer(registry, json.dumps(AVRO))
        ),
        "json": Format(f"{topic}-json", JSONSerializer(json.dumps(JSON), registry), JSONDeserializer(json.dumps(JSON))),
        "protobuf": OfMessages(f"{topic}-protobuf", registry, descriptors),
    }
    texts = {"avro": ("avsc", json.dumps(AVRO)), "json": ("json", json.dumps(JSON)), "protobuf": ("proto", PROTOBUF)}
    for name, made in formats.items():
        number = "" if name == "json" else b""
        schema_id = int.from_bytes(made.written({"total": 1, "email": None, "card": {"number": number}})[1:5], "big")
        ending, text = texts[name]
        (folder / f"{schema_id}.{ending}").write_text(text)
    return formats


def read_by_java(bootstrap: str, formats: dict[str, Format], folder: Path) -> list[list[str]]:
    """Format, total, email and number in hex of each value of Avro and Protobuf."""
    kept = folder_of("readers-1")
    if not kept.is_dir():
        fetch(kept, READERS)
    words = [formats["avro"].topic, folder / "order.avsc", formats["protobuf"].topic, folder / "order.descriptors"]
    source = Path(__file__).with_name("ReadingFields.java")
    command = ["java", "-Xmx192m", "-cp", f"{kept}/*", source, bootstrap, str(COUNT + 1), *words]
    run = subprocess.run(command, capture_output=True, check=True, timeout=240, encoding="utf-8")
    return [line.split("\t") for line in run.stdout.splitlines()]


def test_consumers_that_go_round_kproxy_read_valid_values_without_the_canary(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, tmp_path: Path
) -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://registry"})
    folder = tmp_path / "schemas"
    formats = formats_of(topic_name, registry, folder)
    canary = CANARY.decode()
    orders = {
        name: [
            {
                "total": at,
                "email": None if at % 5 == 0 else f"{canary} {at}",
                "card": {"number": canary if name == "json" else CANARY},
            }
            for at in range(COUNT)
        ]
        for name in formats
    }
    values = {name: [made.written(one) for one in orders[name]] for name, made in formats.items()}
    options = encrypting["with"]
    rule = {**options["rules"][0], "fields": ["$.email", "$.card.number"], "plain": "fail"}
    encrypt = {**encrypting, "with": {**options, "rules": [rule]}}
    entrance = behind(encrypt, schemas={"folders": [str(folder)]})
    refused: list[str] = []
    for (name, made), codec in zip(formats.items(), ("lz4", "none", "zstd"), strict=True):
        topic = made.topic
        behind.broker.topic(topic)
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
            around = made.read(value)
            assert around["total"] == at
            email, number = around["email"], around["card"]["number"]
            assert (email is None) == (at % 5 == 0)
            for sealed in (b64decode(number) if name == "json" else number, *([b64decode(email)] if email else [])):
                assert sealed.startswith(MARKER)
        through = {"bootstrap.servers": entrance.bootstrap}
        assert [value for *_, value in consumed(behind.broker, topic, **through)] == [*values[name], None]
        for bad in (b"no value of a schema", b"\0\0\0\x27\x0f" + CANARY):
            producer.produce(topic, bad, on_delivery=lambda error, _: refused.append(error.name() if error else ""))
            producer.flush(60)
    assert refused == ["POLICY_VIOLATION"] * 6
    around = read_by_java(behind.broker.open, formats, tmp_path)
    assert [(form, int(total)) for form, total, *_ in around] == [
        (name, at) for name in ("avro", "protobuf") for at in range(COUNT)
    ]
    for _, total, email, number in around:
        assert bytes.fromhex(number).startswith(MARKER) and (email == "") == (int(total) % 5 == 0)
        assert not email or b64decode(email).startswith(MARKER)
    through_java = {
        (name, str(one["total"]), one["email"] or "", CANARY.hex())
        for name in ("avro", "protobuf")
        for one in orders[name]
    }
    assert {tuple(each) for each in read_by_java(entrance.bootstrap, formats, tmp_path)} == through_java
    files = [file.read_bytes() for file in behind.broker.folder.rglob(f"{topic_name}-*/*.log")]
    assert files and not any(CANARY in one for one in files)
