"""Values that franz-go's serde framed, with hamba/avro and Go's own Protobuf, against what they read themselves."""

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kproxy.protocol.embedded.viewers import Content
from kproxy.schemas.protobuf import ProtobufSchema
from kproxy.schemas.store import Collection, Schemas, schema_of
from kproxy.schemas.viewer import make_viewers
from tests.conftest import Require

FIELDS = [
    ("id", "long"),
    ("total", "double"),
    ("note", ["null", "string"]),
    ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}),
    ("data", "bytes"),
    (
        "lines",
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "Line",
                "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "long"}],
            },
        },
    ),
    ("weights", {"type": "map", "values": "float"}),
    ("parent", ["null", "Order"]),
]
SCHEMA = json.dumps(
    {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in FIELDS]}
)
PROTO = """
syntax = "proto3";
message Other { int32 x = 1; }
message Order {
  message Line { string sku = 1; sint32 count = 2; }
  uint64 id = 1;
  repeated Line lines = 2;
  map<string, double> weights = 3;
}
"""
COUNT = 2_000


@pytest.mark.slow
def test_values_that_franz_go_framed(tmp_path: Path, require: Require) -> None:
    require("go", shutil.which("go"), "go is not installed")
    program, source = tmp_path / "writers", Path(__file__).with_name("go")
    words = ["go", "build", "-o", os.fspath(program), "."]
    subprocess.run(words, cwd=source, check=True, timeout=300, stdin=subprocess.DEVNULL)
    file = FileDescriptorProto()
    ProtobufSchema(PROTO, {}).file.CopyToProto(file)
    given = [str(COUNT), SCHEMA, file.SerializeToString().hex()]
    lines = subprocess.run([program, *given], capture_output=True, check=True, encoding="utf-8").stdout.splitlines()
    collection = Collection("files")
    collection.add(schema_of({"schema": SCHEMA, "id": 7}))
    collection.add(schema_of({"schema": PROTO, "schemaType": "PROTOBUF", "id": 300}))
    viewers, seen = make_viewers(Schemas([collection])), Counter[str]()
    for line in map(json.loads, lines):
        view = viewers.view(bytes.fromhex(line["hex"]), Content("orders"))
        assert view is not None and "problem" not in view["schema"], view
        expected: dict[str, Any] = line["value"]
        if line["format"] == "PROTOBUF":
            expected["id"] = int(expected["id"])  # Protobuf's own JSON has text for 64 bits
        assert view["schema"]["value"] == expected, line["hex"]
        seen[line["format"]] += 1
    assert seen == {"AVRO": COUNT, "PROTOBUF": COUNT}
