"""Find the next frame when boundaries are unknown: after a gap, or when the capture starts in mid-stream.

A *candidate* is a place where a frame could begin. Records, and runs of zeros above all, are full of places that read as small
frames to the last byte, so a fitting layout alone is not enough. Further evidence for a candidate is a *sign*:

    begins     it is at the first byte of a segment: peers write complete messages, so segments begin with them
    named      a request names its client; a run of zeros does not
    followed   the next header of the same peer comes right behind it
    ended      its last byte is the last one of a segment, or of the stream
    answered   a response has its correlation id and the layout of its API

request_hunting.py and response_hunting.py say which signs are enough. Candidates are judged in the order of the stream, and the
first accepted one wins. The hunt waits for the rest of a strong candidate (it begins a segment, and its header is convincing)
unless its bytes so far disprove it, or, for responses, a complete candidate inside it is strong as well. It never waits for a
weak candidate. Bytes before the frame that is found are skipped and counted, never reported as an exchange.

    state of a candidate   event                                                      next
    read                   more of its header or body arrives                         read; dropped once no layout can fit
    read                   it is complete and fits                                    whole
    whole                  it has enough signs                                        found: the hunt is over
    whole                  no header follows it                                       dropped
    any                    it costs more than the received bytes allow, or there are  dropped
                           too many candidates

Cost: the bytes walked, plus a fixed price for each attempt, may be at most _WALKS_PER_BYTE times the received bytes plus an
allowance, separately for candidates that begin a segment and for all others. An incomplete candidate is read again only when
four times as much of it has arrived, and at most MOST_CANDIDATES are kept. Memory: the bytes since the first candidate, at most
the largest frame and a segment.
"""

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

MOST_CANDIDATES = 256
FAR = 1 << 62  # a position that no stream reaches
# Hostile bytes can contain a candidate at every position. Honest traffic needs about one walk for each byte.
_WALKS_PER_BYTE = 8
_WALKS_AT_START = 1 << 20
_ATTEMPT = 2_048
_LOOK = 256
_GROWTH = 4


class Candidate(ABC):
    """A place where a frame could begin. It is examined again when the stream reaches position *wake*."""

    __slots__ = ("begins", "correlation_id", "end", "start", "wake", "whole")

    def __init__(self, start: int, size: int, *, begins: bool, correlation_id: int) -> None:
        self.start = start
        self.end = start + 4 + size
        self.begins = begins
        self.correlation_id = correlation_id
        self.whole = False  # it is complete, and its layout fits
        self.wake = 0

    @property
    @abstractmethod
    def strong(self) -> bool:
        """Whether the hunt waits for the rest of it: candidates inside it must wait until it is complete or disproved."""


