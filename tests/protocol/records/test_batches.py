"""Batch headers, against what Kafka's classes say of the same bytes (tests/golden/README.md)."""

import gzip
import struct

import pytest

from kproxy.errors import Malformed
from kproxy.protocol.records.batches import Batch, count_plain, find_header, next_batch, sequence_after
from kproxy.protocol.records.limits import Limits
from tests.support.corpus import golden_bytes, golden_lines
from tests.support.frames import batch, message, record

NAMES = {
    "lastOffset": "last_offset",
    "sizeInBytes": "size",
    "position": "position",
    "magic": "magic",
    "crcValid": "crc_valid",
    "crc": "crc",
    "attributes": "attributes",
    "compression": "compression",
    "timestampType": "timestamp_type",
    "maxTimestamp": "max_timestamp",
    "partitionLeaderEpoch": "partition_leader_epoch",
    "lastOffsetDelta": "last_offset_delta",
    "baseTimestamp": "base_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "lastSequence": "last_sequence",
    "isTransactional": "is_transactional",
    "isControl": "is_control",
    "deleteHorizonMs": "delete_horizon",
    "count": "count",
}


def test_headers_say_what_kafka_says() -> None:
    seen = 0
    for line in golden_lines("records"):
        data = bytes.fromhex(line["hex"])
        found: list[Batch] = []
        assert next_batch(data, 0, found, 1_000) == line["wholeBytes"]
        for mine, kafkas in zip(found, line["batches"], strict=True):
            seen += 1
            assert {k: getattr(mine, n) for k, n in NAMES.items() if k in kafkas} == {
                k: v for k, v in kafkas.items() if k in NAMES
            }
            if not mine.is_wrapper:
                assert mine.base_offset == kafkas["baseOffset"]
    assert seen == 432  # batches, as README.md counts them


def test_a_crc_that_is_wrong_is_computed_as_kafka_computes_it() -> None:
    for line in golden_lines("records"):
        for kafkas in line["batches"]:
            if "crcError" in kafkas:
                computed = int(kafkas["crcError"].rpartition("computed crc = ")[2].rstrip(")"))
                assert Batch(bytes.fromhex(line["hex"]), kafkas["position"]).computed_crc == computed


def test_a_batch_is_its_bytes() -> None:
    data = b"before" + batch(record(b"k", b"v"), 1) + b"behind"
    found = Batch(data, 6)
    assert found.raw == data[6:-6]
    assert repr(found) == "<Batch magic=2 last_offset=0 size=70 position=6>"


@pytest.mark.parametrize("position", [-1, 1_000])
def test_a_position_outside_is_refused(position: int) -> None:
    for call in (
        lambda: Batch(b"", position),
        lambda: next_batch(b"", position, [], 1),
        lambda: count_plain(b"", position),
    ):
        with pytest.raises(IndexError):
            call()


@pytest.mark.parametrize("data", [b"", bytes(100), batch(b"", 0)[:-1], message(b"v")[:25]])
def test_what_is_no_whole_batch_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match="no complete batch"):
        Batch(data, 0)


def test_no_more_batches_are_taken_than_asked_for() -> None:
    found: list[Batch] = []
    data = message(b"v") * 5
    assert next_batch(data, 0, found, 3) == 3 * len(data) // 5
    assert len(found) == 3


def test_counting_stops_at_what_must_be_opened() -> None:
    plain = message(b"v") + batch(record(b"k", b"v") * 4, 4)
    assert count_plain(plain) == (5, len(plain))
    assert count_plain(plain + message(b"v", attributes=1) + plain) == (5, len(plain))
    assert count_plain(plain, len(message(b"v"))) == (4, len(plain))


def test_opening_says_why_it_cannot() -> None:
    opened = Batch(message(None, attributes=1), 0).open()
    assert (opened.error, opened.claimed, opened.unpacked_size) == ("a compressed message without a value", 0, 0)
    assert Batch(golden_bytes("malformed-count-negative"), 0).open().error == "claims -1 records"
    assert Batch(batch(b"", 5), 0).open(Limits(records=4)).skipped == "claims 5 records, over 4"


def test_a_wrappers_base_offset_is_its_first_messages() -> None:
    for line in golden_lines("records"):
        for kafkas in line["batches"]:
            opened = Batch(bytes.fromhex(line["hex"]), kafkas["position"]).open()
            assert opened.base_offset == kafkas["baseOffset"], line["kind"]
    broken = bytearray(message(b"v", offset=3))
    broken[26:30] = b"\x7f\xff\xff\xff"  # the key's size: the message cannot be read, but has its offset
    assert Batch(message(gzip.compress(bytes(broken)), attributes=1, offset=9), 0).open().base_offset == 9
    nested = message(gzip.compress(message(b"v", attributes=2)), attributes=1)
    assert Batch(nested, 0).open().base_offset is None


def test_an_opened_batch_keeps_its_own_memory() -> None:
    opened = Batch(golden_bytes("magic2-snappy-large"), 0).open()
    assert isinstance(opened.content, bytearray) and opened.unpacked_size == len(opened.content)
    with pytest.raises(BufferError):
        opened.content.clear()


def test_sequences_wrap_to_zero() -> None:
    # DefaultRecordBatch.incrementSequence: after 2147483647 comes 0.
    assert sequence_after(2_147_483_647, 1) == 0
    assert sequence_after(2_147_483_646, 1) == 2_147_483_647
    assert sequence_after(5, 0) == 5
    assert sequence_after(-1, 3) == -1


def test_a_header_is_found_where_its_fields_agree() -> None:
    data = b"\xff" * 300 + batch(record(b"k", b"v"), 1)
    assert find_header(data, 0) == 300
    assert find_header(data, 301) == -1
    assert find_header(b"", 0) == -1


def test_the_last_sequence_is_counted_from_any_base_but_minus_one() -> None:
    # DefaultRecordBatch.lastSequence of Kafka 3.9.2 for these two fields
    for base, delta, last in ((-1, 5, -1), (-12_288, 1, -12_287), (2**31 - 2, 3, 1), (0, 2, 2)):
        head = struct.pack(">qiibIhiqqqhii", 0, 49, -1, 2, 0, 0, delta, 0, 0, 7, 0, base, 0)
        assert Batch(head, 0).last_sequence == last
