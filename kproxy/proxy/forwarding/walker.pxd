# cython: language_level=3
"""A walk over a message that comes in pieces and is not kept: it remembers where it is, not what it saw."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kproxy.protocol.program cimport Struct


cdef enum Walked:
    WALK_MORE = 0  # all given bytes used, the walk goes on
    WALK_STOPPED = 1  # at the field to stop at
    WALK_DONE = 2  # at the end of the message
    WALK_FAULT = 3  # no such message: nothing more is told of it


cdef enum:
    MOST_LEVELS = 12  # no message nests deeper than eight
    STOP_AT_TAGS = -1


cdef struct Level:
    Struct *s
    int step
    bint in_tags
    int64_t elements  # of the array this struct is in, this one included


cdef struct Walker:
    Level levels[MOST_LEVELS]
    int depth
    int stop  # top-level step to stop before, or STOP_AT_TAGS
    int wanted  # bytes of the number being read; 0: none, -1: an unsigned varint
    int have  # bytes of it, or bits of a varint, that are there
    int purpose  # what the number is for
    uint32_t value
    uint64_t skip  # bytes to pass over first
    uint32_t left  # tags, or sized elements, still to come
    bint left_are_tags
    bint reads_int16  # whether the field to stop at is one, and is read: `value` then has it


cdef void begin_walk(Walker *w, Struct *body, int stop, bint client_id, bint header_tags, bint reads_int16) noexcept nogil
cdef int walk_on(Walker *w, const uint8_t **at, const uint8_t *limit) noexcept nogil
