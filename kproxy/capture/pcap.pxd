# The reader of pcap files.

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from kproxy.capture.packets cimport PacketBatch


cdef class PcapScanner:
    cdef readonly str problem
    cdef readonly Py_ssize_t needed
    cdef readonly bint big_endian
    cdef readonly uint16_t link_type
    cdef readonly uint32_t snaplen
    cdef readonly uint64_t sizes_contradict
    cdef int64_t _fraction_ns
    cdef Py_ssize_t _record_header

    cpdef Py_ssize_t scan(self, PacketBatch batch, Py_ssize_t start, Py_ssize_t stop) except -1
