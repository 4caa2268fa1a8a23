"""Work: a question of a browser that may take long. It is cancelled after 20 seconds, or when the browser has disconnected."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kproxy.errors import KproxyError

MOST_SECONDS = 20.0
AGAIN_S = 0.1
TURN_S = 0.05  # between two checks whether a question was cancelled


class Cancelled(KproxyError):
    """The question was cancelled; the text says why."""


class Work:
    """One question. ``cancel`` may be called by any thread."""

    def __init__(self, seconds: float = MOST_SECONDS) -> None:
        self._until = time.monotonic() + seconds
        self._seconds = seconds
        self._why: str | None = None
        self._ends: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def cancel(self, why: str = "the browser has disconnected") -> None:
        with self._lock:  # also while blocks are ended: *end* must not hit what follows a block
            if self._why is None:
                self._why = why
                self._end_blocks()

    def check(self) -> None:
        """Raise Cancelled if it was cancelled, or takes too long."""
        if self._why is None and time.monotonic() > self._until:
            self._overdue()
        if self._why is not None:
            raise Cancelled(self._why)

    def wait_for(self, lock: threading.Lock, other: str) -> None:
        """Acquire a lock that others may hold for long. Raises Cancelled, with *other* as the reason when time is up."""
        while not lock.acquire(timeout=TURN_S):
            if time.monotonic() > self._until:
                self.cancel(other)
            self.check()

    @contextmanager
    def ended_by(self, end: Callable[[], object]) -> Iterator[None]:
        """Within the block, cancelling calls *end*, which makes the block fail; the block then raises Cancelled."""
        self.check()
        with self._lock:
            if self._why is not None:
                raise Cancelled(self._why)
            self._ends.append(end)
        timer = _later(max(self._until - time.monotonic(), 0), self._overdue)
        try:
            yield
        except Exception:
            self.check()
            raise
        finally:
            timer.cancel()
            with self._lock:
                self._ends.remove(end)

    def _end_blocks(self) -> None:
        """Interrupt the blocks, and again until they have ended: an interrupt between two queries is lost. Needs the lock."""

        def again() -> None:
            with self._lock:
                self._end_blocks()

        for end in self._ends:
            end()
        if self._ends:
            _later(AGAIN_S, again)

    def _overdue(self) -> None:
        self.cancel(f"this takes more than {self._seconds:.0f} seconds; ask for less")


def _later(seconds: float, what: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, what)
    timer.daemon = True
    timer.start()
    return timer
