# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What the tap gets of a link, frame by frame: the analyzer gets a request and its response, at least their beginnings, or neither.

    WorkerTap   a worker's ring, and which reader it has
    LinkTap     for a link: whether the reader knows the connection; which requests, and so which responses, the tap gets
    TapCursor   for a lane: how far the tap has got its bytes

A lane reports each frame (``begin_request``, ``begin_response``), its bytes (``take``) and its end (``end_frame``). Adjacent
bytes that the tap gets form a run, which is copied by one memcpy at the end of the chunk.

What is kept of a frame depends on how much of the ring is free beyond what is reserved
    more than half            all of it. Of a frame that comes in several chunks, each chunk as long as there is that much room
    more than a quarter       ENOUGH bytes: small frames whole
    less                      A_LITTLE bytes: the header, and what a line about the exchange shows
    no room for that          nothing of the request, and nothing of its response; the exchange is counted as left out
LEARNED times as much is kept of APIs that sessions learn from (Row.learned). What is cut off a frame becomes one LEFT_OUT record
once its last byte has come. The header is kept whole where its size is known, and so are the acks of a Produce, which say whether a
response follows. Plan.snaplen cuts in the same way, with a SNAPPED record.

What is reserved
    for a connection      END of both sides, LEFT_OUT of both sides, CLOSE; from OPEN on
    for a request         the beginning of its response (LEAST bytes) and LEFT_OUT; until the response begins
    for a frame           LEFT_OUT; until it ends
    for a run             its bytes; until it is written
So once the tap has got a request it also gets the response, whatever happens to the ring meanwhile. A connection whose OPEN does not
fit is left out until one of its requests finds room. Then OPEN is written before that request and the session begins there;
responses to earlier requests are left out, as those requests were.

An entry in flight has the number of the OPEN record after which its request was tapped (Entry.opening). The response is tapped if that
is still the number of the link. After another reader attached it is not; requests that the previous reader had read but not
written are counted then (``WorkerTap.change_reader``).

SASL tokens are not exchanges. They are kept whole or not at all; once one is left out, so are the others of that login, and the
session knows nothing of the login. A SaslHandshake or SaslAuthenticate that cannot be kept whole ends the session for the reader
(CLOSE), if nothing else is in flight: the next request opens another, which has not missed a part of a login.

An EDITED record says what filters did to a frame (``note_edits``): one record for all of them, so that a full ring has all or
nothing. It has to come before the last byte of the frame. So while the frame waits for a verdict, its last byte is kept back
(``withhold_end``). It is written later, in the room reserved for LEFT_OUT.

Bytes without frames (an opaque link, what a refused frame begins with) are copied as long as there is room for all of them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t
from libc.string cimport memcpy

from kproxy.protocol.direction cimport DIRECTION_REQUEST, DIRECTION_RESPONSE
from kproxy.protocol.wire cimport be16
from kproxy.proxy.forwarding.plan cimport WALK_STOPPED, Walker, begin_walk, walk_on
from kproxy.proxy.tap.ring cimport MADE_BY_PROXY

from kproxy.protocol import ApiKey
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.tapped import TapKind

cdef enum:
    RECORD = 32  # bytes of a record's header
    OPEN_ROOM = RECORD + 7  # and its bytes
    END_ROOM = RECORD + 8
    CLOSE_ROOM = RECORD + 16
    LEFT_OUT_ROOM = RECORD + 8
    RUN_ROOM = 2 * (RECORD + 7)  # of a run: it is written as two records where it reaches the end of the ring
    LINK_ROOM = 2 * END_ROOM + CLOSE_ROOM + 2 * LEFT_OUT_ROOM
    LEAST = 64  # bytes of a response that are always kept
    RESPONSE_ROOM = RUN_ROOM + LEAST + LEFT_OUT_ROOM
    A_LITTLE = 512
    ENOUGH = 4_096
    LEARNED = 16
    BEYOND_CLIENT_ID = 16  # bytes after the client id that are kept: the header's tags, usually one byte

