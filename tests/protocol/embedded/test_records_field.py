"""Records fields: Kafka's own batches, the corpus of damaged ones, control records and chunks of snapshots."""

import json
from collections import Counter
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol import message
from kproxy.protocol.constants import COORDINATOR_TOPICS, FRAMED_TOPICS, INTERNAL_TOPICS
from kproxy.protocol.embedded.payload import to_json
from kproxy.protocol.embedded.records_field import MOST_BATCHES, open_record, open_records
from kproxy.protocol.embedded.viewers import Viewers
from kproxy.protocol.secrets import WITHHELD
from tests.support.corpus import golden_lines, payloads

LINES = golden_lines("records")
SAME = (
    "baseOffset",
    "lastOffset",
    "sizeInBytes",
    "magic",
    "crcValid",
    "compression",
    "timestampType",
    "count",
    "maxTimestamp",
)
SAME += (
    "partitionLeaderEpoch",
    "isTransactional",
    "isControl",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "deleteHorizonMs",
)


def opened(line: dict[str, Any], **options: Any) -> dict[str, Any]:
    result = json.loads(to_json(open_records(bytes.fromhex(line["hex"]), "orders", 3, **options)))
    assert isinstance(result, dict)
    return result


def test_batch_headers_are_what_kafka_says() -> None:
    for line in LINES:
        shown = opened(line)
        assert len(shown["batches"]) == len(line["batches"])
        for ours, theirs in zip(shown["batches"], line["batches"], strict=True):
            wrapper = theirs["magic"] < 2 and theirs["compression"] != "none"
            names = [
                name for name in SAME if name in ours and name in theirs and not (wrapper and name == "baseOffset")
            ]
            assert len(names) >= 6
            if theirs["crcValid"]:
                assert [ours[name] for name in names] == [theirs[name] for name in names], line["kind"]


def test_control_records_are_opened_in_any_topic() -> None:
    """Hostile input 17 is among the corpus: a control batch may hold more than one marker."""
    kinds = set()
    for line in LINES:
        if line["valid"] and any(batch.get("isControl") for batch in line["batches"]):
            theirs = [r["control"] for batch in line["batches"] if batch.get("isControl") for r in batch["records"]]
            ours = [record["control"] for record in opened(line)["records"]]
            assert [(c["version"], c["typeId"], c["type"]) for c in ours] == [
                (c["version"], c["typeId"], c["type"]) for c in theirs
            ]
            assert [c["value"] for c in ours] == [c.get("value") for c in theirs]
            kinds |= {c["typeId"] for c in theirs}
    assert kinds >= {0, 1, 2, 3, 4, 5, 6}


def test_records_are_shown_on_demand() -> None:
    for line in LINES:
        if line["valid"]:
            theirs = [r for batch in line["batches"] if not batch.get("isControl") for r in batch["records"]]
            rows = [r for r in opened(line, viewers=Viewers()).get("records", []) if "control" not in r]
            assert [(r["offset"], r["timestamp"]) for r in rows] == [(r["offset"], r["timestamp"]) for r in theirs]
            for ours, record in zip(rows, theirs, strict=True):
                assert (ours["value"] or {}).get("size", -1) == (
                    -1 if record["valueHex"] is None else len(record["valueHex"]) // 2
                )
                assert [h["key"] for h in ours["headers"]] == [h["key"] for h in record["headers"]]


@pytest.mark.parametrize("kind", ["truncated", "malformed", "bad"])
def test_damage_is_told_and_what_is_whole_is_shown(kind: str) -> None:
    """Hostile input 15: wrong checksums, cut batches."""
    for line in LINES:
        if line["kind"].startswith(kind):
            shown = opened(line, viewers=Viewers())
            assert shown.get("trailingBytes", 0) == len(line["hex"]) // 2 - line["wholeBytes"]
            assert ("error" in shown) == ("error" in line)
            for ours, theirs in zip(shown["batches"], line["batches"], strict=True):
                assert ours["crcValid"] == theirs["crcValid"]


def test_headers_are_not_shown_without_end() -> None:
    """Hostile input 4: a megabyte of smallest messages."""
    message = bytes(8) + (14).to_bytes(4, "big") + bytes(6) + b"\xff" * 8
    shown = json.loads(to_json(open_records(message * (MOST_BATCHES + 5), "orders", 0)))
    assert (shown["count"], len(shown["batches"]), shown["batchesLeftOut"]) == (MOST_BATCHES + 5, MOST_BATCHES, 5)


def test_a_chunk_of_a_snapshot_may_begin_inside_a_batch() -> None:
    whole = next(line for line in payloads("internal-topic-batch") if line["topic"] == "__cluster_metadata")
    data = bytes.fromhex(whole["hex"])
    chunk = data[70:] + data + data[:50]
    shown = open_records(chunk, "__cluster_metadata", 0, unaligned=True)
    assert (shown["skippedStart"], shown["count"], shown["trailingBytes"]) == (len(data) - 70, len(whole["json"]), 50)
    assert json.loads(to_json(shown["records"][0]))["value"] == whole["json"][0]["value"]


@given(
    data=st.binary(max_size=150),
    topic=st.sampled_from(["orders", "__consumer_offsets", "__cluster_metadata", None]),
    cut=st.integers(0, 300),
)
def test_any_bytes_give_a_result(data: bytes, topic: str | None, cut: int) -> None:
    batch = bytes.fromhex(payloads("internal-topic-batch")[0]["hex"])
    for field in (data, batch[:cut] + data, batch[:61] + data):
        for unaligned in (False, True):
            json.loads(to_json(open_records(field, topic, 0, unaligned=unaligned, viewers=Viewers())))


