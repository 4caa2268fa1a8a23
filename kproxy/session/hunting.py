"""Finding the next frame where boundaries are not known: after a gap, or when the capture starts in mid-stream.

A request is accepted when its size, API, version and client id are plausible and its layout consumes the body exactly; a
response when it carries the correlation id of a request in flight and its layout consumes the body exactly. Bytes that
match neither are skipped and counted, never reported as an exchange.

Of several places where a frame could begin, the one whose frame is complete first wins: a false beginning may claim
megabytes, and the true frames inside must not wait for them. So the result does not depend on how the bytes were chunked.
"""

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

from kproxy.session.exchanges import Route
from kproxy.session.recognise import HEADER_BYTES, is_request, looks_like_request_header

# Size 10 to 112 MB, api_key 0-127, api_version 0-63, correlation id not negative, client id null or below 512 bytes.
_REQUEST = re.compile(
    rb"(?!\x00\x00\x00[\x00-\x09])[\x00-\x06].{3}"
    rb"\x00[\x00-\x7f]\x00[\x00-\x3f][\x00-\x7f].{3}(?:[\x00\x01].|\xff\xff)",
    re.DOTALL,
)
_REQUEST_START = 14  # bytes that the pattern needs
_RESPONSE_START = 8  # size and correlation id
_NOTHING = re.compile(rb"(?!)")
_CANDIDATES = 256  # beginnings whose frames are not whole yet
# Hostile bytes can hold a candidate at every position. The bytes walked, plus a fixed price for each attempt, may be this
# many times the bytes received, plus an allowance at the start; honest traffic needs about one walk for each byte.
_WALKS_PER_BYTE = 8
_WALKS_AT_START = 1 << 20
_ATTEMPT = 2_048


class Hunt(ABC):
    """The bytes of one direction since the first place where a frame could begin. Positions count from the hunt's start."""

    __slots__ = ("_base", "_buffer", "_candidates", "_given_up", "_limit", "_scanned", "_times", "_walked")

    def __init__(self, limit: int, given_up: int) -> None:
        self._limit = limit
        self._given_up = given_up
        self._buffer = bytearray()
        self._base = 0  # the position of the buffer's first byte
        self._times: deque[tuple[int, int]] = deque()  # (how many bytes, their time), as the buffer holds them
        self._scanned = 0  # the first position not looked at
        self._candidates: list[tuple[int, int]] = []  # a heap of (where the frame would end, where it begins)
        self._walked = 0

    @property
    def skipped(self) -> int:
        """Bytes skipped, including those given up before the hunt began."""
        return self._given_up + self._base

    def feed(self, data: bytes, at: int) -> bool:
        """Receive bytes; return whether the held bytes now begin with a frame."""
        self._buffer += data
        if self._times and self._times[-1][1] == at:
            self._times[-1] = (self._times[-1][0] + len(data), at)
        else:
            self._times.append((len(data), at))
        found = self._find()
        kept = min([self._scanned, *(start for _, start in self._candidates)]) if found is None else found
        self._drop(kept - self._base)
        return found is not None

    def give_up(self) -> None:
        """Skip what is held, because nothing more will come."""
        self._drop(len(self._buffer))

    def rest(self) -> Iterator[tuple[bytes, int]]:
        """The held bytes, as (bytes, time) in order."""
        position = 0
        for size, at in self._times:
            yield bytes(self._buffer[position : position + size]), at
            position += size

    @abstractmethod
    def _pattern(self) -> tuple[re.Pattern[bytes], int, int]:
        """How a beginning looks: a pattern, its offset in the frame, and how many bytes of the frame it needs in all."""

    @abstractmethod
    def _may_begin(self, data: bytes) -> bool:
        """Return whether a candidate's first bytes, size field included, look right: a cheap check before ``_judge``."""

    @abstractmethod
    def _judge(self, data: bytes) -> bool:
        """Return whether a complete candidate is a frame; *data* is what follows the size field."""

    def _find(self) -> int | None:
        """Where the first frame to be complete begins."""
        pattern, offset, taken = self._pattern()
        end = self._base + len(self._buffer)
        while True:
            match = pattern.search(self._buffer, self._scanned - self._base + offset)
            start = end if match is None else self._base + match.start() - offset
            found = self._first_whole(end if match is None else start + taken)
            if found is not None:
                return found
            if match is None:
                self._scanned = max(self._scanned, end - max(taken - 1, 0))
                return None
            self._add(start)
            self._scanned = start + 1

    def _add(self, start: int) -> None:
        position = start - self._base
        size = int.from_bytes(self._buffer[position : position + 4], "big", signed=True)
        if not 4 <= size <= self._limit:
            return
        heappush(self._candidates, (start + 4 + size, start))
        if len(self._candidates) > _CANDIDATES:  # drop those that would end last
            self._candidates.sort()
            del self._candidates[_CANDIDATES // 2 :]

    def _first_whole(self, until: int) -> int | None:
        """The beginning of the first frame that ends at or before *until*; candidates that end there and are none are dropped."""
        while self._candidates and self._candidates[0][0] <= until:
            end, start = heappop(self._candidates)
            position = start - self._base
            if self._may_begin(bytes(self._buffer[position : position + HEADER_BYTES])) and self._may_walk(
                end, end - start
            ):
                with memoryview(self._buffer) as view:
                    data = bytes(view[position + 4 : end - self._base])
                if self._judge(data):
                    return start
        return None

    def _may_walk(self, end: int, size: int) -> bool:
        """Return whether the bytes received up to a candidate's end still allow a walk through it (see _WALKS_PER_BYTE)."""
        walked = self._walked + size + _ATTEMPT
        if walked > end * _WALKS_PER_BYTE + _WALKS_AT_START:
            return False
        self._walked = walked
        return True

    def _drop(self, size: int) -> None:
        self._base += size
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

    def _pattern(self) -> tuple[re.Pattern[bytes], int, int]:
        return _REQUEST, 0, _REQUEST_START

    def _may_begin(self, data: bytes) -> bool:
        return looks_like_request_header(data[4:])

    def _judge(self, data: bytes) -> bool:
        return is_request(data)


class ResponseHunt(Hunt):
    """Looks for a response to one of the requests in flight, which ``in_flight`` returns anew at each call."""

    __slots__ = ("_in_flight",)

    def __init__(self, limit: int, given_up: int, in_flight: Callable[[], Iterable[tuple[int, Route]]]) -> None:
        super().__init__(limit, given_up)
        self._in_flight = in_flight

    def _pattern(self) -> tuple[re.Pattern[bytes], int, int]:
        sought = {correlation_id for correlation_id, _ in self._in_flight()}
        if not sought:
            return _NOTHING, 4, _RESPONSE_START
        choices = (re.escape(correlation_id.to_bytes(4, "big", signed=True)) for correlation_id in sorted(sought))
        return re.compile(b"|".join(choices)), 4, _RESPONSE_START

    def _may_begin(self, data: bytes) -> bool:
        return True  # the pattern has found a correlation id that is in flight

    def _judge(self, data: bytes) -> bool:
        correlation_id = int.from_bytes(data[:4], "big", signed=True)
        return any(route.fits_response(data) for sought, route in self._in_flight() if sought == correlation_id)
