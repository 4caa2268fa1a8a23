# cython: language_level=3
"""Frames, exchanges and routes for compiled code that makes or reads many of them."""

from libc.stdint cimport int64_t

from kproxy.protocol.found cimport Found
from kproxy.protocol.program cimport Program


cdef class Frame:
    cdef public bytes data  # the received bytes behind the size field
    cdef public int64_t started_at  # ns: when its first byte came
    cdef public int64_t ended_at  # ns: when the latest of its bytes came
    cdef public object header  # type: RequestHeader | ResponseHeader | None
    cdef public Py_ssize_t body_start
    cdef public object message  # type: Message | None  # None: the body cannot be read
    cdef public int body_version  # version of the body's layout; not api_version after an ApiVersions fallback
    cdef public object layout  # type: str | None  # release whose layout it has, if not the newest
    cdef public object assumed_version  # type: int | None  # newest known version that fits a newer body
    cdef public object error  # type: DecodeError | None  # why the body cannot be read
    cdef public bint unread  # an ApiVersions request whose body a broker without that version skips (KIP-511)
    cdef int64_t absent  # bytes at its end that are not in data
    cdef public int64_t trailing  # bytes after the message, which brokers and clients ignore
    cdef public int64_t sent_at
    cdef public object edits  # type: list[str] | None  # what a proxy did to it, in words; data is as it was received
    cdef int cut_code  # of ``cut``
    cdef Program program  # the layout of a complete body; None until it is needed, or if the body was not checked

    cdef Program layout_program(self)
    cdef Found find(self, int roles)
    cdef int find_refusal(self, bint *has_errors, int64_t *throttle_ms) except -1
    cpdef bint has_end(self) noexcept


cdef inline bint is_plain(Frame frame) noexcept:
    """Return whether a frame needs no note: it is not cut, nothing follows its message, and no filter changed it."""
    return frame is None or (frame.cut_code == 0 and frame.trailing == 0 and frame.edits is None)


cdef class Event:
    cdef public object connection  # type: Connection
    cdef public int64_t at  # ns


cdef class Exchange(Event):
    cdef public object api_key  # type: int | None
    cdef public object api_version  # type: int | None
    cdef public object correlation_id  # type: int | None
    cdef public object client_id  # type: str | None
    cdef public Frame request  # type: Frame | None
    cdef public Frame response  # type: Frame | None
    cdef public bint expects_response  # False for Produce with acks=0
    cdef public object unanswered  # type: str | None  # why there is no response, in words
    cdef public object undecoded  # type: str | None  # why something in it could not be read
    cdef public object topic_names  # type: Mapping[str, str]  # id (Kafka's text form) -> name, of the ids in it
    cdef public object fetch_sessions  # type: FetchSessions | None  # Fetch v7+ (KIP-227)
    cdef public int64_t fetch_number  # which of the connection's Fetch exchanges this is


cpdef enum Step:  # what a session does for an API in addition to pairing
    ORDINARY = 0  # nothing more
    NOTE_UNANSWERED = 1  # Produce: with acks=0 it is not answered
    FOLLOW_FETCH_SESSION = 2  # Fetch: may belong to a fetch session
    LEARN_SOFTWARE = 3  # ApiVersions: names the client's software; may be answered in another version's layout
    BEGIN_SASL = 4  # SaslHandshake
    FOLLOW_SASL = 5  # SaslAuthenticate


cdef class Route:
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly str name  # of the request message
    cdef readonly object request  # type: Message
    cdef readonly object response  # type: Message | None
    cdef readonly int response_header_version
    cdef readonly int request_step  # a Step
    cdef readonly int response_step
    cdef readonly bint has_topic_ids
    cdef readonly bint request_has_names
    cdef readonly bint response_has_names
    cdef readonly bint learns  # whether its exchanges tell the session anything
    cdef Program newest_request
    cdef Program newest_response

    cpdef int read_request(self, Frame frame) except -1
    cpdef int read_response(self, Frame frame) except -1
    cpdef bint expects_response(self, Frame produce) except -1


cdef class InFlight:
    cdef readonly object queue  # type: deque[tuple[Exchange | None, Route | None]]
    cdef int64_t most
    cdef int64_t most_size
    cdef int64_t size

    cpdef bint add(self, Exchange exchange, Route route, int64_t size) except -1
    cpdef tuple take(self)


cpdef int read_body(Frame frame, message, int api_version) except -1
cpdef Route route_of(int api_key, int api_version)
