"""Values that avsc and protobufjs wrote, against what they read themselves."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kproxy.schemas.formats import compile_schema
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


@pytest.mark.slow
def test_values_of_npm_writers(tmp_path: Path, require: Require) -> None:
    require("node", shutil.which("npm"), "npm is not installed")
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "avsc@5", "protobufjs@7"], cwd=tmp_path, check=True
    )
    given = json.dumps({"avro": SCHEMA, "proto": PROTO, "count": 1_000})
    command = ["node", str(Path(__file__).with_name("writers.mjs")), str(tmp_path), given]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    readers = {
        "AVRO": compile_schema("AVRO", json.dumps(SCHEMA), {}),
        "PROTOBUF": compile_schema("PROTOBUF", PROTO, {}),
    }
    assert len(lines) == 2_000
    for line in map(json.loads, lines):
        value: Any = readers[line["format"]].read(bytes.fromhex(line["hex"]))
        if line["format"] == "PROTOBUF":  # protobufjs leaves fields out that have their defaults
            value = {name: inner for name, inner in value.items() if inner or name in ("lines", "weights")}
            value["lines"] = [{name: inner for name, inner in one.items() if inner} for one in value["lines"]]
            line["value"] = {
                name: inner for name, inner in line["value"].items() if inner or name in ("lines", "weights")
            }
            line["value"]["lines"] = [{n: inner for n, inner in one.items() if inner} for one in line["value"]["lines"]]
        assert value == line["value"], line
