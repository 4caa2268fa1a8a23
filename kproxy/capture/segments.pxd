# The format of a segment in a block, for reassembly.pyx.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef packed struct SegmentHeader:
    uint64_t number  # its packet's number in the capture
    int64_t time_ns
    uint32_t sequence
    uint32_t acknowledgment
    uint32_t size  # bytes of the payload, which follows, or whose place in the file follows
    uint32_t missing
    uint8_t flags
    uint8_t side
    uint16_t in_file  # 1: the payload is left in the file; its position, a uint64_t, follows


cdef class Payloads:
    cdef object _source  # type: Any
    cdef int _file
    cdef str _name
    cdef uint8_t* _buffer
    cdef Py_ssize_t _capacity
    cdef uint64_t _begin
    cdef uint64_t _end

    cdef const uint8_t* at(self, uint64_t place, Py_ssize_t size, const uint8_t* rest, Py_ssize_t left) except NULL
    cdef int _read(self, uint64_t place, Py_ssize_t size) except -1
