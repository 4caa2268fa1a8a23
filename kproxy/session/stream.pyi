"""One direction of a connection: bytes in, frames out; and what happens to bytes where frame boundaries are not known."""

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from kproxy.protocol import Direction
from kproxy.session.exchanges import Event, Frame
from kproxy.session.hunting import Hunt

class State(IntEnum):
    """Of a Stream; the transitions are in stream.pyx."""

    IN_FRAMES = 0
    SKIPPING = 1
    HUNTING = 2
    OPAQUE = 3

IN_FRAMES: State
SKIPPING: State
HUNTING: State
OPAQUE: State

class FrameBuffer:
    """Cut the bytes of one direction into frames, whatever the chunks; holds at most the received part of one frame.

    ``push`` a chunk, then call ``next`` until it returns None. A size field that is negative or above ``limit`` stops it:
    ``refused`` is then that size, and ``rest`` returns everything from that size field on.
    """

    limit: int

    def __init__(self, limit: int) -> None: ...
    @property
    def count(self) -> int:
        """Frames that ``next`` returned."""

    @property
    def refused(self) -> int | None:
        """A size that no frame has."""

    @property
    def held(self) -> int:
        """Bytes of an unfinished frame, its size field included."""

    @property
    def missing(self) -> int | None:
        """Bytes that the unfinished frame still lacks; None while its size field is not whole, 0 without an unfinished frame."""

    def push(self, chunk: bytes, at: int) -> None:
        """Take a chunk that arrived at *at* (ns); the chunk before it must be used up."""

    def next(self) -> Frame | None:
        """The next whole frame, or None when the chunk is used up or a size was refused."""

    def rest(self) -> list[tuple[bytes, int]]:
        """Return what was not cut, as (bytes, time) in order, and start anew."""

class Owner(Protocol):
    """What a stream calls when frame boundaries are lost or found."""

    def on_refused(self, stream: Stream, size_field: bytes, at: int, events: list[Event]) -> None:
        """Handle a size that no frame has. Afterwards the stream hunts, unless the owner stopped it."""

    def on_found(self, stream: Stream, skipped: int, at: int, events: list[Event]) -> None:
        """Handle the end of a hunt, at a frame or at the end of the stream, after skipping that many bytes."""

class Stream:
    """The bytes of one direction, in order."""

    def __init__(
        self,
        direction: Direction,
        frames: FrameBuffer,
        *,
        owner: Owner,
        handle: Callable[[Frame, list[Event]], None],
        new_hunt: Callable[[int], Hunt],
    ) -> None: ...
    @property
    def direction(self) -> Direction: ...
    @property
    def frames(self) -> FrameBuffer: ...
    @property
    def handle(self) -> Callable[[Frame, list[Event]], None]: ...
    @property
    def state(self) -> State: ...
    @property
    def search_again(self) -> list[tuple[bytes, int]]:
        """Bytes to search again, with their times."""

    def receive(self, data: bytes, at: int, events: list[Event]) -> None:
        """Receive the next bytes; hand each frame in them to ``handle``."""

    def lose(self, frame: Frame) -> None:
        """Learn from ``handle`` that *frame* was none, so that frame boundaries are not known any more."""

    def hunt(self, *, skipped: int = 0) -> None:
        """Look for the next frame from here on; *skipped* bytes before are already given up."""

    def damage(self, size: int | None) -> tuple[bytes, int] | None:
        """Learn that *size* bytes are missing (None: unknown). Return the received part of the frame they hit, and its time."""

    def finish(self, at: int, events: list[Event]) -> None:
        """Learn that nothing more follows the bytes held: a hunt ends without a frame."""

    def stop(self) -> None:
        """Drop what is held, and every byte that follows."""
