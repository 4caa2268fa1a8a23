"""One direction of a connection: in frames, passing over the rest of a damaged frame, hunting, or opaque."""

from collections.abc import Callable
from typing import Protocol

from kproxy.protocol import Direction
from kproxy.session.events import Event, Frame
from kproxy.session.framing import FrameBuffer
from kproxy.session.hunting import Hunt

class Owner(Protocol):
    """Whom a stream tells what it found."""

    def on_refused(self, stream: Stream, size_field: bytes, at: int, events: list[Event]) -> None:
        """A size that no frame has. Afterwards the stream hunts, unless the owner made it opaque."""

    def on_found(self, stream: Stream, skipped: int, at: int, events: list[Event]) -> None:
        """A hunt ended, at a frame or at the end of the stream, after passing over that many bytes."""

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
    def plain(self) -> bool:
        """Frames follow each other: no hunt, nothing to pass over, not opaque."""

    @property
    def opaque(self) -> bool:
        """Whether nothing is looked at any more."""

    @property
    def refound(self) -> list[tuple[bytes, int]]:
        """Bytes to be looked at again, by their times."""

    def receive(self, data: bytes, at: int, events: list[Event]) -> None:
        """Cut the next bytes and hand each frame to ``handle``."""

    def lose(self, frame: Frame) -> None:
        """Say that *frame* was none, so that frame boundaries are not known any more."""

    def hunt(self, *, skipped: int = 0) -> None:
        """Look for the next frame from here on; *skipped* bytes before are already given up."""

    @property
    def hunting(self) -> bool:
        """Whether frame boundaries are unknown at present."""

    def stop(self) -> None:
        """Look at nothing any more."""

    def damage(self, size: int | None) -> tuple[bytes, int] | None:
        """Bytes are missing (None: nobody knows how many). Return what came of the frame they hit, and since when."""

    def finish(self, at: int, events: list[Event]) -> None:
        """Nothing more will come that belongs to what is held: a hunt ends without a frame."""
