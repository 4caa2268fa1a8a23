"""Find a request among other bytes; hunting.py defines candidates and signs. A candidate is accepted when

    header and body                          if it begins a segment               elsewhere
    named; its layout fits to the last byte  it is complete (it is strong)        followed by the same client's, or answered
    named; at most MOST_TRAILING bytes       followed by a later one of the same  the same
      follow the message                       client, or answered
    named; its layout does not fit           the same                             never
    named; newer than the facts              the same                             the same
    no client name; its layout fits to the   followed by a later one without a    the same
      last byte                                name that fits, or answered
    no client name; at most MOST_TRAILING    answered to the last byte            never
      bytes follow the message

At the end of the stream these are accepted, too: a strong candidate, complete or not; a named one that begins and ends
segments; a named one that fits, if the stream ends with it or with a possible next header; and one without a name that fits,
begins and ends segments, and is not all zeros.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from kproxy.errors import DecodeError, Truncated
from kproxy.protocol import ApiKey, Direction, RequestHeader, known_message, read_request_header
from kproxy.session.exchanges import Route, route_of
from kproxy.session.hunting import Candidate, Hunt
from kproxy.session.recognise import (
    BROKEN,
    HEADER_BYTES,
    MOST_TRAILING,
    PENDING,
    client_software,
    is_known,
    leftover,
    may_be_a_newer_version,
    response_leftover,
    sane_client_id,
)

# Size 10 to 112 MB, api_key 0-127, api_version 0-63, correlation id not negative, client id null or below 512 bytes.
_REQUEST = re.compile(
    rb"(?!\x00\x00\x00[\x00-\x09])[\x00-\x06].{3}"
    rb"\x00[\x00-\x7f]\x00[\x00-\x3f][\x00-\x7f].{3}(?:[\x00\x01].|\xff\xff)",
    re.DOTALL,
)
_NAMED = re.compile(
    rb"(?!\x00\x00\x00[\x00-\x09])[\x00-\x06].{3}"
    rb"\x00[\x00-\x7f]\x00[\x00-\x3f][\x00-\x7f].{3}(?:\x00[\x01-\xff]|\x01.)[\x20-\x7e\xc2-\xf4]",
    re.DOTALL,
)
_START = 14  # bytes that the pattern needs
_NAME_SIZE = 8  # position of the client name's length, behind the size field
_TAGS = 64  # bytes allowed for a header's tagged fields; known clients write none
_FIRST_READ = 128  # bytes of a body that disprove most false candidates
_MOST_SOUGHT = 64  # candidates whose responses are searched for
_NEAR = 1_000  # the largest distance of the correlation ids of consecutive requests
_FEW = 4  # the most common number of bytes behind a message (librdkafka)
_NOT_ZEROS = 4  # nonzero bytes that distinguish a frame from a run of zeros


class RequestCandidate(Candidate):
    """A place where a request could begin."""

    __slots__ = ("api", "fits", "header", "left", "newer", "seen")

    def __init__(
        self, start: int, size: int, *, begins: bool, correlation_id: int, api: tuple[int, int], newer: bool
    ) -> None:
        super().__init__(start, size, begins=begins, correlation_id=correlation_id)
        self.api = api  # its key and version
        self.header: RequestHeader | None = None  # once it has arrived
        self.newer = newer  # newer than the facts, so its layout is unknown
        self.left = size  # bytes behind the message, once known
        self.seen = 0  # bytes read so far
        self.fits = not newer  # no byte so far contradicts its layout

    @property
    def named(self) -> bool:
        return self.header is not None and bool(self.header.client_id)

    @property
    def route(self) -> Route | None:
        """The route of its API; None if the facts lack it."""
        return None if self.newer else route_of(*self.api)

    @property
    def strong(self) -> bool:
        return self.begins and self.fits and self.named


class CutStart(NamedTuple):
    """The beginning of a cut request header: correlation id, and the length and first bytes of the client's name."""

    correlation_id: int
    name: bytes

    def is_next(self, last: "CutStart | None") -> bool:
        """Return whether the same client sent this request soon after *last*: names that agree, and a slightly higher id."""
        if last is None or not 0 < self.correlation_id - last.correlation_id <= _NEAR:
            return False
        return self.name.startswith(last.name) or last.name.startswith(self.name)


