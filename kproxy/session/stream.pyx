# cython: language_level=3, annotation_typing=False, nonecheck=True
"""One direction of a connection: in frames, passing over the rest of a damaged frame, hunting, or opaque.

``Stream`` knows where frames begin; what they mean is its owner's business.
"""

from collections import deque

from libc.stdint cimport int64_t

from kproxy.session.events cimport Frame
from kproxy.session.framing cimport FrameBuffer

_SLICE = 4096  # hunting is fed in slices, so that finding a frame leaves little to be copied
_SEARCHED_AGAIN = 65_536  # a frame that turned out to be none is searched for frames up to this size


cdef class Stream:
    """The bytes of one direction, in order.

    Its *owner* is told what it finds: ``on_refused(stream, size_field, at, events)``, a size that no frame has (afterwards
    the stream hunts, unless the owner made it opaque); ``on_found(stream, skipped, at, events)``, that a hunt ended, at a
    frame or at the end of the stream, after passing over that many bytes.
    """

    def __init__(self, direction, FrameBuffer frames not None, *, owner, handle, new_hunt):
        self.direction = direction
        self.frames = frames
        self.handle = handle
        self.plain = True
        self.refound = []
        self._owner = owner
        self._new_hunt = new_hunt

    cpdef int receive(self, bytes data, int64_t at, list events) except -1:
        """Cut the next bytes and hand each frame to ``handle``."""
        cdef FrameBuffer frames = self.frames
        cdef Frame frame
        if self.plain:
            frames.push(data, at)
            while True:
                frame = frames.next()
                if frame is None:
                    break
                self.handle(frame, events)
                if not self.plain:
                    break
            if self.plain and frames.refused is None:
                return 0
            pieces = deque()
            self._recover(pieces, events)
        else:
            pieces = deque([(data, at)])
        self._drive(pieces, events)
        return 0

    def lose(self, frame: Frame) -> None:
        """Say that *frame* was none, so that frame boundaries are not known any more."""
        if len(frame.data) <= _SEARCHED_AGAIN:
            self.refound.append((len(frame.data).to_bytes(4, "big")[1:] + frame.data, frame.started_at))
            self.hunt(skipped=1)
        else:
            self.hunt(skipped=frame.wire_size)

    def hunt(self, *, skipped: int = 0) -> None:
        """Look for the next frame from here on; *skipped* bytes before are already given up."""
        self._hunt = self._new_hunt(skipped)
        self._skip = 0
        self.plain = False

    @property
    def hunting(self) -> bool:
        """Whether frame boundaries are unknown at present."""
        return self._hunt is not None

    def stop(self) -> None:
        """Look at nothing any more."""
        self.opaque = True
        self.plain = False
        self._hunt = None
        self.refound.clear()
        self.frames.rest()

    def damage(self, size: int | None) -> tuple[bytes, int] | None:
        """Bytes are missing (None: nobody knows how many). Return what came of the frame they hit, and since when."""
        missing = self.frames.missing
        pieces = self.frames.rest()
        partial = pieces[0] if pieces else None
        if size is not None and size <= self._skip:
            self._skip -= size
            self.plain = self._skip == 0
        elif size is not None and partial is not None and missing is not None and size <= missing:
            self._skip = missing - size  # the gap ends inside the same frame: its end is known
            self.plain = self._skip == 0
        else:
            self.hunt()
        return partial

    def finish(self, at: int, events: list[Event]) -> None:
        """Nothing more will come that belongs to what is held: a hunt ends without a frame."""
        if self._hunt is not None:
            self._hunt.give_up()
            self._end_hunt(self._hunt, at, events)

    def _end_hunt(self, hunt: Hunt, at: int, events: list[Event]) -> None:
        self._hunt = None
        self.plain = True
        self._owner.on_found(self, hunt.skipped, at, events)

    def _drive(self, pieces: deque[tuple[bytes, int]], events: list[Event]) -> None:
        """As ``receive``, whatever the state."""
        while pieces and not self.opaque:
            data, at = pieces.popleft()
            if self._skip:
                data = self._pass_over(data)
            if not data:
                continue
            if self._hunt is None:
                self._cut(data, at, pieces, events)
            elif self._hunt.feed(data, at):
                hunt = self._hunt
                self._end_hunt(hunt, at, events)
                pieces.extendleft(reversed(list(hunt.rest())))

    def _pass_over(self, data: bytes) -> bytes:
        passed = min(self._skip, len(data))
        self._skip -= passed
        self.plain = self._skip == 0
        return data[passed:]

    def _cut(self, data: bytes, at: int, pieces: deque[tuple[bytes, int]], events: list[Event]) -> None:
        self.frames.push(data, at)
        while (frame := self.frames.next()) is not None:
            self.handle(frame, events)
            if not self.plain:
                break
        if not self.plain or self.frames.refused is not None:
            self._recover(pieces, events)

    def _recover(self, pieces: deque[tuple[bytes, int]], events: list[Event]) -> None:
        """Frame boundaries were lost: look at what was not used again, as a hunt."""
        refused = self.frames.refused is not None
        rest = self.frames.rest()
        if refused:
            size_field, at = rest[0]
            rest[0] = (size_field[1:], at)
            self._owner.on_refused(self, size_field, at, events)
            if not self.opaque:
                self.hunt(skipped=1)
        again = [*self.refound, *rest]
        self.refound.clear()
        pieces.extendleft(reversed(list(_sliced(again))))


def _sliced(pieces: Iterable[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    for data, at in pieces:
        for start in range(0, len(data), _SLICE):
            yield data[start : start + _SLICE], at
