# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Cut one direction of a connection into frames, and find the next frame when the boundaries are lost.

``FrameBuffer`` cuts frames, ``Stream`` keeps the state of the direction. The owner interprets the frames.

    state      what is true                                             who holds bytes
    IN_FRAMES  the next byte belongs to a frame whose start is known    FrameBuffer: the received part of one frame
    SKIPPING   a gap hit a frame whose end is known                     the cut frame: its bytes before the gap; the rest is dropped
    HUNTING    frame boundaries are unknown                             the Hunt: bytes since its first candidate
    OPAQUE     this is not Kafka, or the session has ended              none: all bytes are dropped

    state      event                                         next       effect
    IN_FRAMES  receive                                       IN_FRAMES  every complete frame goes to ``handle``
    IN_FRAMES  a size field that no frame has                HUNTING    on_refused; hunt from the size field's second byte on
    IN_FRAMES  lose(frame), by ``handle``                    HUNTING    a small frame is searched again, a large one skipped
    IN_FRAMES  hunt, before the first byte                   HUNTING    the capture joined in mid-stream
    IN_FRAMES  miss: the gap ends inside the frame           SKIPPING
    IN_FRAMES  miss: exactly at the frame's end, or frames   IN_FRAMES  the cut frame goes to ``handle``
               left out on purpose, up to the end of one
    IN_FRAMES  miss: any other gap                           HUNTING    likewise
    SKIPPING   receive                                       SKIPPING   IN_FRAMES once the frame's end is reached: the cut frame
                                                                        goes to ``handle``
    SKIPPING   miss                                                     as for IN_FRAMES
    IN_FRAMES, end                                           IN_FRAMES  an incomplete frame goes to ``handle`` as a cut one
    SKIPPING
    HUNTING    receive                                       HUNTING    IN_FRAMES once the Hunt has found a frame; on_found
    HUNTING    confirm: a response to a request it holds     IN_FRAMES  as above
    HUNTING    miss, end                                     IN_FRAMES  if the Hunt's bytes begin with a frame, perhaps an
                                                                        incomplete one: as above, then as for IN_FRAMES
    HUNTING    miss                                          HUNTING    on_found: all bytes of the Hunt count as skipped
    HUNTING    end                                           IN_FRAMES  likewise
    any        stop                                          OPAQUE     all held bytes are dropped
    OPAQUE     anything                                      OPAQUE

A gap ends the hunt before it, as the bytes after the gap do not continue those before. A cut frame is handed over when its last
byte was due, so that its time and its place among the events are those of a complete one. Each received byte ends in exactly
one of these: a frame handed to ``handle``, the skipped bytes that ``on_found`` reports, the dropped end of a cut frame, the one
to three bytes of a size field that is itself cut, or an opaque stream.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol, TYPE_CHECKING

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from kproxy.protocol.wire cimport be32
from kproxy.session.exchanges cimport Frame

from kproxy.protocol import Direction, constants
from kproxy.session.endings import Cut

if TYPE_CHECKING:
    from kproxy.session.exchanges import Event
    from kproxy.session.hunting import Hunt


class Owner(Protocol):
    """What a stream calls when it loses or finds the frame boundaries."""

    def on_refused(self, stream: Stream, size_field: bytes, at: int, events: list[Event]) -> None:
        """Handle a size that no frame has. Afterwards the stream hunts, unless the owner stopped it."""

    def on_found(self, stream: Stream, skipped: int, at: int, events: list[Event]) -> None:
        """Handle the end of a hunt, at a frame or at the end of the stream, after skipping that many bytes."""


cdef int LEFT_OUT = Cut.LEFT_OUT
cdef int SIZE_FIELD = constants.SIZE_FIELD
cdef Py_ssize_t HUNT_SLICE = 4096  # bytes fed to a Hunt at a time, so that little is copied again when it finds a frame
cdef Py_ssize_t SEARCHED_AGAIN = 65_536  # a rejected frame up to this size is searched for frames

cdef inline int32_t size_at(const char *at) noexcept:
    return <int32_t>be32(<const uint8_t *>at)


cdef Frame new_frame(const char *data, Py_ssize_t size, int64_t started_at, int64_t ended_at):
    cdef Frame frame = Frame.__new__(Frame)
    frame.data = PyBytes_FromStringAndSize(data, size)
    frame.started_at = started_at
    frame.ended_at = ended_at
    return frame


