# The reader of pcapng files.

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from kproxy.capture.packets cimport PacketBatch, PacketRef
from kproxy.capture.spans cimport Span


cdef struct Clock:
    int64_t offset_ns
    uint64_t scale  # nanoseconds of a unit, or units of a nanosecond when fine
    uint32_t digits
    bint fine
    bint binary


cdef struct InterfaceRef:
    Clock clock
    uint32_t snaplen
    uint16_t link_type


cdef class PcapngScanner:
    cdef readonly str problem
    cdef readonly Py_ssize_t needed
    cdef readonly bint big_endian
    cdef readonly list secrets
    cdef readonly uint64_t secrets_passed_over
    cdef readonly uint64_t sizes_contradict
    cdef readonly uint64_t blocks_passed_over
    cdef readonly uint64_t without_time
    cdef bint _in_section
    cdef Py_ssize_t _secrets_size
    cdef Py_ssize_t _secrets_limit
    cdef InterfaceRef* _interfaces
    cdef uint32_t _interface_count
    cdef uint32_t _interface_capacity
    cdef int64_t _last_time_ns

    cpdef Py_ssize_t scan(self, PacketBatch batch, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef Py_ssize_t _block_size(self, Span* span, Py_ssize_t start) except -1
    cdef int _read_block(self, PacketBatch batch, Span* span, Py_ssize_t start, Py_ssize_t size) except -1
    cdef int _begin_section(self) except -1
    cdef int _add_interface(self, bytes body) except -1
    cdef int _keep_secrets(self, PacketBatch batch, Span* span, Py_ssize_t start, Py_ssize_t end) except -1
    cdef int _enhanced(self, PacketBatch batch, Span* span, Py_ssize_t start, Py_ssize_t end, uint32_t kind) except -1
    cdef int _simple(self, PacketBatch batch, Span* span, Py_ssize_t start, Py_ssize_t end) except -1
    cdef PacketRef* _place(
        self, PacketBatch batch, uint32_t interface, Py_ssize_t start, Py_ssize_t end, uint32_t size, uint32_t original
    ) except? NULL
