"""Kafka Connect's payloads: Kafka's own bytes in all three protocols."""

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError, Malformed
from kproxy.protocol.embedded.connect import open_assignment, open_metadata
from kproxy.protocol.embedded.payload import to_json
from tests.support.corpus import payloads


def without_version(value: dict[str, Any]) -> dict[str, Any]:
    """The corpus shows a nested assignment as ConnectProtocol's own reading does, without its version."""
    nested = value.get("assignment")
    return value if nested is None else value | {"assignment": {k: v for k, v in nested.items() if k != "version"}}


def test_metadata_is_what_kafka_says() -> None:
    lines = payloads("connect-metadata")
    assert {line["protocol"] for line in lines} == {"default", "compatible", "sessioned"}
    for line in lines:
        opened = open_metadata(bytes.fromhex(line["hex"]), line["protocol"])
        assert (opened["version"], opened["protocol"]) == (line["version"], line["protocol"])
        assert without_version(opened["value"]) == line["json"]


def test_assignments_are_what_kafka_says() -> None:
    for line in payloads("connect-assignment"):
        opened = open_assignment(bytes.fromhex(line["hex"]))
        assert opened == {"version": line["version"], "value": line["json"]}


def test_every_cut_is_refused() -> None:
    data = max((bytes.fromhex(line["hex"]) for line in payloads("connect-assignment")), key=len)
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            open_assignment(data[:cut])


def test_a_long_name_with_thousands_of_tasks_is_refused() -> None:
    name = b"\x7f\xff" + b"c" * 0x7FFF
    head = pack(">hh", 0, 0) + b"\0\0\0\0" + pack(">q", 0)
    with pytest.raises(Malformed, match="many times"):
        open_assignment(head + pack(">i", 1) + name + pack(">i", 8000) + bytes(32_000))


def test_a_null_list_is_empty() -> None:
    """ASSIGNMENT_V1 has nullable arrays (IncrementalCooperativeConnectProtocol)."""
    data = pack(">hh", 1, 0) + b"\0\0\0\0" + pack(">qiii", 0, -1, -1, 9)
    value = open_assignment(data)["value"]
    assert value["assigned"] == value["revoked"] == {"connectors": [], "tasks": []}
    assert value["scheduledDelay"] == 9


@given(data=st.binary(max_size=80), version=st.integers(-1, 3))
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes, version: int) -> None:
    data = pack(">h", version) + data
    for read in (lambda: open_metadata(data, "sessioned"), lambda: open_assignment(data)):
        try:
            to_json(read())
        except DecodeError:
            continue
