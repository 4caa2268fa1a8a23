# cython: language_level=3
"""Connections for compiled code that feeds them; what they do is in connections.pyx."""

from libc.stdint cimport int64_t

from kproxy.session.session cimport Session as CompiledSession


cdef class LiveConnection:
    cdef readonly int64_t number
    cdef readonly CompiledSession session  # type: Session
    cdef readonly int64_t opened_at  # ns
    cdef int64_t reported  # requests whose exchange was handed to the listener
    cdef int64_t held  # bytes that came since its last event: about what the session holds


cdef class Clusters:
    cdef readonly object views  # type: OrderedDict[str, ClusterView]


cdef class Connections:
    cdef object _clusters
    cdef object _listener
    cdef object _limits
    cdef tuple _contain
    cdef int64_t _most
    cdef int64_t _most_held
    cdef object _on_open
    cdef object _open  # type: OrderedDict[int, LiveConnection]  # the connection that was silent longest is first
    cdef int64_t _held
    cdef readonly int64_t last_at  # ns: time of the last chunk
    cdef readonly int64_t given_up  # connections closed because of ``most`` or ``most_held``
    cdef readonly dict faults  # type: dict[str, int]  # connections that failed, by exception
    cdef dict _ended  # type: dict[int, tuple[int, str]]  # connections that failed or were given up: requests reported, and why
    cdef readonly int64_t requests  # requests whose exchanges were handed to the listener
    cdef readonly dict left_out  # type: dict[str, int]  # requests whose exchanges were not, by reason; known at their end

    cpdef int receive(self, number, int direction, bytes data, int64_t at, int64_t sent_at=*) except -1
    cdef int _hand_over(self, LiveConnection connection, list events) except -1
    cdef LiveConnection _forget(self, number)
