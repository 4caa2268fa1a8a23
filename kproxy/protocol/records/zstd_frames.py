"""Decompress Zstandard frames (RFC 8878) under limits.

The end of a frame, and the most that it can decompress to, are read from its block headers before any memory is allocated. A
single complete frame, as producers write it, is then decompressed in one step; anything else is streamed.
"""

import sys
from collections import deque

import zstandard

from kproxy.protocol.records.limits import Limits, Unpacked

FIRST_CHUNK, CHUNK = 64 * 1024, 1024 * 1024
BLOCK_HEADER = 3
LARGEST_BLOCK = 128 * 1024  # RFC 8878, 3.1.1.2.4; also bounded by the frame's window
RLE = 1  # the type of a block of one repeated byte
CHECKSUM = 4
SKIPPABLE, SKIPPABLE_HEADER = b"\x2a\x4d\x18", 8  # bytes 1 to 3 of the magic number; with the size, RFC 8878, 3.1.2


def decompress(data: memoryview, limits: Limits) -> Unpacked:
    """Decompress all consecutive frames in *data*, as zstd-jni does."""
    try:
        frame = zstandard.get_frame_parameters(data)
    except zstandard.ZstdError as problem:
        return Unpacked(b"", error=f"not zstd: {problem}")
    if frame.window_size > limits.window:
        return Unpacked(b"", skipped=f"a zstd window of {frame.window_size:,} bytes, over {limits.window:,}")
    allowed = limits.allowed(len(data))
    end, blocks = frame_end(data, 0)
    room = blocks * min(LARGEST_BLOCK, max(frame.window_size, 1))
    if end == len(data) and room <= allowed and (content := _at_once(data, room, frame.content_size)) is not None:
        return Unpacked(content)
    return _streamed(data, allowed, limits)


def is_one_frame(data: memoryview, most_blocks: int) -> bool:
    """Return whether *data* is one whole frame of at most so many blocks, which take time to be counted."""
    return frame_end(data, 0, most_blocks)[0] == len(data)


def frame_end(data: memoryview, position: int, most_blocks: int = sys.maxsize) -> tuple[int, int]:
    """Return where the frame at *position* ends (beyond *data* if it is cut or has more blocks), and its number of blocks."""
    if bytes(data[position + 1 : position + 4]) == SKIPPABLE:
        return position + SKIPPABLE_HEADER + int.from_bytes(data[position + 4 : position + 8], "little"), 0
    try:
        at = position + zstandard.frame_header_size(data[position:])
    except zstandard.ZstdError:
        return len(data) + 1, 0
    checksum = CHECKSUM if data[position + 4] & 4 else 0
    blocks = 0
    while at + BLOCK_HEADER <= len(data) and blocks < most_blocks:
        header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        at += BLOCK_HEADER + (1 if header >> 1 & 3 == RLE else header >> 3)
        blocks += 1
        if header & 1:
            return at + checksum, blocks
    return len(data) + 1, blocks


# Reused, as creating one takes as long as a small batch; each is used by one thread at a time.
_idle: deque[zstandard.ZstdDecompressor] = deque()


def _at_once(data: memoryview, room: int, claimed: int) -> bytes | None:
    """Decompress one complete frame; None if it is broken, or claims a content size that its blocks cannot reach."""
    if claimed not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR) and claimed > room:
        return None
    try:
        decompressor = _idle.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor(max_window_size=Limits().window)
    try:
        return decompressor.decompress(data, max_output_size=max(room, 1))
    except zstandard.ZstdError:
        return None
    finally:
        _idle.append(decompressor)


def _streamed(data: memoryview, allowed: int, limits: Limits) -> Unpacked:
    """Decompress any frames, also broken ones, in a stream."""
    out: list[bytes] = []
    size, chunk = 0, FIRST_CHUNK
    try:
        stream = zstandard.ZstdDecompressor(max_window_size=limits.window).stream_reader(data, read_across_frames=True)
        while size <= allowed and (piece := stream.read1(chunk)):
            out.append(piece)
            size += len(piece)
            chunk = CHUNK
    except zstandard.ZstdError as problem:
        return Unpacked(b"".join(out), error=f"not zstd: {problem}")
    if size > allowed:
        return Unpacked(b"", skipped=limits.exceeded(len(data)))
    return Unpacked(b"".join(out), error=None if _is_whole(data) else "a zstd frame that is cut off")


def _is_whole(data: memoryview) -> bool:
    """Return whether the last frame ends at the end of *data*; the library just stops at a cut stream."""
    position = 0
    while position < len(data):
        position, _ = frame_end(data, position)
    return position == len(data)
