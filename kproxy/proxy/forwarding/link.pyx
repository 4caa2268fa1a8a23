# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A client's connection and the broker's, joined: what is in flight, what the tap gets, and how it comes to its end."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t
from libc.string cimport memset
from posix.unistd cimport close as close_fd

from kproxy.proxy.tap.counters cimport (
    CONNECTIONS_OPEN, IN_FLIGHT, MISPAIRED, OPAQUE_CONNECTIONS, TAP_DROPPED_BYTES, TAP_DROPPED_CHUNKS, TAPPED_BYTES,
    TAPPED_CHUNKS,
)
from kproxy.proxy.forwarding.in_flight cimport ANSWER_ENTRY, Entry, drop_all, drop_first, first_entry, push_entry
from kproxy.proxy.forwarding.lane cimport (
    AT_HEADER, BY_ANSWERS, BY_IN_FLIGHT, BY_VERDICT, Joint, Lane, OPAQUE, Pipe, REQUEST_SIDE, RESPONSE_SIDE, Worker, monotonic_ns,
)
from kproxy.proxy.forwarding.plan cimport Plan
from kproxy.proxy.forwarding.requests cimport RequestLane
from kproxy.proxy.forwarding.responses cimport ResponseLane
from kproxy.proxy.tap.ring cimport TAP_CLOSE, TAP_DATA, TAP_END, TAP_OPEN, TapWriter

from kproxy.proxy.tap.counted import CloseCause

cdef extern from "<sys/socket.h>" nogil:
    ctypedef unsigned int socklen_t
    cdef struct sockaddr:
        pass
    cdef struct sockaddr_storage:
        pass
    int getsockname(int, sockaddr *, socklen_t *)

cdef int CLIENT_CLOSED = CloseCause.CLIENT_CLOSED
cdef int BROKER_CLOSED = CloseCause.BROKER_CLOSED
cdef int CLIENT_RESET = CloseCause.CLIENT_RESET
cdef int BROKER_RESET = CloseCause.BROKER_RESET
cdef int BAD_FRAME = CloseCause.BAD_FRAME
cdef int DRAIN = CloseCause.DRAIN
cdef int FILTER = CloseCause.FILTER

cdef enum:
    REQUEST_HEAD = 12  # bytes: size, API key, version, correlation id


