# How a segment is written in a block, as reassembly.pyx reads it.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef packed struct SegmentHeader:
    uint64_t number  # of its packet in the capture
    int64_t time_ns
    uint32_t sequence
    uint32_t acknowledgment
    uint32_t size  # of the payload, which follows, or its place
    uint32_t missing
    uint8_t flags
    uint8_t side
    uint16_t in_file  # 1: the payload is left in the file; what follows is where, a uint64_t
