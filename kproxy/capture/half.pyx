"""One direction of a flow: where it stands, what is held until its turn comes, what was delivered lately.

A position is a sequence number without its wrapping: 64 bits, counted so that its low 32 bits are the sequence number.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from kproxy.capture.limits import Limits
from kproxy.capture.roles import Endpoints

cdef int64_t FIRST_LAP = 1 << 40  # so that what comes before the first segment seen has a position too
cdef Py_ssize_t HELD_OVERHEAD = 160  # bytes that one held segment takes besides its data


cdef class Budget:
    """What all flows share: the limits, what is held and remembered against them, what is known of endpoints."""

    def __init__(self, limits=None):
        limits = limits or Limits()
        self.limits = limits
        self.endpoints = Endpoints()
        self.held_per_flow = limits.held_per_flow
        self.held_in_all = limits.held_in_all
        self.recent_per_chunk = limits.recent_per_chunk
        self.recent_in_all = limits.recent_in_all
        self.patience = limits.patience
        self.start_packets = limits.start_packets


cdef class Half:
    """See the module. Only Flow changes one; its counters are for everybody.

    from_start: its beginning was captured (the SYN, or a SYN-ACK that names it); size: bytes delivered; missing: bytes in gaps; retransmitted: bytes that came again; out_of_order: segments that came
    before their turn; differing: bytes that came again and were not the same; keep_alives: keep-alive probes.
    """

    def __init__(self, Budget budget):
        self.budget = budget

    cdef int64_t unwrap(self, uint32_t sequence) noexcept:
        cdef int64_t anchor = self.next if self.known else self.start
        if not self.seen:
            self.seen = True
            self.start = self.highest = FIRST_LAP + <int64_t>sequence
            return self.start
        return anchor + <int32_t>(sequence - <uint32_t>(<uint64_t>anchor))

    cdef void start_at(self, int64_t position) noexcept:
        self.known = True
        self.start = self.next = position
        if self.highest < position:
            self.highest = position

    cdef bint ahead(self, uint32_t acknowledgment) noexcept:
        # Does the number acknowledge bytes of this half that were not delivered yet?
        cdef int32_t distance = <int32_t>(acknowledgment - <uint32_t>(<uint64_t>self.next))
        return self.known and 0 < distance < WINDOW

    cdef bint lacks_acknowledged(self) noexcept:
        # Has the other side received more than the capture has shown?
        return self.known and self.sends and not self.ended and self.acknowledged > self.next

    cdef Held head(self):
        return <Held>self.held[0] if self.held else None

    cdef Held take(self):
        cdef Held first = <Held>self.held.pop(0)
        cdef Py_ssize_t size = len(first.data) + HELD_OVERHEAD
        self.held_size -= size
        self.budget.held -= size
        return first

    cdef Py_ssize_t hold(self, Held fresh) except -1:
        # Keep it in its place; what overlaps stays as it was. Returns how many bytes overlap and differ (the first of
        # them at differs_at).
        cdef int64_t at = fresh.position
        cdef int64_t end = fresh.position + len(fresh.data)
        cdef int64_t overlap
        cdef Py_ssize_t index
        cdef Py_ssize_t differing = 0
        cdef Held other
        if self.held is None:
            self.held = []
        index = self._first_ending_after(at)
        if at == end:
            self._insert(index, fresh, at, end)
        while at < end:
            if index == len(self.held):
                self._insert(index, fresh, at, end)
                break
            other = <Held>self.held[index]
            if other.position > at:
                self._insert(index, fresh, at, min(end, other.position))
                at = min(end, other.position)
                index += 1
                continue
            overlap = min(end, other.position + len(other.data)) - at
            if overlap <= 0:
                index += 1
                continue
            self.retransmitted += overlap
            if fresh.time_ns < other.time_ns and at == other.position and overlap == len(other.data):
                other.time_ns = fresh.time_ns  # the same bytes, captured earlier
            differing += self._count_differing(
                <const uint8_t*><const char*>other.data + (at - other.position),
                <const uint8_t*><const char*>fresh.data + (at - fresh.position),
                <Py_ssize_t>overlap,
                at,
            )
            at += overlap
            index += 1
        return differing

    cdef Py_ssize_t _first_ending_after(self, int64_t position):
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = len(self.held)
        cdef Py_ssize_t middle
        cdef Held other
        while low < high:
            middle = (low + high) // 2
            other = <Held>self.held[middle]
            if other.position + len(other.data) > position:
                high = middle
            else:
                low = middle + 1
        return low

    cdef int _insert(self, Py_ssize_t index, Held fresh, int64_t start, int64_t end) except -1:
        cdef Held piece = Held.__new__(Held)
        cdef bint last = end == fresh.position + len(fresh.data)
        cdef Py_ssize_t size
        piece.position, piece.time_ns, piece.arrival = start, fresh.time_ns, fresh.arrival
        piece.acknowledgment, piece.acknowledges = fresh.acknowledgment, fresh.acknowledges
        piece.missing = fresh.missing if last else 0
        piece.data = fresh.data
        if not last or start != fresh.position:
            piece.data = fresh.data[start - fresh.position : end - fresh.position]
        self.held.insert(index, piece)
        size = len(piece.data) + HELD_OVERHEAD
        self.held_size += size
        self.budget.held += size
        return 0

    cdef int drop_held(self) except -1:
        self.budget.held -= self.held_size
        self.held_size = 0
        self.held = None
        return 0

    cdef int remember(self, bytes data) except -1:
        # Keeps a reference, no copy; called before next moves beyond the data.
        cdef Py_ssize_t size = len(data)
        cdef object old
        if self.recent is None:
            if self.budget.recent + size > self.budget.recent_in_all:
                return 0
            self.recent = [None] * RECENT
        old = self.recent[self.recent_index]
        if old is not None:
            self.budget.recent -= len(<bytes>old)
        if size > self.budget.recent_per_chunk or self.budget.recent + size > self.budget.recent_in_all:
            self.recent[self.recent_index] = None
        else:
            self.budget.recent += size
            self.recent[self.recent_index] = data
            self.recent_position[self.recent_index] = self.next
        self.recent_index = (self.recent_index + 1) % RECENT
        return 0

    cdef int forget(self) except -1:
        if self.recent is not None:
            for data in self.recent:
                if data is not None:
                    self.budget.recent -= len(<bytes>data)
            self.recent = None
        return 0

    cdef Py_ssize_t compare_recent(self, int64_t position, const uint8_t* data, Py_ssize_t size) except -1:
        # How many bytes of a retransmission differ from what was delivered, as far as that is remembered.
        cdef Py_ssize_t differing = 0
        cdef int64_t start
        cdef int64_t end
        cdef bytes ours
        cdef int i
        if self.recent is None:
            return 0
        for i in range(RECENT):
            if self.recent[i] is None:
                continue
            ours = <bytes>self.recent[i]
            start = max(position, self.recent_position[i])
            end = min(position + size, self.recent_position[i] + len(ours))
            if start < end:
                differing += self._count_differing(
                    <const uint8_t*><const char*>ours + (start - self.recent_position[i]),
                    data + (start - position),
                    <Py_ssize_t>(end - start),
                    start,
                )
        return differing

    cdef Py_ssize_t _count_differing(
        self, const uint8_t* ours, const uint8_t* theirs, Py_ssize_t size, int64_t position
    ) noexcept:
        cdef Py_ssize_t i
        cdef Py_ssize_t count = 0
        if memcmp(ours, theirs, size) == 0:
            return 0
        for i in range(size):
            if ours[i] != theirs[i]:
                if count == 0:
                    self.differs_at = position + i - self.start
                count += 1
        self.differing += count
        return count
