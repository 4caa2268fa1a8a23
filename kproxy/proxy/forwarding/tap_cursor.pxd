# cython: language_level=3
"""Declarations of tap_cursor.pyx, where the rules are described."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kproxy.proxy.forwarding.plan cimport Plan, Row
from kproxy.proxy.tap.counters cimport Counters
from kproxy.proxy.tap.ring cimport TapWriter


cdef enum:
    # What the tap gets of a request and its response (Entry.opening); any other number is that of LinkTap.opening
    LEFT_OUT_OF_TAP = 0  # nothing: there was no room, or no reader
    NOT_SELECTED_FOR_TAP = 0xFFFFFFFF  # nothing: the configuration says so


@cython.final
cdef class WorkerTap:
    cdef readonly TapWriter ring
    cdef Counters counters
    cdef uint64_t reader  # the reader for which openings and reserved bytes count; 0: none
    cdef public bint paused  # it gets no further request, for want of memory
    cdef public int64_t clock_offset  # ns from the monotonic clock to the epoch: the tap's times are those of the epoch
    cdef readonly uint64_t faults

    cpdef bint is_read(self) noexcept
    cdef void change_reader(self, uint64_t reader) noexcept
    cdef uint64_t most_of(self, uint64_t size, bint learned) noexcept
    cdef void write(self, int kind, uint64_t number, int direction, uint64_t at, const uint8_t *data, size_t size) noexcept
    cdef void write_data(
        self, uint64_t number, int direction, uint64_t at, uint64_t sent_after, const uint8_t *data, size_t size
    ) noexcept
    cdef void drop(self, uint64_t size) noexcept


cdef class LinkTap:
    cdef WorkerTap worker
    cdef uint64_t number
    cdef uint64_t reader  # the one that knows this connection; 0: none
    cdef uint32_t opening  # grows with each OPEN and each end of its session: responses to earlier requests are left out
    cdef uint64_t requests  # that the tap got since the last OPEN
    cdef uint64_t reserved  # bytes of the ring for what must still be written of this connection
    cdef bint missed  # an OPEN was written, or something was left out: the next OPEN is not the connection's beginning
    cdef bint describe_failed  # and that was reported
    cdef bint tokens_left_out  # a SASL token was left out: until authentication is over, so are the others

    cdef bint is_open(self) noexcept
    cdef int open(self, object link, uint64_t now) except -1
    cdef void abandon(self, uint64_t now) noexcept
    cdef void forget(self) noexcept
    cdef void reserve(self, uint64_t size) noexcept
    cdef void release(self, uint64_t size) noexcept
    cdef uint32_t leave_out(self, int why, TapCursor cursor, uint64_t now) noexcept
    cdef int64_t begin_request(
        self, object link, TapCursor cursor, Plan plan, Row *row, bint selected, int api_key, int api_version,
        const uint8_t *at, uint64_t size, uint64_t now,
    ) except -1
    cdef void begin_response(
        self, TapCursor cursor, Plan plan, Row *row, uint32_t opening, const uint8_t *at, uint64_t size, uint64_t now
    ) noexcept
    cdef void note_request(self, uint32_t opening) noexcept
    cdef void forget_request(self, uint32_t opening) noexcept
    cdef int64_t begin_token(
        self, object link, TapCursor cursor, bint selected, bint first, const uint8_t *at, uint64_t size, uint64_t now
    ) except -1
    cdef int write_made_response(
        self, TapCursor requests, TapCursor responses, uint32_t opening, const uint8_t *frame, size_t size, uint64_t now
    ) except -1
    cdef void write_left_out(self, int kind, int direction, uint64_t size, uint64_t now) noexcept
    cdef void write_close(self, int cause, uint64_t now) noexcept
    cdef void end(self, TapCursor cursor, bint lost, uint64_t now) noexcept
    cdef void close(self, TapCursor requests, TapCursor responses, int cause, uint64_t now) noexcept


@cython.final
cdef class TapCursor:
    cdef LinkTap link
    cdef int direction
    cdef const uint8_t *limit  # end of the chunk
    cdef const uint8_t *seen  # the lane has reported the chunk's bytes before
    cdef const uint8_t *run  # these bytes of the chunk, up to run_end, are to be written; NULL: none
    cdef const uint8_t *run_end
    cdef uint32_t run_opening  # LinkTap.opening when the run was begun
    cdef uint64_t due  # bytes of the ring reserved for the run
    cdef uint64_t ahead  # bytes of the ring reserved for the rest of the frame in processing, as far as it is in this chunk
    cdef uint32_t opening  # of the frame in processing: see LinkTap.opening; LEFT_OUT_OF_TAP: the tap gets nothing of it
    cdef bint counts  # what is left out of it counts as dropped
    cdef bint snaps  # what is left out of it was cut off by snaplen
    cdef uint64_t keep  # bytes of it that the tap still gets
    cdef uint64_t omitted  # bytes of it that were left out and not yet recorded
    cdef bint withholds  # the last byte of the frame, until the verdict of a filter is known
    cdef uint8_t last
    cdef uint64_t last_at
    cdef bint untimed  # requests may have been written whose records do not say when they were sent on

    cdef bint is_tapped(self) noexcept
    cdef void begin_chunk(self, const uint8_t *data, const uint8_t *limit, uint64_t left, uint64_t now) noexcept
    cdef void end_chunk(self, uint64_t now, uint64_t sent_at) noexcept
    cdef void note_sent(self, uint64_t sent_at) noexcept
    cdef void begin(self, uint64_t snaplen, uint64_t keep, const uint8_t *at, uint64_t here, uint64_t now) noexcept
    cdef void pass_over(self, bint counts) noexcept
    cdef void take(self, const uint8_t *data, uint64_t size, uint64_t now) noexcept
    cdef void take_raw(self, object link, bint selected, const uint8_t *data, const uint8_t *limit, uint64_t now) noexcept
    cdef void take_refused(self, object link, bint selected, const uint8_t *at, uint64_t left, uint64_t now) noexcept
    cdef void withhold_end(self, uint64_t now) noexcept
    cdef void write_withheld(self) noexcept
    cdef void note_edits(self, const uint8_t *text, size_t size, uint64_t now) noexcept
    cdef void shorten_run(self) noexcept
    cdef void end_frame(self, uint64_t now) noexcept
    cdef void settle(self, uint64_t now) noexcept
    cdef void flush(self, uint64_t now, uint64_t sent_at=*) noexcept
    cdef void promise(self, uint64_t size) noexcept
