"""LZ4 frames, with Kafka's two ways of its own."""

import lz4.frame
import pytest

from kproxy.protocol.records import lz4_frames
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits
from tests.support.corpus import golden_bytes

TEXT = b"the quick brown fox " * 100


def unpack(data: bytes, magic: int = 2, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, str | None, str | None]:
    unpacked = lz4_frames.decompress(memoryview(data), magic, limits)
    return bytes(unpacked.data), unpacked.error, unpacked.skipped


def test_the_header_checksum_is_that_of_the_lz4_library() -> None:
    for size in (0, len(TEXT)):  # with and without the content's size in the header
        frame = lz4.frame.compress(TEXT, store_size=bool(size))
        end = 14 if size else 6
        assert lz4_frames.header_checksum(frame[4:end]) == frame[end]


def test_magic_0_is_written_with_kafkas_old_checksum() -> None:
    # The wrapper's value in Kafka's own bytes: magic number, flags, block descriptor and the checksum over all of them.
    ours, kafka = lz4_frames.compress(TEXT, 0), golden_bytes("magic0-lz4-large")
    header = kafka[kafka.index(lz4_frames.MAGIC) :][:7]
    assert ours[:7] == header
    assert header[6] == lz4_frames.header_checksum(header[:6]) != lz4_frames.header_checksum(header[4:6])
    assert unpack(ours, 0) == (TEXT, None, None)


def test_the_old_checksum_is_refused_where_kafka_refuses_it() -> None:
    assert unpack(lz4_frames.compress(TEXT, 0), 1)[1] == "not LZ4: the frame header has another checksum"


def test_what_is_written_begins_as_kafka_begins_it() -> None:
    kafka = golden_bytes("magic2-lz4-large")[61:]
    assert lz4_frames.compress(TEXT, 2)[:7] == kafka[:7]
    assert lz4.frame.decompress(lz4_frames.compress(TEXT, 2)) == TEXT


@pytest.mark.parametrize("options", [{"content_checksum": True}, {"block_checksum": True}, {"store_size": True}])
def test_frames_of_other_writers_are_read(options: dict[str, bool]) -> None:
    assert unpack(lz4.frame.compress(TEXT, **options)) == (TEXT, None, None)


def test_kafka_does_not_look_at_the_contents_checksum_or_size() -> None:
    frame = bytearray(lz4.frame.compress(TEXT, content_checksum=True, store_size=True))
    frame[-1] ^= 1
    frame[6] ^= 1
    frame[14] = lz4_frames.header_checksum(frame[4:14])
    assert unpack(bytes(frame)) == (TEXT, None, None)


def test_a_frame_that_is_cut_off_or_damaged_is_an_error() -> None:
    frame = lz4.frame.compress(TEXT, block_linked=False)
    for cut in range(len(frame)):
        data, error, skipped = unpack(frame[:cut])
        assert TEXT.startswith(data) and error is not None and skipped is None
    assert unpack(frame[:5] + b"\x00" + frame[6:])[1] == "not LZ4: no such block size"
    assert unpack(frame[:4] + b"\x00" + frame[5:])[1] == "not LZ4: unknown flags in the frame header"
    assert unpack(b"PK\x03\x04 and more")[1] == "not LZ4: another magic number"


def test_over_the_limit_is_skipped() -> None:
    assert unpack(lz4.frame.compress(TEXT), 2, Limits(decompressed=1_999)) == (
        b"",
        None,
        "decompresses to more than 1,999 bytes",
    )
    assert unpack(lz4.frame.compress(TEXT), 2, Limits(decompressed=2_000)) == (TEXT, None, None)
