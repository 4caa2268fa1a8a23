# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The lane: one direction of a link, a state machine over the bytes received from its source.

A link has two lanes, RequestLane (client to broker) and ResponseLane (broker to client). A Pipe reads a lane's source and
writes its sink: two sockets (sockets.pyx), each with TLS or without. The pipe calls ``Lane.process`` with each chunk it
received; the lane calls ``Pipe.emit`` with the bytes to send. A lane does no system call, waits for nothing and never asks the
owner about a frame that is cut through.

States
    BETWEEN_FRAMES  the next byte is the first of a frame; ``header_part`` has the bytes of an incomplete header, if any
    CUT_THROUGH     a frame is forwarded as its bytes arrive; ``left`` bytes of it are to come
    HOLD_FRAME      a frame is collected whole in ``held`` and nothing of it has been forwarded; ``left`` bytes are to come
    HOLD_TAIL       a response was forwarded up to its first broker address; the rest, ``left`` bytes, is collected in ``held``
    HOLD_HEAD       a response is collected in ``held`` up to the end of its last broker address, which the walker looks for; ``left``
                    bytes are to come
    OPAQUE          a response answered no request: where frames begin is not known any more, and bytes are forwarded unread

Transitions (TRANSITIONS below has the same as data; ``enter`` raises for any other)
    BETWEEN_FRAMES -> CUT_THROUGH     a header is complete: no filter wants the frame, or only its tail, or it is too large to be held
    BETWEEN_FRAMES -> HOLD_FRAME      a header is complete: a filter wants the frame whole (Want.HOLD); SaslHandshake; a raw SASL token
    BETWEEN_FRAMES -> HOLD_HEAD       responses: a header is complete, and the addresses come first (Want.HEAD)
    BETWEEN_FRAMES -> OPAQUE          a response pairs with no request, and the owner lets the connection go on
    CUT_THROUGH    -> BETWEEN_FRAMES  the frame's last byte
    CUT_THROUGH    -> HOLD_FRAME      responses: the walk came to the first address, and nothing of the frame has been forwarded yet
    CUT_THROUGH    -> HOLD_TAIL       responses: the walk came to the first address of a frame that has been forwarded in part
    CUT_THROUGH    -> OPAQUE          requests: the other lane became opaque
    HOLD_FRAME     -> BETWEEN_FRAMES  the frame's last byte; the owner decides what happens with it (LinkOwner.on_request, on_response)
    HOLD_FRAME     -> OPAQUE          requests: the other lane became opaque; what is held is forwarded
    HOLD_TAIL      -> BETWEEN_FRAMES  the tail's last byte; the owner returns the tail to forward (LinkOwner.on_tail)
    HOLD_HEAD      -> CUT_THROUGH     the head's last byte; the owner returns the head to forward (LinkOwner.on_head)
    HOLD_HEAD      -> BETWEEN_FRAMES  likewise, and nothing follows: the frame ends too early, or cannot be walked to its end
In each state the link may be closed: by a frame it refuses (``refuse``), by the owner, by a lost peer. ``link.closed`` is then true,
the machine stops, and ``release`` has freed the buffers.

Reasons not to read the source (BlockReason; several may hold, and reading goes on when none does)
    BY_OUTPUT     the sink has not taken all bytes; ends when the pipe has sent them
    BY_VERDICT    a filter decides later about a held frame; ends with Link.resume
    BY_IN_FLIGHT  requests: ``Limits.in_flight`` are unanswered; ends when half of them are answered
    BY_ANSWERS    requests: the client has not taken what filters answered; ends when it has
    BY_DRAIN      requests: the link drains and no further request begins; does not end
    BY_MUTE       requests: a filter throttles the client (KIP-219) and no further request begins; ends with Link.unmute
    BY_LOGIN      requests: kproxy logs in to the broker and no further request begins; ends with Link.end_login
    BY_TURN       the owner has taken 2 ms for held frames of one chunk; ends with the next turn of the event loop
    BY_MEMORY     the memory budget is used up, and the lane holds a frame of more than 4 KiB; ends when there is room again
BY_OUTPUT stops only reading: a chunk that has been received is processed to its end. The others stop the lane at a frame boundary
within a chunk: ``defer`` keeps the rest of the chunk.

Who owns which bytes, and what bounds them
    buffer                        what it holds, and why                                    bound
    the chunk                     bytes just received; the pipe's, valid during process     256 KiB (sockets); one read (transports)
    Lane.header_part              the start of a header that is not complete                11 bytes
    Lane.held                     the frame or tail being held; grows with what has come    Limits.held_frame_size; of a token
                                                                                            Limits.unauthenticated_frame_size; of a head or
                                                                                            a tail HEAD_LIMIT, TAIL_LIMIT
    Lane.deferred                 the rest of a chunk that the lane may not process yet     one chunk
    LinkBase.in_flight            requests to be answered, and responses made by filters    Limits.in_flight
    SocketPipe.unsent             bytes the sink's socket has not taken                     one chunk and what was held, as BY_OUTPUT
                                                                                            stops reading
    TlsSide                       a record of TLS that is not complete                      18 KiB
All but ``header_part`` and TlsSide count in Total.BUFFERED_BYTES.

Times of an exchange (Phase in kproxy/proxy/tap/counted.py). The clock is read when a chunk is received and, if a frame ended in
it, once more when the sink has taken everything: at the end of ``run``, or later, when it has taken the rest. ``passed`` has the
frames to count then: those of one API that began in one chunk are one entry.

