"""Finding the next frame where boundaries are not known: after a gap, or when the capture starts in mid-stream.

A request is taken for one when its size, API, version and client id are plausible and its body is consumed exactly; a
response when it carries the correlation id of a request in flight and its body is consumed exactly. Nothing less: what
is not recognised is passed over and counted, never reported as an exchange.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from kproxy.session.recognise import HEADER_BYTES, judge_request
from kproxy.session.routes import Route

# Size below 112 MB, api_key 0-127, api_version 0-63, correlation id not negative, client id null or below 512 bytes.
_REQUEST = re.compile(
    rb"[\x00-\x06].{3}\x00[\x00-\x7f]\x00[\x00-\x3f][\x00-\x7f].{3}(?:[\x00\x01].|\xff\xff)", re.DOTALL
)
_REQUEST_START = 14  # bytes that the pattern needs
_RESPONSE_START = 8  # size and correlation id
_SOUGHT = 64  # requests in flight whose responses are looked for
_WALKS_PER_BYTE = 64  # hostile bytes can hold a candidate at every position; a fair stream needs about one walk a byte


class Hunt:
    """The bytes of one direction since the last place where a frame could begin."""

    __slots__ = ("_buffer", "_limit", "_times", "_walked", "_wanted", "skipped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._times: deque[tuple[int, int]] = deque()  # (how many bytes, their time), as the buffer holds them
        self._wanted = 0  # bytes the buffer must hold before it is worth looking again
        self._walked = 0
        self.skipped = 0

    def feed(self, data: bytes, at: int) -> bool:
        """Take bytes; say whether what is held now begins with a frame."""
        self._buffer += data
        if self._times and self._times[-1][1] == at:
            self._times[-1] = (self._times[-1][0] + len(data), at)
        else:
            self._times.append((len(data), at))
        return len(self._buffer) >= self._wanted and self._advance(final=False)

    def finish(self) -> bool:
        """As ``feed`` when nothing more will come: a frame that is not whole is then none."""
        return self._advance(final=True)

    def rest(self) -> Iterator[tuple[bytes, int]]:
        """What is held, as (bytes, time) in order."""
        position = 0
        for size, at in self._times:
            yield bytes(self._buffer[position : position + size]), at
            position += size

    def _advance(self, *, final: bool) -> bool:
        position, self._wanted, found = self._find(final=final)
        self._drop(position)
        return found

    def _find(self, *, final: bool) -> tuple[int, int, bool]:
        """The first position that is not ruled out, the bytes needed from there to decide, whether a frame is there."""
        return len(self._buffer), 0, final and False

    def _may_walk(self, start: int, size: int) -> bool:
        """Whether the stream up to this candidate's end, by its length, still pays for a walk through it."""
        if self._walked + size > (self.skipped + start + size) * _WALKS_PER_BYTE:
            return False
        self._walked += size
        return True

    def _drop(self, size: int) -> None:
        self.skipped += size
        del self._buffer[:size]
        while size:
            first, at = self._times.popleft()
            if first > size:
                self._times.appendleft((first - size, at))
                return
            size -= first


class RequestHunt(Hunt):
    """Looks for a request."""

    __slots__ = ()

    def _find(self, *, final: bool) -> tuple[int, int, bool]:
        buffer = self._buffer
        start = 0
        while match := _REQUEST.search(buffer, start):
            start = match.start()
            held = len(buffer) - start
            wanted = 4 + int.from_bytes(buffer[start : start + 4], "big")
            whole = wanted <= held
            if not whole or self._may_walk(start, wanted):
                data = bytes(buffer[start + 4 : start + (wanted if whole else HEADER_BYTES)])
                verdict = judge_request(bytes(buffer[start : start + 4]), data, self._limit)
                if verdict:
                    return start, wanted, True
                if verdict is None and not final:
                    return start, wanted if len(data) >= HEADER_BYTES - 4 else min(wanted, HEADER_BYTES), False
            start += 1
        return max(start, len(buffer) - _REQUEST_START + 1), 0, False


class ResponseHunt(Hunt):
    """Looks for a response to one of the requests in flight, which it asks for anew each time."""

    __slots__ = ("_in_flight",)

    def __init__(self, limit: int, in_flight: Callable[[], Iterable[tuple[int, Route]]]) -> None:
        super().__init__(limit)
        self._in_flight = in_flight

    def _find(self, *, final: bool) -> tuple[int, int, bool]:
        buffer = self._buffer
        sought = self._sought()
        if not sought:
            return max(0, len(buffer) - _RESPONSE_START + 1), 0, False
        pattern = re.compile(b"|".join(re.escape(correlation_id) for correlation_id in sought))
        start = 0
        while match := pattern.search(buffer, start + 4):
            start = match.start() - 4
            wanted = 4 + int.from_bytes(buffer[start : start + 4], "big")
            if _RESPONSE_START <= wanted <= self._limit:
                if wanted > len(buffer) - start:
                    if not final:
                        return start, wanted, False
                elif self._may_walk(start, wanted):
                    data = bytes(buffer[start + 4 : start + wanted])
                    if any(route.fits_response(data) for route in sought[match.group()]):
                        return start, wanted, True
            start += 1
        return max(start, len(buffer) - _RESPONSE_START + 1), 0, False

    def _sought(self) -> dict[bytes, list[Route]]:
        sought: dict[bytes, list[Route]] = {}
        for correlation_id, route in self._in_flight():
            if len(sought) >= _SOUGHT:
                break
            sought.setdefault(correlation_id.to_bytes(4, "big", signed=True), []).append(route)
        return sought
