"""DiskThread: makes calls that may hang, such as a write to a disk that does not answer, without holding up the caller for long.

There is one thread, with one call at a time. The caller waits for a call to end: SHORT_S always; beyond that from an allowance of
at most MOST_WAIT_S, which grows by a tenth of the passing time (REFILL). So a disk that hangs, or is slow each time, hardly holds
up the event loop, while with a disk that answers it is as if the call were made directly.
"""

import queue
import threading
import time
from collections.abc import Callable

SHORT_S = 0.01
MOST_WAIT_S = 0.2  # longer than a thread waits for a core on a busy machine
REFILL = 0.1  # seconds by which the allowance grows in a second
HANGS_AFTER_S = 1.0

Call = Callable[[], bool]


class DiskThread:
    """Makes calls in a thread of its own, which is started with the first call and does not keep the process from ending."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._done = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._result = False
        self._left = MOST_WAIT_S
        self._at = clock()
        self._began = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a call is still running; then no other one may be made."""
        if self._is_busy and self._done.acquire(blocking=False):
            self._is_busy = False
        return self._is_busy

    @property
    def hangs(self) -> bool:
        """Whether the present call takes longer than a working disk needs."""
        return self.is_busy and self._clock() - self._began >= HANGS_AFTER_S

    def call(self, function: Call, most_wait_s: float | None = None) -> bool | None:
        """Make a call and return its result; None: it is still running after the wait. An exception in it counts as False."""
        assert not self.is_busy
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._began = self._clock()
        self._is_busy = True
        self._calls.put(function)
        self._wait(self._wait_s() if most_wait_s is None else most_wait_s)
        return None if self._is_busy else self._result

    def settle(self, most_wait_s: float) -> bool:
        """Wait for the present call; return whether it has ended."""
        if self.is_busy:
            self._wait(most_wait_s)
        return not self._is_busy

    def end(self) -> None:
        """End the thread after its present call."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None

    def _wait(self, seconds: float) -> None:
        if self._done.acquire(timeout=seconds):
            self._is_busy = False
        self._left -= max(self._clock() - self._began - SHORT_S, 0.0)

    def _wait_s(self) -> float:
        """Return how long the next call may be waited for."""
        now = self._clock()
        self._left = min(MOST_WAIT_S, self._left + (now - self._at) * REFILL)
        self._at = now
        return SHORT_S + max(self._left, 0.0)

    def _run(self) -> None:
        while (function := self._calls.get()) is not None:
            try:
                self._result = function()
            except Exception:
                self._result = False
            self._done.release()
