"""LZ4 frames as Kafka writes and reads them (Lz4BlockInputStream, Lz4BlockOutputStream; the LZ4 frame format 1.6).

Kafka differs from the format in two ways, so the frame header is read here and replaced by a plain one for the library. The
header checksum of magic 0 also covers the magic number, and is not checked (KIP-57, KAFKA-3160). Neither are the content's size
and checksum.
"""

from typing import Any

import lz4.block
import lz4.frame

from kproxy.protocol.records.limits import Limits, Unpacked

MAGIC = (0x184D2204).to_bytes(4, "little")
VERSION_MASK, VERSION = 0xC0, 0x40
CONTENT_SIZE, CONTENT_CHECKSUM, RESERVED, DICTIONARY = 0x08, 0x04, 0x02, 0x01
INDEPENDENT, BLOCK_CHECKSUM = 0x20, 0x10
FIRST_CHUNK, CHUNK = 64 * 1024, 1024 * 1024
BLOCK_SIZES = range(4, 8)  # codes of the largest block: 64 KiB to 4 MiB
UNCOMPRESSED = 0x80000000  # bit in a block's size: the block is not compressed
BLOCK_AT = 11  # position of the first block's bytes in a frame with the shortest header
END_MARK = bytes(4)
USUAL_GROWTH = 8  # records rarely grow by more than this factor
LEAST_GUESS = 4_096
SMALLEST_BLOCK = 64 * 1024  # the smallest maximum of block sizes that a frame can declare

_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME_4, _PRIME_5 = 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF


def compress(data: bytes, magic: int) -> bytes:
    """Compress to a frame of independent blocks of 64 KiB, for a batch of that magic."""
    frame: bytes = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    if magic > 0:
        return frame
    return frame[:6] + bytes([header_checksum(frame[:6])]) + frame[7:]


def decompress(data: memoryview, magic: int, limits: Limits) -> Unpacked:
    """Decompress the first frame in *data*; Kafka ignores what follows it."""
    if magic > 0 and (content := _only_block(data, limits)) is not None:
        return Unpacked(content)
    header: tuple[bytes, int] | str = (b"", 0)  # the usual headers need no replacement
    if magic == 0 or bytes(data[:SHORTEST]) not in PLAIN:
        header = _plain_header(data, magic)
    if isinstance(header, str):
        return Unpacked(b"", error=header)
    plain, position = header
    context = _contexts.pop() if _contexts else lz4.frame.create_decompression_context()
    allowed = limits.allowed(len(data))
    chunks: list[bytes] = []
    size, chunk, ended = 0, min(FIRST_CHUNK, max(LEAST_GUESS, len(data) * USUAL_GROWTH)), False
    try:
        if plain:
            lz4.frame.decompress_chunk(context, plain)
        while not ended and size <= allowed:
            rest = data[position:] if position else data
            out, consumed, ended = lz4.frame.decompress_chunk(context, rest, max_length=chunk)
            position += consumed
            if not out and not consumed:
                break
            chunks.append(out)
            size += len(out)
            chunk = CHUNK
    except RuntimeError as problem:
        return Unpacked(b"".join(chunks), error=f"not LZ4: {problem}")
    if ended and len(_contexts) < CONTEXTS:
        lz4.frame.reset_decompression_context(context)
        _contexts.append(context)
    if size > allowed:
        return Unpacked(b"", skipped=limits.exceeded(len(data)))
    return Unpacked(b"".join(chunks), error=None if ended else "an LZ4 frame that is cut off")


def _only_block(data: memoryview, limits: Limits) -> bytes | None:
    """Return the content of a frame with one independent block, as in batches of up to 64 KiB; None for any other frame.

    For most batches this is faster than the library's frame reader, which allocates the largest block.
    """
    if bytes(data[:SHORTEST]) not in ONE_BLOCK:
        return None
    size = int.from_bytes(data[SHORTEST:BLOCK_AT], "little")
    end = BLOCK_AT + size
    if size & UNCOMPRESSED or bytes(data[end : end + 4]) != END_MARK:
        return None
    most = min(max(LEAST_GUESS, size * USUAL_GROWTH), SMALLEST_BLOCK, limits.allowed(len(data)))
    try:
        content: bytes = lz4.block.decompress(data[BLOCK_AT:end], uncompressed_size=most)
    except lz4.block.LZ4BlockError:
        return None  # larger, or broken
    return content


def _plain_header(data: memoryview, magic: int) -> tuple[bytes, int] | str:
    """Return a header without content size and checksum, and where the blocks begin; or what is wrong with the header."""
    if bytes(data[:4]) != MAGIC:
        return "not LZ4: another magic number"
    flags, block = (data[4], data[5]) if len(data) > 5 else (0, 0)
    if flags & VERSION_MASK != VERSION or flags & (RESERVED | DICTIONARY):
        return "not LZ4: unknown flags in the frame header"
    if block & 0x8F or block >> 4 not in BLOCK_SIZES:
        return "not LZ4: no such block size"
    end = 14 if flags & CONTENT_SIZE else 6
    if len(data) <= end:
        return "an LZ4 frame that is cut off"
    if magic > 0 and data[end] != header_checksum(data[4:end]):
        return "not LZ4: the frame header has another checksum"
    descriptor = bytes([flags & ~(CONTENT_SIZE | CONTENT_CHECKSUM), block])
    return MAGIC + descriptor + bytes([header_checksum(descriptor)]), end + 1


def header_checksum(descriptor: bytes | memoryview) -> int:
    """Return the second byte of xxHash32 with seed 0, for fewer than 16 bytes (xxhash_spec.md, "XXH32")."""
    value = _PRIME_5 + len(descriptor) & _MASK
    words = len(descriptor) // 4 * 4
    for at in range(0, words, 4):
        value = value + int.from_bytes(descriptor[at : at + 4], "little") * _PRIME_3 & _MASK
        value = _rotated(value, 17) * _PRIME_4 & _MASK
    for byte in descriptor[words:]:
        value = value + byte * _PRIME_5 & _MASK
        value = _rotated(value, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return (value ^ value >> 16) >> 8 & 0xFF


def _rotated(value: int, bits: int) -> int:
    return value << bits & _MASK | value >> 32 - bits


def _plain_headers() -> frozenset[bytes]:
    """Return all headers without content size and checksum that batches of magic 1 and 2 can have."""
    descriptors = (
        bytes([VERSION | flags, code << 4])
        for flags in (0, INDEPENDENT, BLOCK_CHECKSUM, INDEPENDENT | BLOCK_CHECKSUM)
        for code in BLOCK_SIZES
    )
    return frozenset(MAGIC + descriptor + bytes([header_checksum(descriptor)]) for descriptor in descriptors)


SHORTEST = 7  # bytes of a header without the content's size
CONTEXTS = 4
_contexts: list[Any] = []  # unused contexts, kept because their buffers are slow to allocate
PLAIN = _plain_headers()
ONE_BLOCK = {header for header in PLAIN if header[4] == VERSION | INDEPENDENT}
