"""Counters: what a worker counts, in a memfd of its own. SharedLimits: the places of clients, in one memfd for all workers.

Only the worker writes its counters; the supervisor reads them while it runs and after it died. Every number is one aligned 64-bit
word, so a reader never sees half of it; numbers that belong together may differ by what happened between two reads. Slots for an
API at a version are assigned when first used, one after the other, so the counters of an idle worker cost a few pages.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from kproxy.proxy.tap.shared_memory cimport forget_shared, load_acquire, map_shared, store_release, unmap_shared

from hashlib import blake2b

from kproxy.protocol.facts import facts
from kproxy.output.api_counts import ApiHistograms, ApiTotals
from kproxy.proxy.tap.counted import CloseCause, Phase, Total
from kproxy.proxy.tap.sealed import create_sealed, sealed_size

if len(Total) > MOST_TOTALS or len(CloseCause) > MOST_CAUSES:
    raise ImportError("the counters' memory has no room for so many totals or causes: see counters.pxd")
if len(Phase) != PHASES:
    raise ImportError("the counters' memory has another number of phases: see counters.pxd")

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

cdef uint64_t LAYOUT = 0x6B70726F78790002  # "kproxy", 2
cdef uint64_t LAYOUT_OF_LIMITS = 0x6B70726F78790101  # "kproxy", 1, 1
cdef int64_t SECOND = 1_000_000_000
cdef enum:
    OTHER_KEY = MOST_KEYS - 1
    OTHER_VERSION = MOST_VERSIONS - 1
cdef size_t MASK = MOST_SLOTS - 1

GAUGES_OF_CONNECTIONS = (
    Total.CONNECTIONS_OPEN, Total.IN_FLIGHT, Total.BUFFERED_BYTES, Total.READING_PAUSED_REQUEST, Total.READING_PAUSED_RESPONSE,
)


cdef void* mapped(int fd, size_t size, uint64_t layout, str what) except NULL:
    """Map a memfd of this layout, which its first word names; 0 in a new one. Raises ValueError, OSError."""
    cdef uint64_t* shared
    if sealed_size(fd) != size:
        raise ValueError(f"file descriptor {fd} holds no {what}: its size is not {size}")
    shared = <uint64_t*>map_shared(fd, size)
    if shared == NULL:
        raise OSError(f"the {what} cannot be mapped")
    if shared[0] not in (0, layout):
        unmap_shared(shared, size)
        raise ValueError(f"file descriptor {fd} holds {what} of another version of kproxy")
    shared[0] = layout
    return shared


cdef class Counters:
    """The counters in a memfd made by ``Counters.create()``, in any process that has its *fd*; the caller closes it.

    Raises ValueError for a file that holds no counters, OSError if it cannot be mapped.
    """

    def __cinit__(self, int fd):
        self.fd = fd
        self.shared = <Shared*>mapped(fd, sizeof(Shared), LAYOUT, "counters")
        memset(self.known, 0, sizeof(self.known))
        for key, api in facts().apis.items():
            if 0 <= key < OTHER_KEY:
                for version in api.versions:
                    if version < OTHER_VERSION:
                        self.known[key] |= <uint32_t>1 << <uint32_t>version

    def __dealloc__(self):
        if self.shared != NULL:
            unmap_shared(self.shared, sizeof(Shared))

    @classmethod
    def create(cls) -> Self:
        """Make counters, all 0, in a new memfd that is closed on exec unless inherited explicitly."""
        return cls(create_sealed("kproxy-counters", sizeof(Shared)))

    cdef ApiCounts* api(self, int api_key, int api_version) noexcept nogil:
        """Return the counts of an API at a version; the pointer is valid as long as these counters live."""
        cdef int version = OTHER_VERSION
        cdef size_t pair, slot
        if api_key < 0 or api_key >= OTHER_KEY or self.known[api_key] == 0:
            api_key = OTHER_KEY
        elif 0 <= api_version < OTHER_VERSION and self.known[api_key] >> <uint32_t>api_version & 1:
            version = api_version
        pair = api_key * MOST_VERSIONS + version
        slot = self.shared.slot_of[pair]
        if slot == 0:
            slot = self.shared.used + 1
            self.shared.slots[(slot - 1) & MASK].pair = pair
            store_release(&self.shared.used, slot)
            self.shared.slot_of[pair] = <uint16_t>slot
        return &self.shared.slots[(slot - 1) & MASK].counts

    cdef KeyCounts* key(self, int api_key) noexcept nogil:
        """Return the histograms of an API; the pointer is valid as long as these counters live."""
        if api_key < 0 or api_key >= OTHER_KEY or self.known[api_key] == 0:
            api_key = OTHER_KEY
        return &self.shared.keys[api_key]

    cdef uint64_t* total(self, int which) noexcept nogil:
        """Return the word of a Total."""
        return &self.shared.totals[which & (MOST_TOTALS - 1)]

    cdef uint64_t* closed(self, int cause) noexcept nogil:
        """Return the word of a CloseCause."""
        return &self.shared.causes[cause & (MOST_CAUSES - 1)]

    cdef uint32_t* address(self, uint64_t address_hash) noexcept nogil:
        """Return the word that counts open connections of a client's address; other addresses may share it."""
        return &self.shared.addresses[address_hash & (ADDRESSES - 1)]

    def add(self, which: Total, n: int = 1) -> None:
        """Add *n*, which may be negative for a gauge, to a Total."""
        self.shared.totals[int(Total(which))] += <uint64_t><int64_t>n

    def put(self, which: Total, value: int) -> None:
        """Set a gauge."""
        self.shared.totals[int(Total(which))] = value

    def count_close(self, cause: CloseCause) -> None:
        """Count a connection that ended for a CloseCause. For Python; links add to the word that ``closed`` returns."""
        self.shared.causes[int(CloseCause(cause))] += 1

    cpdef void count_request(self, int api_key, int api_version, uint64_t size) noexcept nogil:
        """Count a request of *size* bytes."""
        cdef ApiCounts* counts = self.api(api_key, api_version)
        counts.requests += 1
        counts.request_bytes += size
        self.key(api_key).sizes[0][size_bucket(size)] += 1

    cpdef void count_response(self, int api_key, int api_version, uint64_t size, uint64_t latency_ns) noexcept nogil:
        """Count a response of *size* bytes that was received *latency_ns* after its request."""
        cdef ApiCounts* counts = self.api(api_key, api_version)
        counts.responses += 1
        counts.response_bytes += size
        counts.latency_ns += latency_ns
        counts.histogram[duration_bucket(latency_ns)] += 1
        self.key(api_key).sizes[1][size_bucket(size)] += 1

    cpdef void count_phase(self, int api_key, int which, uint64_t duration_ns, uint64_t count=1) noexcept nogil:
        """Count a Phase of *count* exchanges, each with this duration."""
        cdef PhaseCounts* phase = &self.key(api_key).phases[which % PHASES]
        phase.sum_ns += duration_ns * count
        phase.histogram[duration_bucket(duration_ns)] += count

    def add_address(self, uint64_t address_hash, int n) -> int:
        """Add *n*, 1 or -1, to the open connections of an address, but not below 0. Return the new count."""
        cdef uint32_t* count = self.address(address_hash)
        count[0] = count[0] + n if n > 0 or count[0] >= <uint32_t>-n else 0
        return count[0]

    def address_count(self, uint64_t address_hash) -> int:
        """Return the open connections of an address in this worker."""
        return self.address(address_hash)[0]

    def apis(self) -> list[ApiTotals]:
        """Return a list[ApiTotals] of APIs that were counted, ordered by key and version; None is a key or version that is not known."""
        cdef uint64_t used = min(load_acquire(&self.shared.used), <uint64_t>MOST_SLOTS)
        found = [_totals(&self.shared.slots[slot]) for slot in range(used)]
        return sorted(found, key=_order)

    def histograms(self) -> list[ApiHistograms]:
        """Return a list[ApiHistograms] of APIs that were counted, ordered by key; the last one, None, is keys that are not known."""
        cdef int key
        return [_histograms(&self.shared.keys[key], key) for key in range(MOST_KEYS) if self._is_counted(key)]

    def _is_counted(self, int key):
        """Return whether an API was counted. The histograms of other APIs, 3 KB each, are not read."""
        cdef int version
        for version in range(MOST_VERSIONS):
            if self.shared.slot_of[key * MOST_VERSIONS + version]:
                return True
        return False

    def total_of(self, which: Total) -> int:
        """Return one total."""
        return self.shared.totals[int(which)]

    def totals(self) -> dict[Total, int]:
        """Return all totals: dict[Total, int]."""
        return {which: self.shared.totals[<int>which] for which in Total}

    def closes(self) -> dict[CloseCause, int]:
        """Return all closes: dict[CloseCause, int]."""
        return {cause: self.shared.causes[<int>cause] for cause in CloseCause}

    def close_open_gauges(self) -> None:
        """Correct the counters of a worker that died: its open connections ended with WORKER_DIED, and nothing is in flight."""
        self.shared.causes[<int>CloseCause.WORKER_DIED] += self.shared.totals[<int>Total.CONNECTIONS_OPEN]
        for which in GAUGES_OF_CONNECTIONS:
            self.shared.totals[<int>which] = 0
        if forget_shared(self.shared.addresses, sizeof(self.shared.addresses)):
            memset(self.shared.addresses, 0, sizeof(self.shared.addresses))


