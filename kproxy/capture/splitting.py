"""Split the files of a capture into ranges of bytes, at packet boundaries.

    begin(raw)                              -> Start          the beginning of the file, or None if it cannot be split
    guess_boundary(window, start)           -> int | None     where a packet begins in bytes from anywhere in the file
    PartReader(raw, start, stop, preamble)                    reads the packets that begin in a range
    survey_part(raw, part, start, write)    -> PartSurvey     facts about a range, possibly based on a guess; its blocks
    settle(surveys, resurvey)               -> list of PartSurvey without gaps, up to the last readable byte

A pcap packet has no mark at its beginning, and a pcapng block only its length at both ends. A boundary is guessed: CHAIN
plausible headers must follow one another. A payload may contain such a chain (a capture inside Kafka records), so a guess counts
only if the part before it ends there. ``settle`` checks this, and otherwise surveys the part again from the end of the one
before. It does the same if a part of a pcapng was read with other interfaces (its *preamble*) than the parts before it define.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from kproxy.capture.reader import GZIP_MAGIC, ZSTD_MAGICS
from kproxy.capture.scanners import (
    BATCH_PACKETS,
    FILE_HEADER_SIZE,
    MAGICS,
    MAX_BLOCK_SIZE,
    MAX_PACKET_SIZE,
    SECTION_MAGIC,
    PacketBatch,
    PcapngScanner,
    PcapScanner,
)
from kproxy.capture.segments import BlockWriter, Survey

CHAIN = 12  # consecutive plausible headers; fewer at the end of the window
WINDOW = 2 << 20  # bytes to search for a boundary
READ = 1 << 20
AROUND = 400 * 86_400  # seconds: a plausible packet is not further from the first one of the capture
MODIFIED = (b"\xa1\xb2\xcd\x34", b"\x34\xcd\xb2\xa1")
PACKET_KINDS, INTERFACE_KIND, SECTION_KIND = (2, 3, 6), 1, 0x0A0D0D0A
BLOCK_KINDS = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0x0A0D0D0A, 0xBAD, 0x40000BAD))


FRAGMENTS_INSIDE = "IP fragments inside a tunnel"
Block: TypeAlias = tuple[
    bytes, int, bytes
]  # the key of a connection, the number of its first packet here, its segments
WriteBlocks: TypeAlias = Callable[[Iterable[Block]], None]


class SeekableFile(Protocol):
    """An unbuffered file, read from any position."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...

    def seek(self, position: int, whence: int = ..., /) -> int: ...

    def close(self) -> None: ...


class Start(Struct, frozen=True):
    """The beginning of a capture: *preamble* is the pcap header, or the first section header with its interfaces."""

    preamble: bytes
    first: int  # where reading begins: at the first packet, or for pcapng at the first section header
    time: int  # seconds: the time of the first packet of a pcap

    @property
    def is_pcapng(self) -> bool:
        """Whether it is pcapng, not pcap."""
        return self.preamble.startswith(SECTION_MAGIC)


class Part(Struct, frozen=True):
    """The packets that begin in bytes *start* to *stop*. *known*: a packet begins at *start*, and *preamble* applies there."""

    start: int
    stop: int
    preamble: bytes
    known: bool
    file: int = 0  # of the files of the capture, which one


class PartSurvey(Struct):
    """Facts about a part.

    start: where its first packet begins (None: no boundary was found). end: behind its last packet. next_preamble: the preamble
    at *end*. problem: why nothing behind *end* can be read. at_end: *end* is the end of the file. unsplittable: why the capture
    must be read in one piece after all.
    """

    part: Part
    start: int | None
    end: int
    next_preamble: bytes
    packets: int = 0
    problem: str | None = None
    at_end: bool = False
    unsplittable: str | None = None
    secrets: list[tuple[int, bytes]] = []
    latest_ns: int = 0
    disorder_at: int = 0
    minima: list[tuple[int, int]] = []
    connections: dict[bytes, list[int]] = {}
    servers: dict[bytes, int] = {}
    first_number: int = 1  # its first packet's number in the capture; set by settle


