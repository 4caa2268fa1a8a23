"""SharedLimits: the clients of all workers, counted in one memfd, so that limits hold for all together and to the last client.

A place is taken before a client is accepted and released when its connection ends, each by one atomic step: two workers never take
the same last place, and neither is refused a free one. Workers that a reload adds share the same memory. What a worker that died
had taken is released by the supervisor, from that worker's own counters.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from kproxy.proxy.tap.counters cimport Counters
from kproxy.proxy.tap.shared_memory cimport map_shared, unmap_shared

from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.sealed import create_sealed, sealed_size

cdef extern from * nogil:
    """
    #define KPROXY_PLACES(bits) \\
        static inline int kproxy_take##bits(uint##bits##_t *at, uint##bits##_t most) { \\
            uint##bits##_t found = __atomic_load_n(at, __ATOMIC_RELAXED); \\
            while (found < most) \\
                if (__atomic_compare_exchange_n(at, &found, found + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) \\
                    return 1; \\
            return 0; \\
        } \\
        static inline void kproxy_release##bits(uint##bits##_t *at, uint##bits##_t count) { \\
            uint##bits##_t found = __atomic_load_n(at, __ATOMIC_RELAXED); \\
            while (!__atomic_compare_exchange_n(at, &found, found > count ? found - count : 0, 0, \\
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \\
        }
    KPROXY_PLACES(32)
    KPROXY_PLACES(64)
    static inline int kproxy_take_turn(int64_t *at, int64_t now, int64_t interval, int64_t depth) {
        int64_t due = __atomic_load_n(at, __ATOMIC_RELAXED);
        for (;;) {
            int64_t next = (due > now ? due : now) + interval;
            if (next - now > depth)
                return 0;
            if (__atomic_compare_exchange_n(at, &due, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                return 1;
        }
    }
    """
    bint take64 "kproxy_take64"(uint64_t* at, uint64_t most)
    bint take32 "kproxy_take32"(uint32_t* at, uint32_t most)
    void release64 "kproxy_release64"(uint64_t* at, uint64_t count)
    void release32 "kproxy_release32"(uint32_t* at, uint32_t count)
    bint take_turn "kproxy_take_turn"(int64_t* at, int64_t now, int64_t interval, int64_t depth)

cdef uint64_t LAYOUT = 0x6B70726F78790101  # "kproxy", 1, 1
cdef int64_t SECOND = 1_000_000_000


cdef class SharedLimits:
    """The places in a memfd made by ``SharedLimits.create()``, in any process that has its *fd*; the caller closes it.

    Raises ValueError for a file that is none, OSError if it cannot be mapped.
    """

    def __cinit__(self, int fd):
        self.shared = NULL
        self.fd = fd
        if sealed_size(fd) != sizeof(SharedPlaces):
            raise ValueError(f"file descriptor {fd} holds no limits: its size is not {sizeof(SharedPlaces)}")
        self.shared = <SharedPlaces*>map_shared(fd, sizeof(SharedPlaces))
        if self.shared == NULL:
            raise OSError("the limits cannot be mapped")
        if self.shared.layout not in (0, LAYOUT):
            raise ValueError(f"file descriptor {fd} holds limits of another version of kproxy")
        self.shared.layout = LAYOUT

    def __dealloc__(self):
        if self.shared != NULL:
            unmap_shared(self.shared, sizeof(SharedPlaces))

    @classmethod
    def create(cls):
        """Make one in which no place is taken, in a new memfd that is closed on exec unless inherited explicitly."""
        return cls(create_sealed("kproxy-limits", sizeof(SharedPlaces)))

    cdef bint take_connection(self, uint64_t most) noexcept nogil:
        """Take one of *most* places; return False if all are taken."""
        return take64(&self.shared.connections, most)

    cdef void release_connection(self) noexcept nogil:
        """Release a place."""
        release64(&self.shared.connections, 1)

    @property
    def connections(self):
        """How many places of connections are taken."""
        return self.shared.connections

    def take_address(self, uint64_t address_hash, uint32_t most):
        """Take one of the *most* places of a client's host; return False if all are taken."""
        return take32(&self.shared.addresses[address_hash & (ADDRESSES - 1)], most)

    def release_address(self, uint64_t address_hash):
        """Release a place of a client's host."""
        release32(&self.shared.addresses[address_hash & (ADDRESSES - 1)], 1)

    def address_count(self, uint64_t address_hash):
        """Return how many places of a client's host are taken."""
        return self.shared.addresses[address_hash & (ADDRESSES - 1)]

    def take_turn(self, int64_t now_ns, int64_t per_second):
        """Return whether a client that comes now is within *per_second* (at least 1), of which a second's worth may come at once.

        The generic cell rate algorithm: a token bucket, in one word.
        """
        return take_turn(&self.shared.due_ns, now_ns, SECOND // per_second, SECOND)

    def release_all_of(self, Counters counters not None):
        """Release what a worker that died had taken; call it before ``counters.close_open_gauges()``."""
        cdef uint32_t count
        cdef size_t at
        release64(&self.shared.connections, counters.shared.totals[<int>Total.CONNECTIONS_OPEN])
        for at in range(ADDRESSES):
            count = counters.shared.addresses[at]
            if count:
                release32(&self.shared.addresses[at], count)
