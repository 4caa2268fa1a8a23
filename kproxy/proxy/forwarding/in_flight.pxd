# cython: language_level=3
"""What is in flight on one connection: requests sent to the broker, in order, until their responses come back."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free


cdef enum EntryKind:
    REQUEST_ENTRY = 0
    TOKEN_ENTRY = 1  # a raw SASL token: its response has no header
    ANSWER_ENTRY = 2  # a response made by a filter: `held` is the whole frame, sent when its turn comes
    OWN_ENTRY = 3  # a request of kproxy's own, of its login: the client does not get the response


cdef struct Entry:
    uint64_t at  # ns of the monotonic clock: when its first byte was received
    uint64_t sent_at  # when its last byte was sent to the broker; 0: it has not been
    int32_t correlation_id
    int16_t api_key
    int16_t api_version
    uint8_t kind
    uint32_t opening  # LinkTap.opening when the tap got the request, and so whether it gets the response (tap_cursor.pyx)
    PyObject *held  # RequestFacts of a request that was held, bytes of an answer; owned


cdef struct InFlight:  # a ring; `capacity` is a power of two or 0
    Entry *entries
    uint32_t capacity
    uint32_t head
    uint32_t count


cdef inline Entry *push_entry(InFlight *f) except NULL:
    """Append an entry, whose other fields the caller sets, and return it. Raises MemoryError."""
    cdef Entry *grown
    cdef uint32_t i
    cdef uint32_t capacity = f.capacity * 2 if f.capacity else 8
    if f.count == f.capacity:
        grown = <Entry *>calloc(capacity, sizeof(Entry))
        if grown == NULL:
            raise MemoryError
        for i in range(f.count):
            grown[i] = f.entries[(f.head + i) & (f.capacity - 1)]
        free(f.entries)
        f.entries = grown
        f.capacity = capacity
        f.head = 0
    f.count += 1
    grown = &f.entries[(f.head + f.count - 1) & (f.capacity - 1)]
    grown.held = NULL
    return grown


cdef inline Entry *first_entry(InFlight *f) noexcept nogil:
    """Return the oldest entry; ``count`` must not be 0."""
    return &f.entries[f.head]


cdef inline Entry *last_entry(InFlight *f) noexcept nogil:
    """Return the newest entry; ``count`` must not be 0."""
    return &f.entries[(f.head + f.count - 1) & (f.capacity - 1)]


cdef inline void drop_first(InFlight *f) noexcept:
    Py_XDECREF(f.entries[f.head].held)
    f.entries[f.head].held = NULL
    f.head = (f.head + 1) & (f.capacity - 1)
    f.count -= 1


cdef inline void drop_last(InFlight *f) noexcept:
    cdef Entry *entry = last_entry(f)
    Py_XDECREF(entry.held)
    entry.held = NULL
    f.count -= 1


cdef inline void drop_all(InFlight *f) noexcept:
    while f.count:
        drop_first(f)
    free(f.entries)
    f.entries = NULL
    f.capacity = 0