cdef class FrameBuffer:
    """Cut the bytes of one direction into frames, whatever the chunks; holds at most the received part of one frame.

    ``push`` a chunk, then call ``next`` until it returns None. A size field that is negative or above ``limit`` stops it:
    ``refused`` is then that size, and ``rest`` returns all bytes from that size field on.
    """

    def __init__(self, int64_t limit):
        self.limit = limit
        self.needed = SIZE_FIELD
        self.chunk = b""

    @property
    def held(self) -> int:
        """Bytes of the unfinished frame, including its size field."""
        return 0 if self.partial is None else len(self.partial)

    @property
    def missing(self) -> int | None:
        """Bytes that the unfinished frame still lacks; None if its size field is incomplete, 0 without an unfinished frame."""
        if self.partial is None:
            return 0
        return self.needed - len(self.partial) if len(self.partial) >= SIZE_FIELD else None

    cpdef int push(self, bytes chunk, int64_t at) except -1:  # type: (...) -> None
        """Add a chunk that arrived at *at* (ns); the previous chunk must be used up."""
        if chunk is None:
            raise TypeError("expected bytes, not None")
        self.chunk = chunk
        self.position = 0
        self.at = at
        return 0

    cpdef Frame next(self):  # type: (...) -> Frame | None
        """Return the next complete frame, or None when the chunk is used up or a size was refused."""
        cdef Py_ssize_t left = PyBytes_GET_SIZE(self.chunk) - self.position
        cdef const char *at = PyBytes_AS_STRING(self.chunk) + self.position
        cdef int32_t size
        if self.partial is not None or self.refused is not None:
            return self.next_from_pieces()
        if left == 0:
            return None
        if left < SIZE_FIELD:
            return self.next_from_pieces()
        size = size_at(at)
        if size < 0 or size > self.limit or size > left - SIZE_FIELD:
            return self.next_from_pieces()
        self.position += SIZE_FIELD + size
        self.count += 1
        return new_frame(at + SIZE_FIELD, size, self.at, self.at)

    cdef Frame next_from_pieces(self):
        """As ``next``, for a frame that is not completely in the chunk."""
        cdef int32_t size
        cdef bytearray partial = self.partial
        cdef Frame frame
        if self.refused is not None:
            return None
        if partial is None:
            partial = self.partial = bytearray()
            self.started_at = self.ended_at = self.at
            self.needed = SIZE_FIELD
        elif self.at > self.ended_at:
            self.ended_at = self.at
        if PyByteArray_GET_SIZE(partial) < SIZE_FIELD:
            self.take(partial, SIZE_FIELD)
            if PyByteArray_GET_SIZE(partial) < SIZE_FIELD:
                return None
            size = size_at(PyByteArray_AS_STRING(partial))
            if not 0 <= size <= self.limit:
                self.refused = size
                return None
            self.needed = <int64_t>size + SIZE_FIELD
        self.take(partial, self.needed)
        if PyByteArray_GET_SIZE(partial) < self.needed:
            return None
        frame = new_frame(
            PyByteArray_AS_STRING(partial) + SIZE_FIELD, PyByteArray_GET_SIZE(partial) - SIZE_FIELD, self.started_at, self.ended_at
        )
        self.partial = None
        self.count += 1
        return frame

    cdef Frame cut_off(self, int cut):
        """Return the unfinished frame as a cut one and start afresh; None if its size field is incomplete."""
        cdef bytearray partial = self.partial
        cdef Py_ssize_t here
        cdef Frame frame
        self.partial = None
        if partial is None or PyByteArray_GET_SIZE(partial) < SIZE_FIELD:
            return None
        here = PyByteArray_GET_SIZE(partial) - SIZE_FIELD
        frame = new_frame(PyByteArray_AS_STRING(partial) + SIZE_FIELD, here, self.started_at, self.ended_at)
        frame.absent = self.needed - SIZE_FIELD - here
        frame.cut_code = cut
        self.count += 1
        return frame

    cdef int take(self, bytearray partial, int64_t until) except -1:
        """Move bytes of the chunk to *partial* until that has *until* bytes, or the chunk is used up."""
        cdef Py_ssize_t end = self.position + until - PyByteArray_GET_SIZE(partial)
        end = min(end, PyBytes_GET_SIZE(self.chunk))
        partial += self.chunk[self.position : end]
        self.position = end
        return 0

    def rest(self) -> list[tuple[bytes, int]]:
        """Return the bytes not yet cut into frames, as (bytes, time) in order, and start afresh."""
        pieces = []
        if self.partial is not None:
            pieces.append((bytes(self.partial), self.started_at))
        if self.position < len(self.chunk):
            pieces.append((self.chunk[self.position :], self.at))
        self.partial = None
        self.refused = None
        self.chunk = b""
        self.position = 0
        return pieces


