# Declarations of shared_limits.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from kproxy.proxy.tap.counters cimport ADDRESSES


cdef struct SharedPlaces:
    uint64_t layout
    uint64_t connections  # open now, of all workers
    int64_t due_ns  # of the monotonic clock: when all accepted clients would have come, had they come one interval after the other
    uint64_t unused[509]  # to a page of 4,096
    uint32_t addresses[ADDRESSES]  # open connections by the hash of their client's host


cdef class SharedLimits:
    cdef SharedPlaces* shared
    cdef readonly int fd

    cdef bint take_connection(self, uint64_t most) noexcept nogil
    cdef void release_connection(self) noexcept nogil
