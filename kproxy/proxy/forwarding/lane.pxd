# cython: language_level=3
"""Declarations of lane.pyx, where the machine is described."""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kproxy.proxy.forwarding.in_flight cimport Entry, InFlight
from kproxy.proxy.forwarding.plan cimport Plan, Row, Walker
from kproxy.proxy.forwarding.tap_cursor cimport LinkTap, TapCursor, WorkerTap
from kproxy.proxy.tap.counters cimport Counters, SharedLimits
from kproxy.proxy.tap.ring cimport TapWriter


cdef enum:
    HEADROOM = 16  # writable bytes before each chunk, for the header part that the previous chunk left; no header part is as long
    LANE_STATES = 6
    MOST_PASSED = 8  # groups of frames that have passed, see Passed; one more makes the lane send what it has
    TURN_NS = 2_000_000  # after which other connections have their turn


cdef enum State:  # see the table in lane.pyx
    BETWEEN_FRAMES = 0
    CUT_THROUGH = 1
    HOLD_FRAME = 2
    HOLD_TAIL = 3
    OPAQUE = 4
    HOLD_HEAD = 5


cdef enum BlockReason:  # why a lane's source is not read; bits of Lane.blocked. See the table in lane.pyx
    BY_OUTPUT = 1
    BY_VERDICT = 2
    BY_IN_FLIGHT = 4
    BY_DRAIN = 8
    BY_ANSWERS = 16
    BY_TURN = 32
    BY_MEMORY = 64
    BY_MUTE = 128
    BY_LOGIN = 256


cdef uint64_t monotonic_ns() noexcept nogil


cdef class Worker:
    cdef readonly Counters counters
    cdef readonly TapWriter tap  # type: TapWriter | None
    cdef readonly WorkerTap tapping  # type: WorkerTap | None  # None without a tap
    cdef readonly object loop  # type: AbstractEventLoop
    cdef uint64_t *buffered  # Total.BUFFERED_BYTES: bytes in the buffers of all lanes and pipes
    cdef public object poller  # of the plain sockets, made with the first link between two of them; see sockets.pyx
    cdef public uint64_t memory_budget  # bytes; 0: no limit
    cdef readonly SharedLimits limits  # type: SharedLimits | None  # of all workers; None: this worker is the only one
    cdef public uint64_t connection_limit  # of all workers together
    cdef public bint checks_each_client  # ask the owner about each client: limits per address or second
    cdef public uint64_t last_link_number
    cdef public set links  # type: set[Link]
    cdef public dict links_of  # type: dict[LinkOwner, set[Link]]  # the same by owner, of owners that have some
    cdef public list closed_links  # type: list[Link]  # not forgotten yet: see Link.forget
    cdef list starved  # lanes that hold a frame and are not read, as the budget is used up
    cdef uint64_t starved_since  # ns, monotonic: when lanes began to starve, or when a link was last closed for them
    cdef bint relief_is_due  # the loop will call relieve

    cdef void charge(self, int64_t size) noexcept
    cdef int close_largest(self) except -1
    cdef int feed_starved(self) except -1
    cdef bint take_place(self) noexcept
    cdef void release_place(self) noexcept


cdef class Pipe:
    cdef Lane lane

    cdef int emit(self, const uint8_t *data, size_t size) except -1
    cdef int is_flushed(self) except -1
    cdef size_t buffered(self) noexcept
    cdef int start_reading(self) except -1
    cdef int stop_reading(self) except -1
    cdef int end_output(self) except -1
    cdef int detach(self) except -1