Lanes report each frame, its bytes and its end to the tap, which gets them or leaves them out by its own rules: tap_cursor.pyx.
"""

from asyncio import AbstractEventLoop
from typing import TYPE_CHECKING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_CLEAR, Py_INCREF, Py_XDECREF
from libc.stdint cimport int16_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **, Py_ssize_t) except -1

cdef extern from * nogil:
    """
    #include <malloc.h>
    static inline void kproxy_keep_freed(int most) {
    #ifdef __GLIBC__
        mallopt(M_MMAP_THRESHOLD, most);
        mallopt(M_TRIM_THRESHOLD, most);
    #endif
    }
    """
    void kproxy_keep_freed(int most)

from kproxy.protocol.direction cimport DIRECTION_REQUEST, DIRECTION_RESPONSE
from kproxy.protocol.wire cimport be16, be32
from kproxy.proxy.forwarding.in_flight cimport (
    ANSWER_ENTRY, OWN_ENTRY, REQUEST_ENTRY, TOKEN_ENTRY, drop_all, drop_first, drop_last, first_entry, last_entry, push_entry,
)
from kproxy.proxy.forwarding.plan cimport WALK_MORE, WALK_STOPPED, begin_walk, walk_on
from kproxy.proxy.forwarding.tap_cursor cimport LEFT_OUT_OF_TAP, WorkerTap

from enum import IntEnum

from kproxy.filters.contract import Want
from kproxy.filters.single_topic import BEGINNING
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import GSSAPI_FIRST_BYTE
from kproxy.proxy.tap.counted import CloseCause, Phase, Total

if TYPE_CHECKING:
    from kproxy.proxy.broker_login import LinkLogin  # no-cython-lint
    from kproxy.proxy.forwarding.link import Link  # no-cython-lint
    from kproxy.proxy.forwarding.owner import LinkOwner  # no-cython-lint
    from kproxy.session.sasl import SaslPhase  # no-cython-lint

cdef enum:
    HEAD_LIMIT = 4_194_304  # bytes of a response up to its last address: 10,000 brokers with names of 255 bytes have room
    TAIL_LIMIT = 1_048_576  # bytes of a response from the first address on
    HELD_AT_FIRST = 4_096  # bytes
    HELD_LARGE = 131_072  # bytes; after one frame of more, KEPT_FREED applies
    KEPT_FREED = 16_777_216  # bytes that malloc keeps for the next large frame: new pages cost as much as encrypting their bytes
    BEYOND_BUDGET = 65_536  # bytes that a link may have in its buffers though the memory budget is used up
    RELIEF_SHARE = 8  # lanes that starve are read again when an eighth of the budget is free
    STARVED_NS = 1_000_000_000
    USUAL_IN_FLIGHT = 64  # requests
    RESPONSE_HEAD = 8  # bytes of a response before the tags of its header: size, correlation id
    NOT_TIMED = -1_000_000  # no API key: of a SASL token

cdef size_t READ_FOR_TOPIC = BEGINNING
cdef int BAD_FRAME = CloseCause.BAD_FRAME
cdef int ERROR = CloseCause.ERROR
cdef int FILTER = CloseCause.FILTER
cdef int FRAME_TOO_BIG = CloseCause.FRAME_TOO_BIG
cdef int REFUSED_VERSION = CloseCause.REFUSED_VERSION
cdef int SESSION_EXPIRED = CloseCause.SESSION_EXPIRED
cdef int BUFFERED_BYTES = Total.BUFFERED_BYTES
cdef int BYTES_REQUEST = Total.BYTES_REQUEST
cdef int BYTES_RESPONSE = Total.BYTES_RESPONSE
cdef int MEMORY = CloseCause.MEMORY
cdef int HELD_FRAMES = Total.HELD_FRAMES
cdef int IN_FLIGHT = Total.IN_FLIGHT
cdef int CONNECTIONS_OPEN = Total.CONNECTIONS_OPEN
cdef int UNKNOWN_APIS = Total.UNKNOWN_APIS
cdef int[2] READ_PAUSES = [Total.READ_PAUSES_REQUEST, Total.READ_PAUSES_RESPONSE]
cdef int[2] READ_PAUSED_NS = [Total.READ_PAUSED_NS_REQUEST, Total.READ_PAUSED_NS_RESPONSE]
cdef int[2] READING_PAUSED = [Total.READING_PAUSED_REQUEST, Total.READING_PAUSED_RESPONSE]
cdef int[2] IN_PROXY = [Phase.REQUEST_IN_PROXY, Phase.RESPONSE_IN_PROXY]
cdef int IN_BROKER = Phase.BROKER
cdef int WANT_HOLD = Want.HOLD
cdef int WANT_HEAD = Want.HEAD
cdef int WANT_TAIL = Want.TAIL
cdef int WANT_REFUSE = Want.REFUSE
cdef int PRODUCE = ApiKey.PRODUCE
cdef int SASL_HANDSHAKE = ApiKey.SASL_HANDSHAKE
cdef int SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE
cdef int FIRST_GSSAPI_BYTE = GSSAPI_FIRST_BYTE


LaneState = IntEnum("LaneState", {
    "BETWEEN_FRAMES": BETWEEN_FRAMES,
    "CUT_THROUGH": CUT_THROUGH,
    "HOLD_FRAME": HOLD_FRAME,
    "HOLD_TAIL": HOLD_TAIL,
    "OPAQUE": OPAQUE,
    "HOLD_HEAD": HOLD_HEAD,
})

TRANSITIONS: dict[LaneState, set[LaneState]] = {
    LaneState.BETWEEN_FRAMES: {LaneState.CUT_THROUGH, LaneState.HOLD_FRAME, LaneState.HOLD_HEAD, LaneState.OPAQUE},
    LaneState.CUT_THROUGH: {LaneState.BETWEEN_FRAMES, LaneState.HOLD_FRAME, LaneState.HOLD_TAIL, LaneState.OPAQUE},
    LaneState.HOLD_FRAME: {LaneState.BETWEEN_FRAMES, LaneState.OPAQUE},
    LaneState.HOLD_TAIL: {LaneState.BETWEEN_FRAMES},
    LaneState.HOLD_HEAD: {LaneState.BETWEEN_FRAMES, LaneState.CUT_THROUGH},
    LaneState.OPAQUE: set(),
}

cdef uint64_t allowed = 0  # TRANSITIONS as bits: from * LANE_STATES + to
for _from, _targets in TRANSITIONS.items():
    for _to in _targets:
        allowed |= <uint64_t>1 << <uint64_t>(_from * LANE_STATES + _to)


cdef bint keeps_freed = False


cdef void keep_freed_memory() noexcept:
    """Have malloc keep the memory of a large frame for the next one: mallopt(3). Without glibc nothing changes."""
    global keeps_freed
    if not keeps_freed:
        keeps_freed = True
        kproxy_keep_freed(KEPT_FREED)


cdef uint64_t monotonic_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <uint64_t>t.tv_sec * 1_000_000_000 + t.tv_nsec


cdef class Worker:
    """What all links of a process share.

    Args:
        counters: where this worker counts.
        tap: the ring that traffic is copied to; None: none.
        loop: uvloop's.
        memory_budget: bytes that the buffers of all lanes together may take, plus BEYOND_BUDGET for each link; 0: no limit.
        limits: the places of clients over all workers; None: this worker is the only one.
    """

    def __init__(
        self, Counters counters not None, TapWriter tap: TapWriter | None, loop: AbstractEventLoop,
        uint64_t memory_budget=0, SharedLimits limits=None,
    ):
        self.counters = counters
        self.tap = tap
        self.tapping = None if tap is None else WorkerTap(tap, counters)
        self.loop = loop
        self.memory_budget = memory_budget
        self.limits = limits
        self.buffered = counters.total(BUFFERED_BYTES)
        self.links = set()
        self.links_of = {}
        self.closed_links = []
        self.starved = []
        self.connection_limit = <uint64_t>-1

    cdef bint take_place(self) noexcept:
        """Take a place for one more connection; return False if as many are open as ``connection_limit`` allows."""
        if self.limits is None:
            return self.counters.total(CONNECTIONS_OPEN)[0] < self.connection_limit
        return self.limits.take_connection(self.connection_limit)

    cdef void release_place(self) noexcept:
        """Release the place of a connection that has ended."""
        if self.limits is not None:
            self.limits.release_connection()

    cdef void charge(self, int64_t size) noexcept:
        """Count bytes that a buffer grows (or shrinks) by. If the memory budget is used up, or was, call ``relieve`` in the next turn."""
        self.buffered[0] += <uint64_t>size
        if self.memory_budget == 0 or self.relief_is_due:
            return
        if self.buffered[0] > self.memory_budget if size > 0 else len(self.starved) > 0:
            self.relief_is_due = True
            self.loop.call_soon(self.relieve)

    def relieve(self) -> None:
        """Close the links with the largest buffers while the budget is exceeded; read starved lanes again if there is room."""
        self.relief_is_due = False
        while self.memory_budget and self.buffered[0] > self.memory_budget + BEYOND_BUDGET * len(self.links):
            if not self.close_largest():
                break
        if self.memory_budget and self.buffered[0] > self.memory_budget - self.memory_budget // RELIEF_SHARE:
            return
        self.feed_starved()

    def look_after_starved(self, uint64_t now) -> None:
        """Read starved lanes again if there is room; after STARVED_NS without room, close the link with the largest buffers.

        Otherwise lanes that share all the memory, each waiting for more of it, would never complete what they hold.
        """
        self.starved = [lane for lane in self.starved if (<Lane>lane).blocked & BY_MEMORY]
        if not self.starved:
            return
        if self.buffered[0] < self.memory_budget or self.memory_budget == 0:
            self.feed_starved()
        elif now > self.starved_since + STARVED_NS:
            self.starved_since = now
            self.close_largest()

    cdef int feed_starved(self) except -1:
        """Read all starved lanes again."""
        cdef list starved = self.starved
        self.starved = []
        for lane in starved:
            (<Lane>lane).resume_after(BY_MEMORY)
        return 0

    cdef int close_largest(self) except -1:
        """Close the link with the largest buffers; return whether there was one."""
        cdef LinkBase largest = None
        cdef size_t most = 0
        cdef size_t size
        for link in self.links:
            size = (<LinkBase>link).buffered()
            if size > most:
                most = size
                largest = <LinkBase>link
        if largest is None:
            return False
        largest.owner.on_out_of_memory(largest, most)
        largest.close(MEMORY)
        return True

    @property
    def buffered_bytes(self) -> int:
        """Bytes in the buffers of all lanes and pipes now."""
        return self.buffered[0]


cdef object not_overridden(object instance, str method):
    """Return the error for an abstract method that a subclass does not override: doing nothing would lose bytes."""
    return TypeError(f"{type(instance).__name__} does not override {method}")


cdef class Pipe:
    """Reads the source of a lane and writes its sink. Abstract: SocketPipe overrides each method."""

    cdef int emit(self, const uint8_t *data, size_t size) except -1:
        """Send *data* after what was emitted before; keep what the sink does not take now and block the lane BY_OUTPUT."""
        raise not_overridden(self, "Pipe.emit")

    cdef int is_flushed(self) except -1:
        """Return whether the sink has taken everything emitted."""
        raise not_overridden(self, "Pipe.is_flushed")

    cdef size_t buffered(self) noexcept:
        """Return how many bytes the sink has not taken."""
        return 0

    cdef int start_reading(self) except -1:
        """Read the source and pass what arrives to ``Lane.process``."""
        raise not_overridden(self, "Pipe.start_reading")

    cdef int stop_reading(self) except -1:
        """Stop reading the source."""
        raise not_overridden(self, "Pipe.stop_reading")

    cdef int end_output(self) except -1:
        """Send the end of the stream (FIN) to the sink."""
        raise not_overridden(self, "Pipe.end_output")

    cdef int detach(self) except -1:
        """Stop using source and sink; drop what has not been sent."""
        raise not_overridden(self, "Pipe.detach")


cdef class LinkBase:
    """The part of a link that lanes use: what is in flight, authentication, limits. Link (link.pyx) overrides each method."""

    def __dealloc__(self):
        drop_all(&self.in_flight)

    cdef int send_due_answers(self) except -1:
        """Send the client those responses of filters whose turn has come."""
        raise not_overridden(self, "LinkBase.send_due_answers")

    cdef int go_opaque(self) except -1:
        """Handle a response that answers no request: make both lanes opaque, or close."""
        raise not_overridden(self, "LinkBase.go_opaque")

    cdef int settle(self) except -1:
        """Do what became due: end an output, unblock, close."""
        raise not_overridden(self, "LinkBase.settle")

    cdef size_t buffered(self) noexcept:
        """Return how many bytes are in all buffers of the link."""
        return 0

    cdef void charge_in_flight(self) noexcept:
        """Count the memory of ``in_flight``, if it has grown beyond what most connections need."""
        cdef size_t size = self.in_flight.capacity * sizeof(Entry) if self.in_flight.capacity > USUAL_IN_FLIGHT else 0
        if size != self.in_flight_charged:
            self.worker.charge(<int64_t>size - <int64_t>self.in_flight_charged)
            self.in_flight_charged = size

    cpdef close(self, int cause):  # type: (...) -> None
        """Close both sides now; *cause* is a CloseCause."""
        raise not_overridden(self, "LinkBase.close")

    cdef bint answer_is_next(self) noexcept:
        """Return whether the response due next to the client is one that a filter made."""
        return self.in_flight.count > 0 and first_entry(&self.in_flight).kind == ANSWER_ENTRY


cdef class Lane:
    """One direction of a link; the machine is described at the top of lane.pyx. Abstract: RequestLane, ResponseLane."""

    def __dealloc__(self):
        Py_XDECREF(self.held)
        free(self.deferred)

    @property
    def lane_state(self) -> LaneState:
        """The LaneState now, for Python."""
        return LaneState(self.state)

    @property
    def transitions_taken(self) -> set[tuple[LaneState, LaneState]]:
        """Transitions of this lane so far, as pairs of LaneState: for Python."""
        return {
            (from_, to) for from_ in LaneState for to in LaneState
            if self.taken >> <uint64_t>(from_ * LANE_STATES + to) & 1
        }

    cpdef uint64_t stalled_since(self):
        """When the last byte of an incomplete frame was received (ns, monotonic); 0: between frames, blocked or opaque."""
        if self.blocked or self.state == OPAQUE or self.state == BETWEEN_FRAMES and not self.header_part_size:
            return 0
        return self.progress_at

    # Chunks

    cdef int process(self, uint8_t *data, size_t size, uint64_t now) except -1:
        """Process a chunk that was received. HEADROOM bytes before *data* must be writable if ``header_part_size`` is not 0."""
        cdef LinkBase link = self.link
        link.bytes_in[self.direction] += size
        link.worker.counters.total(BYTES_REQUEST if self.direction == DIRECTION_REQUEST else BYTES_RESPONSE)[0] += size
        return self.run(data, size, now, now)

    cdef int process_deferred(self) except -1:
        """Process the rest of a chunk that was deferred; it was counted when it was received."""
        cdef uint8_t *data = self.deferred
        cdef size_t size = self.deferred_size
        cdef uint64_t now = monotonic_ns()
        self.deferred = NULL
        self.deferred_size = 0
        self.link.worker.charge(-<int64_t>size)
        try:
            return self.run(data + HEADROOM, size, now, self.deferred_at)
        finally:
            free(data)

    cdef int run(self, uint8_t *data, size_t size, uint64_t now, uint64_t received_at) except -1:
        """Run the machine over a chunk: the function of the state consumes bytes and chooses the next state."""
        cdef LinkBase link = self.link
        cdef Chunk c
        cdef uint64_t sent_at = 0
        link.last_at = self.progress_at = now
        c.limit = data + size
        c.frame = NULL
        c.now = now
        c.begun_at = c.received_at = received_at
        if self.header_part_size:
            c.begun_at = self.header_part_at
            data -= self.header_part_size
            memcpy(data, self.header_part, self.header_part_size)
            self.header_part_size = 0
        c.at = c.unsent = data
        self.tap.begin_chunk(data, c.limit, self.left, now)
        try:
            while c.at < c.limit and not link.closed:
                if self.state == CUT_THROUGH:
                    self.cut_through(&c)
                elif self.state == BETWEEN_FRAMES:
                    self.read_header(&c)
                elif self.state == OPAQUE:
                    self.forward_opaque(&c)
                elif self.state == HOLD_HEAD:
                    self.hold_head(&c)
                else:
                    self.hold(&c)
            if not link.closed:
                self.flush(&c)
                if self.passed_count:
                    sent_at = self.note_sent()
        finally:  # the tap holds pointers into the chunk
            self.tap.end_chunk(now, 0 if self.blocked & BY_VERDICT else sent_at)
        if not link.closed and (link.draining or self.other.eof):
            link.settle()
        return 0

    cdef int enter(self, int state) except -1:
        """Change the state; raises RuntimeError for a transition that is not among TRANSITIONS."""
        cdef uint64_t transition = <uint64_t>1 << <uint64_t>(self.state * LANE_STATES + state)
        if not allowed & transition:
            raise RuntimeError(f"no transition from {LaneState(self.state)!r} to {LaneState(state)!r}")
        self.taken |= transition
        self.state = state
        return 0

    cdef int want_of(self, int want, bint topics_decide, int api_key, int api_version, const uint8_t *at) except -1:
        """Return what to do with the frame that begins at *at*, whose API and version say *want*."""
        cdef size_t size = self.arrived
        if not topics_decide:
            return want
        if size > self.left:
            size = self.left
        if size > READ_FOR_TOPIC:
            size = READ_FOR_TOPIC
        beginning = PyBytes_FromStringAndSize(<const char *>at, size)
        return self.link.owner.on_beginning(self.link, self.direction, api_key, api_version, beginning)

    # One function a state

    cdef int read_header(self, Chunk *c) except -1:
        """BETWEEN_FRAMES: begin the next frame, once one may begin and its header is complete."""
        cdef LinkBase link = self.link
        cdef size_t available = c.limit - c.at
        cdef size_t size
        cdef int why = self.waits_for()
        if why:
            self.flush(c)
            self.block(why)
            return self.defer(c)
        size = self.header_size(c.at, available)
        if available < size:
            return self.keep_header_part(c)
        c.frame = c.at
        self.begun_at = c.begun_at
        c.begun_at = c.received_at
        self.arrived = available
        self.begin_frame(c.at, c.now)
        if link.closed:
            return 0
        if self.is_too_large:
            self.flush(c)  # the responses before it
            return self.refuse_large(c.at)
        if self.state == CUT_THROUGH:
            self.tap.take(c.at, size, c.now)
            return self.advance(c, size)
        if self.state == HOLD_FRAME or self.state == HOLD_HEAD:
            return self.flush(c)
        return 0

    cdef int keep_header_part(self, Chunk *c) except -1:
        """BETWEEN_FRAMES: keep the start of a header until the rest comes; refuse an impossible size at once."""
        cdef size_t available = c.limit - c.at
        if available >= 4 and self.is_bad_size(c.at):
            self.flush(c)
            return self.refuse_begun(c.at, BAD_FRAME)
        self.header_part_size = available
        self.header_part_at = c.begun_at
        memcpy(self.header_part, c.at, available)
        c.limit = c.at
        return 0

    cdef int cut_through(self, Chunk *c) except -1:
        """CUT_THROUGH: forward the frame's bytes; follow the body where something in it matters."""
        cdef size_t available = min(self.left, <uint64_t>(c.limit - c.at))
        cdef int64_t before
        self.tap.take(c.at, available, c.now)
        if self.walking:
            before = self.walk_body(c.at, available)
            if before >= 0 and self.left - before > 1:
                return self.hold_from_first_address(c, available, before)
        return self.advance(c, available)

    cdef int hold_from_first_address(self, Chunk *c, size_t available, size_t before) except -1:
        """CUT_THROUGH: hold the frame from its first address on, *before* bytes ahead; the whole frame if no byte of it was sent."""
        if c.frame != NULL and c.frame >= c.unsent and self.left - before <= TAIL_LIMIT:
            self.left += c.at - c.frame
            c.at = c.frame
            self.flush(c)
            return self.enter(HOLD_FRAME)
        c.at += before
        self.left -= before
        self.flush(c)
        if self.left > TAIL_LIMIT:
            return self.refuse(c.at, FILTER)
        return self.enter(HOLD_TAIL)

    cdef int hold(self, Chunk *c) except -1:
        """HOLD_FRAME, HOLD_TAIL: collect; once complete, have the owner decide."""
        cdef size_t n = min(self.left, <uint64_t>(c.limit - c.at))
        self.tap.take(c.at, n, c.now)
        self.left -= n
        if self.left or self.held_size:
            self.add_to_held(c.at, n)
        c.at += n
        c.unsent = c.at
        if self.left:
            return self.starve() if self.is_starving() else 0
        self.complete(c.at - n, n)
        if not self.blocked & BY_VERDICT:
            self.tap.end_frame(c.now)
        return self.end_turn(c)

    cdef int end_turn(self, Chunk *c) except -1:
        """Defer the rest of the chunk if the held frame waits for its verdict, or if handling it took long."""
        if self.link.closed:
            return 0
        if self.blocked & (BY_VERDICT | BY_ANSWERS):
            return self.defer(c)
        if c.at < c.limit and monotonic_ns() - c.now > TURN_NS:
            self.block(BY_TURN)
            self.link.worker.loop.call_soon(self.begin_turn)
            return self.defer(c)
        return 0

    cdef bint is_starving(self) noexcept:
        """Return whether the memory budget forbids reading more of a held frame. Small frames go on, so that connections can begin."""
        cdef Worker worker = self.link.worker
        return self.held_size > HELD_AT_FIRST and worker.memory_budget and worker.buffered[0] >= worker.memory_budget

    cdef int starve(self) except -1:
        """Stop reading until the memory budget has room."""
        cdef Worker worker = self.link.worker
        if not self.blocked & BY_MEMORY:
            if not worker.starved:
                worker.starved_since = monotonic_ns()
            worker.starved.append(self)
            self.block(BY_MEMORY)
        return 0

    cdef int await_verdict(self, size_t size) except -1:
        """Stop reading until a filter has decided about a held frame, which counts as buffered until then."""
        self.awaited = size
        self.link.worker.charge(size)
        self.tap.withhold_end(self.progress_at)
        return self.block(BY_VERDICT)

    cdef size_t buffered(self) noexcept:
        """Return how many bytes are in the lane's buffers and its pipe's."""
        return self.held_capacity + self.deferred_size + self.awaited + self.pipe.buffered()

    def begin_turn(self):
        """Go on processing and reading, after other connections had their turn."""
        self.resume_after(BY_TURN)

    def resume_after(self, int why):
        """Go on processing and reading, as a reason to block has ended. Called by the event loop, outside of any call into the link."""
        cdef LinkBase link = self.link
        if link is None or link.closed:
            return
        try:
            self.unblock(why)
            link.settle()
        except Exception as error:
            link.owner.on_fault(link, error)
            link.close(ERROR)

    cdef int hold_head(self, Chunk *c) except -1:
        """HOLD_HEAD: collect up to the end of the addresses; then have the owner rewrite them, and cut the rest through.

        A frame that ends before, or that cannot be walked, is handed over as far as it has come: the owner cannot read it.
        """
        cdef const uint8_t *at = c.at
        cdef int done = walk_on(&self.walker, &at, c.at + min(self.left, <uint64_t>(c.limit - c.at)))
        cdef size_t n = at - c.at
        self.tap.take(c.at, n, c.now)
        self.left -= n
        if done == WALK_MORE and self.left:
            if self.held_size + n > HEAD_LIMIT:
                return self.refuse(NULL, FRAME_TOO_BIG)
            self.add_to_held(c.at, n)
            c.at += n
            c.unsent = c.at
            return self.starve() if self.is_starving() else 0
        self.complete_head(c, n)
        return self.end_turn(c)

    cdef int forward_opaque(self, Chunk *c) except -1:
        """OPAQUE: forward everything."""
        self.tap.take_raw(self.link, self.link.sampled, c.at, c.limit, c.now)
        c.at = c.limit
        return 0

    # What the functions of states share

    cdef int advance(self, Chunk *c, size_t size) except -1:
        """Advance over bytes of a frame that is cut through; after its last byte, send the answers of filters that are due."""
        c.at += size
        self.left -= size
        if self.left:
            return 0
        self.tap.end_frame(c.now)
        self.enter(BETWEEN_FRAMES)
        if self.passed_count == MOST_PASSED:
            self.flush(c)
        self.note_passed(self.timed_key)
        if self.direction == DIRECTION_RESPONSE and self.link.answer_is_next():
            self.flush(c)
            self.link.send_due_answers()
        return 0

    cdef int note_passed(self, int api_key) except -1:
        """Note that the last byte of a frame was given to the pipe, or ends what the next ``flush`` gives it."""
        cdef Passed *last = &self.passed[self.passed_count - 1] if self.passed_count else NULL
        if api_key == NOT_TIMED:
            return 0
        if last != NULL and last.begun_at == self.begun_at and last.api_key == api_key:
            last.count += 1
            return 0
        if self.passed_count == MOST_PASSED and self.note_sent() == 0:
            return 0  # the sink takes nothing, and a chunk waits for it: these frames are not timed
        self.passed[self.passed_count] = Passed(self.begun_at, api_key, 1)
        self.passed_count += 1
        return 0

    cdef uint64_t note_sent(self) except? 0:
        """If the sink has taken all passed frames, count their phase and return the time now; else return 0."""
        cdef uint64_t now
        cdef uint64_t elapsed
        cdef Passed *one
        cdef int i
        if not self.pipe.is_flushed():
            return 0
        now = monotonic_ns()
        for i in range(self.passed_count):
            one = &self.passed[i]
            elapsed = now - one.begun_at if now > one.begun_at else 0
            self.link.worker.counters.count_phase(one.api_key, IN_PROXY[self.direction], elapsed, one.count)
        self.passed_count = 0
        if self.direction == DIRECTION_REQUEST:
            (<RequestLane>self).note_sent_requests(now)
        return now

    cdef int note_sent_later(self) except -1:
        """Call ``note_sent`` after the chunk: the sink has taken the rest, or a filter has decided."""
        cdef uint64_t sent_at = self.note_sent()
        if sent_at:
            self.tap.note_sent(sent_at)
        return 0

    cdef int flush(self, Chunk *c) except -1:
        """Give the pipe the bytes up to ``c.at`` that are forwarded unchanged."""
        cdef uint8_t *unsent = c.unsent
        c.unsent = c.at
        return self.pipe.emit(unsent, c.at - unsent)

    cdef int defer(self, Chunk *c) except -1:
        """Keep the rest of the chunk until the lane is unblocked."""
        cdef size_t size = c.limit - c.at
        if size:
            if self.deferred != NULL:
                raise RuntimeError("a lane that has deferred bytes was given more")
            self.deferred = <uint8_t *>malloc(HEADROOM + size)
            if self.deferred == NULL:
                raise MemoryError
            memcpy(self.deferred + HEADROOM, c.at, size)
            self.deferred_size = size
            self.deferred_at = c.received_at
            self.link.worker.charge(size)
        c.limit = c.at
        return 0

    cdef int add_to_held(self, const uint8_t *data, size_t size) except -1:
        """Append to the held frame, if the bytes have not been received there."""
        self.make_room(size, self.held_size + size + self.left)
        if data != self.end_of_held():
            memcpy(self.end_of_held(), data, size)
        self.held_size += size
        return 0

    cdef uint8_t *end_of_held(self) noexcept:
        return <uint8_t *>PyBytes_AS_STRING(<object>self.held) + self.held_size

    cdef int make_room(self, size_t size, size_t most) except -1:
        """Make room for more bytes of a held frame, which has *most*. It takes at most four times what has come."""
        cdef Worker worker = self.link.worker
        cdef size_t capacity = HELD_AT_FIRST
        if self.held != NULL and self.held_size + size <= self.held_capacity:
            return 0
        while capacity < self.held_size + size:
            capacity *= 2
        if capacity > HELD_LARGE:
            capacity *= 2  # each step may copy it
            keep_freed_memory()
        capacity = min(capacity, most)
        if worker.memory_budget and worker.buffered[0] + capacity > worker.memory_budget:
            capacity = self.held_size + size
        return self.resize_held(capacity)

    cdef int resize_held(self, size_t capacity) except -1:
        cdef size_t before = self.held_capacity
        if self.held == NULL:
            made = PyBytes_FromStringAndSize(NULL, capacity)
            Py_INCREF(made)
            self.held = <PyObject *>made
        else:
            try:
                _PyBytes_Resize(&self.held, capacity)
            except MemoryError:  # it has freed what was held
                capacity = self.held_size = 0
                raise
            finally:
                self.held_capacity = capacity
                self.link.worker.charge(<int64_t>capacity - <int64_t>before)
            return 0
        self.held_capacity = capacity
        self.link.worker.charge(capacity)
        return 0

    cdef uint8_t *room_in_held(self, size_t *most) except? NULL:
        """Return where *most* bytes, or fewer, of a large held frame are to be received; NULL: in a chunk."""
        if self.state != HOLD_FRAME or self.left < HELD_LARGE or self.held == NULL:
            return NULL
        most[0] = min(most[0], self.left)
        self.make_room(most[0], self.held_size + self.left)
        return self.end_of_held()

    cdef int process_held(self, size_t size, uint64_t now) except -1:
        """Process bytes that were received at ``room_in_held``."""
        if size == self.left and self.held_capacity > self.held_size + size:
            self.resize_held(self.held_size + size)
        _kept = <object>self.held  # the tap reads it when the frame may have gone its way; it is not resized meanwhile
        return self.process(self.end_of_held(), size, now)

    cdef int complete(self, const uint8_t *data, size_t size) except -1:
        """Hand the held frame or tail over; it is *data* unless a part of it came before."""
        cdef bytes held = self.take_held(data, size)
        cdef bint is_tail = self.state == HOLD_TAIL
        self.enter(BETWEEN_FRAMES)
        if not is_tail:
            return self.handle_held_frame(held)
        return (<ResponseLane>self).send_rewritten(held, is_head=False)

    cdef int complete_head(self, Chunk *c, size_t size) except -1:
        """Hand over the head, whose last *size* bytes are in the chunk, and go on after it."""
        cdef bytes head
        if self.held_size:
            self.add_to_held(c.at, size)
        head = self.take_held(c.at, size)
        c.at += size
        c.unsent = c.at
        self.enter(CUT_THROUGH if self.left else BETWEEN_FRAMES)
        if not self.left:
            self.tap.end_frame(c.now)
        return (<ResponseLane>self).send_rewritten(head, is_head=True)

    cdef bytes take_held(self, const uint8_t *data, size_t size):
        """Return what is held, or *data* if nothing is, and free the buffer."""
        cdef bytes held
        if not self.held_size:
            return PyBytes_FromStringAndSize(<char *>data, size)
        if self.held_capacity > self.held_size:
            self.resize_held(self.held_size)
        held = <bytes><object>self.held
        self.free_held()
        return held

    cdef void free_held(self) noexcept:
        Py_CLEAR(self.held)
        self.link.worker.charge(-<int64_t>self.held_capacity)
        self.held_size = self.held_capacity = 0

    cdef int refuse(self, const uint8_t *at, int cause) except -1:
        """Close the connection because of a frame; *at* is its first byte, NULL if that has been forwarded."""
        cdef LinkBase link = self.link
        link.close(link.owner.on_refused(link, self.direction, cause, b"" if at == NULL else at[:4]))
        return 0

    cdef int refuse_begun(self, const uint8_t *at, int cause) except -1:
        """Close the connection because of the frame that begins at *at* in the chunk; the tap gets what is here of it."""
        self.tap.take_refused(self.link, self.link.sampled, at, self.left, monotonic_ns())
        return self.refuse(at, cause)

    cdef int refuse_large(self, const uint8_t *at) except -1:
        """Refuse the frame that begins at *at* because it is too large to be held (``is_too_large``)."""
        raise not_overridden(self, "Lane.refuse_large")

    # Blocking

    cdef int block(self, int why) except -1:
        """Stop reading the source until ``unblock`` has been called for each reason."""
        if not self.blocked:
            self.pipe.stop_reading()
        if why & BY_LOGIN and not self.blocked & BY_LOGIN:
            self.link.worker.loop.call_soon(self.link.owner.on_login_due, self.link)
        if why == BY_OUTPUT and not self.paused_at:
            self.paused_at = monotonic_ns()
            self.link.worker.counters.total(READ_PAUSES[self.direction])[0] += 1
            self.link.worker.counters.total(READING_PAUSED[self.direction])[0] += 1
        self.blocked |= why
        return 0

    cdef void end_pause(self) noexcept:
        """Count how long the source was not read because the sink did not take its bytes."""
        if self.paused_at:
            self.link.worker.counters.total(READ_PAUSED_NS[self.direction])[0] += monotonic_ns() - self.paused_at
            self.link.worker.counters.total(READING_PAUSED[self.direction])[0] -= 1
            self.paused_at = 0

    cdef int unblock(self, int why) except -1:
        """Remove a reason not to read. If it was the last, process what was deferred and read on."""
        if not self.blocked & why:
            return 0
        self.blocked &= ~why
        if why == BY_OUTPUT:
            self.end_pause()
        if why == BY_VERDICT and self.awaited:
            self.link.worker.charge(-<int64_t>self.awaited)
            self.awaited = 0
        if self.blocked or self.link.closed:
            return 0
        if self.direction == DIRECTION_RESPONSE and self.link.answer_is_next():  # before deferred bytes: they answer later requests
            self.link.send_due_answers()
            if self.blocked or self.link.closed:
                return 0
        if self.deferred != NULL:
            self.process_deferred()
        if not self.blocked and not self.eof and not self.link.closed:
            self.pipe.start_reading()
        return 0

    # Endings

    cdef int go_opaque(self) except -1:
        """Forward all bytes unread from now on, first those of an incomplete header or a held frame."""
        if self.header_part_size:
            self.pipe.emit(self.header_part, self.header_part_size)
            self.header_part_size = 0
        if self.held_size:
            self.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(<object>self.held), self.held_size)
            self.free_held()
        self.walking = False
        return self.enter(OPAQUE)

    cdef int finish(self) except -1:
        """End the output once the source has ended and all its bytes have been sent."""
        if not self.eof or self.ended:
            return 0
        if not self.discarding and (self.deferred != NULL or self.blocked & BY_VERDICT or not self.pipe.is_flushed()):
            return 0
        self.ended = True
        return 0 if self.discarding else self.pipe.end_output()

    cdef bint at_boundary(self) noexcept:
        """Return whether the lane is between frames without waiting for a filter, or will begin no further frame."""
        return self.state == BETWEEN_FRAMES and not self.header_part_size and not self.blocked & BY_VERDICT or self.blocked & BY_DRAIN

    cdef void release(self) noexcept:
        """Free all buffers."""
        self.end_pause()
        self.passed_count = 0
        if self.held != NULL:
            self.free_held()
        self.header_part_size = 0
        if self.awaited:
            self.link.worker.charge(-<int64_t>self.awaited)
            self.awaited = 0
        if self.deferred != NULL:
            free(self.deferred)
            self.deferred = NULL
            self.link.worker.charge(-<int64_t>self.deferred_size)
            self.deferred_size = 0

    # What requests and responses do differently

    cdef int waits_for(self) except -1:
        """Return the BlockReason that forbids another frame to begin; 0: it may begin."""
        raise not_overridden(self, "Lane.waits_for")

    cdef size_t header_size(self, const uint8_t *at, size_t have) except 0:
        """Return how many bytes of the frame that begins at *at* are needed to decide about it; *have* are there."""
        raise not_overridden(self, "Lane.header_size")

    cdef int is_bad_size(self, const uint8_t *at) except -1:
        """Return whether the size at *at* is impossible for a frame."""
        raise not_overridden(self, "Lane.is_bad_size")

    cdef int begin_frame(self, const uint8_t *at, uint64_t now) except -1:
        """Decide from its header what is done with a frame: enter another state and set ``left``, or refuse it."""
        raise not_overridden(self, "Lane.begin_frame")

    cdef int64_t walk_body(self, const uint8_t *at, size_t size) except -2:
        """Follow the body; return how many bytes after *at* the first address may be, -1 while that is not known."""
        raise not_overridden(self, "Lane.walk_body")

    cdef int handle_held_frame(self, bytes frame) except -1:
        """Have the owner decide about a frame that is held whole."""
        raise not_overridden(self, "Lane.handle_held_frame")


