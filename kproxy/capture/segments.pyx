"""Read the TCP segments of one part of a capture, to be reassembled in another process.

    Survey        facts about a part of a capture that the reader of any part needs
    BlockWriter   packs packets into blocks; a block has segments of one connection in the order of the capture
    fill          adds payloads that were left in the file to a block, and numbers its packets through the capture
    Flows.receive_block (reassembly.pyx) reads blocks in another process, as if they were the capture

A block is a sequence of segments, each a header of SEGMENT_HEADER bytes (``struct SegmentHeader`` in segments.pxd, in the machine's
byte order) and its payload, or the payload's position in the file, for ``fill``. Packets are numbered from 1, through the part that
is being read; through the capture where the packets before the part are known.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, strerror
from posix.unistd cimport pread

from kproxy.capture.links cimport ACK, FRAGMENT, RST, SEGMENT, SYN, Outcome, Segment, dissect
from kproxy.capture.scanners cimport PacketBatch, PacketRef
from kproxy.capture.segments cimport SegmentHeader
from kproxy.protocol.wire cimport Buffer, put

from kproxy.capture.links import OUTCOME_NAMES
from kproxy.capture.scanners import MAX_PACKET_SIZE
from kproxy.capture.scanners import PacketBatch as NewBatch
from kproxy.capture.unwrap import open_tunnel
from kproxy.capture.unwrap import NOT_IP, OTHER_PROTOCOL, UDP

SEGMENT_HEADER: int = sizeof(SegmentHeader)
BLOCK_SIZE: int = 64 << 10
MOST_PENDING: int = 32 << 20
MOST_KEYS = 65_536  # connections that a survey of a part distinguishes
MOST_MINIMA = 4_096
MAX_UNWRAPPED = 4
cdef Py_ssize_t MAX_PAYLOAD = MAX_PACKET_SIZE
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
        """Add a packet that was dissected."""
        if outcome == SEGMENT:
            self.segments += 1
            self._note_time(time_ns, number)
            self._note(segment, number)
        elif outcome == FRAGMENT:
            self.fragments += 1
        return 0

    cdef int _note_time(self, int64_t time_ns, uint64_t number) except -1:
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
        known[2] = known[2] + <int64_t>segment.size
        if syn and not segment.flags & RST:
            server = segment.side if segment.flags & ACK else 1 - segment.side
            half = segment.key_size // 2
            end = key[half:] if server else key[:half]
            if end not in self.servers and len(self.servers) < MOST_KEYS:
                self.servers[end] = number
        return 0


cdef class _Pending:
    cdef bytes key
    cdef uint64_t first
    cdef Py_ssize_t payloads
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

        With *position*, the position of the batch's buffer in the file, payloads stay in the file: see ``fill``.
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
        if self._survey is not None and depth == 0:
            self._survey.add(outcome, &segment, ref.time_ns, number)
        if outcome == SEGMENT:
            return self._add(&segment, data, ref.time_ns, number, position if position < 0 else position + ref.start)
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
        self, Segment* segment, const uint8_t* data, int64_t time_ns, uint64_t number, int64_t position
    ) except -1:
        cdef bytes key = PyBytes_FromStringAndSize(<const char*>segment.key, segment.key_size)
        cdef _Pending pending = self._pending.get(key)
        cdef SegmentHeader header
        cdef uint64_t place = 0 if position < 0 else position + segment.payload
        cdef Py_ssize_t before
        if pending is None:
            pending = self._pending[key] = _Pending.__new__(_Pending)
            pending.key = key
            pending.first = number
        header.number, header.time_ns = number, time_ns
        header.sequence, header.acknowledgment = segment.sequence, segment.acknowledgment
        header.size, header.missing = segment.size, segment.missing
        header.flags, header.side = segment.flags, segment.side
        header.in_file = position >= 0 and segment.size > sizeof(place)
        before = pending.buffer.size
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
            del self._pending[key]
        return 0

    cdef int _finish(self, _Pending pending) except -1:
        block = PyBytes_FromStringAndSize(<const char*>pending.buffer.data, pending.buffer.size)
        self._ready.append((pending.key, pending.first, block))
        return 0


cdef packed struct InFile:
    SegmentHeader header
    uint64_t place


def fill(bytes block, int file, uint64_t before=0) -> bytes:
    """Return a block with the payloads that were left in a file (a descriptor), and *before* added to the numbers of packets.

    Raises OSError, EOFError if the file is too short, and ValueError for bytes that are not a block.
    """
    cdef const uint8_t* data = <const uint8_t*><const char*>block
    cdef Py_ssize_t size = len(block), filled = _filled_size(data, size), at = 0, out = 0, end, stop
    cdef SegmentHeader header
    cdef InFile entry
    if filled == size and before == 0:
        return block
    cdef bytes result = PyBytes_FromStringAndSize(NULL, filled)
    cdef uint8_t* target = <uint8_t*><char*>result
    cdef bytes run = PyBytes_FromStringAndSize(NULL, RUN_SIZE)
    cdef uint8_t* read = <uint8_t*><char*>run
    cdef uint64_t begin = 0, known = 0  # the bytes of the file that are in run
    while at < size:
        memcpy(&entry, data + at, min(<Py_ssize_t>sizeof(entry), size - at))
        header = entry.header
        header.number += before
        header.in_file = 0
        memcpy(target + out, &header, sizeof(header))
        out += <Py_ssize_t>sizeof(header)
        stop = out + <Py_ssize_t>header.size
        if not entry.header.in_file:
            at += <Py_ssize_t>sizeof(header)
            memcpy(target + out, data + at, header.size)
            at += <Py_ssize_t>header.size
            out = stop
            continue
        at += <Py_ssize_t>sizeof(entry)
        if not begin <= entry.place <= entry.place + header.size <= known:
            end = _run(data, size, at, entry.place, header.size)
            if end == <Py_ssize_t>header.size:
                _read(file, target + out, end, entry.place)
                out = stop
                continue
            _read(file, read, end, entry.place)
            begin, known = entry.place, entry.place + end
        memcpy(target + out, read + (entry.place - begin), header.size)
        out = stop
    return result


cdef Py_ssize_t _filled_size(const uint8_t* data, Py_ssize_t size) except -1:
    """Check a block, and return its size with all payloads."""
    cdef SegmentHeader header
    cdef Py_ssize_t at = 0, filled = 0
    while at < size:
        if size - at < <Py_ssize_t>sizeof(header):
            raise ValueError("a block ends within a segment")
        memcpy(&header, data + at, sizeof(header))
        at += <Py_ssize_t>sizeof(header)
        if <Py_ssize_t>header.size > MAX_PAYLOAD:
            raise ValueError(f"a segment of {header.size} bytes")
        if size - at < (<Py_ssize_t>sizeof(uint64_t) if header.in_file else <Py_ssize_t>header.size):
            raise ValueError("a block ends within a segment")
        at += <Py_ssize_t>sizeof(uint64_t) if header.in_file else <Py_ssize_t>header.size
        filled += <Py_ssize_t>sizeof(header) + header.size
    return filled


cdef Py_ssize_t _run(const uint8_t* data, Py_ssize_t size, Py_ssize_t at, uint64_t begin, Py_ssize_t length) noexcept:
    """Return how many bytes of the file, from *begin* on, hold a payload of *length* bytes and those close behind it."""
    cdef InFile entry
    cdef uint64_t end = begin + length
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


cdef int _read(int file, uint8_t* target, Py_ssize_t size, uint64_t position) except -1:
    cdef Py_ssize_t count
    while size > 0:
        with nogil:
            count = pread(file, target, size, <int64_t>position)
        if count < 0:
            raise OSError(errno, strerror(errno).decode())
        if count == 0:
            raise EOFError
        target += count
        size -= count
        position += count
    return 0
