# cython: language_level=3
"""Declarations of plan.pyx."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kproxy.protocol.program cimport Program, Struct


cdef enum:
    PLAN_KEYS = 128
    PLAN_VERSIONS = 32


cdef struct Row:  # an API at a version
    bint known  # to the facts
    uint8_t want_request  # a kproxy.filters.contract.Want
    uint8_t want_response
    uint8_t want_unkept  # the same of a response to whose request the chain gave no RequestFacts
    bint header_tags  # whether the response's header has tags
    bint tapped  # the tap gets its frames
    bint topics_decide_request  # whether a request that filters want held is cut through if it has no topic of theirs
    bint topics_decide_response
    bint learned  # sessions learn from its frames: if the tap has little room, it gets more of them than of others
    Struct *head  # of a response whose head may be held: its body; else NULL
    int head_stop  # the step after its head
    Struct *tail  # of a response whose tail may be held: its body; else NULL
    int tail_stop  # the step at which its tail begins


cdef class Plan:
    cdef Row *rows  # of the APIs in the facts, one after the other, each from version 0 on
    cdef Row *of[PLAN_KEYS]  # the rows of an API; NULL: the facts lack it
    cdef int counts[PLAN_KEYS]  # how many these are
    cdef Row above[PLAN_KEYS]  # of versions above the facts
    cdef Row unknown  # of API keys the facts lack
    cdef Struct *produce[PLAN_VERSIONS]
    cdef int produce_stop[PLAN_VERSIONS]
    cdef bint produce_tags[PLAN_VERSIONS]
    cdef list programs  # keeps the Structs that rows point to
    cdef readonly object chain  # type: Wanting | None
    cdef readonly bint selective  # whether the tap gets some APIs only, or the first bytes of frames only
    cdef readonly unsigned int snaplen  # type: int

    cdef Row *row(self, int api_key, int api_version) noexcept nogil
    cdef int _fill(self, int key, object versions, object chain, bint tapped) except -1
    cdef Program _program(self, str name, int version)
    cdef int _fill_part(self, Row *row, int key, str name, int version) except -1
    cdef int _fill_produce(self, int version) except -1


cdef enum Walked:
    WALK_MORE = 0  # all given bytes used, the walk goes on
    WALK_STOPPED = 1  # at the field to stop at
    WALK_DONE = 2  # at the end of the message
    WALK_FAULT = 3  # the bytes are no such message: the walk ends here


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
    uint64_t skip  # bytes to skip first
    uint32_t left  # tags, or sized elements, still to come
    bint left_are_tags
    bint reads_int16  # whether the field to stop at is one, and is read: `value` then has it


cdef void begin_walk(Walker *w, Struct *body, int stop, bint client_id, bint header_tags, bint reads_int16) noexcept nogil
cdef int walk_on(Walker *w, const uint8_t **at, const uint8_t *limit) noexcept nogil
