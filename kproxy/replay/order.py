"""When a request may be sent: at its time, and after the answers that had come before it when it was recorded.

A request follows from what its client, or another one, had read by then: a fetch from the produce whose records it returns, a
join from the coordinator that was found. So each answer that was recorded before a request must have come, on whatever
connection; requests that were in flight together stay so.

Not so for the answers that brokers hold until other requests have come (syncing.py).
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable

NANOSECONDS = 1e9


class Order:
    """Of one replay. *speed*: how many times as fast as recorded; None: as fast as it goes."""

    def __init__(self, speed: float | None, began_at: int, clock: Callable[[], float]) -> None:
        """*began_at*: the recorded time of the first request, ns; *clock*: seconds, of the loop."""
        self._speed = speed
        self._began_at = began_at
        self._clock = clock
        self._began = clock()
        self._counter = itertools.count()
        # A heap by recorded time of the answer, with what is waited for together
        self._answers: list[tuple[int, int, asyncio.Future[None], str]] = []

    def due_in(self, sent_at: int) -> float:
        """Seconds until a request that was recorded at *sent_at* is due; 0 where it is."""
        if self._speed is None:
            return 0.0
        due = self._began + (sent_at - self._began_at) / NANOSECONDS / self._speed
        return max(0.0, due - self._clock())

    def add(self, answered_at: int, answered: "asyncio.Future[None]", together: str = "") -> None:
        """A request was sent whose answer was recorded at *answered_at*; *answered* never raises.

        *together*: what a broker may hold it for, until others like it have come.
        """
        heapq.heappush(self._answers, (answered_at, next(self._counter), answered, together))

    async def wait(self, sent_at: int, together: str = "") -> None:
        """Wait until a request that was recorded at *sent_at* may be sent: for answers to others of its *together*, never."""
        while (left := self.due_in(sent_at)) > 0:
            await asyncio.sleep(left)
        held = []
        while self._answers and self._answers[0][0] <= sent_at:
            first = heapq.heappop(self._answers)
            if together and first[3] == together:
                held.append(first)
            else:
                await first[2]
        for one in held:
            heapq.heappush(self._answers, one)

    async def wait_for_all(self) -> None:
        """Wait for every answer."""
        while self._answers:
            await heapq.heappop(self._answers)[2]
