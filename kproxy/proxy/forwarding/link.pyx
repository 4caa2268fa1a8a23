# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The link: a client's connection joined with the broker's; what is in flight, what the tap gets, and how it ends.

The lanes own all bytes that come and go (lane.pyx); the link owns responses that filters made, until their turn (``in_flight``).
Here is what both lanes share, and the life of the pair.

Life (LinkLife; LIFE_TRANSITIONS below has the same as data, and ``enter`` raises for any other)
    OPENING      accepted; the broker is not connected or not joined. There are no lanes, and the client's bytes wait in the kernel
                 (TLS: or its TlsSide). ``drain`` now closes the link when it is joined
    JOINED       both lanes forward
    DRAINING     ``drain`` was called: no further request begins; closes with DRAIN once everything in flight is answered and sent
    HALF_CLOSED  the client, the broker or both have closed (FIN), or one was reset or failed. The other direction goes on: what is in
                 flight is still answered; closes when nothing more can reach the client. ``drain`` now also stops further requests
    CLOSED       ``close`` was called, with a CloseCause; the owner closes the sockets (LinkOwner.on_closed)

    OPENING -> JOINED        join
    OPENING -> CLOSED        the broker cannot be reached, TLS fails, a timeout, the worker ends
    JOINED -> DRAINING       drain
    JOINED -> HALF_CLOSED    a FIN, a reset, a failed write
    DRAINING -> HALF_CLOSED  likewise
    JOINED, DRAINING, HALF_CLOSED -> CLOSED

A link that is HALF_CLOSED is closed after ``timeouts.half_closed`` without any byte (virtual_cluster.py). A client that was reset or
cannot be written to gets no more responses, but the broker still gets all that the client sent before.
After CLOSED, ``forget`` drops the lanes; the worker calls it from outside of any callback of theirs.

