"""The TCP segments of a part of a capture: what they show at a glance, and blocks of them by connection, to be sent elsewhere.

    Survey        what a part of a capture shows that the reading of all parts needs
    BlockWriter   packets in, blocks out; a block has segments of one connection in the order of the capture
    Flows.receive_block (reassembly.pyx) takes them in again, in another process, as if they came from the capture

A block is a row of segments, each a header of SEGMENT_HEADER bytes (``struct SegmentHeader`` in segments.pxd, in the byte order of
the machine) and its payload. Packets are numbered through the whole capture, from 1: what happens at a packet has its number.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free

from kproxy.capture.links cimport ACK, FRAGMENT, RST, SEGMENT, SYN, Outcome, Segment, dissect
from kproxy.capture.scanners cimport PacketBatch, PacketRef
from kproxy.capture.segments cimport SegmentHeader
from kproxy.protocol.wire cimport Buffer, put

from kproxy.capture.links import OUTCOME_NAMES
from kproxy.capture.scanners import PacketBatch as NewBatch
from kproxy.capture.tunnels import open_tunnel
from kproxy.capture.unwrap import NOT_IP, OTHER_PROTOCOL, UDP

SEGMENT_HEADER = sizeof(SegmentHeader)
BLOCK_SIZE = 64 << 10
MOST_PENDING = 32 << 20
MOST_KEYS = 65_536  # connections of a part that a survey tells apart
MOST_MINIMA = 4_096
MAX_UNWRAPPED = 4
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
    cdef readonly list minima
    cdef readonly dict connections
    cdef readonly dict servers
    cdef int64_t _earliest_ns

    def __init__(self):
        self.latest_ns, self._earliest_ns = INT64_MIN, INT64_MAX
        self.minima = []
        self.connections = {}
        self.servers = {}

    def receive(self, PacketBatch batch, uint64_t first):
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

    def receive(self, PacketBatch batch, uint64_t first):
        """Take packets of which the first has number *first*; return the blocks that are full."""
        cdef Py_ssize_t i
        for i in range(batch.count):
            self._receive(batch, i, first + i, 0)
        if self._size > self._most:
            return self.flush()
        ready, self._ready = self._ready, []
        return ready

    def flush(self):
        """The blocks that are not full, too."""
        cdef _Pending pending
        for pending in self._pending.values():
            self._finish(pending)
        self._pending = {}
        self._size = 0
        ready, self._ready = self._ready, []
        return ready

    cdef int _receive(self, PacketBatch batch, Py_ssize_t index, uint64_t number, int depth) except -1:
        cdef PacketRef* ref = &batch.refs[index]
        cdef const uint8_t* data = batch.data(ref)
        cdef Segment segment
        cdef Outcome outcome = dissect(data, ref.size, ref.original_size, ref.link_type, &segment)
        if outcome == SEGMENT:
            return self._add(&segment, data, ref.time_ns, number)
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
            self._receive(one, 0, number, depth + 1)
        return 0

    cdef int _add(self, Segment* segment, const uint8_t* data, int64_t time_ns, uint64_t number) except -1:
        cdef bytes key = PyBytes_FromStringAndSize(<const char*>segment.key, segment.key_size)
        cdef _Pending pending = self._pending.get(key)
        cdef SegmentHeader header
        cdef Py_ssize_t before
        if pending is None:
            pending = self._pending[key] = _Pending.__new__(_Pending)
            pending.key = key
            pending.first = number
        header.number, header.time_ns = number, time_ns
        header.sequence, header.acknowledgment = segment.sequence, segment.acknowledgment
        header.size, header.missing = segment.size, segment.missing
        header.flags, header.side, header.unused = segment.flags, segment.side, 0
        before = pending.buffer.size
        put(&pending.buffer, <const uint8_t*>&header, sizeof(SegmentHeader))
        put(&pending.buffer, data + segment.payload, segment.size)
        self._size += pending.buffer.size - before
        if pending.buffer.size >= self._block_size:
            self._size -= pending.buffer.size
            self._finish(pending)
            del self._pending[key]
        return 0

    cdef int _finish(self, _Pending pending) except -1:
        block = PyBytes_FromStringAndSize(<const char*>pending.buffer.data, pending.buffer.size)
        self._ready.append((pending.key, pending.first, block))
        return 0
