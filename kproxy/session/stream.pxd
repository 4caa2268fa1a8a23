# cython: language_level=3
"""FrameBuffer and Stream for compiled code; what they do is in stream.pyx."""

from libc.stdint cimport int64_t

from kproxy.session.exchanges cimport Frame


cdef class FrameBuffer:
    cdef public int64_t limit
    cdef readonly int64_t count  # frames so far, complete or cut
    cdef readonly object refused  # type: int | None  # a size that no frame has
    cdef bytes chunk
    cdef Py_ssize_t position  # in chunk
    cdef int64_t at  # ns: when chunk came
    cdef bytearray partial  # size field and what followed it so far
    cdef int64_t needed  # size of partial when it is complete
    cdef int64_t started_at  # ns: of partial
    cdef int64_t ended_at  # ns: of the latest byte of partial

    cpdef int push(self, bytes chunk, int64_t at) except -1
    cpdef Frame next(self)
    cdef Frame next_from_pieces(self)
    cdef Frame cut_off(self, int cut)
    cdef int take(self, bytearray partial, int64_t until) except -1


cpdef enum State:
    IN_FRAMES = 0
    SKIPPING = 1
    HUNTING = 2
    OPAQUE = 3


cdef class Stream:
    cdef readonly object direction  # type: Direction
    cdef readonly FrameBuffer frames
    cdef readonly object handle  # type: Callable[[Frame, list[Event]], None]
    cdef readonly State state
    cdef readonly list search_again  # type: list[tuple[bytes, int]]  # bytes to search again, with their times
    cdef object _owner
    cdef object _new_hunt
    cdef object _hunt
    cdef int64_t _skip  # SKIPPING: bytes up to the end of _cut
    cdef Frame _cut  # SKIPPING: the frame that the gap hit

    cpdef int receive(self, bytes data, int64_t at, list events) except -1
    cdef bint cut(self, bytes data, int64_t at, list events) except -1
    cdef int recover(self, pieces, list events) except -1
    cdef int use(self, pieces, list events) except -1
    cdef int search(self, bytes data, int64_t at, begins, pieces, list events) except -1
    cdef bytes skip_over(self, bytes data, int64_t at, list events)
    cdef int _hand_over_cut(self, int64_t at, list events) except -1