The tap: lanes report their frames to TapCursor; the link reports its ends. What the tap gets is decided in tap_cursor.pyx.
"""

from typing import TYPE_CHECKING

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset
from posix.unistd cimport close as close_fd

from kproxy.protocol.direction cimport DIRECTION_REQUEST, DIRECTION_RESPONSE
from kproxy.protocol.wire cimport be16, be32
from kproxy.proxy.forwarding.in_flight cimport ANSWER_ENTRY, OWN_ENTRY, Entry, drop_all, drop_first, first_entry, push_entry
from kproxy.proxy.forwarding.lane cimport (
    BETWEEN_FRAMES, BY_ANSWERS, BY_IN_FLIGHT, BY_LOGIN, BY_MUTE, BY_VERDICT, Lane, LinkBase, OPAQUE, Pipe, RequestLane, ResponseLane, Worker,
    monotonic_ns,
)
from kproxy.proxy.forwarding.plan cimport Plan
from kproxy.proxy.forwarding.tap_cursor cimport LinkTap, NOT_SELECTED_FOR_TAP, TapCursor

from enum import IntEnum

from kproxy.proxy.tap.counted import CloseCause, Total

if TYPE_CHECKING:
    from kproxy.config.structs import Timeouts
    from kproxy.filters.contract import ConnectionFacts, RequestFacts  # no-cython-lint
    from kproxy.proxy.forwarding.owner import Limits, LinkOwner

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
cdef int FIRST_REQUEST_TIMEOUT = CloseCause.FIRST_REQUEST_TIMEOUT
cdef int FRAME_TIMEOUT = CloseCause.FRAME_TIMEOUT
cdef int HALF_CLOSED_TIMEOUT = CloseCause.HALF_CLOSED_TIMEOUT
cdef int IDLE = CloseCause.IDLE
cdef int CONNECTIONS_OPEN = Total.CONNECTIONS_OPEN
cdef int IN_FLIGHT = Total.IN_FLIGHT
cdef int MISPAIRED = Total.MISPAIRED
cdef int OPAQUE_CONNECTIONS = Total.OPAQUE_CONNECTIONS
cdef enum:
    REQUEST_HEAD = 12  # bytes: size, API key, version, correlation id
    MOST_OF_EDITS = 1_000  # bytes


LinkLife = IntEnum("LinkLife", {
    "OPENING": OPENING,
    "JOINED": JOINED,
    "DRAINING": DRAINING,
    "HALF_CLOSED": HALF_CLOSED,
    "CLOSED": CLOSED,
})

LIFE_TRANSITIONS: dict[LinkLife, set[LinkLife]] = {
    LinkLife.OPENING: {LinkLife.JOINED, LinkLife.CLOSED},
    LinkLife.JOINED: {LinkLife.DRAINING, LinkLife.HALF_CLOSED, LinkLife.CLOSED},
    LinkLife.DRAINING: {LinkLife.HALF_CLOSED, LinkLife.CLOSED},
    LinkLife.HALF_CLOSED: {LinkLife.CLOSED},
    LinkLife.CLOSED: set(),
}

cdef uint32_t allowed = 0  # LIFE_TRANSITIONS as bits: from * LIFE_STATES + to
for _from, _targets in LIFE_TRANSITIONS.items():
    for _to in _targets:
        allowed |= <uint32_t>1 << <uint32_t>(_from * LIFE_STATES + _to)


cdef class Link(LinkBase):
    """One client's connection and the broker's. Made by an acceptor; joined by ``sockets.pump``."""

    def __init__(self, Worker worker not None, owner: LinkOwner, Plan plan not None, uint64_t number, limits: Limits):
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
        self.tap = LinkTap(worker.tapping, number)
        worker.links.add(self)
        (<set>worker.links_of.setdefault(owner, set())).add(self)

    def join(self, Pipe requests not None, Pipe responses not None) -> None:
        """Make the lanes, each with the pipe that reads and writes for it, and begin to forward."""
        # made before the link owns any of them: if memory runs out, it is closed like a link that was not joined
        cdef Lane request_lane = RequestLane()
        cdef Lane response_lane = ResponseLane()
        request_lane.tap = TapCursor(self.tap, DIRECTION_REQUEST)
        response_lane.tap = TapCursor(self.tap, DIRECTION_RESPONSE)
        self.enter(JOINED)
        self.requests, self.responses = request_lane, response_lane
        self.requests.other, self.responses.other = self.responses, self.requests
        self.requests.pipe, self.responses.pipe = requests, responses
        requests.lane, responses.lane = self.requests, self.responses
        self.requests.link = self.responses.link = self
        self.last_at = self.requests.progress_at = self.responses.progress_at = monotonic_ns()
        self.record_login()
        if self.draining:
            self.enter(DRAINING)
            self.settle()
            return
        if self.paused_by & BY_LOGIN:  # the client's bytes wait in the kernel
            self.requests.block(BY_LOGIN)
        else:
            requests.start_reading()
        responses.start_reading()

    cdef int record_login(self) except -1:
        """Give the tap what the client and kproxy said to each other before the link was joined (``login_exchanges``)."""
        cdef const uint8_t *at
        cdef Py_ssize_t size
        cdef int api_key
        cdef int api_version
        cdef uint32_t opening
        for request, response in self.login_exchanges or ():
            at = <const uint8_t *>PyBytes_AS_STRING(request)
            size = PyBytes_GET_SIZE(request)
            api_key = <int16_t>be16(at + 4)
            api_version = <int16_t>be16(at + 6)
            self.requests.tap.begin_chunk(at, at + size, 0, self.last_at)
            opening = self.tap.begin_request(
                self, self.requests.tap, self.plan, self.plan.row(api_key, api_version), self.sampled, api_key, api_version, at, size,
                self.last_at,
            )
            self.requests.tap.take(at, size, self.last_at)
            self.requests.tap.end_chunk(self.last_at, self.last_at)
            self.tap.write_made_response(
                self.requests.tap, self.responses.tap, opening, <const uint8_t *>PyBytes_AS_STRING(response),
                PyBytes_GET_SIZE(response), self.last_at,
            )
        self.login_exchanges = None
        return 0

    cdef int enter(self, int life) except -1:
        """Change the state of the life; raises RuntimeError for a transition that is not among LIFE_TRANSITIONS."""
        cdef uint32_t transition = <uint32_t>1 << <uint32_t>(self.life * LIFE_STATES + life)
        if not allowed & transition:
            raise RuntimeError(f"no transition from {LinkLife(self.life)!r} to {LinkLife(life)!r}")
        self.taken |= transition
        self.life = life
        return 0

    @property
    def life_state(self) -> LinkLife:
        """The LinkLife now, for Python."""
        return LinkLife(self.life)

    @property
    def transitions_taken(self) -> set[tuple[LinkLife, LinkLife]]:
        """Transitions of this link's life so far, as pairs of LinkLife: for Python."""
        return {
            (from_, to) for from_ in LinkLife for to in LinkLife
            if self.taken >> <uint32_t>(from_ * LIFE_STATES + to) & 1
        }

    @property
    def in_flight_count(self) -> int:
        """Requests and tokens to be answered, and responses of filters that wait for their turn."""
        return self.in_flight.count

    @property
    def bytes_received(self) -> tuple[int, int]:
        """(bytes from the client, bytes from the broker)."""
        return self.bytes_in[DIRECTION_REQUEST], self.bytes_in[DIRECTION_RESPONSE]

    @property
    def frames_received(self) -> tuple[int, int]:
        """(requests, responses)."""
        return self.frames_in[DIRECTION_REQUEST], self.frames_in[DIRECTION_RESPONSE]

    @property
    def last_request(self) -> int:
        """API key of the last request; -1 before the first."""
        return self.last_api_key

    @property
    def half_closed(self) -> bool:
        """Whether the client, the broker or both have closed their direction, and the link is still open."""
        return self.life == HALF_CLOSED

    def take_client(self) -> int:
        """Hand the client's socket (file descriptor) over to the caller; -1: it was handed over before, or closed."""
        cdef int client = self.client_fd
        self.local_address()
        self.client_fd = -1
        return client

    def take_broker(self) -> int:
        """Hand the broker's socket (file descriptor) over to the caller; -1: there is none, or it was closed."""
        cdef int broker = self.broker_fd
        self.broker_fd = -1
        return broker

    def return_client(self, int client) -> None:
        """Take back the socket that ``take_client`` handed over; close it if the link was closed meanwhile."""
        if self.closed:
            close_fd(client)
        else:
            self.client_fd = client

    def sockets(self) -> tuple[int, int]:
        """Return the client's and the broker's socket (file descriptors), which stay the link's; -1: there is none, or it was taken."""
        return self.client_fd, self.broker_fd

    def local_address(self) -> bytes:
        """Return the address the client connected to (sockaddr); empty if it cannot be determined."""
        cdef sockaddr_storage address
        cdef socklen_t size = sizeof(sockaddr_storage)
        if self.local is None and self.client_fd >= 0:
            if getsockname(self.client_fd, <sockaddr *>&address, &size) == 0:
                self.local = (<char *>&address)[:size]
        return self.local or b""

    @property
    def incomplete_frame_since(self) -> int:
        """When the last byte of an incomplete frame or header was received (ns, monotonic); 0: there is none."""
        return 0 if self.requests is None else max(self.requests.stalled_since(), self.responses.stalled_since())

    def stop_connecting(self) -> None:
        """Stop watching the broker's socket for the end of its connect."""
        if self.connecting:
            self.connecting = False
            self.worker.loop.remove_writer(self.broker_fd)

    # Decisions of filters about held frames: the owner calls these, at once or later

    def forward_request(self, bytes frame not None, held: RequestFacts | None = None) -> None:
        """Forward a held request, or its replacement, to the broker; *held*, its RequestFacts, is kept for its response."""
        if PyBytes_GET_SIZE(frame) < REQUEST_HEAD:
            raise ValueError(f"a request of {PyBytes_GET_SIZE(frame)} bytes has no header")
        if self.closed:
            return
        if self.requests.state == OPAQUE:
            self.requests.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        else:
            (<RequestLane>self.requests).send_request(frame, held)

    def forward_response(self, bytes frame not None) -> None:
        """Forward a held response, or its replacement, to the client."""
        if self.closed:
            return
        self.responses.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        if not self.closed:
            self.responses.note_passed(self.responses.timed_key)

    def answer(self, bytes frame not None) -> None:
        """Queue a filter's response to a request that is not forwarded; it is sent after the responses to earlier requests."""
        cdef Entry *entry
        if self.closed:
            return
        self.requests.tap.end_frame(monotonic_ns())
        if self.responses.state == OPAQUE:  # where a frame ends is not known, so nothing can be put between two
            self.close(FILTER)
            return
        entry = push_entry(&self.in_flight)
        memset(entry, 0, sizeof(Entry))
        entry.kind = ANSWER_ENTRY
        entry.opening = (<RequestLane>self.requests).take_opening()
        Py_INCREF(frame)
        entry.held = <PyObject *>frame
        self.answers += 1
        self.answer_bytes += PyBytes_GET_SIZE(frame)
        self.worker.charge(PyBytes_GET_SIZE(frame))
        self.charge_in_flight()
        self.worker.counters.total(IN_FLIGHT)[0] += 1
        self.send_due_answers()

    def note_edits(self, int direction, bytes edits not None) -> None:
        """Tell the tap what filters do to the held message of a direction, a line each; before the verdict is applied."""
        cdef Lane lane = self.requests if direction == DIRECTION_REQUEST else self.responses
        if not self.closed:
            lane.tap.note_edits(<const uint8_t *>PyBytes_AS_STRING(edits), min(PyBytes_GET_SIZE(edits), MOST_OF_EDITS), monotonic_ns())

    def go_silent(self, int direction) -> None:
        """Drop everything that arrives in a direction from now on; leave both sides open until the client ends or the link drains."""
        if not self.closed:
            self.silent = True
            (self.requests if direction == DIRECTION_REQUEST else self.responses).discarding = True
            self.settle()

    def resume(self, int direction) -> None:
        """Go on processing and reading in a direction, as the verdict about its held frame is there."""
        cdef Lane lane = self.requests if direction == DIRECTION_REQUEST else self.responses
        if not self.closed:
            lane.tap.end_frame(monotonic_ns())
            if lane.passed_count:
                lane.note_sent_later()
            lane.unblock(BY_VERDICT)
            self.settle()

    def mute(self) -> None:
        """Let no further request begin until ``unmute``: the client is throttled."""
        self.paused_by |= BY_MUTE

    def unmute(self) -> None:
        """Read requests again."""
        self.go_on_after(BY_MUTE)

    cdef int go_on_after(self, int why) except -1:
        """Let requests begin again, as a reason not to has ended."""
        self.paused_by &= ~why
        if not self.closed and self.requests is not None:
            self.requests.resume_after(why)
        return 0

    # A login of kproxy's own at the broker (broker_login.py): before the first request, or again between two (KIP-368)

    def begin_login(self) -> None:
        """Let no further request begin until ``end_login``; once none is being sent, LinkOwner.on_login_due is called.

        That is now, when the link is joined, or when the client's next request would begin.
        """
        self.paused_by |= BY_LOGIN
        if self.closed or self.requests is None or self.draining or self.requests.eof:
            return
        if self.requests.state == BETWEEN_FRAMES and not self.requests.blocked & BY_VERDICT:
            self.requests.block(BY_LOGIN)

    def send_own_request(self, bytes frame not None) -> None:
        """Send a request of the login; its response goes to LinkOwner.on_own_response. Only after LinkOwner.on_login_due."""
        cdef Entry *entry
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(frame)
        if self.closed:
            return
        if not self.requests.blocked & BY_LOGIN or PyBytes_GET_SIZE(frame) < REQUEST_HEAD:
            raise RuntimeError("a request of kproxy's own would stand in the middle of a client's")
        entry = push_entry(&self.in_flight)
        memset(entry, 0, sizeof(Entry))
        entry.kind = OWN_ENTRY
        entry.opening = NOT_SELECTED_FOR_TAP
        entry.correlation_id = <int32_t>be32(at + 8)
        self.worker.counters.total(IN_FLIGHT)[0] += 1
        self.requests.pipe.emit(at, PyBytes_GET_SIZE(frame))

    def end_login(self) -> None:
        """Let the client's requests begin."""
        self.go_on_after(BY_LOGIN)

    def drain(self) -> None:
        """Let no further request begin; close once everything in flight is answered."""
        self.draining = True
        if self.life == JOINED:
            self.enter(DRAINING)
        if not self.closed and self.requests is not None:
            self.settle()

    # For lanes

    cdef int send_due_answers(self) except -1:
        """Send the client the responses of filters whose turn has come, but only between two frames of the response lane."""
        cdef Entry *entry
        cdef bytes frame
        cdef uint32_t opening
        while self.in_flight.count and not self.closed:
            entry = first_entry(&self.in_flight)
            if entry.kind != ANSWER_ENTRY or self.responses.state != BETWEEN_FRAMES or self.responses.header_part_size:
                return 0
            if self.responses.blocked & BY_VERDICT:  # an earlier response is with a filter
                return 0
            frame = <bytes><object>entry.held
            opening = entry.opening
            drop_first(&self.in_flight)
            self.answers -= 1
            self.answer_bytes -= PyBytes_GET_SIZE(frame)
            self.worker.charge(-<int64_t>PyBytes_GET_SIZE(frame))
            self.worker.counters.total(IN_FLIGHT)[0] -= 1
            self.tap.write_made_response(
                self.requests.tap, self.responses.tap, opening, <const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame),
                monotonic_ns(),
            )
            self.responses.pipe.emit(<const uint8_t *>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        if not self.closed and not self.responses.pipe.is_flushed():
            self.requests.block(BY_ANSWERS)
        return 0

    cdef int go_opaque(self) except -1:
        """Forward both directions unread from now on, or close, as the owner decides."""
        self.worker.counters.total(MISPAIRED)[0] += 1
        if not self.owner.on_mispaired(self):
            self.close(BAD_FRAME)
            return 0
        self.worker.counters.total(OPAQUE_CONNECTIONS)[0] += 1
        self.worker.counters.total(IN_FLIGHT)[0] -= self.in_flight.count
        while self.in_flight.count:
            self.tap.forget_request(first_entry(&self.in_flight).opening)
            drop_first(&self.in_flight)
        self.drop_in_flight()
        self.requests.go_opaque()
        self.responses.go_opaque()
        self.requests.unblock(BY_IN_FLIGHT)
        return 0

    cdef int drop_in_flight(self) except -1:
        """Drop everything in flight, including responses that filters made."""
        drop_all(&self.in_flight)
        self.charge_in_flight()
        self.worker.charge(-<int64_t>self.answer_bytes)
        self.answers = self.answer_bytes = 0
        return 0

    cdef size_t buffered(self) noexcept:
        cdef size_t size = self.in_flight_charged + self.answer_bytes
        if self.requests is not None:
            size += self.requests.buffered() + self.responses.buffered()
        return size

    # Endings

    cdef int half_close(self, Lane lane) except -1:
        """Note that a lane's source has ended or is lost."""
        lane.eof = True
        lane.pipe.stop_reading()
        return 0 if self.life == HALF_CLOSED or self.closed else self.enter(HALF_CLOSED)

    cdef int on_eof(self, Lane lane) except -1:
        """Handle the end of a lane's source: forward an incomplete header, then the end."""
        if lane.eof or self.closed:
            return 0
        self.half_close(lane)
        if lane.header_part_size:
            lane.tap.take_raw(self, self.sampled, lane.header_part, lane.header_part + lane.header_part_size, monotonic_ns())
        self.tap.end(lane.tap, self.reset_by == lane.direction + 1, monotonic_ns())
        if lane.direction == DIRECTION_RESPONSE and self.paused_by & BY_LOGIN:
            self.owner.on_own_response(self, None)
        if lane.state == BETWEEN_FRAMES and lane.header_part_size:
            lane.pipe.emit(lane.header_part, lane.header_part_size)
            lane.header_part_size = 0
        self.settle()
        return 0

    def source_lost(self, Lane lane not None) -> None:
        """Handle a reset, or another error, of the side a lane reads."""
        if self.closed:
            return
        lane.other.discarding = True
        if lane.direction == DIRECTION_RESPONSE:
            self.half_close(self.requests)
        self.reset_by = lane.direction + 1
        self.on_eof(lane)

    def sink_lost(self, Lane lane not None, bint after_end=False) -> None:
        """Handle that the side a lane writes to takes no more bytes; *after_end*: it had closed (FIN) before. It may still be read."""
        if self.closed:
            return
        lane.discarding = True
        if not after_end:
            self.reset_by = 2 - lane.direction
        if lane.direction == DIRECTION_REQUEST:
            self.half_close(lane)
        self.settle()

    cdef int settle(self) except -1:
        """Do what became due: read the client again, end an output, close."""
        cdef Lane requests = self.requests
        cdef Lane responses = self.responses
        cdef bint responses_had_ended
        if self.closed or requests is None:
            return 0
        if requests.blocked & BY_ANSWERS and (responses.discarding or responses.pipe.is_flushed()):
            requests.unblock(BY_ANSWERS)
            if self.closed:
                return 0
        requests.finish()
        if self.closed:
            return 0
        responses_had_ended = responses.ended
        responses.finish()
        if responses.ended and not responses_had_ended and not requests.eof:
            self.broker_first = True
        if requests.ended and (responses.ended or not self.awaits_broker()) and (responses.discarding or responses.pipe.is_flushed()):
            self.close(self.cause_of_end())
        elif self.silent and (self.draining or requests.eof):  # what is in flight will never be answered
            self.close(DRAIN if self.draining else self.cause_of_end())
        elif self.draining and requests.at_boundary() and not self.in_flight.count and responses.at_boundary() and responses.pipe.is_flushed():
            self.close(DRAIN)
        return 0

    cdef bint awaits_broker(self) noexcept:
        """Return whether the broker may still send something that a half-closed client waits for."""
        return self.in_flight.count > 0 or not self.responses.at_boundary()

    cdef int cause_of_end(self) noexcept:
        if self.reset_by:
            return CLIENT_RESET if self.reset_by == 1 else BROKER_RESET
        return BROKER_CLOSED if self.broker_first else CLIENT_CLOSED

    cpdef close(self, int cause):
        """Close both sides now; *cause* is a CloseCause."""
        if self.closed:
            return
        self.enter(CLOSED)
        self.closed = True
        self.stop_connecting()
        self.worker.links.discard(self)
        siblings = self.worker.links_of.get(self.owner, set())
        siblings.discard(self)
        if not siblings:
            self.worker.links_of.pop(self.owner, None)
        self.worker.counters.closed(cause)[0] += 1
        self.worker.counters.total(CONNECTIONS_OPEN)[0] -= 1
        self.worker.release_place()
        self.worker.counters.total(IN_FLIGHT)[0] -= self.in_flight.count
        if self.requests is not None:
            self.tap.close(self.requests.tap, self.responses.tap, cause, monotonic_ns())
            for lane in (self.requests, self.responses):
                (<Lane>lane).pipe.detach()
                (<Lane>lane).release()
        self.drop_in_flight()
        self.worker.closed_links.append(self)
        self.owner.on_closed(self, cause)

    def forget(self) -> None:
        """Drop the lanes of a closed link, so that no reference cycle is left; no callback of theirs may be running."""
        if self.requests is not None:
            for lane in (self.requests, self.responses):
                (<Lane>lane).other = None
                (<Lane>lane).pipe.lane = None
                (<Lane>lane).pipe = None
                (<Lane>lane).link = None
        self.requests = self.responses = None


def overdue(Worker worker not None, owner: object, timeouts: Timeouts, uint64_t now) -> list[tuple[Link, int | None]]:
    """Return (link, cause) for the owner's links that exceeded a timeout; cause None: connecting to the broker took too long.

    Args:
        timeouts: first_request, frame, half_closed, idle and connect in seconds.
        now: ns of the monotonic clock.
    """
    cdef uint64_t first_request = timeouts.first_request * 1e9
    cdef uint64_t frame = timeouts.frame * 1e9
    cdef uint64_t half_closed = timeouts.half_closed * 1e9
    cdef uint64_t idle = timeouts.idle * 1e9
    cdef uint64_t connect = timeouts.connect * 1e9
    cdef list found = []
    cdef Link link
    cdef uint64_t since
    for link in worker.links_of.get(owner, ()):
        since = link.incomplete_frame_since
        if not link.received_request and not link.is_authenticated and now > link.opened_at + first_request:
            found.append((link, FIRST_REQUEST_TIMEOUT))
        elif since and now > since + frame:
            found.append((link, FRAME_TIMEOUT))
        elif link.life == HALF_CLOSED and now > link.last_at + half_closed:  # the time without any byte after one side's FIN
            found.append((link, HALF_CLOSED_TIMEOUT))
        elif now > link.last_at + idle:
            found.append((link, IDLE))
        elif link.connecting and now > link.opened_at + connect:
            found.append((link, None))
    return found
