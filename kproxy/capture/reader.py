"""Read a capture file of any size packet by packet through one buffer; read_flows reassembles its TCP connections.

A file is a path or standard input; plain, gzip or zstd, recognised by content: ``see_through`` returns the ByteSource that
decompresses it. Capture recognises pcap and pcapng.
"""

import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from io import FileIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import FrameType
from typing import Protocol, Self, TypeAlias

from msgspec import Struct

from kproxy.capture.items import FlowItem, Limits, Packet
from kproxy.capture.reassembly import Data, Flows
from kproxy.capture.scanners import (
    BATCH_PACKETS,
    FILE_HEADER_SIZE,
    MAGICS,
    SECTION_MAGIC,
    PacketBatch,
    PcapngScanner,
    PcapScanner,
)
from kproxy.capture.unwrap import Unwrapper
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


BUFFER_SIZE = 1 << 20
BYTES_PER_PACKET = 256  # a small buffer gets a batch for so many
PacketRun: TypeAlias = tuple[PacketBatch, int, int]  # the packets of a batch from the first to before the second number


class CaptureCounters(Struct):
    """How much has been read."""

    packets: int = 0
    file_bytes: int = 0  # after decompression


class ClosedOnExit(ABC):
    """What ``with`` closes."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Capture(ClosedOnExit):
    """An open capture file. Iterate it once, for its packets.

    Damage, or an end inside a packet, ends the iteration after everything before it; *damage* then has the position and the
    reason (else None). *secrets* are the decryption secrets blocks so far: (type, bytes).
    """

    def __init__(self, source: ByteSource, name: str, buffer_size: int = BUFFER_SIZE) -> None:
        self.name = name
        self.damage: CaptureError | None = None
        self.counters = CaptureCounters()
        self.flows: Flows | None = None
        self._source = source
        self._buffer_size = buffer_size
        self._buffer: bytearray | mmap = bytearray(buffer_size)
        self._base = 0  # position in the file of the buffer's first byte
        self._start = 0  # position in the buffer of the first byte not yet scanned
        self._stop = 0
        self._at_end = False
        self._stopped = False
        self._map: mmap | None = None
        self._scanner = self._detect()

    @property
    def format(self) -> str:
        """pcap or pcapng."""
        return "pcap" if isinstance(self._scanner, PcapScanner) else "pcapng"

    @property
    def position(self) -> int:
        """The position in the (decompressed) file behind the packets so far."""
        return self._base + self._start

    @property
    def damages(self) -> list[str]:
        """The damage, as a sentence, if there is any."""
        return [] if self.damage is None else [str(self.damage)]

    @property
    def secrets(self) -> list[tuple[int, bytes]]:
        """Decryption secrets blocks so far: (type, bytes); type 0x544c534b is an NSS key log."""
        return self._scanner.secrets if isinstance(self._scanner, PcapngScanner) else []

    @property
    def sizes_contradict(self) -> int:
        """Packets whose captured size is larger than their original size."""
        return self._scanner.sizes_contradict

    def batches(self) -> Iterator[PacketBatch]:
        """Yield packets many at a time; each batch is valid until the next one."""
        batch = PacketBatch(min(BATCH_PACKETS, self._buffer_size // BYTES_PER_PACKET))
        while self.damage is None and not self._stopped:
            batch.lend(self._buffer)
            self._start = self._scanner.scan(batch, self._start, self._stop)
            if batch.count:
                self.counters.packets += batch.count
                yield batch
            elif self._scanner.problem is None and not self._refill():
                break
            batch.clear()
            if self._scanner.problem is not None:
                self._damage_at(self.position, self._scanner.problem)
        batch.clear()

    def runs(self) -> Iterator[PacketRun]:
        """Yield packets many at a time, in their order; each run is valid until the next one."""
        for batch in self.batches():
            yield batch, 0, batch.count

    def __iter__(self) -> Iterator[Packet]:
        for batch in self.batches():
            yield from batch

    def stop(self) -> None:
        """Read no further: the capture ends at *position*, after the packets before it, as if the file ended there."""
        self._stopped = True

    def map_file(self, path: Path) -> None:
        """Map the file into memory, so that bytes which are never read are never loaded; does nothing if it is compressed.

        If the file shrinks, the process is killed (SIGBUS), so only a process that can be replaced may call this.
        """
        with path.open("rb") as file:
            if file.read(4) == self._buffer[:4]:
                self._map = mmap(file.fileno(), 0, access=ACCESS_READ)

    def close(self) -> None:
        self._source.close()

    def _detect(self) -> PcapScanner | PcapngScanner:
        while self._stop < FILE_HEADER_SIZE and self._read_more():
            pass
        magic = bytes(self._buffer[:4])
        if self._stop >= FILE_HEADER_SIZE and magic in MAGICS:
            self._start = FILE_HEADER_SIZE
            return PcapScanner(bytes(self._buffer[:FILE_HEADER_SIZE]))
        if self._stop >= 12 and magic == SECTION_MAGIC:
            return PcapngScanner()
        if self.damage is not None:
            raise self.damage
        if self._stop == 0:
            raise CaptureError(f"{self.name}: byte 0: the file is empty")
        if magic in MAGICS or magic == SECTION_MAGIC:
            raise CaptureError(f"{self.name}: byte {self._stop}: the file ends within its header")
        raise CaptureError(f"{self.name}: byte 0: neither pcap nor pcapng (it begins with {magic.hex(' ')})")

    def _refill(self) -> bool:
        """Move the unscanned bytes to the front of the buffer and read more; return False at the end of the file."""
        rest = self._stop - self._start
        size = max(self._buffer_size, self._scanner.needed)
        if self._map is not None:
            return self._refill_mapped(self._map, size)
        assert isinstance(self._buffer, bytearray)
        buffer = self._buffer if len(self._buffer) == size else bytearray(size)
        buffer[:rest] = self._buffer[self._start : self._stop]
        self._buffer = buffer
        self._base += self._start
        self._start, self._stop = 0, rest
        return self._read_more() or self._end_of_file()

    def _refill_mapped(self, whole: mmap, size: int) -> bool:
        """As ``_refill``, from the mapping; the pieces have the same sizes as without one."""
        end = self._base + self._stop
        self._start, self._base = self.position, 0
        self._buffer = whole
        self._stop = min(self._start + size, len(whole))
        self.counters.file_bytes += self._stop - end
        return self._stop > end or self._end_of_file()

    def _end_of_file(self) -> bool:
        rest = self._stop - self._start
        if rest and self.damage is None and not self._stopped:
            self._damage_at(self.position, f"the file ends within a packet or block, {rest} bytes of it are there")
        return False

    def _read_more(self) -> bool:
        if self._at_end:
            return False
        try:
            count = self._source.readinto(memoryview(self._buffer)[self._stop :])
        except CaptureError as error:
            count = 0
            if not self._stopped:  # ``stop`` may end compressed data in the middle, which is no damage
                self.damage = error
        self._at_end = count == 0
        self._stop += count
        self.counters.file_bytes += count
        return count > 0

    def _damage_at(self, position: int, reason: str) -> None:
        self.damage = CaptureError(f"{self.name}: byte {position}: {reason}")


def open_capture(path: str | Path) -> Capture:
    """Open a capture file ("-" is standard input); its compression and format are recognised by content.

    Raises:
        CaptureError: it cannot be opened, or is not a capture file.
    """
    source = open_source(path)
    try:
        return Capture(source, name_of(path))
    except CaptureError:
        source.close()
        raise


class PacketSource(Protocol):
    """A Capture, or a MergedCapture."""

    flows: Flows | None

    def runs(self) -> Iterator[PacketRun]: ...


def read_flows(capture: PacketSource, limits: Limits | None = None) -> Iterator[FlowItem | Data]:
    """Yield the items of the TCP connections of a capture; counters are in ``capture.flows``.

    Items of one flow are in the order of its conversation, items of different flows roughly in capture order.
    """
    flows = Flows(limits, Unwrapper(limits))
    capture.flows = flows
    for batch, first, stop in capture.runs():
        yield from flows.receive(batch, first, stop)
    yield from flows.close()
