# Flows and what comes out of them.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kproxy.capture.half cimport Budget, Half, Held
from kproxy.capture.links cimport Segment


cdef class Flow:
    cdef readonly uint64_t number
    cdef readonly bint client_known
    cdef readonly bint opened
    cdef readonly bint closed
    cdef readonly uint64_t packets
    cdef public object attached
    cdef Half low
    cdef Half high
    cdef bytes key
    cdef int client_side
    cdef Budget budget
    cdef Flow older
    cdef Flow newer
    cdef int64_t last_time_ns
    cdef bint reset
    cdef int reset_side
    cdef int64_t reset_position
    cdef uint32_t reset_acknowledgment
    cdef bint reset_acknowledges
    cdef int64_t reset_time_ns
    cdef uint64_t reset_arrival
    cdef uint64_t packets_at_close
    cdef bint lingers  # it was reset and lacks nothing, but late data may come: Flows ends the wait
    cdef bint noted  # by Flows

    cdef bint is_replaced_by(self, Segment* segment) noexcept
    cdef bint is_over_for(self, Segment* segment) noexcept
    cdef int receive(self, Segment* segment, const uint8_t* packet, int64_t time_ns, list out) except -1
    cdef int _note_flags(self, Half half, Half other, Segment* segment, int64_t time_ns, list out) except -1
    cdef int _note_end(self, Half half, Segment* segment, int64_t position, int64_t time_ns) except -1
    cdef bint _waits(self, Half other, bint acknowledges, uint32_t acknowledgment) noexcept
    cdef int _receive_awry(
        self, Half half, Half other, Segment* segment, const uint8_t* payload, int64_t position, int64_t time_ns, list out
    ) except -1
    cdef int _receive_old(
        self, Half half, Segment* segment, const uint8_t* payload, int64_t position, int64_t time_ns, list out
    ) except -1
    cdef bint _receive_wild(
        self, Half half, Segment* segment, int64_t position, int64_t time_ns, list out
    ) except? -1
    cdef int open(self, int64_t time_ns, list out) except -1
    cdef int _deliver(self, Half half, bytes data, uint32_t missing, int64_t time_ns, list out) except -1
    cdef int _gap(self, Half half, int64_t size, int64_t time_ns, list out) except -1
    cdef int _report_differing(self, Half half, Py_ssize_t count, int64_t time_ns, list out) except -1
    cdef int settle(self, list out, bint force) except -1
    cdef int _decide_start(self, bint force) except -1
    cdef Half _ready_half(self)
    cdef bint _is_ready(self, Half half, Half other)
    cdef bint _end_halves(self, list out) except? -1
    cdef bint _reset_due(self, bint force)
    cdef bint _overdue(self)
    cdef bint _give_up_one(self, list out) except? -1
    cdef int close(self, int64_t time_ns, object reason, list out) except -1