cdef class RequestLane(Lane):
    """From client to broker: reads headers, recognises raw SASL tokens, puts requests in flight, and removes Produce with acks=0."""

    def __cinit__(self, *args, **kwargs):
        self.direction = DIRECTION_REQUEST

    cdef int waits_for(self) except -1:
        if self.link.draining:
            return BY_DRAIN
        if self.link.paused_by:
            return self.link.paused_by
        return BY_IN_FLIGHT if self.link.in_flight.count >= self.link.in_flight_limit else 0

    cdef size_t header_size(self, const uint8_t *at, size_t have) except 0:
        return 4 if self.link.tokens else 12

    cdef int is_bad_size(self, const uint8_t *at) except -1:
        cdef int32_t size = <int32_t>be32(at)
        if self.link.tokens:
            return size < 0 or size > self.link.unauthenticated_limit
        return size < 8 or size > (self.link.unauthenticated_limit if self.link.authenticating else self.link.frame_limit)

    cdef int begin_frame(self, const uint8_t *at, uint64_t now) except -1:
        cdef LinkBase link = self.link
        cdef int32_t size = <int32_t>be32(at)
        cdef int api_key
        cdef int api_version
        cdef bint first = link.frames_in[DIRECTION_REQUEST] == 0
        if self.is_bad_size(at):
            return self.refuse_begun(at, BAD_FRAME)
        link.frames_in[DIRECTION_REQUEST] += 1
        link.received_request = True
        self.walking = False
        self.left = <uint64_t>size + 4
        self.timed_key = NOT_TIMED
        if link.tokens or first and not link.is_authenticated and at[4] == FIRST_GSSAPI_BYTE and size <= link.unauthenticated_limit:
            link.tokens = True
            self.opening = link.tap.begin_token(
                link, self.tap, link.sampled and link.plan.row(SASL_HANDSHAKE, 0).tapped, first, at, self.left, now
            )
            return self.enter(HOLD_FRAME)
        api_key = <int16_t>be16(at + 4)
        api_version = <int16_t>be16(at + 6)
        if link.session_ends_at and now > link.session_ends_at and api_key != SASL_HANDSHAKE and api_key != SASL_AUTHENTICATE:
            return self.refuse_begun(at, SESSION_EXPIRED)
        return self.route_request(link.plan.row(api_key, api_version), api_key, api_version, at, now)

    cdef int refuse_large(self, const uint8_t *at) except -1:
        return self.refuse_begun(at, FRAME_TOO_BIG)

    cdef int route_request(self, Row *row, int api_key, int api_version, const uint8_t *at, uint64_t now) except -1:
        """Hold a request, cut it through or refuse it, as the plan says."""
        cdef LinkBase link = self.link
        cdef bint sampled = link.sampled
        cdef int want
        self.count_request(row, api_key, api_version, self.left)
        if link.is_authenticated and (api_key == SASL_HANDSHAKE or api_key == SASL_AUTHENTICATE):
            sampled = False  # a login at kproxy: the tap, and so a capture, gets no password
        self.opening = link.tap.begin_request(
            link, self.tap, link.plan, row, sampled, api_key, api_version, at, self.left, now
        )
        if row.want_request == WANT_REFUSE:
            return self.refuse_begun(at, REFUSED_VERSION)
        want = self.want_of(row.want_request, row.topics_decide_request, api_key, api_version, at)
        if want == WANT_HOLD or api_key == SASL_HANDSHAKE:
            if self.left <= link.held_limit:
                return self.enter(HOLD_FRAME)
            if link.owner.on_too_large_to_hold(link, self.direction, api_key, api_version, self.left) == WANT_REFUSE:
                return self.refuse_begun(at, FRAME_TOO_BIG)
        self.timed_key = api_key
        self.note_request(row, api_key, api_version, <int32_t>be32(at + 8), NULL)
        return self.enter(CUT_THROUGH)

    cdef void count_request(self, Row *row, int api_key, int api_version, uint64_t size) noexcept:
        self.link.worker.counters.count_request(api_key, api_version, size)
        self.link.last_api_key = api_key
        if not row.known:
            self.link.worker.counters.total(UNKNOWN_APIS)[0] += 1

    cdef int note_request(self, Row *row, int api_key, int api_version, int32_t correlation_id, PyObject *held) except -1:
        """Put a request in flight; for a Produce, begin the walk to its acks. *held*: its RequestFacts; takes over the reference."""
        cdef LinkBase link = self.link
        cdef Entry *entry = push_entry(&link.in_flight)
        entry.at = self.begun_at
        entry.sent_at = 0
        entry.correlation_id = correlation_id
        entry.api_key = api_key
        entry.api_version = api_version
        entry.kind = REQUEST_ENTRY
        entry.opening = self.take_opening()
        entry.held = held
        link.charge_in_flight()
        link.worker.counters.total(IN_FLIGHT)[0] += 1
        if api_key == PRODUCE and row.known and link.plan.produce[api_version] != NULL:
            begin_walk(
                &self.walker, link.plan.produce[api_version], link.plan.produce_stop[api_version], True,
                link.plan.produce_tags[api_version], True,
            )
            self.walking = True
            self.walked_id = correlation_id
        return 0

    cdef int64_t walk_body(self, const uint8_t *at, size_t size) except -2:
        """Follow a Produce request up to its acks; -1, as requests have no address to hold."""
        cdef const uint8_t *position = at
        cdef int done = walk_on(&self.walker, &position, at + size)
        if done == WALK_MORE:
            return -1
        self.walking = False
        if done == WALK_STOPPED and <int16_t>self.walker.value == 0:
            self.drop_walked_request()
        return -1

    cdef int drop_walked_request(self) except -1:
        """Take the Produce with acks=0 out of what is in flight, as no response follows.

        If a broker answered it before it was complete, that response has taken it out already.
        """
        cdef InFlight *in_flight = &self.link.in_flight
        cdef Entry *entry
        if in_flight.count == 0:
            return 0
        entry = last_entry(in_flight)
        if entry.kind == REQUEST_ENTRY and entry.api_key == PRODUCE and entry.correlation_id == self.walked_id:
            self.link.tap.forget_request(entry.opening)
            drop_last(in_flight)
            self.link.worker.counters.total(IN_FLIGHT)[0] -= 1
        return 0

    cdef uint32_t take_opening(self) noexcept:
        """Return ``Entry.opening`` for the request that began last, and forget it: one response belongs to it."""
        cdef uint32_t opening = self.opening
        self.opening = LEFT_OUT_OF_TAP
        return opening

    cdef int handle_held_frame(self, bytes frame) except -1:
        """Send on a token or a handshake; have the owner decide about a request that a filter wants."""
        cdef LinkBase link = self.link
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
            link.tap.note_request(self.opening)
            if row.want_request == WANT_REFUSE:
                return self.refuse(at, REFUSED_VERSION)
        api_key = <int16_t>be16(at + 4)
        api_version = <int16_t>be16(at + 6)
        if api_key == SASL_HANDSHAKE and not link.is_authenticated:
            link.tokens = link.owner.on_handshake(link, frame)
            link.authenticating = True
        row = link.plan.row(api_key, api_version)
        if row.want_request != WANT_HOLD:
            return self.send_request(frame, None)
        if not link.owner.on_request(link, frame) and not link.closed:
            self.await_verdict(PyBytes_GET_SIZE(frame))
        return 0

    cdef int send_token(self, bytes frame) except -1:
        """Send a raw SASL token to the broker, and put it in flight."""
        cdef Entry *entry = push_entry(&self.link.in_flight)
        memset(entry, 0, sizeof(Entry))
        entry.kind = TOKEN_ENTRY
        entry.opening = self.take_opening()
        entry.at = monotonic_ns()
        self.link.worker.counters.total(IN_FLIGHT)[0] += 1
        return self.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))

    cdef int send_request(self, bytes frame, object held) except -1:
        """Send a request that was held, or what replaces it, and put it in flight; *held*: its RequestFacts or None."""
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(frame)
        cdef size_t size = PyBytes_GET_SIZE(frame)
        cdef int api_key = <int16_t>be16(at + 4)
        cdef int api_version = <int16_t>be16(at + 6)
        cdef PyObject *reference = NULL
        if held is not None:
            Py_INCREF(held)
            reference = <PyObject *>held
        self.note_request(
            self.link.plan.row(api_key, api_version), api_key, api_version, <int32_t>be32(at + 8), reference
        )
        if self.walking:
            self.walk_body(at + 12, size - 12)
            self.walking = False
        self.pipe.emit(at, size)
        return 0 if self.link.closed else self.note_passed(api_key)

    cdef void note_sent_requests(self, uint64_t now) noexcept:
        """Note when the broker's socket took the last requests in flight, except for one whose end has not come yet."""
        cdef InFlight *in_flight = &self.link.in_flight
        cdef uint32_t i = in_flight.count - 1 if self.state == CUT_THROUGH and in_flight.count else in_flight.count
        cdef Entry *entry
        while i:
            i -= 1
            entry = &in_flight.entries[(in_flight.head + i) & (in_flight.capacity - 1)]
            if entry.kind == REQUEST_ENTRY:
                if entry.sent_at:
                    return
                entry.sent_at = now


