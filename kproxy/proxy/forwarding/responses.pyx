# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The lane from broker to client: which request each response answers, and how far addresses may be in it."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.ref cimport Py_XDECREF

from libc.stdint cimport int64_t, uint32_t

from kproxy.protocol.wire cimport be16, be32
from kproxy.proxy.tap.counters cimport ApiCounts, HELD_FRAMES, IN_FLIGHT, latency_bucket
from kproxy.proxy.forwarding.in_flight cimport Entry, InFlight, TOKEN_ENTRY, drop_first, first_entry
from kproxy.proxy.forwarding.lane cimport BY_IN_FLIGHT, BY_VERDICT, HOLDING, IN_BODY, Joint, Lane, RESPONSE_SIDE
from kproxy.proxy.forwarding.plan cimport Row, WANT_HOLD, WANT_REFUSE, WANT_TAIL
from kproxy.proxy.forwarding.walker cimport WALK_MORE, WALK_STOPPED, begin_walk, walk_on

from kproxy.proxy.tap.counted import CloseCause

cdef enum:
    API_SASL_HANDSHAKE = 17
    API_SASL_AUTHENTICATE = 36

cdef int BAD_FRAME = CloseCause.BAD_FRAME
cdef int FILTER = CloseCause.FILTER
cdef int FRAME_TOO_BIG = CloseCause.FRAME_TOO_BIG
cdef int REFUSED_VERSION = CloseCause.REFUSED_VERSION


