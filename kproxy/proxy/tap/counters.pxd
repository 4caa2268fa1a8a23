# Declarations of counters.pyx.

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cpdef enum:  # also names of the module in Python
    DURATION_BUCKETS = 110  # bucket i: up to 2 ** (LOWEST_DURATION + i / 4) s and above the previous bound; the last one: all the rest
    LOWEST_DURATION = -20  # 2 ** -20 s is about 1 µs
    SIZE_BUCKETS = 32  # bucket i: up to 2 ** i bytes and above the previous bound; the last one: all the rest
    PHASES = 3  # of an exchange, see Phase (counted.py)

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
    uint64_t histogram[DURATION_BUCKETS]


cdef struct Slot:
    ApiCounts counts
    uint64_t pair  # key * MOST_VERSIONS + version
    uint64_t unused[12]  # to 1,024 bytes


cdef struct PhaseCounts:
    uint64_t sum_ns
    uint64_t histogram[DURATION_BUCKETS]


cdef struct KeyCounts:  # of one API at all versions
    PhaseCounts phases[PHASES]
    uint64_t sizes[2][SIZE_BUCKETS]  # of requests, of responses


cdef struct Shared:
    uint64_t layout
    uint64_t used  # slots that are assigned, from the first one
    uint64_t totals[MOST_TOTALS]
    uint64_t causes[MOST_CAUSES]
    uint8_t unused[3056]  # to a page of 4,096
    uint16_t slot_of[MOST_KEYS * MOST_VERSIONS]  # by pair: 1 + the slot; 0: none is assigned yet
    Slot slots[MOST_SLOTS]
    uint32_t addresses[ADDRESSES]
    KeyCounts keys[MOST_KEYS]


cdef extern from *:
    int __builtin_clzll(unsigned long long) nogil


cdef inline int duration_bucket(uint64_t duration_ns) noexcept nogil:
    """Return the histogram bucket of a duration, from exponent and mantissa of its seconds as a double."""
    cdef double seconds = <double>duration_ns * 1e-9
    cdef uint64_t bits
    cdef uint64_t mantissa
    cdef int bucket
    memcpy(&bits, &seconds, sizeof(bits))
    mantissa = bits & 0xFFFFFFFFFFFFFULL
    bucket = (<int>(bits >> 52) - 1023 - LOWEST_DURATION) * 4
    # the mantissas of 2 ** 0.25, 2 ** 0.5 and 2 ** 0.75
    bucket += (mantissa > 0) + (mantissa > 0x306FE0A31B715ULL) + (mantissa > 0x6A09E667F3BCDULL) + (mantissa > 0xAE89F995AD3ADULL)
    if bucket < 0:
        return 0
    return bucket if bucket < DURATION_BUCKETS else DURATION_BUCKETS - 1


cdef inline int size_bucket(uint64_t size) noexcept nogil:
    """Return the histogram bucket of a number of bytes."""
    cdef int bucket = 64 - __builtin_clzll(size - 1) if size > 1 else 0
    return bucket if bucket < SIZE_BUCKETS else SIZE_BUCKETS - 1


@cython.final
cdef class Counters:
    cdef Shared* shared
    cdef uint32_t known[MOST_KEYS]  # a bit a version
    cdef readonly int fd

    cdef ApiCounts* api(self, int api_key, int api_version) noexcept nogil
    cdef KeyCounts* key(self, int api_key) noexcept nogil
    cdef uint64_t* total(self, int which) noexcept nogil
    cdef uint64_t* closed(self, int cause) noexcept nogil
    cdef uint32_t* address(self, uint64_t address_hash) noexcept nogil
    cpdef void count_request(self, int api_key, int api_version, uint64_t size) noexcept nogil
    cpdef void count_response(self, int api_key, int api_version, uint64_t size, uint64_t latency_ns) noexcept nogil
    cpdef void count_phase(self, int api_key, int which, uint64_t duration_ns, uint64_t count=*) noexcept nogil


cdef struct SharedPlaces:
    uint64_t layout
    uint64_t connections  # open now, over all workers
    int64_t due_ns  # monotonic: when the last accepted client would have come if all had come one interval apart
    uint64_t unused[509]  # to a page of 4,096
    uint32_t addresses[ADDRESSES]  # open connections by the hash of their client's host


cdef class SharedLimits:
    cdef SharedPlaces* shared
    cdef readonly int fd

    cdef bint take_connection(self, uint64_t most) noexcept nogil
    cdef void release_connection(self) noexcept nogil