cdef class LinkBase:
    cdef readonly Worker worker
    cdef readonly object owner  # type: LinkOwner
    cdef public Plan plan  # of all further frames
    cdef LinkTap tap
    cdef InFlight in_flight
    cdef public object sasl  # type: SaslPhase | None  # SaslPhase from the first SaslHandshake or token on
    cdef readonly bint tokens  # the client's next frame may be a raw SASL token
    cdef readonly bint authenticating  # between SaslHandshake and the end of authentication: requests must be small
    cdef public bint is_authenticated  # the client has logged in to kproxy, which answers its SASL requests
    cdef public uint64_t session_ends_at  # ns, monotonic: later requests are refused, except SASL (KIP-368); 0: it does not end
    cdef readonly bint closed
    cdef uint32_t answers  # responses made by filters, in in_flight until their turn
    cdef size_t answer_bytes
    cdef size_t in_flight_charged  # bytes of in_flight that are counted in Total.BUFFERED_BYTES
    cdef readonly bint draining
    cdef readonly int paused_by  # BY_MUTE, BY_LOGIN or both: no further request begins
    cdef public object login  # type: LinkLogin | None  # of kproxy itself at the broker, while it runs
    cdef readonly bint silent  # a filter drops one direction from here on
    cdef readonly bint received_request  # at least the header of a request has come
    cdef public bint sampled  # the tap gets this connection
    cdef readonly uint64_t last_at  # ns, monotonic
    cdef uint64_t bytes_in[2]
    cdef uint64_t frames_in[2]
    cdef int last_api_key
    cdef int32_t frame_limit
    cdef int32_t unauthenticated_limit
    cdef uint32_t held_limit
    cdef uint32_t in_flight_limit

    cdef int send_due_answers(self) except -1
    cdef int go_opaque(self) except -1
    cdef int settle(self) except -1
    cdef size_t buffered(self) noexcept
    cdef void charge_in_flight(self) noexcept
    cpdef close(self, int cause)
    cdef bint answer_is_next(self) noexcept


cdef struct Chunk:  # received bytes while a lane processes them
    uint8_t *at  # next byte to process
    uint8_t *limit  # after the last byte
    uint8_t *unsent  # from here to `at`: to be forwarded unchanged, and not given to the pipe yet
    uint8_t *frame  # first byte of the frame in processing if it is in this chunk, else NULL
    uint64_t now
    uint64_t begun_at  # when the first byte of the next frame was received: before now if its header came in parts, or was deferred
    uint64_t received_at  # when the chunk was received; before now if it was deferred


cdef struct Passed:  # frames that were given to the pipe completely, but whose last bytes the sink may not have taken
    uint64_t begun_at  # ns, monotonic: when the first byte of each was received
    int api_key
    uint32_t count