cdef int TAP_OPEN = TapKind.OPEN
cdef int TAP_DATA = TapKind.DATA
cdef int TAP_END = TapKind.END
cdef int TAP_CLOSE = TapKind.CLOSE
cdef int TAP_LEFT_OUT = TapKind.LEFT_OUT
cdef int TAP_SNAPPED = TapKind.SNAPPED
cdef int TAP_SENT = TapKind.SENT
cdef int TAP_EDITED = TapKind.EDITED
cdef int BEHIND = Total.LEFT_OUT_ANALYZER_BEHIND
cdef int ABSENT = Total.LEFT_OUT_ANALYZER_ABSENT
cdef int RESTARTED = Total.LEFT_OUT_ANALYZER_RESTARTED
cdef int MEMORY_BUDGET = Total.LEFT_OUT_MEMORY_BUDGET
cdef int NOT_SELECTED = Total.LEFT_OUT_NOT_SELECTED
cdef int FAULT = Total.LEFT_OUT_FAULT
cdef int BODIES_LEFT_OUT = Total.BODIES_LEFT_OUT
cdef int TAPPED_BYTES = Total.TAPPED_BYTES
cdef int TAPPED_CHUNKS = Total.TAPPED_CHUNKS
cdef int TAP_DROPPED_BYTES = Total.TAP_DROPPED_BYTES
cdef int TAP_DROPPED_CHUNKS = Total.TAP_DROPPED_CHUNKS
cdef int PRODUCE = ApiKey.PRODUCE
cdef int SASL_HANDSHAKE = ApiKey.SASL_HANDSHAKE
cdef int SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE


cdef class WorkerTap:
    """The ring of a worker, and which reader it has.

    *faults* counts records for which there was no room although it was reserved; it must stay 0.
    """

    def __cinit__(self, TapWriter ring not None, Counters counters not None):
        self.ring = ring
        self.counters = counters

    cpdef bint is_read(self) noexcept:
        """Return whether a reader is attached, or awaited. Requests that its predecessor lost are counted by then."""
        cdef uint64_t reader = self.ring.reader_epoch()
        if reader != self.reader:
            self.change_reader(reader)
        return reader != 0

    cdef void change_reader(self, uint64_t reader) noexcept:
        """Note that there is another reader, or none. A new one knows no connection; what its predecessor left unwritten is lost."""
        self.reader = reader
        if reader:
            self.ring.begin_for(reader)
            self.counters.total(RESTARTED)[0] += self.ring.give_up_unsettled()

    cdef uint64_t most_of(self, uint64_t size, bint learned) noexcept:
        """Return how many bytes to keep of a frame of *size* bytes."""
        cdef uint64_t half = self.ring.capacity // 2
        cdef uint64_t quarter = self.ring.capacity // 4
        cdef uint64_t wanted = half + min(size, quarter)
        cdef uint64_t room = self.ring.room(wanted)
        cdef uint64_t most
        if room >= wanted:
            return size
        most = ENOUGH if room >= quarter else A_LITTLE
        return min(size, most * LEARNED if learned else most)

    cdef void write(self, int kind, uint64_t number, int direction, uint64_t at, const uint8_t *data, size_t size) noexcept:
        """Write a record for which room is reserved; write nothing if its reader is gone or was replaced."""
        if self.ring.reader_epoch() != self.reader:
            return
        if self.ring.write(kind, number, direction, at + self.clock_offset, 0, data, size) < 0:
            self.faults += 1

    cdef void write_data(
        self, uint64_t number, int direction, uint64_t at, uint64_t sent_after, const uint8_t *data, size_t size
    ) noexcept:
        """Write bytes of a direction, for which room is reserved; *sent_after*: see ring.pyx."""
        if self.ring.reader_epoch() != self.reader:
            return
        if self.ring.write_data(number, direction, at + self.clock_offset, sent_after, data, size) < 0:
            self.faults += 1
        self.counters.total(TAPPED_CHUNKS)[0] += 1
        self.counters.total(TAPPED_BYTES)[0] += size

    cdef void drop(self, uint64_t size) noexcept:
        """Count bytes that the tap does not get."""
        self.counters.total(TAP_DROPPED_CHUNKS)[0] += 1
        self.counters.total(TAP_DROPPED_BYTES)[0] += size


