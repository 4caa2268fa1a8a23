"""Cutting one direction of a connection into frames. Not here: what a frame means, finding a lost frame boundary."""

from kproxy.session.events import Frame

class FrameBuffer:
    """Cuts the bytes of one direction into frames, whatever the chunks; holds no more than what came of one frame.

    ``push`` a chunk, then call ``next`` until it gives None. A size field that is negative or above ``limit`` stops it:
    ``refused`` is then that size, and ``rest`` gives back everything from that size field on.
    """

    limit: int

    def __init__(self, limit: int) -> None: ...
    @property
    def count(self) -> int:
        """Frames given out."""

    @property
    def refused(self) -> int | None:
        """A size that no frame has."""

    @property
    def held(self) -> int:
        """Bytes of an unfinished frame, its size field included."""

    @property
    def missing(self) -> int | None:
        """Bytes that the unfinished frame still lacks; None when its size field is not whole, 0 when there is none."""

    def push(self, chunk: bytes, at: int) -> None:
        """Take a chunk that arrived at *at* (ns); the one before must have been used up."""

    def next(self) -> Frame | None:
        """The next whole frame, or None when the chunk is used up or a size was refused."""

    def rest(self) -> list[tuple[bytes, int]]:
        """Give back what was not cut, as (bytes, time) in order, and start anew."""
