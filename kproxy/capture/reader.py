"""Capture reads a file of any size packet by packet through one buffer; read_flows reassembles its TCP connections."""

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

from kproxy.capture.files import STANDARD_INPUT, ByteSource, open_source
from kproxy.capture.items import FlowItem
from kproxy.capture.limits import Limits
from kproxy.capture.packet import Packet
from kproxy.capture.reassembly import Data, Flows
from kproxy.capture.scanners import FILE_HEADER_SIZE, MAGICS, SECTION_MAGIC, PacketBatch, PcapngScanner, PcapScanner
from kproxy.capture.unwrap import Unwrapper
from kproxy.errors import CaptureError

BUFFER_SIZE = 1 << 20


class Scanner(Protocol):
    """Finds packets in a buffer; see PcapScanner.scan."""

    @property
    def problem(self) -> str | None: ...

    @property
    def needed(self) -> int: ...

    @property
    def sizes_contradict(self) -> int: ...

    def scan(self, batch: PacketBatch, start: int, stop: int, /) -> int: ...


class CaptureCounters(Struct):
    """How much has been read."""

    packets: int = 0
    file_bytes: int = 0  # after decompression


class Capture:
    """An open capture file. Iterate it once, for its packets.

    Damage, or an end inside a packet, ends the iteration after everything before it; *damage* then has the position and the
    reason (else None). *secrets* are the decryption secrets blocks so far: (type, bytes).
    """

    def __init__(self, source: ByteSource, name: str) -> None:
        self.name = name
        self.damage: CaptureError | None = None
        self.counters = CaptureCounters()
        self.flows: Flows | None = None
        self._source = source
        self._buffer: bytearray | mmap = bytearray(BUFFER_SIZE)
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
    def secrets(self) -> list[tuple[int, bytes]]:
        """Decryption secrets blocks so far: (type, bytes); type 0x544c534b is an NSS key log."""
        return self._scanner.secrets if isinstance(self._scanner, PcapngScanner) else []

    @property
    def sizes_contradict(self) -> int:
        """Packets whose captured size is larger than their original size."""
        return self._scanner.sizes_contradict

    def batches(self) -> Iterator[PacketBatch]:
        """Yield packets many at a time; each batch is valid until the next one."""
        batch = PacketBatch()
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
        """Close the file."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _detect(self) -> Scanner:
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
        size = max(BUFFER_SIZE, self._scanner.needed)
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
        return Capture(source, "standard input" if str(path) == STANDARD_INPUT else str(path))
    except CaptureError:
        source.close()
        raise


def read_flows(capture: Capture, limits: Limits | None = None) -> Iterator[FlowItem | Data]:
    """Yield the items of the TCP connections of a capture; counters are in ``capture.flows``.

    Items of one flow are in the order of its conversation, items of different flows roughly in capture order.
    """
    flows = Flows(limits, Unwrapper(limits))
    capture.flows = flows
    for batch in capture.batches():
        yield from flows.receive(batch)
    yield from flows.close()
