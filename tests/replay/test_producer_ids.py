"""Producer ids in batches, replaced: aiokafka's reader of batches says whether the checksum is right."""

from aiokafka.record.default_records import DefaultRecordBatch

from kproxy.protocol import ApiKey
from kproxy.replay.producer_ids import Producer, producers_of, replace_producers
from tests.support.replayed import recorded


def fields() -> list[bytes]:
    """The records fields of the idempotent producer of capture 01."""
    [produce] = [one.body() for one in recorded(1).requests if one.api_key == ApiKey.PRODUCE]
    return [partition.records for topic in produce.topic_data for partition in topic.partition_data]


def test_ids_and_checksums() -> None:
    for records in fields():
        new = replace_producers(records, lambda producer_id, epoch: Producer(7_000_000_001, 12))
        read, before = DefaultRecordBatch(new), DefaultRecordBatch(records)
        assert read.validate_crc() and (read.producer_id, read.producer_epoch) == (7_000_000_001, 12)
        assert read.base_sequence == before.base_sequence
        assert [(r.key, r.value, r.headers) for r in read] == [(r.key, r.value, r.headers) for r in before]


def test_the_same_bytes_where_nothing_changes() -> None:
    for records in fields():
        assert replace_producers(records, Producer) is records


def test_a_wrong_checksum_stays_wrong() -> None:
    [records, *_] = fields()
    damaged = records[:-1] + bytes([records[-1] ^ 1])
    assert replace_producers(damaged, lambda producer_id, epoch: Producer(1, 1)) is damaged


def test_several_batches_and_what_is_behind_them() -> None:
    [one, two, *_] = fields()
    new = replace_producers(one + two + b"part", lambda producer_id, epoch: Producer(1, 1))
    assert producers_of(new) == {Producer(1, 1)}
    assert len(new) == len(one + two) + 4 and new.endswith(b"part")


def test_who_produced() -> None:
    expected = {
        (DefaultRecordBatch(records).producer_id, DefaultRecordBatch(records).producer_epoch) for records in fields()
    }
    assert {tuple(one) for records in fields() for one in producers_of(records)} == expected
    assert producers_of(b"") == set() == producers_of(bytes(40))
