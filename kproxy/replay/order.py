"""Order: when a request may be sent: at its time, and after the answers that had arrived before it when it was recorded.

A request depends on what its client, or another one, had read by then: a fetch on the produce whose records it returns, a join on
the coordinator that was found. So every answer that was recorded before a request must have arrived, on any connection. Requests
that were in flight together stay so.

Answers that brokers hold until other requests arrive (syncing.py) are the exception: they are not waited for.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable

NANOSECONDS = 1e9


class Order:
    """The order of one replay. *speed*: how many times as fast as recorded; None: as fast as possible."""

    def __init__(self, speed: float | None, began_at: int, clock: Callable[[], float]) -> None:
        """Args:
        speed: see the class.
        began_at: the recorded time of the first request, ns.
        clock: seconds, of the event loop.
        """
        self._speed = speed
        self._began_at = began_at
        self._clock = clock
        self._began = clock()
        self._counter = itertools.count()
        # A heap by recorded time of the answer, with what is waited for together
        self._answers: list[tuple[int, int, asyncio.Future[None], str]] = []

    def due_in(self, sent_at: int) -> float:
        """Return the seconds until a request that was recorded at *sent_at* is due; 0 if it is due."""
        if self._speed is None:
            return 0.0
        due = self._began + (sent_at - self._began_at) / NANOSECONDS / self._speed
        return max(0.0, due - self._clock())

    def add(self, answered_at: int, answered: "asyncio.Future[None]", together: str = "") -> None:
        """Note a request that was sent, so that later ones wait for its answer.

        Args:
            answered_at: when the answer was recorded.
            answered: done when the answer arrives; never raises.
            together: names requests whose answers a broker may hold until another one of them arrives; "": none.
        """
        heapq.heappush(self._answers, (answered_at, next(self._counter), answered, together))

    async def wait(self, sent_at: int, together: str = "") -> None:
        """Wait until a request that was recorded at *sent_at* may be sent.

        It does not wait for answers to requests of the same *together*.
        """
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
