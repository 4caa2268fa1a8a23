"""The TCP segments of a part of a capture: what they show at a glance, and blocks of them by connection, to be sent elsewhere.

    Survey        what a part of a capture shows that the reading of all parts needs
    BlockWriter   packets in, blocks out; a block has segments of one connection in the order of the capture
    fill          a block whose payloads were left in the file, with them
    Flows.receive_block (reassembly.pyx) takes them in again, in another process, as if they came from the capture

A block is a row of segments, each a header of SEGMENT_HEADER bytes (``struct SegmentHeader`` in segments.pxd, in the byte order of
the machine) and its payload, or the place in the file where that is: ``fill`` puts it there. Packets are numbered through the whole
capture, from 1: what happens at a packet has its number.
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
from kproxy.capture.tunnels import open_tunnel
from kproxy.capture.unwrap import NOT_IP, OTHER_PROTOCOL, UDP

SEGMENT_HEADER: int = sizeof(SegmentHeader)
BLOCK_SIZE: int = 64 << 10
MOST_PENDING: int = 32 << 20
MOST_KEYS = 65_536  # connections of a part that a survey tells apart
MOST_MINIMA = 4_096
MAX_UNWRAPPED = 4
cdef Py_ssize_t MAX_PAYLOAD = MAX_PACKET_SIZE
cdef Py_ssize_t RUN_SIZE = 64 << 10  # bytes that are read from the file at once
cdef Py_ssize_t MAX_BETWEEN = 512  # bytes between two payloads that are read, too, rather than reading twice: headers
cdef int64_t DISORDER_NS = 100_000  # as in reassembly.pyx


cdef class Survey:
    """What the packets of one part show.

    segments, fragments: how many packets are TCP segments, and IP fragments, which belong to no connection until they are whole.
    latest_ns: of the segments. disorder_at: the first packet whose time lies before those of the part by so much that the capture
    is shuffled (0: none). minima: (number, time) of each segment earlier than all before it: with the latest time of the parts
    before, they tell whether it is shuffled from there. connections: key -> [first packet, whether that is a SYN, bytes].
    servers: endpoint (address and port, as bytes) -> the first packet of a handshake that it accepts.
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
        """Look at packets of which the first has number *first*."""
        cdef Py_ssize_t i
        cdef PacketRef* ref
        cdef Segment segment
        cdef Outcome outcome
        for i in range(batch.count):
            ref = &batch.refs[i]
            outcome = dissect(batch.data(ref), ref.size, ref.original_size, ref.link_type, &segment)
            if outcome == SEGMENT:
                self.segments += 1
                self._note_time(ref.time_ns, first + i)
                self._note(&segment, first + i)
            elif outcome == FRAGMENT:
                self.fragments += 1

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
    """Packets to blocks: (key of the connection, number of the first packet, bytes).

    Packets inside tunnels are opened. IP fragments are only counted: their datagrams are whole only where all packets are seen.
    """

    cdef readonly uint64_t fragments
    cdef dict _pending
    cdef Py_ssize_t _size
    cdef Py_ssize_t _block_size
    cdef Py_ssize_t _most
    cdef list _ready

    def __init__(self, Py_ssize_t block_size=BLOCK_SIZE, Py_ssize_t most=MOST_PENDING):
        self._pending = {}
        self._ready = []
        self._block_size = block_size
        self._most = most

    def receive(self, PacketBatch batch, uint64_t first, int64_t position=-1) -> list[tuple[bytes, int, bytes]]:
        """Take packets of which the first has number *first*; return the blocks that are full.

        With *position*, where in the file the buffer of the batch begins, payloads are left there: see ``fill``.
        """
        cdef Py_ssize_t i
        for i in range(batch.count):
            self._receive(batch, i, first + i, position, 0)
        if self._size > self._most:
            return self.flush()
        ready, self._ready = self._ready, []
        return ready

    def flush(self) -> list[tuple[bytes, int, bytes]]:
        """The blocks that are not full, too."""
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


def fill(bytes block, int file) -> bytes:
    """A block with the payloads that were left in a file, given as a descriptor; a block without such as it is.

    Raises OSError, EOFError where the file ends before them, and ValueError for what is no block.
    """
    cdef const uint8_t* data = <const uint8_t*><const char*>block
    cdef Py_ssize_t size = len(block), filled = _filled_size(data, size), at = 0, out = 0, end, stop
    cdef SegmentHeader header
    cdef InFile entry
    if filled == size:
        return block
    cdef bytes result = PyBytes_FromStringAndSize(NULL, filled)
    cdef uint8_t* target = <uint8_t*><char*>result
    cdef bytes run = PyBytes_FromStringAndSize(NULL, RUN_SIZE)
    cdef uint8_t* read = <uint8_t*><char*>run
    cdef uint64_t begin = 0, known = 0  # the bytes of the file that are in run
    while at < size:
        memcpy(&header, data + at, sizeof(header))
        if not header.in_file:
            memcpy(target + out, data + at, sizeof(header) + header.size)
            at += <Py_ssize_t>sizeof(header) + header.size
            out += <Py_ssize_t>sizeof(header) + header.size
            continue
        memcpy(&entry, data + at, sizeof(entry))
        at += <Py_ssize_t>sizeof(entry)
        header.in_file = 0
        memcpy(target + out, &header, sizeof(header))
        out += <Py_ssize_t>sizeof(header)
        if not begin <= entry.place <= entry.place + header.size <= known:
            end, stop = _run(data, size, at, entry.place, header.size), out + <Py_ssize_t>header.size
            if end == <Py_ssize_t>header.size:
                _read(file, target + out, end, entry.place)
                out = stop
                continue
            _read(file, read, end, entry.place)
            begin, known = entry.place, entry.place + end
        memcpy(target + out, read + (entry.place - begin), header.size)
        out += header.size
    return result


cdef Py_ssize_t _filled_size(const uint8_t* data, Py_ssize_t size) except -1:
    """The bytes of a block with its payloads; this checks it, too."""
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
    """How many bytes from *begin*, where the file has *length* bytes of payload, have the payloads from *at* on, too."""
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
