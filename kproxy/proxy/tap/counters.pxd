# Declarations of counters.pyx.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cpdef enum:  # also names of the module in Python
    HISTOGRAM_BUCKETS = 24
    FIRST_BOUND_BITS = 14  # bucket i has latencies below 2 ** (i + 14) ns, 16 µs and up; the last one all the rest

cdef enum:
    MOST_TOTALS = 64
    MOST_CAUSES = 64
    MOST_KEYS = 128  # the last one counts keys that are not known
    MOST_VERSIONS = 32  # of each key; the last one counts versions that are not known
    MOST_SLOTS = 4096
    ADDRESSES = 65536


cdef struct ApiCounts:
    uint64_t requests
    uint64_t request_bytes
    uint64_t responses
    uint64_t response_bytes
    uint64_t latency_ns
    uint64_t histogram[HISTOGRAM_BUCKETS]  # bucket i: below 2 ** (i + FIRST_BOUND_BITS) ns; the last: all the rest


cdef struct Slot:
    ApiCounts counts
    uint64_t pair  # key * MOST_VERSIONS + version
    uint64_t unused[2]  # to 256 bytes


cdef struct Shared:
    uint64_t layout
    uint64_t used  # slots that are assigned, from the first one
    uint64_t totals[MOST_TOTALS]
    uint64_t causes[MOST_CAUSES]
    uint8_t unused[3056]  # to a page of 4,096
    uint16_t slot_of[MOST_KEYS * MOST_VERSIONS]  # by pair: 1 + the slot; 0: none is assigned yet
    Slot slots[MOST_SLOTS]
    uint32_t addresses[ADDRESSES]


cdef extern from *:
    int __builtin_clzll(unsigned long long) nogil


cdef inline int latency_bucket(uint64_t latency_ns) noexcept nogil:
    """The bucket of a histogram that a latency belongs to."""
    cdef int bucket = 64 - __builtin_clzll(latency_ns | 1) - FIRST_BOUND_BITS
    if bucket < 0:
        return 0
    return bucket if bucket < HISTOGRAM_BUCKETS else HISTOGRAM_BUCKETS - 1


cdef class Counters:
    cdef Shared* shared
    cdef uint32_t known[MOST_KEYS]  # a bit a version
    cdef readonly int fd

    cdef ApiCounts* api(self, int api_key, int api_version) noexcept nogil
    cdef uint64_t* total(self, int which) noexcept nogil
    cdef uint64_t* closed(self, int cause) noexcept nogil
    cdef uint32_t* address(self, uint64_t address_hash) noexcept nogil