def begin(raw: SeekableFile) -> Start | None:
    """Return the beginning of a capture; None if the file is compressed, not a capture, or damaged at its beginning."""
    head = read_at(raw, 0, READ)
    magic = head[:4]
    if magic.startswith(GZIP_MAGIC) or magic in ZSTD_MAGICS or len(head) < FILE_HEADER_SIZE:
        return None
    if magic in MAGICS:
        scanner = PcapScanner(head[:FILE_HEADER_SIZE])
        order = "big" if scanner.big_endian else "little"
        time = int.from_bytes(head[FILE_HEADER_SIZE : FILE_HEADER_SIZE + 4], order)  # type: ignore[arg-type]
        return None if scanner.problem else Start(head[:FILE_HEADER_SIZE], FILE_HEADER_SIZE, time)
    if magic != SECTION_MAGIC:
        return None
    return _begin_pcapng(head)


def _begin_pcapng(head: bytes) -> Start | None:
    """Return the first section header and the interfaces before the first packet; reading begins at the section header."""
    order: Any = "big" if head[8:12] == b"\x1a\x2b\x3c\x4d" else "little"
    at, described = 0, b""
    while at + 12 <= len(head):
        kind, size = (int.from_bytes(head[begin : begin + 4], order) for begin in (at, at + 4))
        if size < 12 or size % 4 or at + size > len(head) or kind in PACKET_KINDS or (at and kind == SECTION_KIND):
            break
        if kind == INTERFACE_KIND or not at:
            described += head[at : at + size]
        at += size
    return Start(described, 0, 0) if at else None


def read_at(raw: SeekableFile, position: int, size: int) -> bytes:
    """Return *size* bytes at a position, fewer only at the end of the file."""
    raw.seek(position)
    buffer = memoryview(bytearray(size))
    filled = 0
    while filled < size:
        count = raw.readinto(buffer[filled:]) or 0
        if count == 0:
            break
        filled += count
    return bytes(buffer[:filled])


# Guesses


def guess_boundary(window: bytes, start: Start, *, whole: bool) -> int | None:
    """Return the first position in *window* with a chain of plausible headers; *whole*: the file ends with the window."""
    if not start.is_pcapng:
        return _guess_pcap(window, start, whole=whole)
    for at in range(len(window) - 11):
        if _is_block_chain(window, at, whole=whole):
            return at
    return None


