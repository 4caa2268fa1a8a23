"""Compress and decompress record batches with the five codecs, under limits. Any bytes give an Unpacked; nothing raises.

To add a codec, see kproxy.protocol.records.

The library of a codec is imported with the first batch that needs it: a proxy that opens no records does without 2 MB of code.

Codec numbers are bits 0-2 of the attributes (CompressionType); zstd is legal from magic 2 on (KIP-110).
"""

import enum
import zlib

from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits, Unpacked

GZIP = 31  # zlib's window bits for 32 KiB with gzip's header and trailer
GZIP_LEVEL = 4
FASTEST_ZSTD = 1  # level; those below find hardly more than long matches
ZSTD_OF_NOISE = -10  # level for encrypted bytes, which hardly compress: a third of the time, and 1 % more bytes
SHORTEST_MEMBER = 18  # bytes of a gzip header and trailer; fewer are not another member (GZIPInputStream)
MEMBER = b"\x1f\x8b"
MOST_MEMBERS = 4_096  # Kafka writes one
INPUT_CHUNK = 64 * 1024
FIRST_CHUNK, CHUNK = 64 * 1024, 1024 * 1024


class Codec(enum.IntEnum):
    """How the records of a batch are compressed."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODECS = frozenset(Codec)


def decompress(codec: int, data: memoryview | bytes, magic: int = 2, limits: Limits = DEFAULT_LIMITS) -> Unpacked:
    """Decompress the records of a batch.

    Args:
        codec: the number in the attributes, which may be unknown.
        data: the compressed bytes only.
        magic: the batch's; it decides which codecs are allowed and what is checked.
    """
    view = memoryview(data)
    if codec == Codec.NONE:
        return Unpacked(bytes(view))
    if codec == Codec.ZSTD and magic < 2:
        return Unpacked(b"", error=f"zstd in a batch of magic {magic}")
    if codec not in CODECS:
        return Unpacked(b"", error=f"unknown codec {codec}")
    try:
        return _decompress(codec, view, magic, limits)
    except MemoryError:
        return Unpacked(b"", skipped=f"no memory to decompress {len(view):,} bytes")


def compress(codec: Codec, data: bytes, magic: int = 2, *, zstd_level: int = 3) -> bytes:
    """Compress the records of a batch, framed as by Kafka's producer; gzip at level 4, although a producer's default is 6."""
    if codec == Codec.GZIP:
        # For text and JSON, level 4 is twice as fast as level 6, and its output 2 to 15 % larger; level 1 is twice as fast as
        # level 4, and its output 15 to 50 % larger.
        stream = zlib.compressobj(GZIP_LEVEL, wbits=GZIP)
        return stream.compress(data) + stream.flush()
    if codec == Codec.SNAPPY:
        from kproxy.protocol.records import snappy  # noqa: PLC0415

        return snappy.compress(data)
    if codec == Codec.LZ4:
        from kproxy.protocol.records import lz4_frames  # noqa: PLC0415

        return lz4_frames.compress(data, magic)
    if codec == Codec.ZSTD:
        import zstandard  # noqa: PLC0415

        return zstandard.ZstdCompressor(level=zstd_level).compress(data)
    return data


def _decompress(codec: int, data: memoryview, magic: int, limits: Limits) -> Unpacked:
    if codec == Codec.GZIP:
        return _gunzip(data, limits)
    if codec == Codec.SNAPPY:
        from kproxy.protocol.records import snappy  # noqa: PLC0415

        return snappy.decompress(data, limits)
    if codec == Codec.LZ4:
        from kproxy.protocol.records import lz4_frames  # noqa: PLC0415

        return lz4_frames.decompress(data, magic, limits)
    from kproxy.protocol.records import zstd_frames  # noqa: PLC0415

    return zstd_frames.decompress(data, limits)


def _gunzip(data: memoryview, limits: Limits) -> Unpacked:
    """Decompress gzip members; bytes behind the last one are ignored, as by GZIPInputStream."""
    out: list[bytes] = []
    size, position, allowed = 0, 0, limits.allowed(len(data))
    for _ in range(MOST_MEMBERS):
        position, more, error = _gunzip_member(data, position, allowed - size, out)
        size += more
        if size > allowed:
            return Unpacked(b"", skipped=limits.exceeded(len(data)))
        if error is not None:
            return Unpacked(b"".join(out), error=error)
        if len(data) - position < SHORTEST_MEMBER or bytes(data[position : position + 2]) != MEMBER:
            return Unpacked(b"".join(out))
    return Unpacked(b"", skipped=f"more than {MOST_MEMBERS:,} gzip members")


def _gunzip_member(data: memoryview, position: int, allowed: int, out: list[bytes]) -> tuple[int, int, str | None]:
    """Append one member's content to *out*, up to a little over *allowed* bytes; return its end, its size, and its fault."""
    stream = zlib.decompressobj(wbits=GZIP)
    size, chunk = 0, FIRST_CHUNK
    pending: bytes | memoryview = b""
    try:
        while not stream.eof and size <= allowed:
            if not pending:
                pending = data[position : position + INPUT_CHUNK]
                position += len(pending)
            piece = stream.decompress(pending, chunk)
            if not piece and not pending:
                return position, size, "a gzip stream that is cut off"
            pending = stream.unconsumed_tail
            out.append(piece)
            size += len(piece)
            chunk = CHUNK
    except zlib.error as problem:
        return position, size, f"not gzip: {problem}"
    return position - len(stream.unused_data), size, None
