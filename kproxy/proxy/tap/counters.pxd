# What a worker counts, in shared memory: written by one worker, read by the supervisor. counted.py repeats the enums.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef enum:
    HISTOGRAM_BUCKETS = 24
    FIRST_BOUND_BITS = 14
    MOST_TOTALS = 64
    MOST_CAUSES = 64
    MOST_KEYS = 128  # the last one stands for keys that are not known
    MOST_VERSIONS = 32  # of each key likewise
    MOST_SLOTS = 4096
    ADDRESSES = 65536


cdef enum TotalPlace:
    CONNECTIONS_OPENED = 0
    CONNECTIONS_OPEN
    IN_FLIGHT
    BYTES_REQUEST
    BYTES_RESPONSE
    TAP_DROPPED_CHUNKS
    TAP_DROPPED_BYTES
    MISPAIRED
    OPAQUE_CONNECTIONS
    UNKNOWN_APIS
    HELD_FRAMES
    REWRITTEN_FRAMES
    WITHHELD_ADDRESSES
    FILTER_FAULTS
    TLS_HANDSHAKES_OK_CLIENT
    TLS_HANDSHAKES_FAILED_CLIENT
    TLS_HANDSHAKES_OK_BROKER
    TLS_HANDSHAKES_FAILED_BROKER
    UPSTREAM_CONNECTS
    UPSTREAM_CONNECT_FAILURES
    REFUSED_CONNECTIONS
    ACCEPT_ERRORS
    BUFFERED_BYTES
    LOOP_LAG_MAX_NS
    TAPPED_CHUNKS
    TAPPED_BYTES


cdef enum CausePlace:
    CAUSE_CLIENT_CLOSED = 0
    CAUSE_BROKER_CLOSED
    CAUSE_CLIENT_RESET
    CAUSE_BROKER_RESET
    CAUSE_IDLE
    CAUSE_FIRST_REQUEST_TIMEOUT
    CAUSE_FRAME_TIMEOUT
    CAUSE_HALF_CLOSED_TIMEOUT
    CAUSE_BAD_FRAME
    CAUSE_NOT_KAFKA
    CAUSE_FRAME_TOO_BIG
    CAUSE_FILTER
    CAUSE_REFUSED_VERSION
    CAUSE_UPSTREAM_UNREACHABLE
    CAUSE_LIMIT
    CAUSE_TLS_CLIENT
    CAUSE_TLS_BROKER
    CAUSE_DRAIN
    CAUSE_LOOP
    CAUSE_ERROR
    CAUSE_PROXY_PROTOCOL
    CAUSE_WORKER_DIED


cdef struct ApiCounts:
    uint64_t requests
    uint64_t request_bytes
    uint64_t responses
    uint64_t response_bytes
    uint64_t latency_ns
    uint64_t histogram[HISTOGRAM_BUCKETS]  # bucket i: below 2 ** (i + FIRST_BOUND_BITS) ns; the last: all the rest


cdef struct Slot:
    ApiCounts counts
    uint64_t place  # key * MOST_VERSIONS + version
    uint64_t unused[2]  # to 256 bytes


cdef struct Shared:
    uint64_t layout
    uint64_t used  # slots, from the first one
    uint64_t totals[MOST_TOTALS]
    uint64_t causes[MOST_CAUSES]
    uint8_t unused[3056]  # to a page of 4,096
    uint16_t slot_of[MOST_KEYS * MOST_VERSIONS]  # 1 + the slot; 0: has none yet
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
