"""Control records: all seven types, as Kafka's own classes describe them."""

import json

import pytest

from kproxy.protocol.records.control import TYPES, read_control_record
from tests.support.corpus import golden_lines


def test_kafkas_control_records_mean_what_kafka_says() -> None:
    seen = set()
    for line in golden_lines("records"):
        for record in (r for b in line["batches"] for r in b["records"] if "control" in r):
            kafkas = record["control"]
            mine = read_control_record(bytes.fromhex(record["keyHex"]), bytes.fromhex(record["valueHex"]))
            assert (mine.version, mine.type_id, mine.type) == (kafkas["version"], kafkas["typeId"], kafkas["type"])
            assert (json.loads(mine.json) if mine.json else None) == kafkas.get("value")
            assert mine.error is None
            seen.add(mine.type)
    assert seen == {name for name, _ in TYPES.values()} | {"UNKNOWN"}


def test_the_value_is_an_object_too() -> None:
    marker = read_control_record(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x25")
    assert marker.value is not None and marker.value.coordinator_epoch == 37
    assert (marker.message, marker.value_version) == ("EndTxnMarker", 0)


@pytest.mark.parametrize(
    ("key", "value", "type_name", "error"),
    [
        (None, b"", "UNKNOWN", "a control record's key has at least 4 bytes"),
        (b"\x00\x00\x00", b"", "UNKNOWN", "a control record's key has at least 4 bytes"),
        (b"\xff\xff\x00\x01", b"", "UNKNOWN", "a control record of version -1"),
        (b"\x00\x00\x00\x00", None, "ABORT", "a control record's value is missing"),
        (b"\x00\x00\x00\x01", b"\x00\x00\x01", "COMMIT", "EndTxnMarker v0"),
        (b"\x00\x00\x00\x04", b"\x00\x00\x07", "SNAPSHOT_FOOTER", "SnapshotFooterRecord v0"),
    ],
)
def test_what_is_wrong_is_said(key: bytes | None, value: bytes | None, type_name: str, error: str) -> None:
    record = read_control_record(key, value)
    assert record.type == type_name
    assert record.error is not None and record.error.startswith(error)


def test_types_of_the_future_are_left_alone() -> None:
    record = read_control_record(b"\x00\x00\x00\x2a", b"whatever")
    assert (record.type, record.type_id, record.error, record.value) == ("UNKNOWN", 42, None, None)