cdef class Stream:
    """One direction of a connection: receives its bytes in order and hands frames to ``handle``. See Owner for the callbacks."""

    def __init__(
        self, direction: Direction, FrameBuffer frames not None, *, owner: Owner,
        handle: Callable[[Frame, list[Event]], None], new_hunt: Callable[[int], Hunt],
    ):
        self.direction = direction
        self.frames = frames
        self.handle = handle
        self.state = IN_FRAMES
        self.search_again = []
        self._owner = owner
        self._new_hunt = new_hunt

    # Events

    cpdef int receive(self, bytes data, int64_t at, list events: list[Event]) except -1:  # type: (...) -> None
        """Receive the next bytes, and hand each frame in them to ``handle``."""
        if self.state == IN_FRAMES:
            if self.cut(data, at, events):
                return 0
            pieces = deque()
            self.recover(pieces, events)
        else:
            pieces = deque([(data, at, True)])
        self.use(pieces, events)
        return 0

    cdef int use(self, pieces, list events) except -1:
        """Process pieces (bytes, time, whether a segment begins with them) one by one, as the state demands."""
        while pieces and self.state != OPAQUE:
            data, at, begins = pieces.popleft()
            if self.state == SKIPPING:
                size = len(data)
                data = self.skip_over(data, at, events)
                begins = begins and len(data) == size
            if not data or self.state == OPAQUE:
                continue
            if self.state == HUNTING:
                self.search(data, at, begins, pieces, events)
            elif not self.cut(data, at, events):
                self.recover(pieces, events)
        return 0

    def lose(self, Frame frame not None) -> None:
        """Note, on behalf of ``handle``, that *frame* is not a frame, so frame boundaries are unknown from here on."""
        if frame.cut_code:
            self.hunt(skipped=len(frame.data) + SIZE_FIELD)
        elif len(frame.data) <= SEARCHED_AGAIN:
            self.search_again.append((len(frame.data).to_bytes(4, "big")[1:] + frame.data, frame.started_at))
            self.hunt(skipped=1)
        else:
            self.hunt(skipped=frame.wire_size)

    def hunt(self, *, skipped: int = 0) -> None:
        """Search for the next frame from here on; *skipped* bytes before are given up already."""
        self._hunt = self._new_hunt(skipped)
        self._skip = 0
        self.state = HUNTING

    @property
    def unfinished(self) -> int:
        """Received bytes of an incomplete frame, including its size field; 0 between frames and without boundaries."""
        return self.frames.held if self._cut is None else len(self._cut.data) + SIZE_FIELD

    def loses_frames(self, size: int | None, int cut) -> bool:
        """Return whether the next frame's beginning is unknown after a gap of *size* bytes (None: an unknown number)."""
        if self.state == HUNTING or size is None:
            return True
        due = self._due()
        if due is None:
            return True
        return size > due and cut != LEFT_OUT

    def miss(self, size: int | None, int64_t at, int cut, list events: list[Event]) -> None:
        """Note that *size* bytes (None: an unknown number) are missing, for the reason *cut* (Cut), at time *at*."""
        cdef bint lost
        if self.state == HUNTING and not self.finish(at, events):
            self.hunt()
            return
        lost = self.loses_frames(size, cut)
        due = self._due()
        if self._cut is None:
            self._cut = self.frames.cut_off(cut)
        if due and size is not None and size < due:
            self._skip = due - size
            self.state = SKIPPING
            return
        self._skip = 0
        self._hand_over_cut(at, events)
        if lost and self.state == IN_FRAMES:
            self.hunt()

    def _due(self):
        """Return the bytes that the unfinished frame still lacks, see FrameBuffer.missing."""
        return self._skip if self.state == SKIPPING else self.frames.missing

    cdef int _hand_over_cut(self, int64_t at, list events) except -1:
        """Hand over the cut frame, whose last byte was due at *at*."""
        cdef Frame frame = self._cut
        self._cut = None
        self.state = IN_FRAMES
        if frame is not None:
            frame.ended_at = max(frame.ended_at, at)
            self.handle(frame, events)
        return 0

    def finish(self, at: int, events: list[Event], unrecorded: int = 0) -> bool:
        """End a hunt, as nothing follows its bytes; return whether it ends at a frame, perhaps a cut one.

        *unrecorded*: see Hunt.finish.
        """
        found = False
        while self._hunt is not None:
            hunt = self._hunt
            found = hunt.finish(unrecorded)
            if not found:
                hunt.give_up()
            self._end_hunt(at, events)
            self.use(deque(hunt.rest()), events)
        return found

    def confirm(self, Frame response not None, list events not None: list[Event]) -> bool:
        """Check a response to no known request; return whether the hunt has found its request, which is then handled."""
        hunt = self._hunt
        if hunt is None or not hunt.confirm(response.data, response.size):
            return False
        self._end_hunt(response.started_at, events)
        self.use(deque(hunt.rest()), events)
        return True

    def end(self, int64_t at, int cut, list events: list[Event]) -> int:
        """End the stream for the reason *cut* (Cut); return how many bytes of an incomplete size field came last."""
        cdef Frame frame
        self.finish(at, events)
        frame = self._cut
        held = self.frames.held
        if frame is None:
            frame = self.frames.cut_off(cut)
        if frame is None:
            return held
        self._cut = frame
        frame.cut_code = cut
        self._skip = 0
        self._hand_over_cut(frame.ended_at, events)
        return 0

    def stop(self) -> None:
        """Drop the held bytes and all that follow."""
        self.state = OPAQUE
        self.handle = self._owner = self._new_hunt = None
        self._hunt = None
        self._cut = None
        self.search_again.clear()
        self.frames.rest()

    # What each state does with bytes (use)

    cdef bint cut(self, bytes data, int64_t at, list events) except -1:
        """IN_FRAMES: hand complete frames to ``handle``; return False if frame boundaries were lost."""
        cdef FrameBuffer frames = self.frames
        cdef Frame frame
        frames.push(data, at)
        while True:
            frame = frames.next()
            if frame is None:
                return frames.refused is None
            self.handle(frame, events)
            if self.state != IN_FRAMES:
                return False

    cdef int recover(self, pieces, list events) except -1:
        """After frame boundaries were lost, put unused bytes in front of *pieces*, for a hunt."""
        refused = self.frames.refused is not None
        rest = self.frames.rest()
        if refused:
            size_field, at = rest[0]
            rest[0] = (size_field[1:], at)
            self._owner.on_refused(self, size_field, at, events)
            if self.state != OPAQUE:
                self.hunt(skipped=1)
        again = [
            (data[start : start + HUNT_SLICE], at, False)
            for data, at in self.search_again + rest
            for start in range(0, len(data), HUNT_SLICE)
        ]
        self.search_again.clear()
        pieces.extendleft(reversed(again))
        return 0

    cdef bytes skip_over(self, bytes data, int64_t at, list events):
        """SKIPPING: drop the bytes of the cut frame; return those behind it."""
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        if self._skip == 0:
            self._hand_over_cut(at, events)
        elif self._cut is not None and at > self._cut.ended_at:
            self._cut.ended_at = at
        return data[skipped:]

    cdef int search(self, bytes data, int64_t at, begins, pieces, list events) except -1:
        """HUNTING: pass the bytes to the Hunt; if it finds a frame, continue there."""
        hunt = self._hunt
        if hunt.feed(data, at, begins=begins, ends=not pieces or pieces[0][2]):
            self._end_hunt(at, events)
            pieces.extendleft(reversed(list(hunt.rest())))
        return 0

    def _end_hunt(self, at, events):
        hunt = self._hunt
        self._hunt = None
        self.state = IN_FRAMES
        self._owner.on_found(self, hunt.skipped, at, events)
