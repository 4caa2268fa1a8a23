# cython: language_level=3
"""Session for compiled code that feeds live connections; what it does is in session.pyx."""

from libc.stdint cimport int64_t

from kproxy.protocol.headers cimport RequestHeader
from kproxy.session.exchanges cimport Exchange, Frame, InFlight, Route
from kproxy.session.stream cimport Stream


cdef class Session:
    cdef readonly object connection  # type: Connection
    cdef readonly object cluster  # type: ClusterView
    cdef readonly object limits  # type: Limits
    cdef Stream _requests
    cdef Stream _responses
    cdef InFlight _in_flight
    cdef object _learning
    cdef object _sasl
    cdef bint _lossy  # whether bytes are missing, so that a response may lack its request
    cdef tuple _from_start  # for each direction
    cdef bint _is_kafka  # whether it is known to be Kafka, whatever the first bytes look like
    cdef bint _broker_seen  # whether any byte of the broker was captured
    cdef int64_t _skipped  # bytes skipped in hunts
    cdef object _request_hunt  # the latest RequestHunt
    cdef object _answered  # correlation id of the latest answered request
    cdef Route _answered_by  # route of the latest answered request
    cdef object _overtaken  # correlation ids of the latest requests given up because a later one was answered
    cdef list _passed_over  # for each direction: a Gap that may still grow, see _report_gap
    cdef list _edits  # for each direction: what the proxy does to the message that ends next, in words; None: nothing
    cdef bint _goes_on  # whether the ending hunt will continue behind bytes that a snaplen cut

    cpdef list receive(self, int direction, bytes data, int64_t at, int64_t sent_at=*)
    cdef void _take_edits(self, Frame frame, int direction) noexcept
    cdef Exchange _begin_exchange(self, Frame frame, RequestHeader header)
    cdef int _finish(self, Exchange exchange, Route route, Frame frame, list events) except -1
