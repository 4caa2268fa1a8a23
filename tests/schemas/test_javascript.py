"""Values that avsc, protobufjs and the serializers of Confluent and KafkaJS wrote, against what they read themselves."""

import json
import shutil
import subprocess
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from kproxy.protocol.embedded.viewers import Content, Viewers
from kproxy.schemas.formats import compile_schema
from kproxy.schemas.protobuf import ProtobufSchema
from kproxy.schemas.store import Collection, Schemas, schema_of
from kproxy.schemas.viewer import make_viewers
from tests.conftest import Require

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "total", "type": "double"},
        {"name": "note", "type": ["null", "string", "boolean"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "data", "type": "bytes"},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "float"}}},
        {"name": "parent", "type": ["null", "Order"]},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
message Order {
  message Line { string sku = 1; sint32 count = 2; }
  uint32 id = 1;
  string note = 2;
  repeated Line lines = 3;
  map<string, double> weights = 4;
}
"""


JSON_SCHEMA = {
    "$id": "http://shop/order.json",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "sum": {"oneOf": [{"type": "null"}, {"type": "number"}]},
    },
    "definitions": {"line": {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 3}}}},
}
PACKAGES = ("avsc@5", "protobufjs@7", "@confluentinc/schemaregistry@1", "@kafkajs/confluent-schema-registry@3")
COUNT = 1_000
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("npm")]  # installed once


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory, require: Require) -> list[dict[str, Any]]:
    require("npm", shutil.which("npm"), "npm is not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, check=True, text=True).stdout
    require("node", int(version.strip("v\n").split(".")[0]) >= 20, "Confluent's packages need Node.js 20")
    folder = tmp_path_factory.mktemp("npm")
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES], cwd=folder, check=True)
    file = FileDescriptorProto()
    ProtobufSchema(PROTO, {}).file.CopyToProto(file)
    descriptors = b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    given = json.dumps(
        {"avro": SCHEMA, "proto": PROTO, "json": JSON_SCHEMA, "descriptors": descriptors, "count": COUNT}
    )
    command = ["node", str(Path(__file__).with_name("writers.mjs")), str(folder), given]
    run = subprocess.run(command, capture_output=True, check=True, encoding="utf-8")
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_values_that_serializers_of_npm_framed(lines: list[dict[str, Any]]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    stores: dict[tuple[str, str], Viewers] = {}
    for line in lines:
        if "library" not in line:
            continue
        data, kind = bytes.fromhex(line["hex"]), (line["library"], line["format"])
        if kind not in stores:
            collection = Collection("files")
            stored = {"schema": line["schema"], "schemaType": line["format"], "id": int.from_bytes(data[1:5], "big")}
            collection.add(schema_of(stored))
            stores[kind] = make_viewers(Schemas([collection]))
        view = stores[kind].view(data, Content("t"))
        assert view is not None and "problem" not in view["schema"], (kind, view)
        assert view["schema"]["value"] == line["value"], (kind, line["hex"])
        seen[kind] += 1
    kinds = [*((("confluent", one)) for one in ("AVRO", "JSON", "PROTOBUF")), ("kafkajs", "AVRO"), ("kafkajs", "JSON")]
    assert seen == dict.fromkeys(kinds, COUNT)


def test_values_of_npm_writers(lines: list[dict[str, Any]]) -> None:
    lines = [line for line in lines if "library" not in line]
    readers = {
        "AVRO": compile_schema("AVRO", json.dumps(SCHEMA), {}),
        "PROTOBUF": compile_schema("PROTOBUF", PROTO, {}),
    }
    assert len(lines) == 2_000
    for line in lines:
        value: Any = readers[line["format"]].read(bytes.fromhex(line["hex"]))
        if line["format"] == "PROTOBUF":  # protobufjs leaves fields out that have their defaults
            value = {name: inner for name, inner in value.items() if inner or name in ("lines", "weights")}
            value["lines"] = [{name: inner for name, inner in one.items() if inner} for one in value["lines"]]
            line["value"] = {
                name: inner for name, inner in line["value"].items() if inner or name in ("lines", "weights")
            }
            line["value"]["lines"] = [{n: inner for n, inner in one.items() if inner} for one in line["value"]["lines"]]
        assert value == line["value"], line
