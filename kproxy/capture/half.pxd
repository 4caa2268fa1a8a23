# What one direction of a flow keeps, as reassembly.pyx sees it.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef enum:
    RECENT = 8
    WINDOW = 1 << 28  # further away than this, a sequence number belongs to something else


cdef class Budget:
    cdef readonly object limits
    cdef readonly Py_ssize_t held
    cdef readonly Py_ssize_t recent
    cdef readonly object endpoints
    cdef Py_ssize_t held_per_flow
    cdef Py_ssize_t held_in_all
    cdef Py_ssize_t recent_per_chunk
    cdef Py_ssize_t recent_in_all
    cdef uint64_t patience
    cdef uint64_t start_packets
    cdef bint shuffled  # whether times went back, so that packets are not in the order in which they were sent


cdef class Held:
    cdef int64_t position
    cdef int64_t time_ns
    cdef bytes data
    cdef uint32_t missing
    cdef uint32_t acknowledgment
    cdef bint acknowledges
    cdef uint64_t arrival


cdef class Half:
    cdef Budget budget
    cdef bint sends  # a packet of this side was captured
    cdef bint seen  # positions mean something
    cdef bint known  # where the stream starts is decided
    cdef bint syn
    cdef bint fin
    cdef bint ended
    cdef bint disorder  # before the start was decided
    cdef uint32_t isn
    cdef int64_t start
    cdef int64_t next  # position of the next byte to deliver
    cdef int64_t highest
    cdef int64_t acknowledged
    cdef int64_t fin_position
    cdef int64_t fin_time_ns
    cdef uint64_t fin_arrival
    cdef int64_t time_ns  # of what was delivered last
    cdef list held
    cdef Py_ssize_t held_size
    cdef list recent
    cdef int64_t[RECENT] recent_position
    cdef int recent_index
    cdef int wild
    cdef int64_t wild_next
    cdef int64_t differs_at
    cdef readonly bint from_start
    cdef readonly uint64_t size
    cdef readonly uint64_t missing
    cdef readonly uint64_t retransmitted
    cdef readonly uint64_t out_of_order
    cdef readonly uint64_t differing
    cdef readonly uint64_t keep_alives

    cdef int64_t unwrap(self, uint32_t sequence) noexcept
    cdef void start_at(self, int64_t position) noexcept
    cdef bint ahead(self, uint32_t acknowledgment) noexcept
    cdef bint lacks_acknowledged(self) noexcept
    cdef Held head(self)
    cdef Held take(self)
    cdef Py_ssize_t hold(self, Held fresh) except -1
    cdef Py_ssize_t _first_ending_after(self, int64_t position)
    cdef int _insert(self, Py_ssize_t index, Held fresh, int64_t start, int64_t end) except -1
    cdef int drop_held(self) except -1
    cdef int remember(self, bytes data) except -1
    cdef int forget(self) except -1
    cdef Py_ssize_t compare_recent(self, int64_t position, const uint8_t* data, Py_ssize_t size) except -1
    cdef Py_ssize_t _count_differing(
        self, const uint8_t* ours, const uint8_t* theirs, Py_ssize_t size, int64_t position
    ) noexcept