MODULES = {module: topic for topic, module in {**COORDINATOR_TOPICS, **FRAMED_TOPICS}.items()}
FRAMED = [line for line in golden_lines("structs") if "framedHex" in line and line["module"] in MODULES]


def opened_record(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    result = json.loads(to_json(open_record(topic, key, value)))
    assert isinstance(result, dict)
    return result


def same(ours: Any, theirs: Any) -> bool:
    """Equal, but for what kproxy withholds and tagged fields that no release defines."""
    if ours == WITHHELD:
        return True
    if isinstance(ours, dict):
        ours = {name: value for name, value in ours.items() if name != "_unknownTaggedFields"}
        return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


def test_every_record_of_the_logs_is_what_kafka_says() -> None:
    seen: Counter[str] = Counter()
    for line in FRAMED:
        if line["framing"].startswith("uvarint"):
            result = opened_record(MODULES[line["module"]], None, bytes.fromhex(line["framedHex"]))
            assert result["key"] is None
            assert (result["value"]["message"], result["value"]["version"]) == (line["message"], line["version"])
            assert same(result["value"]["value"], line["json"]), line["message"]
            seen[line["module"]] += 1
    assert seen["kafka-metadata"] > 300
    assert seen["kafka-storage"] > 30


def test_every_key_of_the_coordinators_is_what_kafka_says() -> None:
    seen = set()
    for line in FRAMED:
        if line["message"].endswith("Key"):
            result = opened_record(MODULES[line["module"]], bytes.fromhex(line["framedHex"]), None)
            assert result["key"]["message"] == line["message"]
            assert same(result["key"]["value"], line["json"]), line["message"]
            assert result["value"] is None  # a tombstone
            seen.add(line["message"])
    assert len(seen) > 20


def test_every_value_of_the_coordinators_is_what_kafka_says() -> None:
    keys = {line["message"]: bytes.fromhex(line["framedHex"]) for line in FRAMED if line["message"].endswith("Key")}
    seen = set()
    for line in FRAMED:
        name = line["message"].removesuffix("Value")
        if line["message"].endswith("Value") and f"{name}Key" in keys:
            result = opened_record(MODULES[line["module"]], keys[f"{name}Key"], bytes.fromhex(line["framedHex"]))
            assert (result["value"]["message"], result["value"]["version"]) == (line["message"], line["version"])
            assert same(result["value"]["value"], line["json"]), line["message"]
            seen.add(line["message"])
    assert len(seen) > 20


def test_credentials_of_the_metadata_log_are_withheld() -> None:
    """Hostile input 21: SCRAM credentials and delegation tokens are records of __cluster_metadata."""
    for line in FRAMED:
        if line["message"] in ("UserScramCredentialRecord", "DelegationTokenRecord"):
            value = opened_record("__cluster_metadata", None, bytes.fromhex(line["framedHex"]))["value"]["value"]
            for name in ("salt", "storedKey", "serverKey", "tokenId", "hmac"):
                assert value.get(name, WITHHELD) == WITHHELD


@pytest.mark.parametrize(
    ("topic", "key", "value", "part", "reason"),
    [
        ("__consumer_offsets", pack(">h", 999), None, "key", "no record of type 999 is known"),
        ("__consumer_offsets", b"\0", None, "key", "needs 2 bytes"),
        ("__consumer_offsets", None, b"\0\0", "value", "without a key"),
        ("__transaction_state", pack(">h", 0), None, "key", "TransactionLogKey"),
        ("__cluster_metadata", b"k", None, "key", "no key is expected"),
        ("__cluster_metadata", None, b"\0\0\0", "value", "frame version 0"),
        ("__cluster_metadata", None, b"\1\x63\0", "value", "no record of type 99 is known"),
        ("__cluster_metadata", None, b"\1\2\0", "value", "TopicRecord"),
        ("__remote_log_metadata", None, b"", "value", "needs 1 bytes"),
    ],
)
def test_what_cannot_be_read_is_told_in_its_place(
    topic: str, key: bytes | None, value: bytes | None, part: str, reason: str
) -> None:
    assert reason in opened_record(topic, key, value)[part]["error"]


def test_a_broken_member_spoils_neither_the_record_nor_the_other_members() -> None:
    record = next(
        record
        for line in golden_lines("embedded")
        if line["kind"] == "internal-topic-batch"
        for record in line["json"]
        if "embedded" in record
    )
    metadata = message("GroupMetadataValue")
    value = record["value"]
    body: Any = metadata.from_json(value["version"], json.dumps(value["value"]))
    body.members[0].subscription = b"\0\3\0\0"
    key = pack(">h", 2) + message("GroupMetadataKey").encode(
        0, message("GroupMetadataKey").from_json(0, '{"group": "g"}')
    )
    result = opened_record(
        "__consumer_offsets", key, pack(">h", value["version"]) + metadata.encode(value["version"], body)
    )
    broken, whole = result["embedded"][:2]
    assert broken["path"] == "value.members[0].subscription"
    assert "needs 4 bytes" in broken["error"]
    assert whole == record["embedded"][1]


@given(
    topic=st.sampled_from(sorted(INTERNAL_TOPICS)), key=st.none() | st.binary(max_size=20), value=st.binary(max_size=60)
)
def test_any_bytes_give_a_record(topic: str, key: bytes | None, value: bytes) -> None:
    for prefix in (b"", b"\0\1", b"\1\5\0", b"\0\2"):
        assert opened_record(topic, None if key is None else prefix + key, prefix + value).keys() >= {"key", "value"}
