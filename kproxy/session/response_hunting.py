"""Find a response among other bytes; hunting.py defines candidates and signs.

A candidate has the correlation id of a request in flight, or of a candidate for a request, and a body with the layout of that
request's API.

    begins a segment     accepted when it is complete; it is strong
    elsewhere            accepted when another response follows it, or the segment ends with it

If the layout is unknown (the API is newer than the facts), the response must begin one segment and end one. At the end of the
stream, a strong candidate is accepted, complete or not, and a weak one if the stream ends with it.
"""

import re
from collections.abc import Callable, Iterable

from kproxy.session.exchanges import Route
from kproxy.session.hunting import Candidate, Hunt
from kproxy.session.recognise import BROKEN, MOST_TRAILING, PENDING, response_leftover

_START = 8  # size and correlation id
_SOME_SIZE = rb"(?<!\x00\x00\x00[\x00-\x04])"
_NOTHING = re.compile(rb"(?!)")
_NEAR = 1_000  # the largest distance of the correlation ids of consecutive responses (requests with acks=0 have none)

Sought = tuple[
    int, Route | None
]  # a correlation id, and the route that says how its response is laid out; None: unknown


class ResponseCandidate(Candidate):
    """A place where a response could begin."""

    __slots__ = ("routes",)

    def __init__(self, start: int, size: int, *, begins: bool, correlation_id: int, routes: list[Route | None]) -> None:
        super().__init__(start, size, begins=begins, correlation_id=correlation_id)
        self.routes = routes  # routes of requests with its correlation id whose layout still fits

    @property
    def strong(self) -> bool:
        return self.begins and any(route is not None for route in self.routes)


class ResponseHunt(Hunt):
    """Searches for a response to one of the requests that ``sought`` returns; ``sought`` is called for every chunk."""

    # A correlation id is a small number, and brokers send parts of a response in separate segments.
    _outweighs = True
    __slots__ = ("_ids", "_sought", "_wanted")

    def __init__(self, limit: int, given_up: int, sought: Callable[[], Iterable[Sought]]) -> None:
        super().__init__(limit, given_up)
        self._sought = sought
        self._wanted: dict[int, list[Route | None]] = {}
        self._ids = _NOTHING  # a pattern for those correlation ids

    def feed(self, data: bytes, at: int, *, begins: bool = True, ends: bool = True) -> bool:
        self._want()
        return super().feed(data, at, begins=begins, ends=ends)

    def _want(self) -> None:
        wanted: dict[int, list[Route | None]] = {}
        for correlation_id, route in self._sought():
            wanted.setdefault(correlation_id, []).append(route)
        if wanted.keys() != self._wanted.keys():
            choices = (re.escape(number.to_bytes(4, "big", signed=True)) for number in sorted(wanted))
            size = _SOME_SIZE if 0 in wanted else b""  # without it, id 0 would match in every run of zeros
            self._ids = re.compile(size + b"(?:" + b"|".join(choices) + b")", re.DOTALL) if wanted else _NOTHING
        self._wanted = wanted

    def _pattern(self, *, likely_only: bool) -> tuple[re.Pattern[bytes], int, int]:
        return (_NOTHING if likely_only else self._ids), 4, _START

    def _candidate(self, start: int, size: int) -> ResponseCandidate | None:
        position = start + 4 - self._base
        correlation_id = int.from_bytes(self._buffer[position : position + 4], "big", signed=True)
        routes = self._wanted[correlation_id]
        candidate = ResponseCandidate(
            start, size, begins=start in self._marks, correlation_id=correlation_id, routes=routes
        )
        return candidate if self._read(candidate) else None

    def _read(self, candidate: Candidate) -> bool:
        assert isinstance(candidate, ResponseCandidate)
        if candidate.whole:
            return True
        data = self._here(candidate)
        size = candidate.end - candidate.start - 4
        candidate.whole = len(data) == size
        candidate.wake = candidate.end
        fitting: list[Route | None] = []
        for route in candidate.routes:
            if route is None:
                fitting += [None] if candidate.begins else []
                continue
            left = (
                response_leftover(route, data, size) if self._may_walk(len(data), strong=candidate.begins) else BROKEN
            )
            if left == PENDING and not candidate.whole:
                self._wait(candidate, len(data))
                fitting.append(route)
            elif left == 0 or (candidate.begins and 0 < left <= MOST_TRAILING and self._ends_a_segment(candidate)):
                fitting.append(route)
        candidate.routes = fitting
        return bool(fitting)

    def _is_enough(self, candidate: Candidate) -> bool | None:
        return candidate.strong or self._ends_a_segment(candidate) or self._is_followed(candidate)

    def _is_followed(self, candidate: Candidate) -> bool | None:
        """Return whether another response follows the candidate; None if more bytes are needed."""
        data = self._bytes(candidate.end - self._base, min(self._end, candidate.end + _START) - self._base)
        if len(data) < _START:
            return None
        size, correlation_id = (int.from_bytes(data[at : at + 4], "big", signed=True) for at in (0, 4))
        later = 0 < correlation_id - candidate.correlation_id <= _NEAR
        return 4 < size <= self._limit and (correlation_id in self._wanted or later)

    def _is_enough_at_end(self, candidate: Candidate) -> bool:
        return candidate.strong or (candidate.whole and candidate.end == self._end)
