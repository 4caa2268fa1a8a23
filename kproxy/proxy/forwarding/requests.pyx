# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The lane from client to broker: what each request is, raw SASL tokens among them, and what is in flight from then on."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.string cimport memset

from kproxy.protocol.wire cimport be16, be32
from kproxy.proxy.tap.counters cimport ApiCounts, HELD_FRAMES, IN_FLIGHT, UNKNOWN_APIS
from kproxy.proxy.forwarding.in_flight cimport Entry, InFlight, REQUEST_ENTRY, TOKEN_ENTRY, drop_last, last_entry, push_entry
from kproxy.proxy.forwarding.lane cimport (
    BY_DRAIN, BY_IN_FLIGHT, BY_VERDICT, HOLDING, IN_BODY, Joint, Lane, REQUEST_SIDE, monotonic_ns,
)
from kproxy.proxy.forwarding.plan cimport Row, WANT_HOLD, WANT_REFUSE
from kproxy.proxy.forwarding.walker cimport WALK_MORE, WALK_STOPPED, begin_walk, walk_on

from kproxy.proxy.tap.counted import CloseCause

cdef enum:
    API_PRODUCE = 0
    API_SASL_HANDSHAKE = 17
    FIRST_GSSAPI_BYTE = 0x60  # RFC 2743 section 3.1: an initial context token is an ASN.1 [APPLICATION 0]

cdef int BAD_FRAME = CloseCause.BAD_FRAME
cdef int FRAME_TOO_BIG = CloseCause.FRAME_TOO_BIG
cdef int REFUSED_VERSION = CloseCause.REFUSED_VERSION


