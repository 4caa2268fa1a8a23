# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One direction of a link: which bytes go on at once, which are gathered first, and when it stands still.

What makes frames of requests is in requests.pyx, of responses in responses.pyx; what reads and writes is a Pipe: two
sockets in pump.pyx, two transports in streams.pyx.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from kproxy.protocol.wire cimport be32
from kproxy.proxy.tap.counters cimport BUFFERED_BYTES, BYTES_REQUEST, BYTES_RESPONSE
from kproxy.proxy.forwarding.in_flight cimport ANSWER_ENTRY, drop_all, first_entry
from kproxy.proxy.tap.ring cimport TAP_DATA

from kproxy.proxy.tap.counted import CloseCause

cdef enum:
    MOST_TAIL = 1_048_576  # bytes of a response from the first address on
    HELD_AT_FIRST = 4_096

cdef int BAD_FRAME = CloseCause.BAD_FRAME
cdef int FILTER = CloseCause.FILTER


cdef uint64_t monotonic_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <uint64_t>t.tv_sec * 1_000_000_000 + t.tv_nsec


cdef class Worker:
    """What all links of a process share.

    Args:
        counters: where this worker counts.
        tap: where what passes is copied to; None: nowhere.
        loop: uvloop's.
        memory_budget: bytes the buffers of all lanes should stay below; 0: no limit. Soft: see the package docstring.
    """

    def __init__(self, Counters counters not None, TapWriter tap, loop, uint64_t memory_budget=0):
        self.counters = counters
        self.tap = tap
        self.loop = loop
        self.memory_budget = memory_budget
        self.buffered = counters.total(BUFFERED_BYTES)
        self.links = set()
        self.closed_links = []
        self.connection_limit = <uint64_t>-1

    @property
    def buffered_bytes(self):
        """Bytes in buffers of lanes now."""
        return self.buffered[0]


cdef class Pipe:
    """What reads the source of a lane and writes its sink."""

    cdef int emit(self, const uint8_t *data, size_t size) except -1:
        """Write; what does not go at once is kept, and blocks the lane BY_OUTPUT."""
        return 0

    cdef bint is_flushed(self) noexcept:
        return True

    cdef int start_reading(self) except -1:
        return 0

    cdef int stop_reading(self) except -1:
        return 0

    cdef int end_output(self) except -1:
        """Nothing more comes: tell the sink."""
        return 0

    cdef int detach(self) except -1:
        """Let go of source and sink."""
        return 0

    cdef void forget(self) noexcept:
        """Nobody is inside: let go of what points back."""
        self.lane = None


cdef class Joint:
    """What a lane knows of its link."""

    def __dealloc__(self):
        drop_all(&self.in_flight)

    cdef int answers_due(self) except -1:
        return 0

    cdef int go_opaque(self) except -1:
        return 0

    cdef void copy(self, int side, int kind, const uint8_t *data, size_t size, uint64_t at) noexcept:
        pass

    cdef int settle(self) except -1:
        return 0

    cpdef close(self, int cause):
        pass

    cdef bint answer_is_next(self) noexcept:
        return self.in_flight.count > 0 and first_entry(&self.in_flight).kind == ANSWER_ENTRY


