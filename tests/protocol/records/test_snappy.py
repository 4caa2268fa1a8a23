"""Snappy: xerial's stream and raw blocks, judged before memory is asked for."""

import cramjam
import pytest

from kproxy.protocol.records import snappy
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits
from tests.support.corpus import golden_bytes

# From format_description.txt of google/snappy: a literal of 3 bytes has the tag (3 - 1) << 2.
RAW = b"\x03" + bytes([2 << 2]) + b"abc"


def unpack(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, str | None, str | None]:
    unpacked = snappy.decompress(memoryview(data), limits)
    return bytes(unpacked.data), unpacked.error, unpacked.skipped


def xerial(*blocks: bytes) -> bytes:
    return b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + b"".join(len(b).to_bytes(4, "big") + b for b in blocks)


def test_a_raw_block_is_told_by_the_missing_magic() -> None:
    assert unpack(RAW) == (b"abc", None, None)


def test_a_stream_is_its_blocks_in_order() -> None:
    assert unpack(xerial(RAW, b"\x01\x00d", RAW)) == (b"abcdabc", None, None)


def test_streams_stand_behind_each_other() -> None:
    assert unpack(xerial(RAW) + xerial(RAW)) == (b"abcabc", None, None)


def test_what_is_written_begins_as_kafka_begins_it() -> None:
    stream = golden_bytes("magic2-snappy-create")[61:]
    assert snappy.compress(b"records")[:16] == stream[:16] == snappy.HEADER


def test_long_data_is_written_in_blocks_of_32_kib() -> None:
    data = bytes(range(256)) * 1_000
    packed = snappy.compress(data)
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == data[: 32 * 1024]
    assert unpack(packed) == (data, None, None)


@pytest.mark.parametrize("cut", [3, 9, 18, 23])
def test_a_stream_that_is_cut_off_gives_what_was_whole(cut: int) -> None:
    data, error, skipped = unpack(xerial(RAW, RAW)[:-cut])
    assert data == b"abc"[: 3 if cut < 10 else 0]
    assert error if cut not in (9, 18) else error is None  # right behind a block the stream may end
    assert skipped is None


def test_a_negative_block_size_is_an_error() -> None:
    data, error, _ = unpack(xerial(RAW) + b"\xff\xff\xff\xff....")
    assert (data, error) == (b"abc", "not snappy: a block of -1 bytes with 4 left")


def test_a_block_that_is_not_snappy_is_an_error_behind_those_before() -> None:
    data, error, _ = unpack(xerial(RAW, b"\x05\xff\xff\xff\xff"))
    assert data == b"abc"
    assert error is not None and error.startswith("not snappy")


def test_a_claim_over_the_limit_is_skipped_and_names_it() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(100_000)))
    assert unpack(block, Limits(decompressed=99_999)) == (b"", None, "decompresses to more than 99,999 bytes")
    assert unpack(xerial(block, block), Limits(decompressed=199_999))[2] is not None
    assert unpack(xerial(block, block), Limits(decompressed=200_000)) == (bytes(200_000), None, None)


def test_a_preamble_is_a_varint_of_five_bytes_at_most() -> None:
    assert snappy.claimed_size(memoryview(b"\x80\x01" + bytes(6))) == 128
    assert snappy.claimed_size(memoryview(b"\x80\x80\x80\x80\x80\x01")) is None
    assert snappy.claimed_size(memoryview(b"")) is None
