"""Read the TCP segments of one part of a capture, to be reassembled in another process.

    Survey        facts about a part of a capture that the reader of any part needs
    BlockWriter   packs packets into blocks; a block has segments of one connection in the order of the capture
    Payloads      payloads that were left in the file
    Flows.receive_block (reassembly.pyx) reads blocks in another process, as if they were the capture

A block is a sequence of segments, each a header of SEGMENT_HEADER bytes (``struct SegmentHeader`` in segments.pxd, in the machine's
byte order) and its payload, or the payload's position in the file. Packets are numbered from 1, through the part that is being read;
through the capture where the packets before the part are known.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy
from posix.unistd cimport pread

from kproxy.capture.links cimport ACK, FRAGMENT, RST, SEGMENT, SYN, Outcome, Segment, dissect
from kproxy.capture.scanners cimport PacketBatch, PacketRef
from kproxy.capture.segments cimport SegmentHeader
from kproxy.protocol.wire cimport Buffer, put

from typing import Any  # no-cython-lint

from kproxy.capture.links import OUTCOME_NAMES
from kproxy.capture.scanners import PacketBatch as NewBatch
from kproxy.capture.unwrap import open_tunnel
from kproxy.capture.unwrap import NOT_IP, OTHER_PROTOCOL, UDP
from kproxy.errors import CaptureError

SEGMENT_HEADER: int = sizeof(SegmentHeader)
BLOCK_SIZE: int = 64 << 10
MOST_PENDING: int = 32 << 20
MOST_KEYS = 65_536  # connections that a survey of a part distinguishes
MOST_MINIMA = 4_096
MAX_UNWRAPPED = 4
cdef Py_ssize_t RUN_SIZE = 64 << 10  # bytes to read from the file at a time
cdef Py_ssize_t MAX_BETWEEN = 512  # payloads at most this far apart (headers between them) are read together
cdef int64_t DISORDER_NS = 100_000  # as in reassembly.pyx


cdef class Survey:
    """Facts about the packets of one part.

    segments, fragments: numbers of TCP segments and of IP fragments, whose connections are unknown until they are reassembled.
    latest_ns: the latest time of a segment. disorder_at: the first packet so much earlier than others of the part before it that
    the capture is shuffled (0: none). minima: (number, time) of each segment that is earlier than all before it in the part;
    compared with the latest time of earlier parts, they show where the capture becomes shuffled. connections: key -> [first packet,
    whether it is a SYN, bytes]. servers: endpoint (address and port, as bytes) -> first packet of a handshake that it accepted.
    """

    cdef readonly uint64_t segments
    cdef readonly uint64_t fragments
    cdef readonly int64_t latest_ns
    cdef readonly uint64_t disorder_at
    cdef readonly list minima  # type: list[tuple[int, int]]
    cdef readonly dict connections  # type: dict[bytes, list[int]]
    cdef readonly dict servers  # type: dict[bytes, int]
    cdef int64_t _earliest_ns

    def __init__(self):
        self.latest_ns, self._earliest_ns = INT64_MIN, INT64_MAX
        self.minima = []
        self.connections = {}
        self.servers = {}

    def receive(self, PacketBatch batch, uint64_t first) -> None:
        """Add packets; the first of them has number *first*."""
        cdef Py_ssize_t i
        cdef PacketRef* ref
        cdef Segment segment
        cdef Outcome outcome
        for i in range(batch.count):
            ref = &batch.refs[i]
            outcome = dissect(batch.data(ref), ref.size, ref.original_size, ref.link_type, &segment)
            self.add(outcome, &segment, ref.time_ns, first + i)

    cdef int add(self, Outcome outcome, Segment* segment, int64_t time_ns, uint64_t number) except -1:
        """Add a packet that was dissected. A segment may be added in two steps, too: ``note_time``, ``count``."""
        if outcome == SEGMENT:
            self.note_time(time_ns, number)
            self._note(segment, number)
        elif outcome == FRAGMENT:
            self.fragments += 1
        return 0

    cdef int note_time(self, int64_t time_ns, uint64_t number) except -1:
        self.segments += 1
        if time_ns < self._earliest_ns:
            self._earliest_ns = time_ns
            if len(self.minima) < MOST_MINIMA:
                self.minima.append((number, time_ns))
        if time_ns > self.latest_ns:
            self.latest_ns = time_ns
        elif time_ns < self.latest_ns - DISORDER_NS and self.disorder_at == 0:
            self.disorder_at = number
        return 0

    cdef int _note(self, Segment* segment, uint64_t number) except -1:
        cdef bytes key = PyBytes_FromStringAndSize(<const char*>segment.key, segment.key_size)
        cdef list known = self.connections.get(key)
        cdef bint syn = segment.flags & SYN
        cdef bint server
        if known is None:
            if len(self.connections) >= MOST_KEYS:
                return 0
            known = self.connections[key] = [number, syn, 0]
        known[2] += <int64_t>segment.size
        if syn and not segment.flags & RST:
            server = segment.side if segment.flags & ACK else 1 - segment.side
            half = segment.key_size // 2
            end = key[half:] if server else key[:half]
            if end not in self.servers and len(self.servers) < MOST_KEYS:
                self.servers[end] = number
        return 0

    cdef int count(self, bytes key, Py_ssize_t size) except -1:
        """Add bytes to a connection."""
        cdef list known = self.connections.get(key)
        if known is not None:
            known[2] += size
        return 0


cdef class _Pending:
    cdef bytes key
    cdef uint64_t first
    cdef Py_ssize_t payloads
    cdef bint surveyed  # the survey knows the connection, but not yet the bytes of these segments:
    cdef Py_ssize_t uncounted
    cdef Buffer buffer

    def __dealloc__(self):
        free(self.buffer.data)


cdef class BlockWriter:
    """Packs packets into blocks: (key of the connection, number of the first packet, bytes).

    Packets inside tunnels are unpacked. IP fragments are only counted: reassembling them takes all packets of the capture.

    Args:
        block_size: bytes with which a block is full.
        most: bytes of all blocks that are not full.
        survey: gets each packet, too; what is inside tunnels only goes into blocks.
    """

    cdef readonly uint64_t fragments
    cdef dict _pending
    cdef _Pending _last  # that got a segment
    cdef Py_ssize_t _size
    cdef Py_ssize_t _block_size
    cdef Py_ssize_t _most
    cdef list _ready
    cdef Survey _survey

    def __init__(
        self, Py_ssize_t block_size=BLOCK_SIZE, Py_ssize_t most=MOST_PENDING, survey: Survey | None = None
    ):
        self._survey = survey
        self._pending = {}
        self._ready = []
        self._block_size = block_size
        self._most = most

    def receive(self, PacketBatch batch, uint64_t first, int64_t position=-1) -> list[tuple[bytes, int, bytes]]:
        """Add packets, numbered from *first*; return the blocks that are full.

        With *position*, the position of the batch's buffer in the file, payloads stay in the file.
        """
        cdef Py_ssize_t i
        for i in range(batch.count):
            self._receive(batch, i, first + i, position, 0)
        if self._size > self._most:
            return self.flush()
        ready, self._ready = self._ready, []
        return ready

    def flush(self) -> list[tuple[bytes, int, bytes]]:
        """Return all remaining blocks."""
        cdef _Pending pending
        for pending in self._pending.values():
            self._finish(pending)
        self._pending = {}
        self._last = None
        self._size = 0
        ready, self._ready = self._ready, []
        return ready

    cdef int _receive(
        self, PacketBatch batch, Py_ssize_t index, uint64_t number, int64_t position, int depth
    ) except -1:
        cdef PacketRef* ref = &batch.refs[index]
        cdef const uint8_t* data = batch.data(ref)
        cdef Segment segment
        cdef Outcome outcome = dissect(data, ref.size, ref.original_size, ref.link_type, &segment)
        if outcome == SEGMENT:
            position = position if position < 0 else position + ref.start
            return self._add(&segment, data, ref.time_ns, number, position, self._survey if depth == 0 else None)
        if self._survey is not None and depth == 0:
            self._survey.add(outcome, &segment, ref.time_ns, number)
        if outcome == FRAGMENT:
            self.fragments += 1
            return 0
        what = OUTCOME_NAMES[<int>outcome]
        if depth >= MAX_UNWRAPPED or what not in (NOT_IP, UDP, OTHER_PROTOCOL):
            return 0
        inside = open_tunnel(batch.packet(index), what)
        for packet in () if isinstance(inside, str) else inside:
            one = NewBatch(1)
            one.lend(packet.data)
            one.add_packet(packet)
            self._receive(one, 0, number, -1, depth + 1)
        return 0

    cdef int _add(
        self, Segment* segment, const uint8_t* data, int64_t time_ns, uint64_t number, int64_t position, Survey survey
    ) except -1:
        cdef _Pending pending = self._pending_of(segment, number)
        cdef SegmentHeader header
        cdef uint64_t place = 0 if position < 0 else position + segment.payload
        cdef Py_ssize_t before = pending.buffer.size
        if survey is None:
            pass
        elif pending.surveyed and not segment.flags & SYN:
            survey.note_time(time_ns, number)
            pending.uncounted += segment.size
        else:
            survey.add(SEGMENT, segment, time_ns, number)
            pending.surveyed = True
        header.number, header.time_ns = number, time_ns
        header.sequence, header.acknowledgment = segment.sequence, segment.acknowledgment
        header.size, header.missing = segment.size, segment.missing
        header.flags, header.side = segment.flags, segment.side
        header.in_file = position >= 0 and segment.size > sizeof(place)
        put(&pending.buffer, <const uint8_t*>&header, sizeof(SegmentHeader))
        if header.in_file:
            put(&pending.buffer, <const uint8_t*>&place, sizeof(place))
        else:
            put(&pending.buffer, data + segment.payload, segment.size)
        self._size += pending.buffer.size - before
        pending.payloads += <Py_ssize_t>sizeof(SegmentHeader) + segment.size
        if pending.payloads >= self._block_size:
            self._size -= pending.buffer.size
            self._finish(pending)
            self._last = None
            del self._pending[pending.key]
        return 0

    cdef _Pending _pending_of(self, Segment* segment, uint64_t number):
        cdef _Pending last = self._last
        if (
            last is not None and len(last.key) == segment.key_size
            and memcmp(<const char*>last.key, segment.key, segment.key_size) == 0
        ):
            return last
        cdef bytes key = PyBytes_FromStringAndSize(<const char*>segment.key, segment.key_size)
        last = self._pending.get(key)
        if last is None:
            last = self._pending[key] = _Pending.__new__(_Pending)
            last.key = key
            last.first = number
        self._last = last
        return last

    cdef int _finish(self, _Pending pending) except -1:
        block = PyBytes_FromStringAndSize(<const char*>pending.buffer.data, pending.buffer.size)
        self._ready.append((pending.key, pending.first, block))
        if pending.uncounted:
            self._survey.count(pending.key, pending.uncounted)
        return 0


cdef packed struct InFile:
    SegmentHeader header
    uint64_t place


cdef class Payloads:
    """The payloads that were left in a file, in the order of blocks. *file* is open without a buffer; *name* is for messages.

    Raises CaptureError where the file has become shorter, or cannot be read.
    """

    def __init__(self, file: Any, name: str):
        self._source = file
        self._file = file.fileno()
        self._name = name

    def __dealloc__(self):
        free(self._buffer)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    cdef const uint8_t* at(self, uint64_t place, Py_ssize_t size, const uint8_t* rest, Py_ssize_t left) except NULL:
        """Return the bytes of a payload; valid until the next one. Those of the segments in *rest* may be read with it."""
        if not self._begin <= place <= place + size <= self._end:
            self._read(place, _run(rest, left, place, size))
        return self._buffer + (place - self._begin)

    cdef int _read(self, uint64_t place, Py_ssize_t size) except -1:
        cdef Py_ssize_t count = 1, filled = 0
        cdef uint8_t* buffer
        self._begin = self._end = 0
        if size > self._capacity:
            buffer = <uint8_t*>realloc(self._buffer, max(size, RUN_SIZE))
            if buffer == NULL:
                raise MemoryError
            self._buffer, self._capacity = buffer, max(size, RUN_SIZE)
        while filled < size and count > 0:
            with nogil:
                count = pread(self._file, self._buffer + filled, size - filled, <int64_t>place + filled)
            filled += max(count, 0)
        if filled < size:
            raise CaptureError(f"{self._name}: it changed while it was being read")
        self._begin, self._end = place, place + size
        return 0


cdef Py_ssize_t _run(const uint8_t* data, Py_ssize_t size, uint64_t begin, Py_ssize_t length) noexcept:
    """Return how many bytes of the file, from *begin* on, hold a payload of *length* bytes and those close behind it."""
    cdef InFile entry
    cdef uint64_t end = begin + length
    cdef Py_ssize_t at = 0
    while size - at >= <Py_ssize_t>sizeof(entry):
        memcpy(&entry, data + at, sizeof(entry))
        if not entry.header.in_file:
            if entry.header.size:
                break
            at += <Py_ssize_t>sizeof(SegmentHeader)
            continue
        if not end <= entry.place <= end + MAX_BETWEEN or entry.place + entry.header.size - begin > <uint64_t>RUN_SIZE:
            break
        end = entry.place + entry.header.size
        at += <Py_ssize_t>sizeof(entry)
    return <Py_ssize_t>(end - begin)
