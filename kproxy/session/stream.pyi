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

class FrameBuffer:
    limit: int

    def __init__(self, limit: int) -> None: ...
    @property
    def count(self) -> int:
        """Frames that began here, and were whole or cut."""

    @property
    def refused(self) -> int | None:
        """A size that no frame has."""

    @property
    def held(self) -> int: ...
    @property
    def missing(self) -> int | None: ...
    def push(self, chunk: bytes, at: int) -> None: ...
    def next(self) -> Frame | None: ...
    def rest(self) -> list[tuple[bytes, int]]: ...

class Owner(Protocol):
    """What a stream calls when frame boundaries are lost or found."""

    def on_refused(self, stream: Stream, size_field: bytes, at: int, events: list[Event]) -> None:
        """Handle a size that no frame has. Afterwards the stream hunts, unless the owner stopped it."""

    def on_found(self, stream: Stream, skipped: int, at: int, events: list[Event]) -> None:
        """Handle the end of a hunt, at a frame or at the end of the stream, after skipping that many bytes."""

class Stream:
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

    def receive(self, data: bytes, at: int, events: list[Event]) -> None: ...
    def lose(self, frame: Frame) -> None: ...
    def hunt(self, *, skipped: int = 0) -> None: ...
    @property
    def unfinished(self) -> int: ...
    def loses_frames(self, size: int | None, cut: int) -> bool: ...
    def miss(self, size: int | None, at: int, cut: int, events: list[Event]) -> None: ...
    def finish(self, at: int, events: list[Event], unrecorded: int = 0) -> bool: ...
    def confirm(self, response: Frame, events: list[Event]) -> bool: ...
    def end(self, at: int, cut: int, events: list[Event]) -> int: ...
    def stop(self) -> None: ...