cdef class RequestLane(Lane):
    """From client to broker."""

    def __cinit__(self, *args, **kwargs):
        self.side = REQUEST_SIDE

    cdef int waits_for(self) noexcept:
        if self.link.draining:
            return BY_DRAIN
        return BY_IN_FLIGHT if self.link.in_flight.count >= self.link.in_flight_limit else 0

    cdef size_t header_size(self, const uint8_t *at, size_t have) noexcept:
        return 4 if self.link.tokens else 12

    cdef bint is_bad_size(self, const uint8_t *at) noexcept:
        cdef int32_t size = <int32_t>be32(at)
        if self.link.tokens:
            return size < 0 or size > self.link.unauthenticated_limit
        return size < 8 or size > (self.link.unauthenticated_limit if self.link.authenticating else self.link.frame_limit)

    cdef int begin_frame(self, const uint8_t *at, uint64_t now) except -1:
        """Look at a request's header and decide what becomes of the frame."""
        cdef Joint link = self.link
        cdef int32_t size = <int32_t>be32(at)
        cdef int api_key
        cdef int api_version
        cdef bint first = link.frames_in[REQUEST_SIDE] == 0
        if self.is_bad_size(at):
            return self.refuse(at, BAD_FRAME)
        link.frames_in[REQUEST_SIDE] += 1
        link.received_request = True
        self.walking = False
        self.left = <uint64_t>size + 4
        if link.tokens or first and at[4] == FIRST_GSSAPI_BYTE and size <= link.unauthenticated_limit:
            link.tokens = True
            self.begin_tap(link.plan.row(API_SASL_HANDSHAKE, 0))
            self.state = HOLDING
            return 0
        api_key = <int16_t>be16(at + 4)
        api_version = <int16_t>be16(at + 6)
        return self.route_request(link.plan.row(api_key, api_version), api_key, api_version, at, now)

    cdef int route_request(self, Row *row, int api_key, int api_version, const uint8_t *at, uint64_t now) except -1:
        cdef Joint link = self.link
        self.count_request(row, api_key, api_version, self.left)
        if row.want_request == WANT_REFUSE:
            return self.refuse(at, REFUSED_VERSION)
        if row.want_request == WANT_HOLD or api_key == API_SASL_HANDSHAKE:
            if self.left <= link.held_limit:
                self.begin_tap(row)
                self.state = HOLDING
                return 0
            if link.owner.on_too_large_to_hold(link, self.side, api_key, api_version, self.left) == WANT_REFUSE:
                return self.refuse(at, FRAME_TOO_BIG)
        self.begin_tap(row)
        self.note_request(row, api_key, api_version, <int32_t>be32(at + 8), NULL, now)
        self.state = IN_BODY
        return 0

    cdef void count_request(self, Row *row, int api_key, int api_version, uint64_t size) noexcept:
        cdef ApiCounts *counts = self.link.worker.counters.api(api_key, api_version)
        counts.requests += 1
        counts.request_bytes += size
        self.link.last_api_key = api_key
        if not row.known:
            self.link.worker.counters.total(UNKNOWN_APIS)[0] += 1

    cdef int note_request(self, Row *row, int api_key, int api_version, int32_t correlation_id, PyObject *held, uint64_t now) except -1:
        """Put a request in flight, and make ready to read a Produce's acks as it passes."""
        cdef Joint link = self.link
        cdef Entry *entry = push_entry(&link.in_flight)
        entry.at = now
        entry.correlation_id = correlation_id
        entry.api_key = api_key
        entry.api_version = api_version
        entry.kind = REQUEST_ENTRY
        entry.held = held
        link.worker.counters.total(IN_FLIGHT)[0] += 1
        if api_key == API_PRODUCE and row.known and link.plan.produce[api_version] != NULL:
            begin_walk(
                &self.walker, link.plan.produce[api_version], link.plan.produce_stop[api_version], True,
                link.plan.produce_tags[api_version], True,
            )
            self.walking = True
            self.walked_id = correlation_id
        return 0

    cdef int64_t walk_body(self, const uint8_t *at, size_t size) noexcept:
        """Follow a Produce up to its acks."""
        cdef const uint8_t *position = at
        cdef int done = walk_on(&self.walker, &position, at + size)
        if done == WALK_MORE:
            return -1
        self.walking = False
        if done == WALK_STOPPED and <int16_t>self.walker.value == 0:  # acks=0: nothing comes back
            self.drop_walked()
        return -1

    cdef int drop_walked(self) noexcept:
        """The request that passes by gets no answer; a broker that gave it one before it was whole has taken it out itself."""
        cdef InFlight *in_flight = &self.link.in_flight
        cdef Entry *entry
        if in_flight.count == 0:
            return 0
        entry = last_entry(in_flight)
        if entry.kind == REQUEST_ENTRY and entry.api_key == API_PRODUCE and entry.correlation_id == self.walked_id:
            drop_last(in_flight)
            self.link.worker.counters.total(IN_FLIGHT)[0] -= 1
        return 0

    cdef int give(self, bytes frame) except -1:
        """A whole request: a token, a handshake, or what a filter wants to see."""
        cdef Joint link = self.link
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(frame)
        cdef int api_key
        cdef int api_version
        cdef Row *row
        link.worker.counters.total(HELD_FRAMES)[0] += 1
        if link.tokens:
            if link.owner.is_token(link, frame):
                return self.send_token(frame)
            link.tokens = False
            if self.is_bad_size(at):
                return self.refuse(at, BAD_FRAME)
            api_key = <int16_t>be16(at + 4)
            api_version = <int16_t>be16(at + 6)
            row = link.plan.row(api_key, api_version)
            self.count_request(row, api_key, api_version, PyBytes_GET_SIZE(frame))
            if row.want_request == WANT_REFUSE:
                return self.refuse(at, REFUSED_VERSION)
        api_key = <int16_t>be16(at + 4)
        api_version = <int16_t>be16(at + 6)
        if api_key == API_SASL_HANDSHAKE:
            link.tokens = link.owner.on_handshake(link, frame)
            link.authenticating = True
        row = link.plan.row(api_key, api_version)
        if row.want_request != WANT_HOLD:
            return self.send_request(frame, None)
        if not link.owner.on_request(link, frame) and not link.closed:
            self.block(BY_VERDICT)
        return 0

    cdef int send_token(self, bytes frame) except -1:
        cdef Entry *entry = push_entry(&self.link.in_flight)
        memset(entry, 0, sizeof(Entry))
        entry.kind = TOKEN_ENTRY
        entry.at = monotonic_ns()
        self.link.worker.counters.total(IN_FLIGHT)[0] += 1
        return self.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))

    cdef int send_request(self, bytes frame, object held) except -1:
        """A request that was held goes to the broker and is in flight."""
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(frame)
        cdef size_t size = PyBytes_GET_SIZE(frame)
        cdef int api_key = <int16_t>be16(at + 4)
        cdef int api_version = <int16_t>be16(at + 6)
        cdef PyObject *kept = NULL
        if held is not None:
            Py_INCREF(held)
            kept = <PyObject *>held
        self.note_request(self.link.plan.row(api_key, api_version), api_key, api_version, <int32_t>be32(at + 8), kept, monotonic_ns())
        if self.walking:
            self.walk_body(at + 12, size - 12)
            self.walking = False
        return self.pipe.emit(at, size)
