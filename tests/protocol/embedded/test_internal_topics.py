"""Records of internal topics: Kafka's own bytes of every record there is, of two releases."""

import json
from collections import Counter
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol import message
from kproxy.protocol.embedded.internal_topics import COORDINATORS, INTERNAL_TOPICS, LOGS, open_record
from kproxy.protocol.embedded.payload import to_json
from kproxy.protocol.secrets import WITHHELD
from tests.support.corpus import golden_lines

MODULES = {module: topic for topic, module in {**COORDINATORS, **LOGS}.items()}
FRAMED = [line for line in golden_lines("structs") if "framedHex" in line and line["module"] in MODULES]


def opened(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any]:
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
            result = opened(MODULES[line["module"]], None, bytes.fromhex(line["framedHex"]))
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
            result = opened(MODULES[line["module"]], bytes.fromhex(line["framedHex"]), None)
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
            result = opened(MODULES[line["module"]], keys[f"{name}Key"], bytes.fromhex(line["framedHex"]))
            assert (result["value"]["message"], result["value"]["version"]) == (line["message"], line["version"])
            assert same(result["value"]["value"], line["json"]), line["message"]
            seen.add(line["message"])
    assert len(seen) > 20


def test_credentials_of_the_metadata_log_are_withheld() -> None:
    """Hostile input 21: SCRAM credentials and delegation tokens are records of __cluster_metadata."""
    for line in FRAMED:
        if line["message"] in ("UserScramCredentialRecord", "DelegationTokenRecord"):
            value = opened("__cluster_metadata", None, bytes.fromhex(line["framedHex"]))["value"]["value"]
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
    assert reason in opened(topic, key, value)[part]["error"]


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
    result = opened("__consumer_offsets", key, pack(">h", value["version"]) + metadata.encode(value["version"], body))
    broken, whole = result["embedded"][:2]
    assert broken["path"] == "value.members[0].subscription"
    assert "needs 4 bytes" in broken["error"]
    assert whole == record["embedded"][1]


@given(
    topic=st.sampled_from(sorted(INTERNAL_TOPICS)), key=st.none() | st.binary(max_size=20), value=st.binary(max_size=60)
)
def test_any_bytes_give_a_record(topic: str, key: bytes | None, value: bytes) -> None:
    for prefix in (b"", b"\0\1", b"\1\5\0", b"\0\2"):
        assert opened(topic, None if key is None else prefix + key, prefix + value).keys() >= {"key", "value"}