cdef class LinkTap:
    """What the reader knows of one link; *worker* is None without a tap."""

    def __cinit__(self, WorkerTap worker: WorkerTap | None, uint64_t number) -> Self:
        self.worker = worker
        self.number = number

    cdef bint is_open(self) noexcept:
        """Return whether the reader knows this connection."""
        return self.worker.is_read() and self.reader == self.worker.reader

    cdef int open(self, object link, uint64_t now) except -1:
        """Write OPEN; return 0, or the Total under which the request is counted as left out."""
        cdef WorkerTap worker = self.worker
        cdef bytes text
        try:
            text = link.owner.describe(link, not self.missed)
        except Exception as error:
            if not self.describe_failed:
                self.describe_failed = True
                link.owner.on_fault(link, error)
            return FAULT
        # twice its size: a record that does not fit before the end of the ring begins at the start
        if not worker.ring.has_room(2 * (OPEN_ROOM + PyBytes_GET_SIZE(text)) + LINK_ROOM + RESPONSE_ROOM + A_LITTLE):
            return BEHIND
        worker.write(TAP_OPEN, self.number, 0, now, <const uint8_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        self.reader = worker.reader
        self.missed = True
        self.opening += 1
        self.requests = 0
        self.reserve(LINK_ROOM)
        return 0

    cdef void abandon(self, uint64_t now) noexcept:
        """End the reader's session, which would miss something it needs; the next request opens another."""
        self.release(CLOSE_ROOM)
        self.write_close(0, now)
        self.forget()

    cdef void forget(self) noexcept:
        """Drop what the reader knows of this connection: nothing is reserved for it any more, and what was begun is not continued."""
        if self.reader:
            self.reader = 0
            self.opening += 1
            self.release(self.reserved)

    cdef void reserve(self, uint64_t size) noexcept:
        self.reserved += size
        self.worker.ring.reserved += size

    cdef void release(self, uint64_t size) noexcept:
        self.reserved -= size
        self.worker.ring.reserved -= size

    cdef uint32_t leave_out(self, int why, TapCursor cursor, uint64_t now) noexcept:
        """Count a request that the tap does not get; return LEFT_OUT_OF_TAP."""
        self.worker.counters.total(why)[0] += 1
        self.worker.counters.total(TAP_DROPPED_CHUNKS)[0] += 1
        self.missed = True
        cursor.pass_over(True)
        return LEFT_OUT_OF_TAP

    # Frames

    cdef int64_t begin_request(
        self, object link, TapCursor cursor, Plan plan, Row *row, bint selected, int api_key, int api_version,
        const uint8_t *at, uint64_t size, uint64_t now,
    ) except -1:
        """Decide what the tap gets of a request whose header is at *at*; return ``opening`` for its entry in flight."""
        cdef WorkerTap worker = self.worker
        cdef uint64_t here, keep
        cdef bint is_login = api_key == SASL_HANDSHAKE or api_key == SASL_AUTHENTICATE
        cdef int why
        if worker is None:
            cursor.pass_over(False)
            return NOT_SELECTED_FOR_TAP
        self.tokens_left_out = False
        if not selected or not row.tapped:
            worker.counters.total(NOT_SELECTED)[0] += 1
            cursor.pass_over(False)
            return NOT_SELECTED_FOR_TAP
        if not self.is_open():
            self.forget()
            if worker.reader == 0:
                return self.leave_out(ABSENT, cursor, now)
            if worker.paused:
                return self.leave_out(MEMORY_BUDGET, cursor, now)
            why = self.open(link, now)
            if why:
                return self.leave_out(why, cursor, now)
        elif worker.paused:
            return self.leave_out(MEMORY_BUDGET, cursor, now)
        here = min(size, <uint64_t>(cursor.limit - at))
        keep = worker.most_of(size, row.learned)
        if keep < size:
            keep = size if is_login else min(size, max(keep, head_of(plan, row, api_key, api_version, at, here)))
        if not worker.ring.has_room(RESPONSE_ROOM + LEFT_OUT_ROOM + RUN_ROOM + min(keep, here)):
            if is_login and self.reserved == LINK_ROOM:  # neither a response nor the end of a frame is due
                cursor.flush(now)
                self.abandon(now)
            return self.leave_out(BEHIND, cursor, now)
        self.reserve(RESPONSE_ROOM)
        self.requests += 1
        worker.ring.requests_written[0] += 1
        cursor.begin(plan.snaplen, keep, at, here, now)
        return self.opening

    cdef void begin_response(
        self, TapCursor cursor, Plan plan, Row *row, uint32_t opening, const uint8_t *at, uint64_t size, uint64_t now
    ) noexcept:
        """Decide what the tap gets of the response to a request."""
        cdef uint64_t here, keep
        if opening != self.opening or not self.is_open():
            cursor.pass_over(opening != NOT_SELECTED_FOR_TAP)
            if cursor.counts:
                self.worker.counters.total(TAP_DROPPED_CHUNKS)[0] += 1
            return
        self.release(RESPONSE_ROOM)
        here = min(size, <uint64_t>(cursor.limit - at))
        keep = self.worker.most_of(size, row.learned)
        if not self.worker.ring.has_room(LEFT_OUT_ROOM + RUN_ROOM + min(keep, here)):
            keep = min(keep, <uint64_t>LEAST)
        cursor.begin(plan.snaplen, keep, at, here, now)

    cdef void note_request(self, uint32_t opening) noexcept:
        """Note that a frame that seemed to be a token was a request."""
        if self.worker is None or opening == NOT_SELECTED_FOR_TAP:
            return
        if opening == LEFT_OUT_OF_TAP:
            self.worker.counters.total(BEHIND)[0] += 1
        else:
            self.requests += 1
            self.worker.ring.requests_written[0] += 1

    cdef void forget_request(self, uint32_t opening) noexcept:
        """Note that a request gets no response after all."""
        if opening == self.opening and self.reader != 0:
            self.release(RESPONSE_ROOM)

    cdef int64_t begin_token(
        self, object link, TapCursor cursor, bint selected, bint first, const uint8_t *at, uint64_t size, uint64_t now
    ) except -1:
        """Decide whether the tap gets a token of the client; return ``opening`` for its entry in flight."""
        cdef WorkerTap worker = self.worker
        cdef uint64_t here = min(size, <uint64_t>(cursor.limit - at))
        if worker is None or not selected:
            cursor.pass_over(False)
            return NOT_SELECTED_FOR_TAP
        if not self.is_open():
            self.forget()
            if not first or worker.paused or worker.reader == 0 or self.open(link, now) != 0:
                self.tokens_left_out = True
        if self.tokens_left_out or not worker.ring.has_room(RESPONSE_ROOM + LEFT_OUT_ROOM + RUN_ROOM + size):
            self.tokens_left_out = self.missed = True
            cursor.pass_over(True)
            return LEFT_OUT_OF_TAP
        self.reserve(RESPONSE_ROOM)
        cursor.begin(0, size, at, here, now)
        return self.opening

    cdef int write_made_response(
        self, TapCursor requests, TapCursor responses, uint32_t opening, const uint8_t *frame, size_t size, uint64_t now
    ) except -1:
        """Write a response that a filter made, after what came before it on both lanes."""
        cdef uint64_t keep
        if opening == NOT_SELECTED_FOR_TAP or self.worker is None:
            return 0
        if opening != self.opening or not self.is_open():
            self.worker.drop(size)
            return 0
        requests.flush(now)
        responses.flush(now)
        responses.end_frame(now)
        self.release(RESPONSE_ROOM)
        keep = self.worker.most_of(size, False)
        if not self.worker.ring.has_room(LEFT_OUT_ROOM + RUN_ROOM + keep):
            keep = min(keep, <uint64_t>LEAST)
        self.worker.write_data(self.number, DIRECTION_RESPONSE, now, MADE_BY_PROXY, frame, keep)
        if keep < size:
            self.write_left_out(TAP_LEFT_OUT, DIRECTION_RESPONSE, size - keep, now)
        return 0

    cdef void write_left_out(self, int kind, int direction, uint64_t size, uint64_t now) noexcept:
        """Write how many bytes are left out here, and count them, unless the configuration asked for it (snaplen)."""
        self.worker.write(kind, self.number, direction, now, <const uint8_t *>&size, sizeof(size))
        if kind == TAP_LEFT_OUT:
            self.worker.drop(size)
            self.worker.counters.total(BODIES_LEFT_OUT)[0] += 1

    # Ends

    cdef void end(self, TapCursor cursor, bint lost, uint64_t now) noexcept:
        """Write END of a direction; *lost*: by a reset or another error."""
        cdef uint8_t byte = lost
        if self.worker is not None and self.is_open():
            cursor.settle(now)
            self.release(END_ROOM)
            self.worker.write(TAP_END, self.number, cursor.direction, now, &byte, 1)

    cdef void close(self, TapCursor requests, TapCursor responses, int cause, uint64_t now) noexcept:
        """Write what the tap has not yet got of the chunk in processing, then CLOSE."""
        if self.worker is not None and self.is_open():
            requests.settle(now)
            responses.settle(now)
            self.release(CLOSE_ROOM)
            self.write_close(cause, now)
        self.forget()

    cdef void write_close(self, int cause, uint64_t now) noexcept:
        """Write CLOSE: the cause, and how many requests the tap has got since OPEN."""
        cdef uint8_t[9] text
        text[0] = cause
        memcpy(&text[1], &self.requests, 8)
        self.worker.write(TAP_CLOSE, self.number, DIRECTION_REQUEST, now, text, sizeof(text))


cdef uint64_t head_of(Plan plan, Row *row, int api_key, int api_version, const uint8_t *at, uint64_t here) noexcept:
    """Return how many bytes of a request must be kept for its header, and a Produce's acks, to be whole; 0 if they are not here."""
    cdef Walker walker
    cdef const uint8_t *position = at + 12
    if api_key == PRODUCE and row.known and plan.produce[api_version] != NULL:
        begin_walk(
            &walker, plan.produce[api_version], plan.produce_stop[api_version], True, plan.produce_tags[api_version], True
        )
        return position - at if walk_on(&walker, &position, at + here) == WALK_STOPPED else 0
    if here < 14:
        return 0
    return 14 + max(<int16_t>be16(at + 12), 0) + BEYOND_CLIENT_ID


cdef class TapCursor:
    """How far the tap has got the bytes of one direction; see the top of the module."""

    def __cinit__(self, LinkTap link not None, int direction):
        self.link = link
        self.direction = direction

    cdef bint is_tapped(self) noexcept:
        """Return whether the tap gets the frame in processing."""
        return self.opening != LEFT_OUT_OF_TAP and self.opening == self.link.opening

    cdef void begin_chunk(self, const uint8_t *data, const uint8_t *limit, uint64_t left, uint64_t now) noexcept:
        """Begin with a chunk, of which the first *left* bytes belong to the frame in processing."""
        cdef TapWriter ring
        cdef uint64_t here, half
        self.flush(now)
        self.seen = data
        self.limit = limit
        if self.opening == LEFT_OUT_OF_TAP:
            return
        if not self.is_tapped() or not self.link.is_open():
            self.pass_over(True)
            return
        here = min(min(self.keep, left), <uint64_t>(limit - data))
        if here == 0:
            return
        ring = self.link.worker.ring
        half = ring.capacity // 2
        if self.keep <= ENOUGH * LEARNED:
            if not ring.has_room(RUN_ROOM + here):
                self.keep = 0
        elif ring.room(half + here) < half + here:  # a body, for which there must be plenty of room
            self.keep = 0
        if self.keep:
            self.promise(here)

    cdef void end_chunk(self, uint64_t now, uint64_t sent_at) noexcept:
        """Write the bytes that the tap gets, as the chunk's memory is not valid after this.

        *sent_at*: when the sink had taken all frames that end in the chunk; 0 if it has not, or if none ends in it.
        """
        self.flush(now, sent_at)
        if self.untimed and sent_at:
            self.note_sent(sent_at)
        self.limit = self.seen = NULL
        if self.ahead:
            self.link.worker.ring.reserved -= self.ahead
            self.ahead = 0

    cdef void note_sent(self, uint64_t sent_at) noexcept:
        """Write SENT for requests recorded before their send time was known. If the ring is full, the time stays unknown."""
        cdef WorkerTap worker = self.link.worker
        if self.untimed and self.link.is_open() and worker.ring.has_room(RECORD):
            worker.write(TAP_SENT, self.link.number, self.direction, sent_at, NULL, 0)
        self.untimed = False

    cdef void begin(self, uint64_t snaplen, uint64_t keep, const uint8_t *at, uint64_t here, uint64_t now) noexcept:
        """Begin a frame of which the tap gets *keep* bytes, or *snaplen* if that is less; the part in the chunk has room."""
        if self.run != NULL and self.run_end != at:
            self.flush(now)
        self.opening = self.link.opening
        self.counts = True
        self.snaps = 0 < snaplen <= keep
        self.keep = snaplen if self.snaps else keep
        self.omitted = 0
        self.link.reserve(LEFT_OUT_ROOM)
        self.promise(min(self.keep, here))

    cdef void pass_over(self, bint counts) noexcept:
        """Begin a frame that the tap does not get; *counts*: its bytes count as dropped."""
        self.opening = LEFT_OUT_OF_TAP
        self.counts = counts
        self.keep = self.omitted = 0

    cdef void promise(self, uint64_t size) noexcept:
        """Reserve room in the ring, which has it, for *size* bytes."""
        cdef uint64_t need = size if self.run != NULL else RUN_ROOM + size
        self.link.worker.ring.reserved += need
        self.ahead += need

    cdef void take(self, const uint8_t *data, uint64_t size, uint64_t now) noexcept:
        """Take bytes of the frame in processing; bytes that were reported before are skipped."""
        cdef uint64_t n
        if data < self.seen:
            n = min(<uint64_t>(self.seen - data), size)
            data += n
            size -= n
        if size == 0:
            return
        self.seen = data + size
        if not self.is_tapped():
            if self.counts:
                self.link.worker.counters.total(TAP_DROPPED_BYTES)[0] += size
            return
        n = min(size, self.keep)
        if n:
            if self.run == NULL:
                self.run = data
                self.run_opening = self.opening
                self.ahead -= RUN_ROOM
                self.due += RUN_ROOM
            self.run_end = data + n
            self.ahead -= n
            self.due += n
            self.keep -= n
        self.omitted += size - n

    cdef void take_raw(self, object link, bint selected, const uint8_t *data, const uint8_t *limit, uint64_t now) noexcept:
        """Take bytes outside of frames, or of a frame that is refused."""
        cdef LinkTap tap = self.link
        cdef uint64_t size
        if data < self.seen:
            data = self.seen
        if tap.worker is None or not selected or data >= limit:
            return
        size = limit - data
        self.seen = limit
        if not tap.is_open():
            tap.forget()
            if tap.missed or tap.worker.paused or tap.worker.reader == 0 or tap.open(link, now) != 0:
                tap.missed = True
                tap.worker.drop(size)
                return
        if self.omitted:
            if not tap.worker.ring.has_room(LEFT_OUT_ROOM + RUN_ROOM + size):
                self.omitted += size
                return
            tap.write_left_out(TAP_LEFT_OUT, self.direction, self.omitted, now)
            self.omitted = 0
        self.flush(now)
        if not tap.worker.ring.has_room(RUN_ROOM + size):
            self.omitted += size
            return
        tap.worker.write_data(tap.number, self.direction, now, 0, data, size)

    cdef void take_refused(self, object link, bint selected, const uint8_t *at, uint64_t left, uint64_t now) noexcept:
        """Take what is here of a frame for which the connection is closed; *left*: bytes to come, if it was begun."""
        if left:
            self.take(at, min(left, <uint64_t>(self.limit - at)), now)
        else:
            self.take_raw(link, selected, at, self.limit, now)

    cdef void end_frame(self, uint64_t now) noexcept:
        """Finish the frame in processing, whose last byte was taken."""
        self.write_withheld()
        if not self.is_tapped():
            return
        if self.omitted:
            self.flush(now)
            self.link.write_left_out(TAP_SNAPPED if self.snaps else TAP_LEFT_OUT, self.direction, self.omitted, now)
            self.omitted = 0
        self.opening = LEFT_OUT_OF_TAP
        self.link.release(LEFT_OUT_ROOM)

    cdef void withhold_end(self, uint64_t now) noexcept:
        """Keep the last byte of the current frame back until ``end_frame``; the other bytes are in the run."""
        if self.is_tapped() and self.run != NULL and not self.omitted:
            self.last = (self.run_end - 1)[0]
            self.last_at = now
            self.shorten_run()
            self.withholds = True

    cdef void shorten_run(self) noexcept:
        """Take the last byte from the run."""
        self.run_end -= 1
        self.due -= 1
        self.link.worker.ring.reserved -= 1

    cdef void write_withheld(self) noexcept:
        if self.withholds and self.is_tapped():
            self.link.worker.write_data(self.link.number, self.direction, self.last_at, 0, &self.last, 1)
            self.untimed = self.direction == DIRECTION_REQUEST
        self.withholds = False

    cdef void note_edits(self, const uint8_t *text, size_t size, uint64_t now) noexcept:
        """Write, before the last byte of the frame in processing, what filters do to it; nothing if the ring has no room."""
        cdef TapWriter ring
        cdef const uint8_t *last
        if not self.is_tapped() or not self.link.is_open():
            return
        ring = self.link.worker.ring
        if not ring.has_room(2 * RUN_ROOM + RECORD + size):
            return
        if self.run == NULL or self.omitted:
            self.flush(now)
        else:
            last = self.run_end - 1
            self.shorten_run()
            self.flush(now)
            self.run = last
            self.run_end = last + 1
            self.run_opening = self.opening
            self.due = RUN_ROOM + 1
            ring.reserved += self.due
        self.link.worker.write(TAP_EDITED, self.link.number, self.direction, now, text, size)

    cdef void settle(self, uint64_t now) noexcept:
        """Write what is due, as nothing more comes."""
        self.flush(now)
        self.write_withheld()
        if self.omitted:
            self.link.write_left_out(
                TAP_SNAPPED if self.is_tapped() and self.snaps else TAP_LEFT_OUT, self.direction, self.omitted, now
            )
        if self.omitted or self.is_tapped():
            self.link.release(LEFT_OUT_ROOM)
        self.omitted = 0
        self.opening = LEFT_OUT_OF_TAP

    cdef void flush(self, uint64_t now, uint64_t sent_at=0) noexcept:
        """Write the run; *sent_at*: see ``end_chunk``."""
        cdef WorkerTap worker
        if self.run == NULL:
            return
        worker = self.link.worker
        worker.ring.reserved -= self.due
        if self.run_opening == self.link.opening and self.run_end > self.run:
            worker.write_data(
                self.link.number, self.direction, now, sent_at - now if sent_at > now else 0, self.run, self.run_end - self.run
            )
            self.untimed = sent_at == 0 and self.direction == DIRECTION_REQUEST
        self.run = NULL
        self.due = 0
