# The tap: a ring in shared memory with one writer, a worker, and one reader, the analyzer.

from libc.stdint cimport uint8_t, uint64_t


cdef enum:
    MADE_BY_PROXY = 0xFFFFFFFF  # in a DATA record, in place of when its bytes were sent on: a filter has made them


cdef class TapWriter:
    cdef uint8_t* shared
    cdef uint8_t* data
    cdef uint64_t capacity
    cdef uint64_t head  # bytes ever written
    cdef uint64_t tail  # bytes known to be read
    cdef uint64_t reserved  # bytes promised to later records
    cdef uint64_t* requests_written  # in the shared memory; the link taps that write requests count them
    cdef readonly int fd
    cdef int doorbell  # an eventfd; -1: none

    cdef int write(
        self, int kind, uint64_t connection, int direction, uint64_t at, uint64_t sent_after, const uint8_t* data, size_t size
    ) noexcept nogil
    cdef int write_data(
        self, uint64_t connection, int direction, uint64_t at, uint64_t sent_after, const uint8_t* data, size_t size
    ) noexcept nogil
    cdef int _write(
        self, int kind, uint64_t connection, int direction, uint64_t at, uint64_t sent_after, const uint8_t* data, size_t size
    ) noexcept nogil
    cdef void ring_doorbell(self, uint64_t before) noexcept nogil
    cdef void begin_for(self, uint64_t reader) noexcept nogil
    cdef uint64_t room(self, uint64_t enough) noexcept nogil
    cdef bint has_room(self, uint64_t size) noexcept nogil
    cdef uint64_t give_up_unsettled(self) noexcept nogil
    cdef uint64_t reader_epoch(self) noexcept nogil


cdef class TapReader:
    cdef uint8_t* shared
    cdef const uint8_t* data
    cdef uint64_t capacity
    cdef uint64_t tail
    cdef readonly int fd
    cdef readonly uint64_t faults
    cdef uint64_t epoch  # of this reader
    cdef bint begun  # the writer has marked where the records for this reader begin

    cdef void await_next(self) noexcept
    cdef void begin(self) noexcept

    cdef int _next(self, uint64_t head, list items) except -1