cdef class Link(Joint):
    """One client's connection and the broker's. Made by an acceptor; its lanes are given by a pump or by streams."""

    def __init__(self, Worker worker not None, owner, Plan plan not None, uint64_t number, limits):
        self.worker = worker
        self.owner = owner
        self.plan = plan
        self.number = number
        self.frame_limit = limits.frame_size
        self.unauthenticated_limit = limits.unauthenticated_frame_size
        self.held_limit = limits.held_frame_size
        self.in_flight_limit = limits.in_flight
        self.opened_at = self.last_at = monotonic_ns()
        self.last_api_key = -1
        self.client_fd = self.broker_fd = -1
        self.sampled = True
        worker.links.add(self)

    def join(self, Pipe requests not None, Pipe responses not None):
        """Give the link what reads and writes for it; traffic begins."""
        self.requests = RequestLane()
        self.responses = ResponseLane()
        self.requests.other, self.responses.other = self.responses, self.requests
        self.requests.pipe, self.responses.pipe = requests, responses
        requests.lane, responses.lane = self.requests, self.responses
        self.requests.link = self.responses.link = self
        self.last_at = self.requests.progress_at = self.responses.progress_at = monotonic_ns()
        if self.draining:
            self.settle()
            return
        requests.start_reading()
        responses.start_reading()

    @property
    def in_flight_count(self):
        """Requests, tokens and answers that wait for their turn."""
        return self.in_flight.count

    @property
    def bytes_received(self):
        """(bytes from the client, bytes from the broker)."""
        return self.bytes_in[REQUEST_SIDE], self.bytes_in[RESPONSE_SIDE]

    @property
    def frames_received(self):
        """(requests, responses)."""
        return self.frames_in[REQUEST_SIDE], self.frames_in[RESPONSE_SIDE]

    @property
    def last_request(self):
        """API key of the last request; -1 before the first."""
        return self.last_api_key

    @property
    def half_closed(self):
        """Whether the client, the broker or both have sent their end, and the link is still open."""
        return self.requests is not None and (self.requests.eof or self.responses.eof)

    def take_client(self):
        """The client's socket (file descriptor), which is the caller's from now on."""
        cdef int client = self.client_fd
        self.local_address()
        self.client_fd = -1
        return client

    def return_client(self, int client):
        """Take back what ``take_client`` gave; where the link has been closed meanwhile, it is closed now."""
        if self.closed:
            close_fd(client)
        else:
            self.client_fd = client

    def client_socket(self):
        """The client's socket (file descriptor), which stays the link's; -1 when it has been taken or closed."""
        return self.client_fd

    def local_address(self):
        """The address the client came to (sockaddr); empty when that cannot be told."""
        cdef sockaddr_storage address
        cdef socklen_t size = sizeof(sockaddr_storage)
        if self.local is None and self.client_fd >= 0:
            if getsockname(self.client_fd, <sockaddr *>&address, &size) == 0:
                self.local = (<char *>&address)[:size]
        return self.local or b""

    @property
    def incomplete_frame_since(self):
        """When the last byte of an incomplete frame or header was received (ns, monotonic); 0: there is none."""
        cdef uint64_t at = 0
        if self.requests is None:
            return 0
        for lane in (self.requests, self.responses):
            at = max(at, (<Lane>lane).stalled_since())
        return at

    def stop_connecting(self):
        """Whether the broker is there or not: the loop need not tell any more."""
        if self.connecting:
            self.connecting = False
            self.worker.loop.remove_writer(self.broker_fd)

    def note_progress(self):
        """A slow sink has taken something: the connection is not idle."""
        self.last_at = monotonic_ns()

    def use_plan(self, Plan plan not None):
        """Frames that begin from now on are looked up in *plan*."""
        self.plan = plan

    # What filters make of held frames: the owner calls these, at once or later.

    def forward_request(self, bytes frame not None, held=None):
        """Send a held request, or what stands for it, on to the broker; *held* is its RequestFacts, for whoever sees the response."""
        if PyBytes_GET_SIZE(frame) < REQUEST_HEAD:
            raise ValueError(f"a request of {PyBytes_GET_SIZE(frame)} bytes has no header")
        if self.closed:
            return
        if self.requests.state == OPAQUE:
            self.requests.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        else:
            (<RequestLane>self.requests).send_request(frame, held)

    def forward_response(self, bytes frame not None):
        """Send a held response, or what stands for it, on to the client."""
        if not self.closed:
            self.responses.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))

    def answer(self, bytes frame not None):
        """The client gets this response frame when its turn comes; the request it answers went nowhere."""
        cdef Entry *entry
        if self.closed:
            return
        if self.responses.state == OPAQUE:  # nobody knows any more where an answer could be put
            self.close(FILTER)
            return
        entry = push_entry(&self.in_flight)
        memset(entry, 0, sizeof(Entry))
        entry.kind = ANSWER_ENTRY
        entry.api_key = self.last_api_key
        Py_INCREF(frame)
        entry.held = <PyObject *>frame
        self.answers += 1
        self.worker.counters.total(IN_FLIGHT)[0] += 1
        self.answers_due()

    def resume(self, int side):
        """The verdict that the direction waited for has been acted on."""
        if not self.closed:
            (self.requests if side == REQUEST_SIDE else self.responses).unblock(BY_VERDICT)
            self.settle()

    def drain(self):
        """Begin no further request; close when what is in flight is answered."""
        self.draining = True
        if not self.closed and self.requests is not None:
            self.settle()

    # For lanes

    cdef int answers_due(self) except -1:
        """Give the client the answers whose turn it is; only at a frame boundary of the responses."""
        cdef Entry *entry
        cdef bytes frame
        cdef bint tapped
        while self.in_flight.count and not self.closed:
            entry = first_entry(&self.in_flight)
            if entry.kind != ANSWER_ENTRY or self.responses.state != AT_HEADER or self.responses.carried:
                return 0
            if self.responses.blocked & BY_VERDICT:  # a response that was due before is being judged
                return 0
            frame = <bytes><object>entry.held
            tapped = self.plan.row(entry.api_key, -1).tapped
            drop_first(&self.in_flight)
            self.answers -= 1
            self.worker.counters.total(IN_FLIGHT)[0] -= 1
            if tapped:
                self.copy(RESPONSE_SIDE, TAP_DATA, <const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame), monotonic_ns())
            self.responses.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        if not self.closed and not self.responses.pipe.is_flushed():
            self.requests.block(BY_ANSWERS)
        return 0

    cdef int go_opaque(self) except -1:
        """Frames are not known any more: both directions pass as they come, unless the owner thinks that too dangerous."""
        self.worker.counters.total(MISPAIRED)[0] += 1
        if not self.owner.on_mispaired(self):
            self.close(BAD_FRAME)
            return 0
        self.worker.counters.total(OPAQUE_CONNECTIONS)[0] += 1
        self.worker.counters.total(IN_FLIGHT)[0] -= self.in_flight.count
        drop_all(&self.in_flight)
        self.answers = 0
        self.requests.pass_on()
        self.responses.pass_on()
        self.requests.unblock(BY_IN_FLIGHT)
        return 0

    cdef void copy(self, int side, int kind, const uint8_t *data, size_t size, uint64_t at) noexcept:
        """Copy to the analyzer, when there is one; what does not fit is counted, and told when there is room again."""
        cdef TapWriter tap = self.worker.tap
        cdef Lane lane = self.requests if side == REQUEST_SIDE else self.responses
        cdef uint64_t epoch
        if tap is None or not self.sampled:
            return
        epoch = tap.reader_epoch()
        if epoch == 0:  # it has died, and another is being started
            self.tap_missed = True
            self.tap_dropped(lane, size)
            return
        at += self.worker.clock_offset
        if self.worker.tap_paused:
            self.tap_missed |= epoch != self.tap_epoch
            self.tap_dropped(lane, size)
            return
        if epoch != self.tap_epoch and not self.tap_open(epoch, at):
            self.tap_missed = True
            self.tap_dropped(lane, size)
            return
        if not self.tap_tell_lost(lane, at):
            self.tap_dropped(lane, size)
            return
        if tap.write(kind, self.number, side, at, data, size) < 0:
            self.tap_dropped(lane, size)
        else:
            self.worker.counters.total(TAPPED_CHUNKS)[0] += 1
            self.worker.counters.total(TAPPED_BYTES)[0] += size

    cdef bint tap_open(self, uint64_t epoch, uint64_t at) noexcept:
        """Tell a new reader of this connection."""
        cdef bytes text
        try:
            text = self.owner.describe(self, self.tap_epoch == 0 and not self.tap_missed)
        except Exception:
            return False
        if self.worker.tap.write(TAP_OPEN, self.number, 0, at, <const uint8_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)) < 0:
            return False
        self.tap_epoch = epoch
        self.requests.tap_lost = self.responses.tap_lost = 0
        return True

    cdef bint tap_tell_lost(self, Lane lane, uint64_t at) noexcept:
        if lane.tap_lost and self.worker.tap.write_lost(self.number, lane.side, at, lane.tap_lost) < 0:
            return False
        lane.tap_lost = 0
        return True

    cdef void tap_dropped(self, Lane lane, size_t size) noexcept:
        lane.tap_lost += size
        self.worker.counters.total(TAP_DROPPED_CHUNKS)[0] += 1
        self.worker.counters.total(TAP_DROPPED_BYTES)[0] += size

    # Endings

    cdef int on_eof(self, Lane lane) except -1:
        """A side is done sending. What it began is passed on, and then its end."""
        if lane.eof or self.closed:
            return 0
        lane.eof = True
        lane.pipe.stop_reading()
        self.copy(lane.side, TAP_END, NULL, 0, monotonic_ns())
        if lane.state == AT_HEADER and lane.carried:
            lane.pipe.emit(lane.carry, lane.carried)
            lane.carried = 0
        self.settle()
        return 0

    def source_lost(self, Lane lane not None):
        """The side a lane reads from is gone without a farewell."""
        if self.closed:
            return
        lane.other.discarding = True
        if lane.side == RESPONSE_SIDE:
            self.requests.eof = True
            self.requests.pipe.stop_reading()
        self.reset_by = lane.side + 1
        self.on_eof(lane)

    def sink_lost(self, Lane lane not None, bint farewell=False):
        """The side a lane writes to is gone, with or without a *farewell*. What it has sent before may still be read."""
        if self.closed:
            return
        lane.discarding = True
        if not farewell:
            self.reset_by = 2 - lane.side
        if lane.side == REQUEST_SIDE:
            lane.eof = True
            lane.pipe.stop_reading()
        self.settle()

    cdef int settle(self) except -1:
        """See whether something has come to its end."""
        cdef Lane requests = self.requests
        cdef Lane responses = self.responses
        if self.closed or requests is None:
            return 0
        if requests.blocked & BY_ANSWERS and (responses.discarding or responses.pipe.is_flushed()):
            requests.unblock(BY_ANSWERS)
            if self.closed:
                return 0
        requests.finish()
        responses.finish()
        if requests.ended and (responses.ended or not self.awaits_broker()) and (responses.discarding or responses.pipe.is_flushed()):
            self.close(self.cause_of_end())
        elif self.draining and requests.at_boundary() and not self.in_flight.count and responses.at_boundary() and responses.pipe.is_flushed():
            self.close(DRAIN)
        return 0

    cdef bint awaits_broker(self) noexcept:
        """Whether anything of the broker's is still of use to a client that has said it is done."""
        return self.in_flight.count > 0 or not self.responses.at_boundary()

    cdef int cause_of_end(self) noexcept:
        if self.reset_by:
            return CLIENT_RESET if self.reset_by == 1 else BROKER_RESET
        return BROKER_CLOSED if self.broker_first else CLIENT_CLOSED

    cpdef close(self, int cause):
        """Close both sides now; *cause* is a CloseCause."""
        if self.closed:
            return
        self.closed = True
        self.stop_connecting()
        self.worker.links.discard(self)
        self.worker.counters.closed(cause)[0] += 1
        self.worker.counters.total(CONNECTIONS_OPEN)[0] -= 1
        self.worker.counters.total(IN_FLIGHT)[0] -= self.in_flight.count
        if self.requests is not None:
            self.tap_close(cause)
            for lane in (self.requests, self.responses):
                (<Lane>lane).pipe.detach()
                (<Lane>lane).release()
        drop_all(&self.in_flight)
        self.worker.closed_links.append(self)
        self.owner.on_closed(self, cause)

    def forget(self):
        """Nobody is inside the link any more: it lets go of its lanes, so that the collector need not come for them."""
        if self.requests is not None:
            for lane in (self.requests, self.responses):
                (<Lane>lane).other = None
                (<Lane>lane).pipe.forget()
                (<Lane>lane).pipe = None
                (<Lane>lane).link = None
        self.requests = self.responses = None

    cdef void tap_close(self, int cause) noexcept:
        cdef uint8_t byte = cause
        if self.worker.tap is not None and self.tap_epoch:
            self.responses.tap_up_to(self.responses.untapped_end, monotonic_ns())
            if self.tap_epoch == self.worker.tap.reader_epoch() and not self.worker.tap_paused:
                self.tap_tell_lost(self.responses, monotonic_ns() + self.worker.clock_offset)
            self.copy(REQUEST_SIDE, TAP_CLOSE, &byte, 1, monotonic_ns())


