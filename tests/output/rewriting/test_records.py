"""Records fields written anew: Kafka's own batches, from the golden data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.rewriting.records import payload_of_key, payload_of_value, rewrite_records
from kproxy.protocol.constants import INTERNAL_TOPICS
from kproxy.protocol.records import Codec, Record, read_batches
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from tests.support.corpus import golden_lines

LINES = [line for line in golden_lines("records") if "hex" in line]


def nothing(_record: Record, _batch: RecordBatch) -> None:
    pass


def hide(record: Record, _batch: RecordBatch) -> None:
    record.value = record.value and b"x" * len(record.value)


def batch(codec: int = Codec.NONE) -> bytes:
    records = [Record(offset=at, timestamp=1_000 + at, key=b"k", value=b"secret %d" % at) for at in range(3)]
    return write_batches([RecordBatch(records, codec=codec, base_sequence=5, producer_id=9)])


def test_what_is_not_changed_keeps_its_records() -> None:
    for line in LINES:
        data = bytes.fromhex(line["hex"])
        before = read_records(data)
        if any(b.error or b.skipped or not b.source.crc_valid for b in before):
            continue
        assert read_records(rewrite_records(data, nothing)) == before


def test_a_plain_batch_keeps_its_size_and_gets_a_right_checksum() -> None:
    written = rewrite_records(batch(), hide)
    assert len(written) == len(batch())
    (found,) = read_records(written)
    assert found.source is not None
    assert found.source.crc_valid
    assert [(r.offset, r.timestamp, r.key, r.value) for r in found.records] == [
        (at, 1_000 + at, b"k", b"xxxxxxxx") for at in range(3)
    ]
    assert (found.base_sequence, found.producer_id) == (5, 9)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_compressed_batch_keeps_its_codec(codec: Codec) -> None:
    (found,) = read_records(rewrite_records(batch(codec), hide))
    assert found.codec == codec
    assert [record.value for record in found.records] == [b"xxxxxxxx"] * 3


def test_a_batch_with_a_wrong_checksum_keeps_only_its_header() -> None:
    damaged = bytearray(batch())
    damaged[-3] ^= 1
    written = rewrite_records(bytes(damaged), hide)
    assert written == bytes(damaged[:61]) + bytes(len(damaged) - 61)


def test_a_batch_that_is_cut_off_keeps_only_its_header() -> None:
    whole = batch()
    written = rewrite_records(whole + whole[:-4], nothing)
    assert written == whole + whole[:61] + bytes(len(whole) - 65)
    assert [b.size for b in read_batches(written)] == [len(whole)]


def test_what_comes_before_the_first_batch_of_a_snapshot_is_blanked() -> None:
    data = b"the end of another batch" + batch()
    written = rewrite_records(data, nothing, unaligned=True)
    assert written == bytes(24) + batch()


def test_a_change_of_size_is_written_unless_the_size_is_kept() -> None:
    def grow(record: Record, _batch: RecordBatch) -> None:
        record.value = b"much more than there was before"

    assert rewrite_records(batch(), grow, keeps_size=True) == batch()[:61] + bytes(len(batch()) - 61)
    (grown,) = read_records(rewrite_records(batch(), grow))
    assert {record.value for record in grown.records} == {b"much more than there was before"}


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


@given(st.sampled_from(sorted(INTERNAL_TOPICS)), st.none() | st.binary(max_size=20), st.binary(max_size=20))
def test_any_bytes_are_known_or_not(topic: str, key: bytes | None, value: bytes) -> None:
    found = payload_of_value(topic, key, value)
    assert found is None or found.start <= len(value)
