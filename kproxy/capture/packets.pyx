"""Packets as a capture file holds them: many at a time for the fast path, one object each for everybody else."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free

from dataclasses import dataclass

from kproxy.capture.options import COMMENT, read_options

BATCH_PACKETS = 4096
cdef const uint8_t* NOTHING = b""


@dataclass(slots=True)
class Packet:
    """One captured packet; it owns its bytes."""

    time_ns: int
    link_type: int
    data: bytes
    original_size: int
    comment: str | None = None


cdef class PacketBatch:
    """Where packets lie in a buffer that a reader lends: valid until the reader is asked for the next batch."""

    def __cinit__(self, Py_ssize_t capacity=BATCH_PACKETS):
        if not 0 < capacity <= 1 << 20:
            raise ValueError("a batch holds between 1 and 1,048,576 packets")
        self.refs = <PacketRef*>calloc(capacity, sizeof(PacketRef))
        if self.refs == NULL:
            raise MemoryError
        self.capacity = capacity
        self.count = 0

    def __dealloc__(self):
        free(self.refs)

    def __len__(self):
        return self.count

    def lend(self, buffer):
        """Start over, with packets to be found in *buffer*."""
        self.view = buffer
        self.count = 0

    def clear(self):
        """Forget the packets and the buffer."""
        self.view = None
        self.count = 0

    def add_packet(self, packet):
        """Add a Packet whose bytes are the buffer's own; for packets that do not come from a file."""
        cdef PacketRef* ref = self.add()
        ref.time_ns = packet.time_ns
        ref.link_type = packet.link_type
        ref.start = 0
        ref.size = <uint32_t>min(<Py_ssize_t>len(packet.data), self.view.shape[0])
        ref.original_size = max(ref.size, <uint32_t>min(packet.original_size, 0xFFFFFFFF))

    def __iter__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            yield self.packet(i)

    def packet(self, Py_ssize_t index):
        """Return packet *index* as an object with its own bytes."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        cdef PacketRef* ref = &self.refs[index]
        data = PyBytes_FromStringAndSize(<const char*>self.data(ref), ref.size)
        return Packet(ref.time_ns, ref.link_type, data, ref.original_size, self._comment(ref))

    cdef object _comment(self, PacketRef* ref):
        if ref.options_size == 0:
            return None
        options = bytes(self.view[ref.options_start : ref.options_start + ref.options_size])
        for code, value in read_options(options, bool(ref.big_endian)):
            if code == COMMENT:
                return value.decode("utf-8", "replace")
        return None

    cdef bint full(self) noexcept:
        return self.count >= self.capacity

    cdef PacketRef* add(self) except NULL:
        if self.count >= self.capacity:
            raise IndexError("the batch is full")
        self.count += 1
        return &self.refs[self.count - 1]

    cdef const uint8_t* data(self, PacketRef* ref) except NULL:
        # The one place where a packet's place in the buffer becomes a pointer.
        if ref.size == 0:
            return NOTHING
        if ref.start < 0 or ref.start > self.view.shape[0] - <Py_ssize_t>ref.size:
            raise IndexError("packet outside its buffer")
        return &self.view[ref.start]