cdef class Lane:
    cdef LinkBase link
    cdef Lane other  # of the opposite direction
    cdef Pipe pipe
    cdef TapCursor tap
    cdef int direction  # DIRECTION_REQUEST or DIRECTION_RESPONSE
    cdef int state
    cdef uint64_t taken  # transitions this lane has taken: bit from * LANE_STATES + to
    cdef int blocked  # BlockReason bits; 0: the source is read
    cdef readonly bint eof  # The source has ended or is lost.
    cdef readonly bint ended  # All bytes of the source have been sent, and its end.
    cdef readonly bint discarding  # The sink is lost: what would be sent to it is dropped.
    cdef bint is_too_large  # the frame that begins now cannot be held, and is refused
    cdef uint64_t left  # bytes of the frame still to come
    cdef size_t arrived  # bytes from the beginning of the frame that begins now to the end of its chunk
    cdef bint walking  # the walker follows the body of the frame in processing
    cdef Walker walker
    cdef uint64_t progress_at  # ns, monotonic: when bytes were last received
    cdef uint64_t begun_at  # when the first byte of the frame in processing was received
    cdef uint64_t header_part_at  # when the first byte of header_part was received
    cdef uint64_t deferred_at  # when the deferred bytes were received
    cdef uint64_t paused_at  # since when the lane is blocked BY_OUTPUT; 0: it is not blocked by that
    cdef int timed_key  # API key of the frame in processing, under which its phase is counted; NOT_TIMED: it is not counted
    cdef Passed passed[MOST_PASSED]
    cdef int passed_count
    # buffers: see the table in lane.pyx
    cdef uint8_t header_part[HEADROOM]
    cdef int header_part_size
    cdef PyObject *held  # a bytes object; there is no other reference to it
    cdef size_t held_size
    cdef size_t held_capacity
    cdef uint8_t *deferred
    cdef size_t deferred_size
    cdef size_t awaited  # size of the held frame that a filter has not decided about

    cpdef uint64_t stalled_since(self)
    cdef int process(self, uint8_t *data, size_t size, uint64_t now) except -1
    cdef int process_deferred(self) except -1
    cdef int run(self, uint8_t *data, size_t size, uint64_t now, uint64_t received_at) except -1
    cdef uint64_t note_sent(self) except? 0
    cdef int note_sent_later(self) except -1
    cdef int note_passed(self, int api_key) except -1
    cdef void end_pause(self) noexcept
    cdef int enter(self, int state) except -1
    cdef int want_of(self, int want, bint topics_decide, int api_key, int api_version, const uint8_t *at) except -1
    cdef int read_header(self, Chunk *c) except -1
    cdef int keep_header_part(self, Chunk *c) except -1
    cdef int cut_through(self, Chunk *c) except -1
    cdef int hold_from_first_address(self, Chunk *c, size_t available, size_t before) except -1
    cdef int hold(self, Chunk *c) except -1
    cdef int hold_head(self, Chunk *c) except -1
    cdef int refuse_large(self, const uint8_t *at) except -1
    cdef int end_turn(self, Chunk *c) except -1
    cdef bint is_starving(self) noexcept
    cdef int starve(self) except -1
    cdef int await_verdict(self, size_t size) except -1
    cdef size_t buffered(self) noexcept
    cdef int forward_opaque(self, Chunk *c) except -1
    cdef int advance(self, Chunk *c, size_t size) except -1
    cdef int flush(self, Chunk *c) except -1
    cdef int defer(self, Chunk *c) except -1
    cdef int add_to_held(self, const uint8_t *data, size_t size) except -1
    cdef uint8_t *end_of_held(self) noexcept
    cdef int make_room(self, size_t size, size_t most) except -1
    cdef int resize_held(self, size_t capacity) except -1
    cdef uint8_t *room_in_held(self, size_t *most) except? NULL
    cdef int process_held(self, size_t size, uint64_t now) except -1
    cdef int complete(self, const uint8_t *data, size_t size) except -1
    cdef int complete_head(self, Chunk *c, size_t size) except -1
    cdef bytes take_held(self, const uint8_t *data, size_t size)
    cdef void free_held(self) noexcept
    cdef int refuse_begun(self, const uint8_t *at, int cause) except -1
    cdef int refuse(self, const uint8_t *at, int cause) except -1
    cdef int block(self, int why) except -1
    cdef int unblock(self, int why) except -1
    cdef int go_opaque(self) except -1
    cdef int finish(self) except -1
    cdef bint at_boundary(self) noexcept
    cdef void release(self) noexcept
    # what requests and responses do differently: RequestLane and ResponseLane override each
    cdef int waits_for(self) except -1
    cdef size_t header_size(self, const uint8_t *at, size_t have) except 0
    cdef int is_bad_size(self, const uint8_t *at) except -1
    cdef int begin_frame(self, const uint8_t *at, uint64_t now) except -1
    cdef int64_t walk_body(self, const uint8_t *at, size_t size) except -2
    cdef int handle_held_frame(self, bytes frame) except -1


@cython.final
cdef class RequestLane(Lane):
    cdef uint32_t opening  # of the request that began last, until it is in flight: see Entry.opening
    cdef int32_t walked_id  # correlation id of the Produce request the walker follows

    cdef int route_request(self, Row *row, int api_key, int api_version, const uint8_t *at, uint64_t now) except -1
    cdef void count_request(self, Row *row, int api_key, int api_version, uint64_t size) noexcept
    cdef int note_request(self, Row *row, int api_key, int api_version, int32_t correlation_id, PyObject *held) except -1
    cdef int drop_walked_request(self) except -1
    cdef uint32_t take_opening(self) noexcept
    cdef int send_token(self, bytes frame) except -1
    cdef int send_request(self, bytes frame, object held) except -1
    cdef void note_sent_requests(self, uint64_t now) noexcept


@cython.final
cdef class ResponseLane(Lane):
    cdef Entry current  # the request that the frame in processing answers

    cdef int route_response(self, Row *row, const uint8_t *at, uint64_t now) except -1
    cdef void count_response(self, uint64_t now) noexcept
    cdef bint skips_tokens(self, int32_t correlation_id) noexcept
    cdef int begin_token(self, const uint8_t *at, int32_t size, uint64_t now) except -1
    cdef int begin_own_response(self, const uint8_t *at) except -1
    cdef int send_rewritten(self, bytes part, bint is_head) except -1
    cdef object take_paired_request(self)
