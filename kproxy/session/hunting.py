"""Finding the next frame where boundaries are not known: after a gap, or when the capture starts in mid-stream.

A *candidate* is a place whose bytes could be the beginning of a frame. Records, and zeros above all, are full of places that
read as small frames to the last byte, so that a frame that fits is not enough. What else speaks for a candidate is a *sign*:

    begins     it stands at the first byte of a segment: peers write whole messages, so that segments begin with them
    named      a request names its client; a run of zeros does not
    followed   the next header of the same peer stands right behind it
    ended      its last byte is the last one of a segment, or of all there is
    answered   a response has its correlation id and the layout that its API has

Which of them are enough is said in request_hunting.py and response_hunting.py. Candidates are judged in their order in the
stream, and the first that is accepted wins. A strong one (it begins a segment, and its header says much) that is not whole yet
is waited for, unless what is here of it disproves it (of responses, or a whole one inside it is strong, too); a weak one is
never waited for. Bytes before the frame found are skipped
and counted, never reported as an exchange.

    state of a candidate   event                                                      next
    read                   more of its header, or of its body, has come               read; dropped once no layout can fit
    read                   it is whole and fits                                       whole
    whole                  enough signs                                               found: the hunt is over
    whole                  what follows is no header                                  dropped
    any                    the cost is above what the bytes received allow, or there  dropped
                           are too many others

What bounds the cost: the bytes walked, plus a fixed price for each attempt, may be _WALKS_PER_BYTE times the bytes received plus
an allowance, once for candidates that begin a segment and once for all others; a candidate that is not whole is read again only
when four times as much of it is here; MOST_CANDIDATES are kept. Memory is that of the bytes since the first candidate: at most a
frame's limit and a segment.
"""

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

MOST_CANDIDATES = 256
FAR = 1 << 62  # a position that is never reached
# Hostile bytes can hold a candidate at every position. Honest traffic needs about one walk for each byte.
_WALKS_PER_BYTE = 8
_WALKS_AT_START = 1 << 20
_ATTEMPT = 2_048
_LOOK = 256
_GROWTH = 4


class Candidate(ABC):
    """A place where a frame could begin. *wake* is how far the stream must reach until more can be said of it."""

    __slots__ = ("begins", "correlation_id", "end", "start", "wake", "whole")

    def __init__(self, start: int, size: int, *, begins: bool, correlation_id: int) -> None:
        self.start = start
        self.end = start + 4 + size
        self.begins = begins
        self.correlation_id = correlation_id
        self.whole = False  # all of it is here, and its layout fits
        self.wake = 0

    @property
    @abstractmethod
    def strong(self) -> bool:
        """Whether it is waited for: nothing inside it is believed until it is whole or disproved."""