cdef class ResponseLane(Lane):
    """From broker to client."""

    def __cinit__(self, *args, **kwargs):
        self.side = RESPONSE_SIDE

    def __dealloc__(self):
        Py_XDECREF(self.current.held)

    cdef size_t header_size(self, const uint8_t *at, size_t have) noexcept:
        cdef Entry *entry
        if self.link.in_flight.count == 0:
            return 1  # whatever it is, it answers nothing
        entry = first_entry(&self.link.in_flight)
        if entry.kind != TOKEN_ENTRY or self.link.tokens:
            return 4 if entry.kind == TOKEN_ENTRY else 8
        return 8 if have >= 4 and <int32_t>be32(at) >= 4 else 4

    cdef bint is_bad_size(self, const uint8_t *at) noexcept:
        return <int32_t>be32(at) < 0

    cdef int64_t walk_body(self, const uint8_t *at, size_t size) noexcept:
        cdef const uint8_t *position = at
        cdef int done = walk_on(&self.walker, &position, at + size)
        if done == WALK_MORE:
            return -1
        self.walking = False
        return position - at if done == WALK_STOPPED else -1

    cdef int begin_frame(self, const uint8_t *at, uint64_t now) except -1:
        """Pair a response with its request and decide what becomes of the frame."""
        cdef Joint link = self.link
        cdef int32_t size
        cdef Entry *entry
        link.frames_in[RESPONSE_SIDE] += 1
        self.walking = False
        if link.in_flight.count == 0:
            return link.go_opaque()
        size = <int32_t>be32(at)
        if size < 0:
            return self.refuse(at, BAD_FRAME)
        entry = first_entry(&link.in_flight)
        if entry.kind == TOKEN_ENTRY:
            if link.tokens or size < 4 or not self.skips_tokens(<int32_t>be32(at + 4)):
                return self.begin_token(size)
            entry = first_entry(&link.in_flight)
        if size < 4 or entry.correlation_id != <int32_t>be32(at + 4):
            return link.go_opaque()
        Py_XDECREF(self.current.held)
        self.current = entry[0]
        entry.held = NULL
        drop_first(&link.in_flight)
        link.worker.counters.total(IN_FLIGHT)[0] -= 1
        self.state = IN_BODY  # no answer may come before this frame
        if self.other.blocked & BY_IN_FLIGHT and link.in_flight.count <= link.in_flight_limit // 2:
            self.other.unblock(BY_IN_FLIGHT)
        self.left = <uint64_t>size + 4
        return self.route_response(link.plan.row(self.current.api_key, self.current.api_version), at, now)

    cdef int route_response(self, Row *row, const uint8_t *at, uint64_t now) except -1:
        cdef Joint link = self.link
        cdef int api_key = self.current.api_key
        cdef int want = row.want_response
        if link.closed:  # by what the client had sent, which was taken up meanwhile
            return 0
        self.count_response(now)
        if api_key == API_SASL_AUTHENTICATE:
            link.authenticating = False
        if want == WANT_REFUSE:
            return self.refuse(at, REFUSED_VERSION)
        self.state = IN_BODY
        if want == WANT_HOLD or api_key == API_SASL_HANDSHAKE:
            if self.left <= link.held_limit:
                self.state = HOLDING
                self.begin_tap(row)
                return 0
            want = link.owner.on_too_large_to_hold(link, self.side, api_key, self.current.api_version, self.left)
            if want == WANT_REFUSE:
                return self.refuse(at, FRAME_TOO_BIG)
        self.begin_tap(row)
        if want == WANT_TAIL and row.tail != NULL:
            begin_walk(&self.walker, row.tail, row.tail_stop, False, row.header_tags, False)
            self.walking = True
        return 0

    cdef void count_response(self, uint64_t now) noexcept:
        cdef ApiCounts *counts = self.link.worker.counters.api(self.current.api_key, self.current.api_version)
        cdef uint64_t latency = now - self.current.at if now > self.current.at else 0
        counts.responses += 1
        counts.response_bytes += self.left
        counts.latency_ns += latency
        counts.histogram[latency_bucket(latency)] += 1

    cdef bint skips_tokens(self, int32_t correlation_id) noexcept:
        """Drop tokens that were never answered (the last of GSSAPI) when the response is the next request's."""
        cdef InFlight *in_flight = &self.link.in_flight
        cdef uint32_t tokens = 0
        cdef Entry *entry
        while tokens < in_flight.count:
            entry = &in_flight.entries[(in_flight.head + tokens) & (in_flight.capacity - 1)]
            if entry.kind != TOKEN_ENTRY:
                break
            tokens += 1
        if tokens == in_flight.count or entry.correlation_id != correlation_id:
            return False
        self.link.worker.counters.total(IN_FLIGHT)[0] -= tokens
        while tokens:
            drop_first(in_flight)
            tokens -= 1
        return True

    cdef int begin_token(self, int32_t size) except -1:
        cdef Joint link = self.link
        drop_first(&link.in_flight)
        link.worker.counters.total(IN_FLIGHT)[0] -= 1
        link.authenticating = False
        if link.sasl is not None:
            link.sasl.on_server_token()
        self.begin_tap(link.plan.row(API_SASL_HANDSHAKE, 0))
        self.left = <uint64_t>size + 4
        self.state = IN_BODY
        return 0

    cdef int give(self, bytes frame) except -1:
        cdef Joint link = self.link
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(frame)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(frame)
        link.worker.counters.total(HELD_FRAMES)[0] += 1
        if self.current.api_key == API_SASL_HANDSHAKE:
            if link.sasl is not None and size >= 10 and be16(at + 8) != 0:
                link.sasl.on_refusal()  # no token is due: what comes next may be a request
            if link.plan.row(self.current.api_key, self.current.api_version).want_response != WANT_HOLD:
                self.take_held()
                self.pipe.emit(at, size)
                return link.answers_due()
        if not link.owner.on_response(link, self.take_held(), frame) and not link.closed:
            return self.block(BY_VERDICT)
        return link.answers_due()

    cdef int give_tail(self, bytes tail) except -1:
        cdef bytes out = self.link.owner.on_tail(self.link, self.take_held(), tail)
        if out is None:
            return self.refuse(NULL, FILTER)
        self.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(out), PyBytes_GET_SIZE(out))
        return self.link.answers_due()

    cdef object take_held(self):
        """(API key, API version, correlation id, what was kept of the request or None) of the response in hand."""
        held = None
        if self.current.held != NULL:
            held = <object>self.current.held
            Py_XDECREF(self.current.held)
            self.current.held = NULL
        return self.current.api_key, self.current.api_version, self.current.correlation_id, held
