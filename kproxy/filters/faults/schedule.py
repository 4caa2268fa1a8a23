"""Schedule: on which calls a fault fires. A function of the number of the call alone, so a run with the same seed repeats it.

A call is a request that a fault selects; the first one is call 1. The filters of all workers take the numbers from one shared
count (Runtime.shared_count), so each number is given once, over all connections, brokers and workers.
"""

import random
from collections.abc import Collection


class Schedule:
    """When a fault fires.

    Args:
        calls: the numbers of the calls, from 1; empty: all.
        after: how many first calls never fail.
        times: the fault fires at most so often; None: always.
        probability: that it fires on a call which the other arguments allow.
        seed: the same seed gives the same calls.
    """

    def __init__(
        self,
        calls: Collection[int] = (),
        after: int = 0,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> None:
        self._calls = frozenset(calls)
        self._after = after
        self._times = times
        self._probability = probability
        self._seed = seed
        self._looked = after  # the last call for which it is known whether chance selected it
        self._drawn: list[int] = []  # the calls up to that one which chance selected

    def fires(self, call: int) -> bool:
        """Return whether the fault fires on a call."""
        if call <= self._after or (self._calls and call not in self._calls):
            return False
        if self._times is None:
            return self._is_drawn(call)
        if not self._calls and self._probability >= 1.0:
            return call <= self._after + self._times
        return self._is_drawn(call) and self._drawn_before(call) < self._times

    def _is_drawn(self, call: int) -> bool:
        """Return whether chance selects the call."""
        return self._probability >= 1.0 or random.Random(f"{self._seed}:{call}").random() < self._probability

    def _drawn_before(self, call: int) -> int:
        """Return how many earlier calls chance selected, as far as that matters."""
        assert self._times is not None
        candidates = sorted(self._calls) if self._calls else range(self._looked + 1, call)
        for candidate in candidates:
            if len(self._drawn) >= self._times or candidate >= call:
                break
            if candidate > self._looked and self._is_drawn(candidate):
                self._drawn.append(candidate)
            self._looked = max(self._looked, candidate)
        return sum(drawn < call for drawn in self._drawn)