class RequestHunt(Hunt):
    """Searches for a request. It waits for a weak candidate only if that has at most *most_held* bytes."""

    __slots__ = ("_last", "_most_held")

    def __init__(
        self,
        limit: int,
        given_up: int,
        *,
        most_held: int | None = None,
        last: tuple[str | None, int | None] | None = None,
    ) -> None:
        super().__init__(limit, given_up)
        self._most_held = limit if most_held is None else most_held
        self._last = last  # client id and correlation id of the latest request in flight

    @property
    def expects_one(self) -> bool:
        """Whether there is an incomplete candidate that is almost certainly a request."""
        return any(one.strong and one.seen > _FIRST_READ for one in self._requests if not one.whole)

    @property
    def _requests(self) -> Iterator[RequestCandidate]:
        return (one for one in self._candidates if isinstance(one, RequestCandidate))

    def finish_as_unknown(self) -> bool:
        """As ``finish``, for a direction that may be the broker's: a response may read as a request with bytes behind it."""
        self._candidates = [one for one in self._requests if one.fits or one.left <= _FEW]
        return self.finish()

    def finish_cut(self, unrecorded: int) -> CutStart | None:
        """As ``finish``, for a direction that may be the broker's; return the start of a request that a snaplen cut, if any.

        A response of an old version with a topic's name may look alike, so the next bytes or the other direction must confirm it.
        """
        self._unrecorded = unrecorded
        for candidate in self._requests:
            if self._is_cut(candidate):
                name = self._here(candidate)[_NAME_SIZE:]
                size = 2 + int.from_bytes(name[:2], "big", signed=True)
                return CutStart(candidate.correlation_id, name[:size]) if size > 2 else None
        return None

    def sought(self) -> list[tuple[int, Route | None]]:
        """Return correlation ids and routes of a bounded number of candidates that a response would confirm."""
        known = (one for one in self._requests if self._has_known_end(one))
        return [(one.correlation_id, one.route) for one in islice(known, _MOST_SOUGHT)]

    def _has_known_end(self, candidate: RequestCandidate) -> bool:
        return candidate.whole or self._is_cut(candidate)

    def _is_cut(self, candidate: RequestCandidate) -> bool:
        """Return whether a snaplen cut a candidate that ends with its packet; a strong one may be longer than the packet."""
        if candidate.whole or candidate.newer or not self._unrecorded:
            return False
        longer = candidate.strong and candidate.end > self._end + self._unrecorded
        return longer or self._fills_a_packet(candidate)

    def confirm(self, response: bytes, size: int) -> bool:
        """Check a response to no known request; return whether the held bytes begin with its request.

        Args:
            response, size: the response's received bytes behind its size field, and the value of that field.
        """
        correlation_id = int.from_bytes(response[:4], "big", signed=True)
        for candidate in self._requests:
            known = candidate.correlation_id == correlation_id and self._has_known_end(candidate)
            if known and _answers(response, size, candidate):
                self._drop_until(candidate.start)
                return True
        return False

    def _pattern(self, *, likely_only: bool) -> tuple[re.Pattern[bytes], int, int]:
        return (_NAMED, 0, _START + 1) if likely_only else (_REQUEST, 0, _START)

    def _candidate(self, start: int, size: int) -> RequestCandidate | None:
        position = start - self._base
        api_key, api_version = (
            self._buffer[position + 5],
            self._buffer[position + 7],
        )  # the pattern has seen that both are small
        newer = not is_known(api_key, api_version)
        nameless = bytes(self._buffer[position + 12 : position + _START]) in (b"\0\0", b"\xff\xff")
        if newer and (nameless or not may_be_a_newer_version(api_key, api_version)):
            return None
        begins = start in self._marks
        if size > self._most_held and (nameless or not begins):
            return None
        correlation_id = int.from_bytes(self._buffer[position + 8 : position + 12], "big")
        api = (api_key, api_version)
        candidate = RequestCandidate(start, size, begins=begins, correlation_id=correlation_id, api=api, newer=newer)
        return candidate if self._read(candidate) else None

    # Reading candidates

    def _read(self, candidate: Candidate) -> bool:
        assert isinstance(candidate, RequestCandidate)
        if candidate.header is None and not self._read_header(candidate):
            return False
        if candidate.header is None:
            return True
        return candidate.whole or self._read_body(candidate, candidate.header)

    def _read_header(self, candidate: RequestCandidate) -> bool:
        position = candidate.start + 4 - self._base
        name = max(int.from_bytes(self._bytes(position + 8, position + 10), "big", signed=True), 0)
        size = min(_START + name + _TAGS, candidate.end - candidate.start - 4)
        data = self._bytes(position, position + size)
        if candidate.wake == 0 and not self._may_walk(len(data), strong=candidate.begins):
            return False
        try:
            header = read_request_header(data)
        except Truncated:
            candidate.wake = self._end + 1
            return len(data) < size and _begins_a_name(data)
        except DecodeError:
            return False
        candidate.header = header
        return sane_client_id(header.client_id)

    def _read_body(self, candidate: RequestCandidate, header: RequestHeader) -> bool:
        size = candidate.end - candidate.start - 4
        present = min(size, self._end - candidate.start - 4)
        candidate.whole = present == size
        candidate.wake = candidate.end
        if candidate.newer:
            names = candidate.whole and header.api_key == ApiKey.API_VERSIONS
            candidate.fits = names and client_software(self._here(candidate), header.size) is not None
            return True
        left = self._leftover(candidate, header, present)
        candidate.seen = present
        if left == 0:
            return True
        if left == PENDING and not candidate.whole:
            self._wait(candidate, present)
            return True
        candidate.fits = False
        candidate.left = left if left >= 0 else size
        little = 0 < left <= MOST_TRAILING
        return (candidate.named or little) if candidate.begins else (candidate.named and little)

    def _leftover(self, candidate: RequestCandidate, header: RequestHeader, here: int) -> int:
        """As ``leftover``, but reads the beginning of a weak candidate first, which disproves nearly all false ones."""
        message = known_message(Direction.REQUEST, header.api_key)
        position = candidate.start + 4 - self._base
        size = candidate.end - candidate.start - 4
        left = PENDING
        for some in sorted({here if candidate.strong else min(here, header.size + _FIRST_READ), here}):
            if left == PENDING:
                if not self._may_walk(some, strong=candidate.begins):
                    return BROKEN
                left = leftover(message, header.api_version, self._bytes(position, position + some), header.size, size)
        return left

    # Signs

    def _is_enough(self, candidate: Candidate) -> bool | None:
        assert isinstance(candidate, RequestCandidate)
        return True if candidate.strong else self._is_followed(candidate)

    def _is_followed(self, candidate: RequestCandidate) -> bool | None:
        """Return whether the same client's next header follows the candidate; None if more bytes are needed."""
        data = self._bytes(candidate.end - self._base, min(self._end, candidate.end + 4 + HEADER_BYTES) - self._base)
        if len(data) < _START:
            return None
        size = int.from_bytes(data[:4], "big", signed=True)
        if _REQUEST.match(data) is None or size > self._limit:
            return False
        try:
            header = read_request_header(data[4 : 4 + min(size, HEADER_BYTES)])
        except DecodeError as error:
            more = isinstance(error, Truncated) and len(data) < 4 + min(size, HEADER_BYTES)
            return None if more else False
        return self._is_next(candidate, header, data[4 : 4 + size], size)

    def _is_next(self, candidate: RequestCandidate, header: RequestHeader, data: bytes, size: int) -> bool | None:
        """As _is_followed, for a header that has arrived; *data* and *size* are its frame's."""
        assert candidate.header is not None
        known = is_known(header.api_key, header.api_version)
        later = 0 < header.correlation_id - candidate.correlation_id <= _NEAR
        if not candidate.named:
            # A client uses one version of an API on a connection.
            api = header.api_key, header.api_version
            same = candidate.api[0] != header.api_key or candidate.api == api
            plausible = candidate.fits and not header.client_id and later and known and same
            return plausible and self._fits_so_far(header, data, size)
        if header.client_id == candidate.header.client_id:
            return candidate.fits or later
        return candidate.fits and candidate.end in self._marks and known and sane_client_id(header.client_id)

    def _fits_so_far(self, header: RequestHeader, data: bytes, size: int) -> bool | None:
        """Return whether the first bytes of a frame of *size* bytes fit its message; None if more are needed."""
        if len(data) < min(size, header.size + _FIRST_READ):
            return None
        message = known_message(Direction.REQUEST, header.api_key)
        return self._may_walk(len(data), strong=False) and leftover(
            message, header.api_version, data, header.size, size
        ) in (0, PENDING)

    def _is_enough_at_end(self, candidate: Candidate) -> bool:
        assert isinstance(candidate, RequestCandidate)
        if candidate.strong or not candidate.whole:
            return self._is_enough_of_a_strong_one(candidate) or self._is_enough_of_a_packet(candidate)
        if candidate.named and candidate.begins and self._ends_a_segment(candidate):
            return True
        if not candidate.fits:
            return False
        behind = self._bytes(candidate.end - self._base, self._end - self._base)
        if candidate.named:
            return len(behind) < _START and behind[:1] in (b"", *(bytes((high,)) for high in range(7)))
        frame = self._here(candidate)
        not_zeros = len(frame) - frame.count(0)
        return candidate.begins and self._ends_a_segment(candidate) and not_zeros >= _NOT_ZEROS

    def _is_enough_of_a_strong_one(self, candidate: RequestCandidate) -> bool:
        """Accept a strong candidate, but not an incomplete one whose name is a path, which may be ZooKeeper's."""
        if not candidate.strong or candidate.header is None:
            return False
        return candidate.whole or not (candidate.header.client_id or "").startswith("/")

    def _is_enough_of_a_packet(self, candidate: RequestCandidate) -> bool:
        """As _is_enough_at_end, for a candidate that a snaplen cut, perhaps inside its client id."""
        return not candidate.newer and (self._fills_a_packet(candidate) or self._follows_the_last(candidate))

    def _follows_the_last(self, candidate: RequestCandidate) -> bool:
        client_id, correlation_id = self._last or (None, None)
        if candidate.header is None or not candidate.named or correlation_id is None:
            return False
        return candidate.header.client_id == client_id and 0 < candidate.correlation_id - correlation_id <= _NEAR


def _begins_a_name(data: bytes) -> bool:
    """Return whether the bytes could be the beginning of a client id."""
    name = data[10:]
    return name.decode("utf-8", "ignore").isprintable()


def _answers(response: bytes, size: int, candidate: RequestCandidate) -> bool:
    """Return whether a response with the candidate's correlation id has the layout of its API."""
    route = candidate.route
    if route is None:
        return candidate.named
    left = response_leftover(route, response, size)
    if left == PENDING and not candidate.whole and candidate.header is not None and not candidate.named:
        return False  # both are cut, so neither is convincing
    most = MOST_TRAILING if candidate.named else 0
    fits = 0 <= left <= most or (left == PENDING and len(response) < size)
    return fits and (candidate.named or candidate.begins or candidate.correlation_id != 0)