cdef class SharedLimits:
    """The places of clients, in a memfd made by ``SharedLimits.create()``, in any process that has its *fd*; the caller closes it.

    A place is taken before a client is accepted and released when its connection ends, each by one atomic step. So limits hold for all
    workers together and to the last client: two workers never take the same last place, and none is refused a free one. The
    supervisor releases what a worker that died had taken, from that worker's own counters.

    Raises ValueError for a file that holds no limits, OSError if it cannot be mapped.
    """

    def __cinit__(self, int fd):
        self.fd = fd
        self.shared = <SharedPlaces*>mapped(fd, sizeof(SharedPlaces), LAYOUT_OF_LIMITS, "limits")

    def __dealloc__(self):
        if self.shared != NULL:
            unmap_shared(self.shared, sizeof(SharedPlaces))

    @classmethod
    def create(cls) -> Self:
        """Make one in which no place is taken, in a new memfd that is closed on exec unless inherited explicitly."""
        return cls(create_sealed("kproxy-limits", sizeof(SharedPlaces)))

    cdef bint take_connection(self, uint64_t most) noexcept nogil:
        """Take one of *most* places; return False if all are taken."""
        return take64(&self.shared.connections, most)

    cdef void release_connection(self) noexcept nogil:
        """Release a place."""
        release64(&self.shared.connections, 1)

    @property
    def connections(self) -> int:
        """Open connections, over all workers."""
        return self.shared.connections

    def take_address(self, uint64_t address_hash, uint32_t most) -> bool:
        """Take one of the *most* places of a client's host; return False if all are taken."""
        return take32(&self.shared.addresses[address_hash & (ADDRESSES - 1)], most)

    def release_address(self, uint64_t address_hash) -> None:
        """Release a place of a client's host."""
        release32(&self.shared.addresses[address_hash & (ADDRESSES - 1)], 1)

    def address_count(self, uint64_t address_hash) -> int:
        """Return how many places of a client's host are taken."""
        return self.shared.addresses[address_hash & (ADDRESSES - 1)]

    def take_turn(self, int64_t now_ns, int64_t per_second) -> bool:
        """Return whether a client that comes now is within the rate of *per_second* (at least 1); a second's worth may come at once.

        This is the generic cell rate algorithm: a token bucket in one word.
        """
        return take_turn(&self.shared.due_ns, now_ns, SECOND // per_second, SECOND)

    def release_all_of(self, Counters counters not None) -> None:
        """Release what a worker that died had taken. Call this before ``counters.close_open_gauges()``."""
        cdef uint32_t count
        cdef size_t at
        release64(&self.shared.connections, counters.shared.totals[<int>Total.CONNECTIONS_OPEN])
        for at in range(ADDRESSES):
            count = counters.shared.addresses[at]
            if count:
                release32(&self.shared.addresses[at], count)


cdef object _totals(Slot* slot):
    cdef ApiCounts counts = slot.counts
    key, version = divmod(slot.pair % (MOST_KEYS * MOST_VERSIONS), MOST_VERSIONS)
    return ApiTotals(
        None if key == OTHER_KEY else key,
        None if version == OTHER_VERSION else version,
        counts.requests,
        counts.request_bytes,
        counts.responses,
        counts.response_bytes,
        counts.latency_ns,
        tuple([counts.histogram[bucket] for bucket in range(DURATION_BUCKETS)]),
    )


cdef object _histograms(KeyCounts* counts, int key):
    cdef int phase, bucket, direction
    return ApiHistograms(
        None if key == OTHER_KEY else key,
        tuple([counts.phases[phase].sum_ns for phase in range(PHASES)]),
        tuple([tuple([counts.phases[phase].histogram[bucket] for bucket in range(DURATION_BUCKETS)]) for phase in range(PHASES)]),
        tuple([tuple([counts.sizes[direction][bucket] for bucket in range(SIZE_BUCKETS)]) for direction in range(2)]),
    )


def _order(totals):
    key, version = totals[:2]
    return key is None, key or 0, version is None, version or 0


def address_hash(address: str, key: bytes) -> int:
    """Hash a client's address (text, without its port) to the slot in which its connections are counted.

    Keyed with up to 64 bytes that all workers of a proxy share, so that no client can choose an address that shares another's slot.
    """
    return int.from_bytes(blake2b(address.encode(), digest_size=8, key=key).digest(), "little")