class Hunt(ABC):
    """The bytes of one direction since the first place where a frame could begin. Positions count from the hunt's start."""

    _outweighs = False  # whether a strong candidate that is whole is believed although one around it is not whole yet

    __slots__ = (
        "_base",
        "_buffer",
        "_candidates",
        "_end",
        "_ended",
        "_given_up",
        "_limit",
        "_marks",
        "_new_marks",
        "_pieces",
        "_scanned",
        "_unrecorded",
        "_wake",
        "_walked",
        "_walked_strong",
    )

    def __init__(self, limit: int, given_up: int) -> None:
        self._limit = limit
        self._given_up = given_up
        self._buffer = bytearray()
        self._base = 0  # the position of the buffer's first byte
        self._end = 0  # the position behind its last one
        self._ended = False  # whether a segment ends there
        self._unrecorded = 0  # bytes of the last packet behind it
        self._pieces: deque[tuple[int, int, bool]] = (
            deque()
        )  # (how many bytes, their time, begins), as the buffer holds them
        self._marks: set[int] = set()  # where segments begin
        self._new_marks: deque[int] = deque()  # those not looked at
        self._scanned = 0  # the first position not looked at
        self._candidates: list[Candidate] = []  # in the order of the stream
        self._wake = FAR  # the first position at which more can be said of any candidate
        self._walked = 0  # through candidates elsewhere than at the beginning of a segment, and
        self._walked_strong = 0  # there: so that the first, of which there may be many, leave enough for these

    @property
    def skipped(self) -> int:
        """Bytes skipped, including those given up before the hunt began."""
        return self._given_up + self._base

    @property
    def held(self) -> int:
        """Bytes that are held."""
        return len(self._buffer)

    def feed(self, data: bytes, at: int, *, begins: bool = True, ends: bool = True) -> bool:
        """Receive bytes; return whether the held bytes now begin with a frame.

        Args:
            data, at: bytes and their time.
            begins, ends: whether a segment, as the peer sent it, begins with the first byte or ends with the last one.
        """
        if begins:
            self._marks.add(self._end)
            self._new_marks.append(self._end)
        self._buffer += data
        self._pieces.append((len(data), at, begins))
        self._end += len(data)
        self._ended = ends
        self._scan()
        found = self._decide() if self._end >= self._wake else None
        if found is None:
            self._drop_until(min(self._scanned, self._candidates[0].start) if self._candidates else self._scanned)
            return False
        self._drop_until(found.start)
        return True

    def finish(self, unrecorded: int = 0) -> bool:
        """Learn that nothing more will come; return whether the held bytes begin with a frame, perhaps not a whole one.

        *unrecorded*: that many bytes more were in the packet, behind what a snaplen left of it.
        """
        self._unrecorded = unrecorded
        found = next((one for one in self._candidates if self._is_enough_at_end(one)), None)
        if found is not None:
            self._drop_until(found.start)
        return found is not None

    def give_up(self) -> None:
        """Skip what is held, because nothing more will come."""
        self._drop_until(self._end)

    def rest(self) -> Iterator[tuple[bytes, int, bool]]:
        """The held bytes, as (bytes, time, begins) in order; *begins* as in ``feed``."""
        position = 0
        for size, at, begins in self._pieces:
            yield bytes(self._buffer[position : position + size]), at, begins
            position += size

    # What a kind of frame knows

    @abstractmethod
    def _pattern(self, *, likely_only: bool) -> tuple[re.Pattern[bytes], int, int]:
        """How a beginning looks: a pattern, its offset in the frame, and how many bytes of the frame it needs in all.

        *likely_only*: half of what may be read was read, so that only what is likely should match.
        """

    @abstractmethod
    def _candidate(self, start: int, size: int) -> Candidate | None:
        """The candidate whose first bytes match the pattern; None for one that is none after all."""

    @abstractmethod
    def _read(self, candidate: Candidate) -> bool:
        """Look at what is here of a candidate; False disproves it. Sets *whole* and *wake*."""

    @abstractmethod
    def _is_enough(self, candidate: Candidate) -> bool | None:
        """Return whether the signs of a whole candidate are enough; False: they never will be; None: not yet."""

    @abstractmethod
    def _is_enough_at_end(self, candidate: Candidate) -> bool:
        """Return whether a candidate's signs are enough when nothing more comes."""

    # Candidates

    def _scan(self) -> None:
        """Look for candidates in what is new."""
        self._scan_marks()
        likely_only = self._is_spent(of=2)
        pattern, offset, taken = self._pattern(likely_only=likely_only)
        while not self._is_spent(of=1):
            match = pattern.search(self._buffer, self._scanned - self._base + offset)
            start = self._end if match is None else self._base + match.start() - offset
            if start + taken > self._end:
                self._scanned = max(self._scanned, min(start, self._end - taken + 1))
                break
            self._scanned = start + 1
            if start not in self._marks:
                self._walked += _LOOK
                self._look_at(start)
            if not likely_only and self._is_spent(of=2):
                likely_only = True
                pattern, offset, taken = self._pattern(likely_only=True)
        else:
            self._scanned = max(self._scanned, self._end - taken + 1)
        if self._wake == 0:
            self._candidates.sort(key=_start_of)

    def _scan_marks(self) -> None:
        """Look at where segments begin, whatever else was read."""
        pattern, offset, taken = self._pattern(likely_only=False)
        while self._new_marks and self._new_marks[0] + taken <= self._end:
            start = self._new_marks.popleft()
            if pattern.match(self._buffer, start - self._base + offset):
                self._look_at(start)

    def _look_at(self, start: int) -> None:
        """Keep a place that matches the pattern if it is a candidate."""
        position = start - self._base
        size = int.from_bytes(self._buffer[position : position + 4], "big", signed=True)
        if 4 <= size <= self._limit and (candidate := self._candidate(start, size)) is not None:
            self._candidates.append(candidate)
            self._wake = 0
            if len(self._candidates) > MOST_CANDIDATES:
                self._shed()

    def _shed(self) -> None:
        """Keep the half of the candidates that says more, or ends sooner."""
        likeliest = sorted(self._candidates, key=lambda one: (not one.strong, not one.begins, one.end))
        self._candidates = sorted(likeliest[: MOST_CANDIDATES // 2], key=_start_of)

    def _decide(self) -> Candidate | None:
        """The first candidate that has enough signs; those that are disproved are dropped."""
        kept: list[Candidate] = []
        self._wake = FAR
        waits = False  # for a strong one: the rest lies inside it
        found = None
        for candidate in self._candidates:
            if found is None and (not waits or (candidate.begins and self._outweighs)):
                if candidate.wake <= self._end and not self._read(candidate):
                    continue
                enough = self._is_enough(candidate) if candidate.whole else None
                if enough is False:
                    continue
                found = candidate if enough and (candidate.strong or not waits) else None
                waits |= candidate.strong and not candidate.whole
                self._wake = min(self._wake, self._end + 1 if candidate.whole else candidate.wake)
            kept.append(candidate)
        self._candidates = kept
        return found

    def _may_walk(self, size: int, *, strong: bool) -> bool:
        """Return whether the bytes received so far still allow to look at that many bytes once more."""
        if strong:
            self._walked_strong += size + _ATTEMPT
            return self._walked_strong <= self._allowed
        if self._walked + size + _ATTEMPT > self._allowed:
            return False
        self._walked += size + _ATTEMPT
        return True

    @property
    def _allowed(self) -> int:
        return self._end * _WALKS_PER_BYTE + _WALKS_AT_START

    def _is_spent(self, *, of: int) -> bool:
        """Whether that part (1: all, 2: half) of the allowance is used up."""
        return (self._walked + _ATTEMPT) * of > self._allowed

    def _here(self, candidate: Candidate) -> bytes:
        """What is here of a candidate, without its size field."""
        start = candidate.start + 4 - self._base
        return self._bytes(start, min(candidate.end, self._end) - self._base)

    def _bytes(self, start: int, stop: int) -> bytes:
        with memoryview(self._buffer) as view:
            return bytes(view[start:stop])

    def _wait(self, candidate: Candidate, seen: int) -> None:
        """Read a candidate again when there is much more of it than the *seen* bytes."""
        candidate.wake = min(candidate.end, candidate.start + 4 + max(seen, 16) * _GROWTH)

    def _fills_a_packet(self, candidate: Candidate) -> bool:
        """Whether a candidate is cut by a snaplen, and is exactly as large as the packet that begins with it."""
        return self._unrecorded > 0 and candidate.begins and candidate.end == self._end + self._unrecorded

    def _ends_a_segment(self, candidate: Candidate) -> bool:
        return candidate.end in self._marks or (candidate.end == self._end and self._ended)

    def _drop_until(self, position: int) -> None:
        size = position - self._base
        del self._buffer[:size]
        while size:
            first, at, begins = self._pieces[0]
            if begins:
                self._marks.discard(self._base)
            if first > size:
                self._pieces[0] = (first - size, at, position in self._marks)
                self._base += size
                return
            self._pieces.popleft()
            self._base += first
            size -= first


def _start_of(candidate: Candidate) -> int:
    return candidate.start
