"""Read a capture file as a stream of bytes: from a path or standard input; plain, gzip or zstd, recognised by content.

To add a compression: a class with readinto() and close(), and its magic in ``see_through``.
"""

import os
import zlib
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import Protocol

from kproxy.errors import CaptureError

STANDARD_INPUT = "-"
GZIP_MAGIC = b"\x1f\x8b"
# RFC 8878: a frame, or a skippable one
ZSTD_MAGICS = (
    b"\x28\xb5\x2f\xfd",
    *(bytes([0x50 + i, 0x2A, 0x4D, 0x18]) for i in range(16)),
)
COMPRESSED_READ = 256 << 10
MAX_ZSTD_WINDOW = 128 << 20  # the zstd tool's default limit (--long=27)


class ByteSource(Protocol):
    """A stream of bytes, read once from the beginning."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill *buffer* from its beginning; return the number of bytes, 0 only at the end.

        Raises:
            CaptureError: reading fails.
        """
        ...

    def close(self) -> None: ...


class RawFile(Protocol):
    """An unbuffered file."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...

    def close(self) -> None: ...


class _ReadEnded(BaseException):
    """Raised by a signal handler to end a read that waits for bytes."""


def end_waiting_read(frame: FrameType | None) -> None:
    """End the source that is waiting for bytes, if there is one; call it in a signal handler with the handler's *frame*."""
    if frame is not None and frame.f_code is PlainSource._read.__code__:
        raise _ReadEnded


class PlainSource:
    """An uncompressed file; ``peek`` reads ahead to recognise the format."""

    def __init__(self, raw: RawFile, name: str) -> None:
        self._raw = raw
        self._name = name
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """Return the next *size* bytes, fewer only at the end, and keep them for the next read."""
        while len(self._ahead) < size:
            buffer = bytearray(size - len(self._ahead))
            count = self._read(memoryview(buffer))
            if count == 0:
                break
            self._ahead += buffer[:count]
        return self._ahead[:size]

    def readinto(self, buffer: memoryview) -> int:
        if self._ahead:
            count = min(len(buffer), len(self._ahead))
            buffer[:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
            return count
        return self._read(buffer)

    def _read(self, buffer: memoryview) -> int:
        try:
            return self._raw.readinto(buffer) or 0
        except OSError as error:
            raise CaptureError(f"{self._name}: cannot be read: {error.strerror or error}") from error
        except _ReadEnded:
            return 0

    def close(self) -> None:
        self._raw.close()


class GzipSource:
    """Decompresses gzip (RFC 1952), member after member, only as much as each read needs."""

    def __init__(self, source: PlainSource, name: str) -> None:
        self._source = source
        self._name = name
        self._buffer = bytearray(COMPRESSED_READ)
        self._input = b""
        self._read = 0  # compressed bytes read from the file
        self._member = zlib.decompressobj(wbits=31)
        self._in_member = True

    def readinto(self, buffer: memoryview) -> int:
        while True:
            if not self._input and not self._refill():
                if self._in_member:
                    raise CaptureError(f"{self._name}: the gzip data ends too early, at byte {self._read} of the file")
                return 0
            data = self._decompress(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    def _refill(self) -> int:
        count = self._source.readinto(memoryview(self._buffer))
        self._input = bytes(self._buffer[:count])
        self._read += count
        return count

    def _decompress(self, size: int) -> bytes:
        if not self._in_member:
            self._input = self._input.lstrip(b"\0")  # padding from tapes and block devices
            if not self._input:
                return b""
            self._member, self._in_member = zlib.decompressobj(wbits=31), True
        place = self._read - len(self._input)
        try:
            data = self._member.decompress(self._input, size)
        except zlib.error as error:
            raise CaptureError(f"{self._name}: the gzip data is damaged near byte {place}: {error}") from error
        self._input = self._member.unconsumed_tail
        if self._member.eof:
            self._input, self._in_member = self._member.unused_data, False
        return data

    def close(self) -> None:
        self._source.close()


class _Reads:
    """A ByteSource with the file interface that zstandard needs."""

    def __init__(self, source: PlainSource) -> None:
        self._source = source
        self.count = 0

    def read(self, size: int) -> bytes:
        buffer = bytearray(min(max(size, 1), COMPRESSED_READ))
        count = self._source.readinto(memoryview(buffer))
        self.count += count
        return bytes(buffer[:count])


class ZstdSource:
    """Decompresses zstd (RFC 8878), frame after frame, only as much as each read needs.

    The end of the file inside a frame is not reported here: the capture then ends inside a packet, which is reported.
    """

    def __init__(self, source: PlainSource, name: str) -> None:
        self._source = source
        self._name = name
        self._input = _Reads(source)
        import zstandard  # noqa: PLC0415 - few captures use zstd, and importing it is slow

        self._error = zstandard.ZstdError
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW)
        self._stream = decompressor.stream_reader(self._input, COMPRESSED_READ, read_across_frames=True)  # type: ignore[arg-type]

    def readinto(self, buffer: memoryview) -> int:
        try:
            return self._stream.readinto(buffer)
        except self._error as error:
            place = f"within the first {self._input.count} bytes of the file"
            raise CaptureError(f"{self._name}: the zstd data is damaged {place}: {error}") from error

    def close(self) -> None:
        self._source.close()


def open_source(path: str | Path) -> ByteSource:
    """Open a file, or standard input for "-", and return its decompressed bytes.

    Raises:
        CaptureError: it does not exist or cannot be opened.
    """
    return see_through(open_raw(path), name_of(path))


def open_raw(path: str | Path, *, await_writer: bool = True) -> FileIO:
    """As ``open_source``, without decompression.

    With *await_writer* False, opening a FIFO does not wait for a writer. Poll the FIFO before the first read then: without a
    writer, a read would report the end of the file.
    """
    try:
        file = 0 if str(path) == STANDARD_INPUT else path
        if await_writer or file == 0 or not Path(path).is_fifo():
            return open(file, "rb", buffering=0, closefd=file != 0)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb", buffering=0)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CaptureError(f"{name_of(path)}: cannot be opened: {reason}") from error


def name_of(path: str | Path) -> str:
    """Return the name of a file for messages."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def see_through(raw: RawFile, name: str) -> ByteSource:
    """Return the decompressed bytes of an open, unbuffered file."""
    plain = PlainSource(raw, name)
    magic = plain.peek(4)
    if magic.startswith(GZIP_MAGIC):
        return GzipSource(plain, name)
    if magic in ZSTD_MAGICS:
        return ZstdSource(plain, name)
    return plain
