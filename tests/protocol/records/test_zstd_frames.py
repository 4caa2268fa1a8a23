"""Zstandard frames: where they end (RFC 8878, against what libzstd reads), and what is cut off, lies or grows too much."""

import random

import pytest
import zstandard

from kproxy.protocol.records.limits import Limits
from kproxy.protocol.records.zstd_frames import decompress, frame_end

CHANCE = random.Random(8878)
TEXT = b"".join(CHANCE.choice([b"order ", b"shipped ", b"\0\1", b"9" * 40]) for _ in range(60_000))
SKIPPED = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"12345"


def streamed(data: bytes, **settings: bool) -> bytes:
    """As Kafka's Java producers write it: without the content's size."""
    stream = zstandard.ZstdCompressor(write_content_size=False, **settings).compressobj()
    return stream.compress(data) + stream.flush()


FRAMES = {
    "sized": zstandard.ZstdCompressor().compress(TEXT),
    "streamed": streamed(TEXT),
    "with a checksum": streamed(TEXT, write_checksum=True),
    "one byte repeated": streamed(bytes(1_000_000)),
    "not compressible": streamed(CHANCE.randbytes(300_000)),
    "empty": streamed(b""),
    "short": zstandard.ZstdCompressor(level=19).compress(b"abc"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_ends_where_libzstd_stops_reading(name: str) -> None:
    reader = zstandard.ZstdDecompressor().decompressobj()
    plain = reader.decompress(FRAMES[name] + b"behind")
    assert reader.unused_data == b"behind"
    end, blocks = frame_end(memoryview(b"before" + FRAMES[name] + b"behind"), len(b"before"))
    assert end == len(b"before") + len(FRAMES[name])
    assert blocks * 128 * 1024 >= len(plain)
    assert decompress(memoryview(FRAMES[name]), Limits()).data == plain


@pytest.mark.parametrize("name", FRAMES)
def test_what_is_cut_off_anywhere_is_said_to_be(name: str) -> None:
    whole = decompress(memoryview(FRAMES[name]), Limits()).data
    for end in {*range(1, min(40, len(FRAMES[name]))), *range(max(1, len(FRAMES[name]) - 20), len(FRAMES[name]))}:
        got = decompress(memoryview(FRAMES[name])[:end], Limits())
        assert got.error is not None and whole.startswith(got.data)


def test_frames_behind_each_other_are_one_stream() -> None:
    together = FRAMES["streamed"] + SKIPPED + FRAMES["sized"] + FRAMES["short"]
    got = decompress(memoryview(together), Limits())
    assert (got.error, got.data) == (None, TEXT + TEXT + b"abc")
    assert decompress(memoryview(together[:-1]), Limits()).error == "a zstd frame that is cut off"
    assert decompress(memoryview(SKIPPED), Limits()).error is None


def test_bytes_behind_the_frame_that_are_none() -> None:
    got = decompress(memoryview(FRAMES["short"] + b"behind"), Limits())
    assert got.error is not None and got.data == b"abc"


def test_a_content_size_that_the_blocks_cannot_become_asks_for_no_memory() -> None:
    # magic, descriptor: single segment with 8 bytes of content size (1 TiB), one raw block of one byte
    lie = bytes.fromhex("28b52ffd") + b"\xe0" + (1 << 40).to_bytes(8, "little") + b"\x09\0\0a"
    got = decompress(memoryview(lie), Limits())
    assert got.data == b"" and (got.error or got.skipped)


def test_a_bomb_is_refused_before_it_is_whole() -> None:
    bomb = streamed(bytes(200_000_000))
    got = decompress(memoryview(bomb), Limits())
    assert got.data == b"" and got.skipped is not None
    assert decompress(memoryview(streamed(bytes(3_000_000))), Limits(free=1_000_000, ratio=100)).skipped is not None