cdef class ResponseLane(Lane):
    """From broker to client: pairs each response with its request, and finds where addresses may be in it."""

    def __cinit__(self, *args, **kwargs):
        self.direction = DIRECTION_RESPONSE

    def __dealloc__(self):
        Py_XDECREF(self.current.held)

    cdef int waits_for(self) except -1:
        return 0

    cdef size_t header_size(self, const uint8_t *at, size_t have) except 0:
        cdef Entry *entry
        if self.link.in_flight.count == 0:
            return 1  # whatever it is, it answers no request
        entry = first_entry(&self.link.in_flight)
        if entry.kind != TOKEN_ENTRY or self.link.tokens:
            return 4 if entry.kind == TOKEN_ENTRY else 8
        return 8 if have >= 4 and <int32_t>be32(at) >= 4 else 4

    cdef int is_bad_size(self, const uint8_t *at) except -1:
        return <int32_t>be32(at) < 0

    cdef int64_t walk_body(self, const uint8_t *at, size_t size) except -2:
        cdef const uint8_t *position = at
        cdef int done = walk_on(&self.walker, &position, at + size)
        if done == WALK_MORE:
            return -1
        self.walking = False
        return position - at if done == WALK_STOPPED else -1

    cdef int begin_frame(self, const uint8_t *at, uint64_t now) except -1:
        """Pair a response with its request, then decide as the plan says."""
        cdef LinkBase link = self.link
        cdef int32_t size
        cdef Entry *entry
        link.frames_in[DIRECTION_RESPONSE] += 1
        self.timed_key = NOT_TIMED
        self.walking = False
        if link.in_flight.count == 0:
            return link.go_opaque()
        size = <int32_t>be32(at)
        if size < 0:
            return self.refuse_begun(at, BAD_FRAME)
        entry = first_entry(&link.in_flight)
        if entry.kind == TOKEN_ENTRY:
            if link.tokens or size < 4 or not self.skips_tokens(<int32_t>be32(at + 4)):
                return self.begin_token(at, size, now)
            entry = first_entry(&link.in_flight)
        if size < 4 or entry.correlation_id != <int32_t>be32(at + 4):
            return link.go_opaque()
        Py_XDECREF(self.current.held)
        self.current = entry[0]
        entry.held = NULL
        drop_first(&link.in_flight)
        link.worker.counters.total(IN_FLIGHT)[0] -= 1
        self.left = <uint64_t>size + 4
        if self.current.kind == OWN_ENTRY:
            return self.begin_own_response(at)
        self.route_response(link.plan.row(self.current.api_key, self.current.api_version), at, now)
        if self.other.blocked & BY_IN_FLIGHT and link.in_flight.count <= link.in_flight_limit // 2:
            self.other.unblock(BY_IN_FLIGHT)  # last: a filter may answer a request now, and this frame has begun before that answer
        return 0

    cdef int route_response(self, Row *row, const uint8_t *at, uint64_t now) except -1:
        """Hold a response, cut it through or refuse it, as the plan says."""
        cdef LinkBase link = self.link
        cdef int api_key = self.current.api_key
        cdef int want = row.want_unkept if self.current.held == NULL else row.want_response
        self.count_response(now)
        self.timed_key = api_key
        link.tap.begin_response(self.tap, link.plan, row, self.current.opening, at, self.left, now)
        if api_key == SASL_AUTHENTICATE:
            link.authenticating = False
        if want == WANT_REFUSE:
            return self.refuse_begun(at, REFUSED_VERSION)
        want = self.want_of(want, row.topics_decide_response, api_key, self.current.api_version, at)
        if want == WANT_HOLD or api_key == SASL_HANDSHAKE:
            if self.left <= link.held_limit:
                return self.enter(HOLD_FRAME)
            want = link.owner.on_too_large_to_hold(link, self.direction, api_key, self.current.api_version, self.left)
            if want == WANT_REFUSE:
                self.is_too_large = True
                return 0
        if want == WANT_HEAD and row.head != NULL:
            begin_walk(&self.walker, row.head, row.head_stop, False, row.header_tags, False)
            self.walker.skip = RESPONSE_HEAD
            return self.enter(HOLD_HEAD)
        if want == WANT_TAIL and row.tail != NULL:
            begin_walk(&self.walker, row.tail, row.tail_stop, False, row.header_tags, False)
            self.walking = True
        return self.enter(CUT_THROUGH)

    cdef void count_response(self, uint64_t now) noexcept:
        cdef Counters counters = self.link.worker.counters
        cdef uint64_t latency = now - self.current.at if now > self.current.at else 0
        counters.count_response(self.current.api_key, self.current.api_version, self.left, latency)
        # 0 if the broker answered before it had the whole request
        latency = self.begun_at - self.current.sent_at if 0 < self.current.sent_at < self.begun_at else 0
        counters.count_phase(self.current.api_key, IN_BROKER, latency)

    cdef bint skips_tokens(self, int32_t correlation_id) noexcept:
        """Drop unanswered tokens (the last one of GSSAPI) if the response belongs to the request after them; return whether it does."""
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
            self.link.tap.forget_request(first_entry(in_flight).opening)
            drop_first(in_flight)
            tokens -= 1
        return True

    cdef int begin_token(self, const uint8_t *at, int32_t size, uint64_t now) except -1:
        """Cut a broker's raw SASL token through."""
        cdef LinkBase link = self.link
        cdef uint32_t opening = first_entry(&link.in_flight).opening
        drop_first(&link.in_flight)
        link.worker.counters.total(IN_FLIGHT)[0] -= 1
        link.authenticating = False
        if link.sasl is not None:
            link.sasl.on_server_token()
        self.left = <uint64_t>size + 4
        link.tap.begin_response(self.tap, link.plan, link.plan.row(SASL_HANDSHAKE, 0), opening, at, self.left, now)
        return self.enter(CUT_THROUGH)

    cdef int begin_own_response(self, const uint8_t *at) except -1:
        """Hold the response to a request of kproxy's own, which neither the tap nor the client gets."""
        self.link.frames_in[DIRECTION_RESPONSE] -= 1
        self.tap.pass_over(False)
        return self.enter(HOLD_FRAME) if self.left <= self.link.held_limit else self.refuse_begun(at, FRAME_TOO_BIG)

    cdef int handle_held_frame(self, bytes frame) except -1:
        """Hand over a response to kproxy's own login; send on one to a SaslHandshake; let the owner decide where a filter wants it."""
        cdef LinkBase link = self.link
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(frame)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(frame)
        if self.current.kind == OWN_ENTRY:
            link.owner.on_own_response(link, frame)
            return 0 if link.closed else link.send_due_answers()
        link.worker.counters.total(HELD_FRAMES)[0] += 1
        if self.current.api_key == SASL_HANDSHAKE:
            if link.sasl is not None and size >= 10 and be16(at + 8) != 0:
                link.sasl.on_refusal()  # no token follows: the client's next frame may be a request
            if link.plan.row(self.current.api_key, self.current.api_version).want_response != WANT_HOLD:
                self.take_paired_request()
                self.pipe.emit(at, size)
                self.note_passed(self.timed_key)
                return link.send_due_answers()
        if not link.owner.on_response(link, self.take_paired_request(), frame) and not link.closed:
            return self.await_verdict(PyBytes_GET_SIZE(frame))
        return link.send_due_answers()

    cdef int send_rewritten(self, bytes part, bint is_head) except -1:
        """Have the owner rewrite a held head or tail, and send it."""
        cdef bytes out
        if is_head:
            self.link.worker.counters.total(HELD_FRAMES)[0] += 1
            out = self.link.owner.on_head(self.link, self.take_paired_request(), part)
        else:
            out = self.link.owner.on_tail(self.link, self.take_paired_request(), part)
        if out is None:
            return self.refuse(NULL, FILTER)
        self.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(out), PyBytes_GET_SIZE(out))
        if self.left:
            return 0
        self.link.send_due_answers()
        return 0 if self.link.closed else self.note_passed(self.timed_key)

    cdef int refuse_large(self, const uint8_t *at) except -1:
        """Send the client an error in place of a response that is too large to be held, if there is one, and close the connection."""
        if not self.link.closed:
            self.link.owner.on_large_refused(self.link, self.take_paired_request())
        return 0 if self.link.closed else self.refuse_begun(at, FRAME_TOO_BIG)

    cdef object take_paired_request(self):
        """Return the PairedRequest (see LinkOwner) of the response in processing, and hand over its RequestFacts."""
        held = None
        if self.current.held != NULL:
            held = <object>self.current.held
            Py_XDECREF(self.current.held)
            self.current.held = NULL
        return self.current.api_key, self.current.api_version, self.current.correlation_id, held
