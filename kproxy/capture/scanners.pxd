# Where packets lie in a buffer, for kproxy.capture.reassembly.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t


cdef struct PacketRef:
    int64_t time_ns
    Py_ssize_t start  # in the batch's buffer
    Py_ssize_t options_start  # pcapng options that follow the packet; size 0: none
    uint32_t options_size
    uint32_t size  # bytes captured
    uint32_t original_size  # bytes on the wire, never less than size
    uint16_t link_type
    bint big_endian  # of the options


cdef class PacketBatch:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t capacity
    cdef const uint8_t* lent  # NULL without a buffer
    cdef Py_ssize_t size
    cdef Py_buffer _buffer
    cdef PacketRef* refs

    cdef void _release(self) noexcept
    cdef bytes copy(self, Py_ssize_t start, Py_ssize_t stop)
    cdef object _comment(self, PacketRef* ref)
    cdef bint full(self) noexcept
    cdef PacketRef* add(self) except NULL
    cdef const uint8_t* data(self, PacketRef* ref) except NULL
