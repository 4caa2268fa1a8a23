"""Records of internal topics: bytes by hand after MetadataRecordSerde and CoordinatorRecordSerde."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.rewriting.internal_records import (
    INTERNAL_TOPICS,
    payload_of_key,
    payload_of_value,
    read_unsigned_varint,
)

# frame version 1, type 2 (TopicRecord), version 0, name "fwd", an id, no tags
TOPIC_RECORD = bytes.fromhex("01020004667764" + "11" * 16 + "00")
# OffsetCommitKey (1): group "g", topic "t", partition 3
OFFSET_KEY = bytes.fromhex("000100016700017400000003")


def test_a_metadata_record_is_found() -> None:
    found = payload_of_value("__cluster_metadata", None, TOPIC_RECORD)
    assert found is not None
    assert (found.message.name, found.version, found.start) == ("TopicRecord", 0, 3)
    assert found.message.decode(found.version, TOPIC_RECORD, found.start).name == "fwd"


def test_a_coordinators_key_names_its_value() -> None:
    key = payload_of_key("__consumer_offsets", OFFSET_KEY)
    assert key is not None
    assert key.message.decode(key.version, OFFSET_KEY, key.start).topic == "t"
    value = payload_of_value("__consumer_offsets", OFFSET_KEY, b"\0\3rest")
    assert value is not None
    assert (value.message.name, value.version, value.start) == ("OffsetCommitValue", 3, 2)


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("orders", OFFSET_KEY, b"\0\3"),
        ("__consumer_offsets", b"\x7f\xff", b"\0\3"),
        ("__consumer_offsets", None, b"\0\3"),
        ("__consumer_offsets", OFFSET_KEY, b"\0"),
        ("__cluster_metadata", None, b"\1\x7f\0"),
        ("__cluster_metadata", None, b"\1\2\x80"),
        ("__remote_log_metadata", None, b"\1\x7f\0"),
    ],
)
def test_what_is_not_known_is_none(topic: str, key: bytes | None, value: bytes) -> None:
    assert payload_of_value(topic, key, value) is None


def test_remote_log_metadata_is_the_storage_modules() -> None:
    found = payload_of_value("__remote_log_metadata", b"", b"\1\2\0" + bytes(21))
    assert found is not None
    assert (found.message.name, found.version, found.start) == ("RemotePartitionDeleteMetadataRecord", 0, 3)


@pytest.mark.parametrize(("data", "expected"), [("00", (0, 1)), ("ac02", (300, 2)), ("ffffffff0f", (2**32 - 1, 5))])
def test_unsigned_varints(data: str, expected: tuple[int, int]) -> None:
    assert read_unsigned_varint(bytes.fromhex(data), 0) == expected


@given(st.sampled_from(sorted(INTERNAL_TOPICS)), st.none() | st.binary(max_size=20), st.binary(max_size=20))
def test_any_bytes_are_known_or_not(topic: str, key: bytes | None, value: bytes) -> None:
    found = payload_of_value(topic, key, value)
    assert found is None or found.start <= len(value)
