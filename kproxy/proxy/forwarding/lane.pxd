# cython: language_level=3
"""One direction of a link: which bytes go on at once, which are gathered first, and when it stands still."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kproxy.proxy.tap.counters cimport Counters
from kproxy.proxy.forwarding.in_flight cimport Entry, InFlight
from kproxy.proxy.forwarding.plan cimport Plan, Row
from kproxy.proxy.tap.ring cimport TapWriter
from kproxy.proxy.forwarding.walker cimport Walker


cdef enum:
    HEADROOM = 16  # bytes before a chunk that a lane may write to: what it kept of the one before goes there
    REQUEST_SIDE = 0  # client to broker
    RESPONSE_SIDE = 1


cdef enum State:
    AT_HEADER = 0  # between frames, or inside a header
    IN_BODY = 1  # the bytes of a frame that passes
    HOLDING = 2  # gathering a frame that goes nowhere before it is whole
    HOLDING_TAIL = 3  # gathering the end of a response
    OPAQUE = 4  # frames are not known any more: bytes pass


cdef enum Block:  # why a lane does not read
    BY_OUTPUT = 1  # what it wrote has not gone out
    BY_VERDICT = 2  # a filter is thinking
    BY_IN_FLIGHT = 4  # too many requests are unanswered
    BY_DRAIN = 8  # no further request is begun
    BY_ANSWERS = 16  # the client does not take what filters have answered


cdef uint64_t monotonic_ns() noexcept nogil


cdef class Worker:
    cdef readonly Counters counters
    cdef readonly TapWriter tap
    cdef readonly object loop
    cdef uint64_t *buffered  # bytes in buffers of lanes: the counters' gauge
    cdef public int64_t clock_offset  # ns from the monotonic clock to the epoch
    cdef public object poller  # of the plain sockets, made with the first; see pump.pyx
    cdef public bint tap_paused
    cdef public uint64_t memory_budget  # bytes; 0: no limit
    cdef public uint64_t connection_limit
    cdef public bint checks_each_client  # connections are limited per address or per second: ask the owner about each client
    cdef public uint64_t last_link_number
    cdef public set links
    cdef public list closed_links  # not forgotten yet: see Link.forget


cdef class Pipe:
    cdef Lane lane

    cdef int emit(self, const uint8_t *data, size_t size) except -1
    cdef bint is_flushed(self) noexcept
    cdef int start_reading(self) except -1
    cdef int stop_reading(self) except -1
    cdef int end_output(self) except -1
    cdef int detach(self) except -1
    cdef void forget(self) noexcept


cdef class Joint:
    cdef readonly Worker worker
    cdef readonly object owner  # the virtual cluster
    cdef readonly Plan plan
    cdef InFlight in_flight
    cdef public object sasl  # SaslPhase, when there is one
    cdef readonly bint tokens  # frames of the client may be raw SASL tokens
    cdef readonly bint authenticating  # between SaslHandshake and the broker's word
    cdef readonly bint closed
    cdef uint32_t answers  # of filters, that wait for their turn
    cdef readonly bint draining
    cdef readonly bint received_request  # the header of one, at least
    cdef public bint sampled  # the tap gets this connection
    cdef readonly uint64_t last_at  # ns, monotonic
    cdef uint64_t bytes_in[2]
    cdef uint64_t frames_in[2]
    cdef int last_api_key
    cdef int32_t frame_limit
    cdef int32_t unauthenticated_limit
    cdef uint32_t held_limit
    cdef uint32_t in_flight_limit

    cdef int answers_due(self) except -1
    cdef int go_opaque(self) except -1
    cdef void copy(self, int side, int kind, const uint8_t *data, size_t size, uint64_t at) noexcept
    cdef int settle(self) except -1
    cpdef close(self, int cause)
    cdef bint answer_is_next(self) noexcept


cdef class Lane:
    cdef Joint link
    cdef Lane other
    cdef Pipe pipe
    cdef int side
    cdef int state
    cdef int blocked
    cdef readonly bint eof  # its source has said it is done
    cdef readonly bint ended  # and so has what it writes to been told
    cdef readonly bint discarding  # what it would write to is gone
    cdef uint8_t carry[HEADROOM]
    cdef int carried
    cdef uint64_t left  # bytes of the frame still to come
    cdef bint walking
    cdef Walker walker
    cdef uint8_t *held
    cdef size_t held_size
    cdef size_t held_capacity
    cdef uint8_t *stash  # bytes that came and wait until it is unblocked
    cdef size_t stash_size
    cdef bint stash_is_tapped
    cdef const uint8_t *untapped  # of the chunk in hand, where it goes to the tap in pieces; else NULL
    cdef const uint8_t *untapped_end
    cdef uint64_t progress_at  # ns, monotonic: when bytes last came
    cdef uint64_t tap_lost
    cdef uint64_t tap_left
    cdef bint tapping
    cdef size_t tapped_ahead  # bytes that come again and have been given to the tap

    cdef int process(self, uint8_t *data, size_t size, uint64_t now) except -1
    cdef uint8_t *end_frame(self, uint8_t *run, uint8_t *at) except NULL
    cdef int gather(self, const uint8_t *data, size_t size) except -1
    cdef int complete(self, const uint8_t *data, size_t size) except -1
    cdef void let_go(self) noexcept
    cdef void begin_tap(self, Row *row) noexcept
    cdef void tap_up_to(self, const uint8_t *at, uint64_t now) noexcept
    cdef void tap_piece(self, const uint8_t *data, size_t size, uint64_t now) noexcept
    cdef int refuse(self, const uint8_t *at, int cause) except -1
    cdef int block(self, int why) except -1
    cdef int unblock(self, int why) except -1
    cdef int take_up(self, uint8_t *data, size_t size) except -1
    cdef int keep(self, const uint8_t *data, size_t size) except -1
    cdef int pass_on(self) except -1
    cdef int finish(self) except -1
    cdef bint at_boundary(self) noexcept
    cdef void release(self) noexcept
    # what requests and responses do differently
    cdef int waits_for(self) noexcept
    cdef size_t header_size(self, const uint8_t *at, size_t have) noexcept
    cdef bint is_bad_size(self, const uint8_t *at) noexcept
    cdef int begin_frame(self, const uint8_t *at, uint64_t now) except -1
    cdef int64_t walk_body(self, const uint8_t *at, size_t size) noexcept
    cdef int give(self, bytes frame) except -1
    cdef int give_tail(self, bytes tail) except -1
