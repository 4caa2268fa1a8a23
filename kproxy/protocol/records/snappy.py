"""Snappy as Kafka's producers write it: xerial's block stream (SnappyOutputStream), or one raw block.

Every raw block begins with its decompressed size as an unsigned varint. It is checked here first, as the library allocates the
claimed size and aborts the process if it cannot.
"""

import struct

import cramjam

from kproxy.protocol.records.limits import Limits, Unpacked

MAGIC = b"\x82SNAPPY\x00"
HEADER = MAGIC + struct.pack(">ii", 1, 1)  # version, oldest version that can read it
SIZE_FIELD = 4
SIZE_AT = len(HEADER)
BLOCK_AT = SIZE_AT + SIZE_FIELD
_SIZE = struct.Struct(">i")
MOST_BLOCKS = 65_536  # 64 MiB in xerial's smallest blocks, of 1 KiB
BLOCK_SIZE = 32 * 1024  # xerial's default
# A copy of 64 bytes takes 3 bytes (format_description.txt of google/snappy, 2.2), so no block grows by a larger factor.
MOST_GROWTH = 22


def compress(data: bytes) -> bytes:
    """Compress to a xerial stream."""
    out = bytearray(HEADER)
    for start in range(0, len(data), BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + BLOCK_SIZE]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def decompress(data: memoryview, limits: Limits) -> Unpacked:
    """Decompress a xerial stream, or a raw block if xerial's magic is missing (as librdkafka distinguishes them)."""
    if (content := _only_block(data, limits)) is not None:
        return Unpacked(content)
    blocks, error = [data], None
    if bytes(data[: len(MAGIC)]) == MAGIC:
        blocks, error = _blocks(data)
    if len(blocks) > MOST_BLOCKS:
        return Unpacked(b"", skipped=f"more than {MOST_BLOCKS:,} snappy blocks")
    sizes: list[int] = []
    for block in blocks:
        size = claimed_size(block)
        if size is None:
            error = f"not snappy: a block of {len(block)} bytes that cannot become what it claims"
            break
        sizes.append(size)
    if sum(sizes) > limits.allowed(len(data)):
        return Unpacked(b"", skipped=limits.exceeded(len(data)))
    return _fill(blocks, sizes, error)


def _only_block(data: memoryview, limits: Limits) -> bytearray | None:
    """Return the content of a xerial stream with one block, as in batches of up to 32 KiB; None for any other stream."""
    if len(data) <= BLOCK_AT or data[:SIZE_AT] != HEADER or len(data) != BLOCK_AT + _SIZE.unpack_from(data, SIZE_AT)[0]:
        return None
    block = data[BLOCK_AT:]
    size = claimed_size(block)
    if size is None or size > limits.allowed(len(data)):
        return None
    content = bytearray(size)
    try:
        written = cramjam.snappy.decompress_raw_into(block, content)
    except cramjam.DecompressionError:
        return None
    return content if written == size else None


def _blocks(data: memoryview) -> tuple[list[memoryview], str | None]:
    """Return the raw blocks of a xerial stream, and why there are no more if it is broken."""
    blocks: list[memoryview] = []
    position = len(HEADER)
    while len(data) - position >= SIZE_FIELD and len(blocks) <= MOST_BLOCKS:
        if bytes(data[position : position + len(MAGIC)]) == MAGIC:  # another stream follows
            position += len(HEADER)
            continue
        size = int.from_bytes(data[position : position + SIZE_FIELD], "big", signed=True)
        position += SIZE_FIELD
        if not 0 <= size <= len(data) - position:
            return blocks, f"not snappy: a block of {size} bytes with {len(data) - position} left"
        blocks.append(data[position : position + size])
        position += size
    return blocks, None if len(data) >= len(HEADER) else "a snappy stream that is cut off"


def _fill(blocks: list[memoryview], sizes: list[int], error: str | None) -> Unpacked:
    """Decompress the blocks, whose decompressed sizes are *sizes*, into new memory."""
    out = bytearray(sum(sizes))
    view = memoryview(out)
    end = 0
    for block, size in zip(blocks, sizes, strict=False):
        try:
            written = cramjam.snappy.decompress_raw_into(block, view[end : end + size])
        except cramjam.DecompressionError as problem:
            return Unpacked(bytes(view[:end]), error=f"not snappy: {problem}")
        end += written
    return Unpacked(out, error=error)


def claimed_size(block: memoryview) -> int | None:
    """Return the decompressed size that a raw block claims; None if a block of its length cannot become that large."""
    size = shift = 0
    for byte in bytes(block[:5]):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size if size <= len(block) * MOST_GROWTH and size < 1 << 32 else None
        shift += 7
    return None