def _guess_pcap(window: bytes, start: Start, *, whole: bool) -> int | None:
    scanner = PcapScanner(start.preamble)
    order = "big" if scanner.big_endian else "little"
    nanoseconds = start.preamble[:4] in (b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1")
    most_fraction = 1_000_000_000 if nanoseconds else 1_000_000
    header = 24 if start.preamble[:4] in MODIFIED else 16
    size = len(window)

    def number(at: int) -> int:
        return int.from_bytes(window[at : at + 4], order)  # type: ignore[arg-type]

    def follow(at: int) -> bool:
        links = 0
        while links < CHAIN:
            if at + header > size:
                return (links > 0 or whole) and (not whole or at == size or links >= 2)
            captured, original = number(at + 8), number(at + 12)
            plausible = (
                captured <= original <= 1 << 24
                and captured <= MAX_PACKET_SIZE
                and number(at + 4) < most_fraction
                and abs(number(at) - start.time) <= AROUND
            )
            if not plausible:
                return False
            at += header + captured
            links += 1
        return True

    return next((at for at in range(max(0, size - header + 1)) if follow(at)), None)


def _is_block_chain(window: bytes, at: int, *, whole: bool) -> bool:
    """Return whether consecutive blocks, each with its length at both ends, begin here."""
    orders: tuple[Any, ...] = ("little", "big")
    return any(_follow_blocks(window, at, order, whole=whole) for order in orders)


def _follow_blocks(  # noqa: PLR0911 - each is another reason
    window: bytes, at: int, order: Any, *, whole: bool
) -> bool:
    links, size = 0, len(window)
    while links < CHAIN:
        if at == size and links:
            return True
        if at + 12 > size:
            return links >= 2
        kind = int.from_bytes(window[at : at + 4], order)
        if window[at : at + 4] == SECTION_MAGIC:
            order = "big" if window[at + 8 : at + 12] == b"\x1a\x2b\x3c\x4d" else "little"
        elif kind not in BLOCK_KINDS:
            return False
        length = int.from_bytes(window[at + 4 : at + 8], order)
        if length < 12 or length % 4 or length > MAX_BLOCK_SIZE:
            return False
        if at + length > size:
            return links >= 2 and not whole
        if window[at + length - 4 : at + length] != window[at + 4 : at + 8]:
            return False
        at += length
        links += 1
    return True


# Parts


class PartReader:
    """Reads the packets that begin in a part, many at a time.

    ``position`` is behind the last packet, ``buffer_position`` is that of the batch's buffer, both in the file.
    """

    def __init__(
        self, raw: SeekableFile, start: int, stop: int, preamble: bytes, *, packets: int = BATCH_PACKETS
    ) -> None:
        self.position = self.buffer_position = start
        self.problem: str | None = None
        self.at_end = False
        self.scanner: PcapScanner | PcapngScanner
        if preamble.startswith(SECTION_MAGIC):
            self.scanner, self._least = PcapngScanner(), 12
            _prime(self.scanner, preamble)
        else:
            self.scanner, self._least = PcapScanner(preamble), 24 if preamble[:4] in MODIFIED else 16
        self._raw = raw
        self._stop = stop
        self._packets = packets
        self._buffer = bytearray(READ)
        self._filled = 0
        self._end_of_file = False

    def batches(self) -> Iterator[PacketBatch]:
        """Yield packets; each batch is valid until the next one."""
        batch = PacketBatch(self._packets)
        self._raw.seek(self.position)
        at = 0  # position in the buffer of the unscanned bytes
        while self.position < self._stop and self.problem is None:
            needed = max(self.scanner.needed, self._least)
            inside = max(min(self._filled - at, self._stop - self.position), 0)
            size = inside if inside >= needed else needed
            if self._filled - at < size:
                if not self._fill(at, size):
                    break
                at = 0
                continue
            batch.lend(self._buffer)
            end = self.scanner.scan(batch, at, at + size)
            moved, at = end - at, end
            self.position += moved
            self.buffer_position = self.position - at
            if batch.count:
                yield batch
            batch.clear()
            self.problem = self.scanner.problem
        batch.clear()

    def _fill(self, at: int, size: int) -> bool:
        """Move the unscanned bytes to the front and read until there are *size* bytes; return False at the end of the file."""
        rest = self._filled - at
        buffer = self._buffer if size <= len(self._buffer) else bytearray(size)
        buffer[:rest] = self._buffer[at : self._filled]
        self._buffer, self._filled = buffer, rest
        while self._filled < size and not self._end_of_file:
            count = self._raw.readinto(memoryview(buffer)[self._filled :]) or 0
            self._end_of_file = count == 0
            self._filled += count
        if self._filled >= size:
            return True
        self.at_end = True
        if self._filled:
            self.problem = f"the file ends within a packet or block, {self._filled} bytes of it are there"
        return False


def _prime(scanner: PcapngScanner, preamble: bytes) -> None:
    """Let a scanner read a section header and its interfaces."""
    batch = PacketBatch(1)
    batch.lend(preamble)
    scanner.scan(batch, 0, len(preamble))
    batch.clear()


def survey_part(
    raw: SeekableFile, part: Part, start: Start, write: WriteBlocks | None = None, *, stays: bool = False
) -> PartSurvey:
    """Return facts about a part, from the headers of its packets.

    Args:
        raw: its file.
        part: which.
        start: how the file begins.
        write: gets the blocks of its packets, which are numbered through the part.
        stays: blocks have the places of payloads in the file instead of payloads.
    """
    begins: int | None = part.start
    if not part.known:
        window = read_at(raw, part.start, WINDOW)
        guess = guess_boundary(window, start, whole=len(window) < WINDOW)
        begins = None if guess is None else part.start + guess
        if begins is None or begins >= part.stop:
            return PartSurvey(part, begins, begins or part.start, part.preamble)
    assert begins is not None
    reader, survey = PartReader(raw, begins, part.stop, part.preamble), Survey()
    blocks = None if write is None else BlockWriter(survey=survey)
    packets = 0
    for batch in reader.batches():
        if write is None or blocks is None:
            survey.receive(batch, packets + 1)
        else:
            write(blocks.receive(batch, packets + 1, reader.buffer_position if stays else -1))
        packets += batch.count
    result = PartSurvey(part, begins, reader.position, part.preamble, packets, reader.problem, reader.at_end)
    scanner = reader.scanner
    if isinstance(scanner, PcapngScanner):
        result.next_preamble, result.secrets = b"".join(scanner.descriptions), scanner.secrets
        if not scanner.descriptions_whole or scanner.without_time:
            result.unsplittable = "packets without a time" if scanner.without_time else "very many interfaces"
    if write is not None and blocks is not None:
        write(blocks.flush())
        result.unsplittable = FRAGMENTS_INSIDE if blocks.fragments else result.unsplittable
    if survey.fragments:
        result.unsplittable = "IP fragments, which belong together across parts"
    result.latest_ns, result.disorder_at, result.minima = survey.latest_ns, survey.disorder_at, survey.minima
    result.connections, result.servers = survey.connections, survey.servers
    return result


def divide(start: Start, size: int, parts: int, file: int = 0) -> list[Part]:
    """Return about *parts* parts of equal size of a file; only the first one is known to begin with a packet."""
    least = max(1, (size - start.first) // max(1, parts))
    begins = [start.first + number * least for number in range(parts)]
    ends = [*begins[1:], size]
    return [
        Part(begin, end, start.preamble, known=not number, file=file)
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
        if begin < end or not number
    ]


def settle(surveys: Iterable[PartSurvey], resurvey: Callable[[Part], PartSurvey]) -> list[PartSurvey]:
    """Check that each part begins where the one before in its file ends, survey it again if not, and number the packets.

    Parts behind damage in their file are left out, as an undivided reader ends there, too.
    """
    settled: list[PartSurvey] = []
    for _, of_file in groupby(surveys, key=lambda survey: survey.part.file):
        number = settled[-1].first_number + settled[-1].packets if settled else 1
        settled += _settle(of_file, resurvey, number)
    return settled


def _settle(surveys: Iterable[PartSurvey], resurvey: Callable[[Part], PartSurvey], number: int) -> list[PartSurvey]:
    settled: list[PartSurvey] = []
    end, preamble = -1, b""
    for survey in surveys:
        checked = survey
        if settled:
            if end >= survey.part.stop > survey.part.start:
                continue  # it lies completely inside a packet of the part before
            if survey.start != end or survey.part.preamble != preamble:
                checked = resurvey(Part(end, survey.part.stop, preamble, known=True, file=survey.part.file))
        checked.first_number = number
        number += checked.packets
        end, preamble = checked.end, checked.next_preamble
        settled.append(checked)
        if checked.problem is not None or checked.at_end:
            break
    return settled


def first_disorder(surveys: Iterable[PartSurvey], disorder_ns: int = 100_000) -> int:
    """Return the number of the packet from which on Flows would find the capture shuffled; 0 if it is not."""
    latest: int | None = None
    for survey in surveys:
        numbers = [survey.disorder_at] if survey.disorder_at else []
        if latest is not None:
            numbers += [number for number, time in survey.minima if time < latest - disorder_ns][:1]
        if numbers:
            return survey.first_number - 1 + min(numbers)
        if survey.packets:
            latest = survey.latest_ns if latest is None else max(latest, survey.latest_ns)
    return 0