class Hunt(ABC):
    """A search for a frame in one direction; holds the bytes since the first candidate. Positions count from its start."""

    _outweighs = False  # whether a complete strong candidate wins over an incomplete one around it

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
        self._base = 0  # position of the buffer's first byte
        self._end = 0  # position behind the buffer's last byte
        self._ended = False  # whether a segment ends at _end
        self._unrecorded = 0  # bytes of the last packet that a snaplen cut off
        self._pieces: deque[tuple[int, int, bool]] = (
            deque()
        )  # (how many bytes, their time, begins), as the buffer holds them
        self._marks: set[int] = set()  # where segments begin
        self._new_marks: deque[int] = deque()  # marks not examined yet
        self._scanned = 0  # first position not examined yet
        self._candidates: list[Candidate] = []  # in the order of the stream
        self._wake = FAR  # the smallest *wake* of the candidates
        # Counted apart, so that many candidates inside segments leave enough for those at their beginnings.
        self._walked = 0  # bytes walked in candidates inside segments
        self._walked_strong = 0  # bytes walked in candidates that begin a segment

    @property
    def skipped(self) -> int:
        """Skipped bytes, including those given up before the hunt began."""
        return self._given_up + self._base

    @property
    def held(self) -> int:
        """Number of bytes held."""
        return len(self._buffer)

    def feed(self, data: bytes, at: int, *, begins: bool = True, ends: bool = True) -> bool:
        """Receive bytes; return whether the held bytes now begin with a frame.

        Args:
            data, at: bytes and their time.
            begins, ends: whether a segment begins with the first byte, and ends with the last one.
        """
        if begins:
            self._marks.add(self._end)
            self._new_marks.append(self._end)
        self._buffer += data
        self._pieces.append((len(data), at, begins))
        self._end += len(data)
        self._ended = ends
        self._scan()
        accepted = self._decide() if self._end >= self._wake else None
        if accepted is None:
            self._drop_until(min(self._scanned, self._candidates[0].start) if self._candidates else self._scanned)
            return False
        self._drop_until(accepted.start)
        return True

    def finish(self, unrecorded: int = 0) -> bool:
        """End the hunt, as no more bytes will come; return whether the held bytes begin with a frame, perhaps a cut one.

        *unrecorded*: how many bytes a snaplen cut off the last packet.
        """
        self._unrecorded = unrecorded
        accepted = next((one for one in self._candidates if self._is_enough_at_end(one)), None)
        if accepted is not None:
            self._drop_until(accepted.start)
        return accepted is not None

    def give_up(self) -> None:
        """Skip the held bytes, as no more will come."""
        self._drop_until(self._end)

    def rest(self) -> Iterator[tuple[bytes, int, bool]]:
        """Yield the held bytes in order, as (bytes, time, begins); *begins* is that of ``feed``."""
        position = 0
        for size, at, begins in self._pieces:
            yield bytes(self._buffer[position : position + size]), at, begins
            position += size

    # For subclasses: what a request or a response looks like

    @abstractmethod
    def _pattern(self, *, likely_only: bool) -> tuple[re.Pattern[bytes], int, int]:
        """Return a pattern for the beginning of a frame, its offset in the frame, and how many bytes of the frame it needs.

        *likely_only*: half of the allowance is spent, so only likely places should match.
        """

    @abstractmethod
    def _candidate(self, start: int, size: int) -> Candidate | None:
        """Return the candidate at a place that matches the pattern; None if it is not plausible."""

    @abstractmethod
    def _read(self, candidate: Candidate) -> bool:
        """Examine the received bytes of a candidate and set *whole* and *wake*; return False if they disprove it."""

    @abstractmethod
    def _is_enough(self, candidate: Candidate) -> bool | None:
        """Return whether a complete candidate has enough signs: True, False (it never will), or None (not yet)."""

    @abstractmethod
    def _is_enough_at_end(self, candidate: Candidate) -> bool:
        """Return whether a candidate has enough signs, given that no more bytes will come."""

    # Candidates

    def _scan(self) -> None:
        """Look for candidates in the new bytes."""
        self._scan_marks()
        likely_only = self._is_spent(of=2)
        pattern, offset, needed = self._pattern(likely_only=likely_only)
        while not self._is_spent(of=1):
            match = pattern.search(self._buffer, self._scanned - self._base + offset)
            start = self._end if match is None else self._base + match.start() - offset
            if start + needed > self._end:
                self._scanned = max(self._scanned, min(start, self._end - needed + 1))
                break
            self._scanned = start + 1
            if start not in self._marks:
                self._walked += _LOOK
                self._look_at(start)
            if not likely_only and self._is_spent(of=2):
                likely_only = True
                pattern, offset, needed = self._pattern(likely_only=True)
        else:
            self._scanned = max(self._scanned, self._end - needed + 1)
        if self._wake == 0:
            self._candidates.sort(key=_start_of)

    def _scan_marks(self) -> None:
        """Examine the beginnings of segments, even if the allowance for other places is spent."""
        pattern, offset, needed = self._pattern(likely_only=False)
        while self._new_marks and self._new_marks[0] + needed <= self._end:
            start = self._new_marks.popleft()
            if pattern.match(self._buffer, start - self._base + offset):
                self._look_at(start)

    def _look_at(self, start: int) -> None:
        """Add a place that matches the pattern to the candidates, if it is plausible."""
        position = start - self._base
        size = int.from_bytes(self._buffer[position : position + 4], "big", signed=True)
        if 4 <= size <= self._limit and (candidate := self._candidate(start, size)) is not None:
            self._candidates.append(candidate)
            self._wake = 0
            if len(self._candidates) > MOST_CANDIDATES:
                self._shed()

    def _shed(self) -> None:
        """Keep the better half of the candidates: the more convincing ones, and those that end sooner."""
        likeliest = sorted(self._candidates, key=lambda one: (not one.strong, not one.begins, one.end))
        self._candidates = sorted(likeliest[: MOST_CANDIDATES // 2], key=_start_of)

    def _decide(self) -> Candidate | None:
        """Return the first candidate with enough signs; drop those that are disproved."""
        kept: list[Candidate] = []
        self._wake = FAR
        waits = False  # for a strong candidate; the following ones lie inside it
        accepted = None
        for candidate in self._candidates:
            if accepted is None and (not waits or (candidate.begins and self._outweighs)):
                if candidate.wake <= self._end and not self._read(candidate):
                    continue
                enough = self._is_enough(candidate) if candidate.whole else None
                if enough is False:
                    continue
                accepted = candidate if enough and (candidate.strong or not waits) else None
                waits |= candidate.strong and not candidate.whole
                self._wake = min(self._wake, self._end + 1 if candidate.whole else candidate.wake)
            kept.append(candidate)
        self._candidates = kept
        return accepted

    def _may_walk(self, size: int, *, strong: bool) -> bool:
        """Return whether the allowance covers walking *size* more bytes."""
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
        """Return whether that part (1: all, 2: half) of the allowance is spent."""
        return (self._walked + _ATTEMPT) * of > self._allowed

    def _here(self, candidate: Candidate) -> bytes:
        """Return the received bytes of a candidate, without its size field."""
        start = candidate.start + 4 - self._base
        return self._bytes(start, min(candidate.end, self._end) - self._base)

    def _bytes(self, start: int, stop: int) -> bytes:
        with memoryview(self._buffer) as view:
            return bytes(view[start:stop])

    def _wait(self, candidate: Candidate, seen: int) -> None:
        """Wake a candidate when much more of it than the *seen* bytes has arrived."""
        candidate.wake = min(candidate.end, candidate.start + 4 + max(seen, 16) * _GROWTH)

    def _fills_a_packet(self, candidate: Candidate) -> bool:
        """Return whether a snaplen cut a candidate that is exactly as large as its packet."""
        return self._unrecorded > 0 and candidate.begins and candidate.end == self._end + self._unrecorded

    def _ends_a_segment(self, candidate: Candidate) -> bool:
        return candidate.end in self._marks or (candidate.end == self._end and self._ended)

    def _drop_until(self, position: int) -> None:
        if self._candidates and self._candidates[0].start < position:  # the caller may go on, though a frame was found
            self._candidates = [one for one in self._candidates if one.start >= position]
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