cdef class Lane:
    """One direction of a link. What is decided of each byte is here."""

    def __dealloc__(self):
        free(self.held)
        free(self.stash)

    cdef int process(self, uint8_t *data, size_t size, uint64_t now) except -1:
        """Take a chunk. There are HEADROOM bytes before *data* that may be written to when ``carried`` is not 0."""
        cdef Joint link = self.link
        cdef uint8_t *limit = data + size
        cdef uint8_t *run  # from here to `at`, bytes that go on as they are and have not gone yet
        cdef uint8_t *at
        cdef uint8_t *frame = NULL  # where the frame began, if it did in this chunk and nothing of it has gone
        cdef size_t n
        cdef int64_t stopped
        cdef int why
        link.last_at = self.progress_at = now
        link.bytes_in[self.side] += size
        link.worker.counters.total(BYTES_REQUEST if self.side == REQUEST_SIDE else BYTES_RESPONSE)[0] += size
        if link.plan.selective:
            pass
        elif self.side == RESPONSE_SIDE and link.answers:  # they come between frames on the tap as they do on the wire
            self.untapped = data
            self.untapped_end = limit
        else:
            link.copy(self.side, TAP_DATA, data, size, now)
        if self.carried:
            data -= self.carried
            memcpy(data, self.carry, self.carried)
            self.carried = 0
        at = run = data
        while at < limit and not link.closed:
            if self.state == IN_BODY:
                n = min(self.left, <uint64_t>(limit - at))
                if link.plan.selective:
                    self.tap_piece(at, n, now)
                if self.walking:
                    stopped = self.walk_body(at, n)
                    if stopped >= 0 and self.left - stopped > 1:
                        if frame != NULL and frame >= run and self.left - stopped <= MOST_TAIL:
                            self.pipe.emit(run, frame - run)
                            self.left += at - frame
                            self.tapped_ahead = at + n - frame if link.plan.selective else 0
                            at = run = frame
                            self.state = HOLDING
                            continue
                        at += stopped
                        self.left -= stopped
                        self.tapped_ahead = n - stopped if link.plan.selective else 0
                        self.pipe.emit(run, at - run)
                        run = at
                        if self.left > MOST_TAIL:
                            return self.refuse(at, FILTER)
                        self.state = HOLDING_TAIL
                        continue
                at += n
                self.left -= n
                if self.left == 0:
                    run = self.end_frame(run, at)
            elif self.state == HOLDING or self.state == HOLDING_TAIL:
                n = min(self.left, <uint64_t>(limit - at))
                if link.plan.selective:
                    self.tap_piece(at, n, now)
                self.left -= n
                if self.left or self.held_size:
                    self.gather(at, n)
                at += n
                run = at
                if self.left == 0:
                    self.tap_up_to(at, now)
                    self.complete(at - n, n)
                    if link.closed:
                        return 0
                    if self.blocked & (BY_VERDICT | BY_ANSWERS):
                        return self.keep(at, limit - at)
            elif self.state == OPAQUE:
                if link.plan.selective:
                    self.tap_lost += limit - at
                at = limit
            else:
                why = self.waits_for()
                if why:
                    self.pipe.emit(run, at - run)
                    self.block(why)
                    self.tap_up_to(at, now)
                    return self.keep(at, limit - at)
                n = self.header_size(at, limit - at)
                if <size_t>(limit - at) < n:
                    if limit - at >= 4 and self.is_bad_size(at):
                        self.pipe.emit(run, at - run)
                        return self.refuse(at, BAD_FRAME)
                    self.carried = limit - at
                    memcpy(self.carry, at, self.carried)
                    limit = at
                    break
                frame = at
                self.begin_frame(at, now)
                if link.closed:
                    return 0
                if self.state == IN_BODY:
                    if link.plan.selective:
                        self.tap_piece(at, n, now)
                    at += n
                    self.left -= n
                    if self.left == 0:
                        run = self.end_frame(run, at)
                elif self.state == HOLDING:
                    self.pipe.emit(run, at - run)
                    run = at
        if not link.closed:
            self.tap_up_to(self.untapped_end, now)
            self.untapped = NULL
            self.pipe.emit(run, at - run)
            if link.draining or self.other.eof:
                link.settle()
        return 0

    cdef uint8_t *end_frame(self, uint8_t *run, uint8_t *at) except NULL:
        """A frame has passed; gives what has not gone yet from there on, as answers whose turn it is come behind it."""
        self.state = AT_HEADER
        if self.side == REQUEST_SIDE or not self.link.answer_is_next():
            return run
        self.tap_up_to(at, self.progress_at)
        self.pipe.emit(run, at - run)
        self.link.answers_due()
        return at

    # Frames that are held

    cdef int gather(self, const uint8_t *data, size_t size) except -1:
        """Add to the held frame; room grows with what came, not with what was announced."""
        cdef size_t room = HELD_AT_FIRST
        cdef uint8_t *grown
        while room < self.held_size + size:
            room *= 2
        if self.held == NULL or room > self.held_capacity:
            grown = <uint8_t *>realloc(self.held, room)
            if grown == NULL:
                raise MemoryError
            self.held = grown
            self.link.worker.buffered[0] += room - self.held_capacity
            self.held_capacity = room
        memcpy(self.held + self.held_size, data, size)
        self.held_size += size
        return 0

    cdef int complete(self, const uint8_t *data, size_t size) except -1:
        """The held frame, or end, is whole: in *data*, unless it was gathered."""
        cdef bytes frame
        cdef int state = self.state
        if self.held_size:
            frame = PyBytes_FromStringAndSize(<char *>self.held, self.held_size)
            self.let_go()
        else:
            frame = PyBytes_FromStringAndSize(<char *>data, size)
        self.state = AT_HEADER
        if state == HOLDING_TAIL:
            self.give_tail(frame)
        else:
            self.give(frame)
        return 0

    cdef void let_go(self) noexcept:
        free(self.held)
        self.held = NULL
        self.link.worker.buffered[0] -= self.held_capacity
        self.held_size = self.held_capacity = 0

    # The tap, where it does not get everything

    cdef void begin_tap(self, Row *row) noexcept:
        self.tapping = row.tapped
        self.tap_left = self.link.plan.snaplen if self.link.plan.snaplen else <uint64_t>-1

    cdef void tap_up_to(self, const uint8_t *at, uint64_t now) noexcept:
        """Give the tap what it has not got of the chunk in hand, up to *at*."""
        cdef const uint8_t *begin = self.untapped
        if begin == NULL or at <= begin:
            return
        self.untapped = at
        self.link.copy(self.side, TAP_DATA, begin, at - begin, now)

    cdef void tap_piece(self, const uint8_t *data, size_t size, uint64_t now) noexcept:
        cdef size_t n = min(self.tapped_ahead, size)
        if n:
            self.tapped_ahead -= n
            data += n
            size -= n
        if not self.tapping:
            return
        n = min(self.tap_left, <uint64_t>size)
        if n:
            self.link.copy(self.side, TAP_DATA, data, n, now)
            self.tap_left -= n
        self.tap_lost += size - n

    cdef int refuse(self, const uint8_t *at, int cause) except -1:
        """Close the connection over a frame; *at* is where it begins, if it is there."""
        cdef Joint link = self.link
        link.close(link.owner.on_refused(link, self.side, cause, b"" if at == NULL else at[:4]))
        return 0

    # Standing still, and going on

    cdef int block(self, int why) except -1:
        if not self.blocked:
            self.pipe.stop_reading()
        self.blocked |= why
        return 0

    cdef int unblock(self, int why) except -1:
        """One reason less to stand still; without any, what waits is taken up, and reading goes on."""
        cdef uint8_t *stash
        cdef size_t size
        if not self.blocked & why:
            return 0
        self.blocked &= ~why
        if self.blocked or self.link.closed:
            return 0
        if self.side == RESPONSE_SIDE and self.link.answer_is_next():  # before what waits, which answers later requests
            self.link.answers_due()
            if self.blocked or self.link.closed:
                return 0
        if self.stash != NULL:
            stash, size = self.stash, self.stash_size
            self.stash = NULL
            self.stash_size = 0
            self.link.worker.buffered[0] -= size
            try:
                self.take_up(stash + HEADROOM, size)
            finally:
                free(stash)
        if not self.blocked and not self.eof and not self.link.closed:
            self.pipe.start_reading()
        return 0

    cdef int take_up(self, uint8_t *data, size_t size) except -1:
        """As process, for bytes that have been counted and tapped."""
        cdef bint tapped = self.link.sampled
        self.link.sampled = tapped and not self.stash_is_tapped
        self.link.bytes_in[self.side] -= size
        self.link.worker.counters.total(BYTES_REQUEST if self.side == REQUEST_SIDE else BYTES_RESPONSE)[0] -= size
        try:
            return self.process(data, size, monotonic_ns())
        finally:
            self.link.sampled = tapped

    cdef int keep(self, const uint8_t *data, size_t size) except -1:
        """Bytes that came and may not be looked at yet."""
        self.stash_is_tapped = self.untapped == NULL and not self.link.plan.selective
        self.untapped = NULL
        if not size:
            return 0
        self.stash = <uint8_t *>malloc(size + HEADROOM)
        if self.stash == NULL:
            raise MemoryError
        memcpy(self.stash + HEADROOM, data, size)
        self.stash_size = size
        self.link.worker.buffered[0] += size
        return 0

    cdef int pass_on(self) except -1:
        """From now on bytes pass as they come; what was kept of them goes first."""
        if self.carried:
            self.pipe.emit(self.carry, self.carried)
            self.carried = 0
        if self.held_size:
            self.pipe.emit(self.held, self.held_size)
            self.let_go()
        self.state = OPAQUE
        self.walking = False
        return 0

    cdef int finish(self) except -1:
        """Tell the sink that nothing more comes, once that is so."""
        if not self.eof or self.ended:
            return 0
        if not self.discarding and (self.stash != NULL or self.blocked & BY_VERDICT or not self.pipe.is_flushed()):
            return 0
        self.ended = True
        if self.side == RESPONSE_SIDE and not self.other.eof:
            self.link.broker_first = True
        if not self.discarding:
            self.pipe.end_output()
        return 0

    cdef bint at_boundary(self) noexcept:
        return self.state == AT_HEADER and not self.carried and not self.blocked & BY_VERDICT or self.blocked & BY_DRAIN

    def stalled_since(self):
        """When the last byte of a frame came that is not whole (ns, monotonic); 0: between frames, or not its own fault."""
        if self.blocked or self.state == OPAQUE or self.state == AT_HEADER and not self.carried:
            return 0
        return self.progress_at

    cdef void release(self) noexcept:
        if self.held != NULL:
            self.let_go()
        self.untapped = NULL
        if self.stash != NULL:
            free(self.stash)
            self.stash = NULL
            self.link.worker.buffered[0] -= self.stash_size

    # What requests and responses do differently

    cdef int waits_for(self) noexcept:
        """Why no further frame may begin (a Block); 0: it may."""
        return 0

    cdef size_t header_size(self, const uint8_t *at, size_t have) noexcept:
        """Bytes needed before anything is decided of the frame that begins at *at*."""
        return 4

    cdef bint is_bad_size(self, const uint8_t *at) noexcept:
        return False

    cdef int begin_frame(self, const uint8_t *at, uint64_t now) except -1:
        """Look at a header and decide what becomes of the frame: sets ``state`` and ``left``."""
        return 0

    cdef int64_t walk_body(self, const uint8_t *at, size_t size) noexcept:
        """Follow the body: where the end that may have addresses begins (bytes from *at*), or -1."""
        return -1

    cdef int give(self, bytes frame) except -1:
        """A held frame is whole."""
        return 0

    cdef int give_tail(self, bytes tail) except -1:
        return 0
