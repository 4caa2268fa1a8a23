"""Records fields written anew: Kafka's own batches, from the golden data."""

import pytest

from kproxy.output.rewriting.records import rewrite_records
from kproxy.protocol.records import Codec, Record, RecordBatch, read_batches, read_records, write_batches
from tests.support.record_batches import golden

LINES = [line for line in golden() if "hex" in line]


def nothing(_record: Record, _batch: RecordBatch) -> None:
    pass


def hide(record: Record, _batch: RecordBatch) -> None:
    record.value = record.value and b"x" * len(record.value)


def batch(codec: int = Codec.NONE) -> bytes:
    records = [Record(offset=at, timestamp=1_000 + at, key=b"k", value=b"secret %d" % at) for at in range(3)]
    return write_batches([RecordBatch(records, codec=codec, base_sequence=5, producer_id=9)])


def test_there_are_golden_fields() -> None:
    assert len(LINES) > 50


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


def test_a_change_of_size_is_not_written() -> None:
    def grow(record: Record, _batch: RecordBatch) -> None:
        record.value = b"much more than there was before"

    assert rewrite_records(batch(), grow) == batch()[:61] + bytes(len(batch()) - 61)
