"""Passage: takes one held frame through the filters that want it. It is decoded for them, and encoded if one replaces it.

Faults of filters are counted by hook and kind.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from struct import pack
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kproxy.errors import DecodeError, EncodeError, KproxyError
from kproxy.filters.contract import (
    Answer,
    Close,
    ConnectionFacts,
    Cut,
    Direction,
    Edited,
    Filter,
    Forward,
    Outcome,
    Replace,
    Reply,
    Request,
    RequestFacts,
    Response,
    Send,
    Silence,
    Truncate,
    Verdict,
)
from kproxy.filters.error_responses import error_places, error_response
from kproxy.filters.fetching import FETCHES
from kproxy.protocol import (
    ApiKey,
    Message,
    MessageStruct,
    known_message,
    object_codec,
    read_request_header,
    read_response_header,
    response_header_version,
)
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.protocol.found import RecordsField, named_topics, records_fields
from kproxy.protocol.structs import struct_types

if TYPE_CHECKING:
    from kproxy.filters.chain import Chain

InThread = Callable[
    [Callable[[], Any]], Awaitable[Any]
]  # calls a function in a thread, so that other connections go on
LARGE = 131_072  # bytes of a frame, without its records, that takes more than a millisecond to decode
LARGE_COPY = 4_194_304  # bytes of a frame that takes more than a millisecond to copy
OF_RECORDS = ((ApiKey.PRODUCE,), FETCHES)  # APIs whose requests and whose responses have records
REFERENCES_HERE = 2  # to a message that only one variable refers to: the variable and getrefcount's argument

Hook: TypeAlias = Literal[  # the method of Filter in which a fault happened
    "on_request",
    "on_response",
    "wants_frame",
    "on_head",
    "on_tail",
    "on_too_large",
    "on_raw_login",
    "on_close",
    "on_start",
    "on_stop",
]
Kind: TypeAlias = Literal[  # of a fault
    "raised",  # the filter raised an exception
    "timed_out",  # no verdict within Filter.timeout
    "unusable",  # what it returned is no verdict, or cannot be sent: it does not fit the version, or is too large
    "undecodable",  # kproxy could not decode the frame for it
    "too_large",  # the frame is larger than limits.held_frame_size, and the filter needs all of it
]


class Unusable(ValueError):
    """A filter returned something that cannot be used."""


def kind_of(fault: Exception) -> Kind:
    """Return the kind of an exception that was raised while a filter had a frame."""
    if isinstance(fault, DecodeError):
        return "undecodable"
    if isinstance(fault, Unusable | EncodeError):
        return "unusable"
    return "timed_out" if isinstance(fault, TimeoutError) else "raised"


def topics_in(direction: Direction, request: RequestFacts, frame: bytes) -> tuple[set[str], set[str], bool] | None:
    """Return the names and ids of the topics of a Produce request or Fetch response, and whether tagged fields end it.

    None of other frames, and of one that takes more than a millisecond to decode.
    """
    if len(frame) > LARGE_COPY or request.api_key not in OF_RECORDS[direction]:
        return None
    try:
        programs = known_message(direction, request.api_key).programs(request.api_version)
        start = SIZE_FIELD + _header_size(direction, request, frame)
    except DecodeError:
        return None
    return named_topics(programs[0], frame, start, LARGE) if len(programs) == 1 else None


def _header_size(direction: Direction, request: RequestFacts, frame: bytes) -> int:
    """Read the header of a frame, and note the client id of a request. Raises DecodeError."""
    if direction == Direction.REQUEST:
        header = read_request_header(frame, SIZE_FIELD)
        request.client_id = header.client_id
        return header.size
    version = response_header_version(request.api_key, request.api_version)
    return read_response_header(frame, version, SIZE_FIELD).size


class Passage:
    """One held frame. Each filter gets its own message: what one changes without ``Replace``, no other sees."""

    def __init__(
        self,
        chain: "Chain",
        connection: ConnectionFacts,
        direction: Direction,
        request: RequestFacts,
        frame: bytes,
        filters: Iterable[Filter],
        edits: list[str] | None = None,
        *,
        has_records: bool = False,
    ) -> None:
        """*has_records*: the frame is well-formed, and consists of records for the most part, which are not decoded."""
        self._chain = chain
        self._connection = connection
        self._direction = direction
        self._request = request
        self._frame = frame
        self._filters = tuple(filters)
        self._has_records = has_records
        self._large = LARGE_COPY if has_records else LARGE
        self._filters_left = iter(self._filters)
        self._edits: list[str] = [] if edits is None else edits
        self._unused: MessageStruct | None = None  # equal to the frame, and not handed to a filter
        self._handed_out: MessageStruct | None = None  # of a large frame: what a filter has or had
        self._body_start = 0  # 0: the header was not read
        self._rest = b""  # bytes behind the message
        self._cut: int | None = None  # bytes of the frame that are sent, if not all
        self._unread: DecodeError | None = None

    def go(self) -> Outcome | Awaitable[Outcome]:
        """Run the remaining filters.

        Returns the outcome, or an awaitable of it if a filter returned an awaitable verdict or the frame is large.
        """
        if len(self._frame) > self._large and self._chain.in_thread is not None:
            return self._go_in_thread(self._chain.in_thread)
        if self._is_fallback():
            return Send(self._frame)
        for filter_ in self._filters_left:
            try:
                verdict = self._call(filter_, self._records_for(filter_))
                if not isinstance(verdict, Verdict) and isinstance(verdict, Awaitable):
                    return self._go_later(filter_, verdict)
                outcome = self._apply(filter_, verdict)
            except Exception as error:
                outcome = self._failed(filter_, error)
            if outcome is not None:
                return outcome
        return self._finish()

    def refuse(self, filter_: Filter) -> Outcome | Awaitable[Outcome] | None:
        """Answer with an error instead of the response that *filter_* cannot read, and run it through the remaining filters.

        Returns None if no error response can be made. For Fetch, each requested partition gets the error: clients report that
        in full, and an error of the whole response hardly.
        """
        request = self._request
        with suppress(KproxyError, ValueError):
            requested: Any = request.message
            if (
                request.api_key in FETCHES
                and filter_.fault_error is not None
                and requested is not None
                and requested.topics
            ):
                asked = request.request(self._connection, requested)
                made = error_response(asked, filter_.fault_error, in_elements=True)
            else:
                made = self._error_for(filter_)
            if made is not None:
                self._note_edit(filter_, f"{self._direction} changed")
                self._begin_again(made)
                return self.go()
        return None

    async def _go_later(self, filter_: Filter, pending: Awaitable[Verdict | Edited]) -> Outcome:
        outcome: Outcome | Awaitable[Outcome] | None
        try:
            outcome = self._apply(filter_, await self._waited(filter_, pending))
        except TimeoutError:
            outcome = self._failed(filter_, f"no verdict within {filter_.timeout:g} s", "timed_out")
        except Exception as error:
            outcome = self._failed(filter_, error)
        if outcome is None:
            outcome = self.go()
        return await outcome if isinstance(outcome, Awaitable) else outcome

    async def _go_in_thread(self, in_thread: InThread) -> Outcome:
        """Run the remaining filters with a large frame, which is decoded, encoded and freed in a thread."""
        for filter_ in self._filters_left:
            try:
                outcome = await self._ask_in_thread(in_thread, filter_)
            except TimeoutError:
                outcome = self._failed(filter_, f"no verdict within {filter_.timeout:g} s", "timed_out")
            except Exception as error:
                outcome = self._failed(filter_, error)
            await in_thread(self._release)
            if outcome is not None:
                return await outcome if isinstance(outcome, Awaitable) else outcome
        done: Send | Cut = await in_thread(self._finish)
        if self._unused is not None and self._direction == Direction.RESPONSE:
            self._handed_out, self._unused = self._unused, None
            await in_thread(self._release)
        return done

    async def _ask_in_thread(self, in_thread: InThread, filter_: Filter) -> Outcome | Awaitable[Outcome] | None:
        records = await in_thread(partial(self._records_for, filter_))
        if records is None:
            await in_thread(self._prepare)
        verdict = self._call(filter_, records)
        if not isinstance(verdict, Verdict) and isinstance(verdict, Awaitable):
            verdict = await self._waited(filter_, verdict)
        if isinstance(verdict, Edited):
            self._put(filter_, verdict.frame)
            if verdict.then is None:
                return None
            await in_thread(self._prepare)
            verdict = verdict.then(self._given())
        if not isinstance(verdict, Replace):
            return self._apply(filter_, verdict)
        message = verdict.message
        self._replace(filter_, await in_thread(lambda: self._written(message)), message)
        return None

    def _prepare(self) -> None:
        """Decode the message that a filter is given. Raises DecodeError."""
        self._handed_out = self._unused = self._unused or self._read()

    def _release(self) -> None:
        """Free the message that a filter had, unless something still uses it."""
        message, self._handed_out = self._handed_out, None
        if message is not None and getrefcount(message) == REFERENCES_HERE:
            object_codec.release(self._message().programs(self._request.api_version)[0], message)

    async def _waited(self, filter_: Filter, pending: Awaitable[Verdict | Edited]) -> Verdict | Edited:
        """Return the verdict when it comes. Raises what the filter raises, and TimeoutError."""
        began = self._chain.clock()
        try:
            return await self._chain.wait(pending, filter_.timeout)
        finally:
            self._chain.note_time(filter_, began, 0)

    def _call(
        self, filter_: Filter, records: list[RecordsField] | None
    ) -> Verdict | Edited | Awaitable[Verdict | Edited]:
        """Give a filter the records, or the message if they are None."""
        began = self._chain.clock()
        try:
            if records is not None:
                return filter_.on_records(self._direction, self._request.copy(), self._frame, records)
            given: Any = self._given()
            return filter_.on_request(given) if self._direction == Direction.REQUEST else filter_.on_response(given)
        finally:
            self._chain.note_time(filter_, began)

    def _given(self) -> Request | Response:
        """Return the request or response with its message, as a filter gets it. Raises DecodeError."""
        message, self._unused = self._unused or self._read(), None
        request = self._request
        if self._direction == Direction.RESPONSE:
            return Response(self._connection, request.copy(), message)
        return request.request(self._connection, message)

    def _records_for(self, filter_: Filter) -> list[RecordsField] | None:
        """Return the records fields for a filter that edits them; None if it takes the message. Raises DecodeError."""
        request = self._request
        if request.api_key not in OF_RECORDS[self._direction] or type(filter_).on_records is Filter.on_records:
            return None
        if not self._body_start:
            self._read_header()
        message, trailing = self._message(), 0
        if not self._has_records:
            trailing = message.check(request.api_version, self._frame, self._body_start, trailing=True).trailing
        return records_fields(message.programs(request.api_version)[0], self._frame, self._body_start, trailing)

    def _apply(self, filter_: Filter, verdict: object) -> Outcome | Awaitable[Outcome] | None:
        """Apply a verdict and return the outcome; None: the next filter follows. Raises Unusable, EncodeError."""
        match verdict:
            case Forward():
                return None
            case Replace(message):
                self._replace(filter_, self._written(message), message)
                return None
            case Edited(frame, then):
                self._put(filter_, frame)
                return None if then is None else self._apply(filter_, then(self._given()))
            case Reply(message, version) if self._direction == Direction.REQUEST:
                return self._reply(filter_, message, version)
            case Truncate(size) if self._direction == Direction.RESPONSE:
                self._cut = max(size, 0)
                self._note_edit(filter_, f"{self._direction} cut")
                return None
            case Close() | Silence():
                self._note_edit(filter_, f"{self._direction} dropped")
                return verdict
        raise Unusable(f"a {type(verdict).__name__} is no verdict on a {self._direction}")

    def _put(self, filter_: Filter, frame: bytes) -> None:
        """Go on with a frame whose records a filter has edited. Raises Unusable."""
        self._check_size(len(frame) - SIZE_FIELD)
        self._replace(filter_, frame, None)

    def _replace(self, filter_: Filter, frame: bytes, message: MessageStruct | None) -> None:
        if frame != self._frame:
            self._note_edit(filter_, f"{self._direction} changed")
        self._frame, self._unused = frame, message

    def _note_edit(self, filter_: Filter, what: str) -> None:
        self._chain.note_edit(self._edits, filter_, what)

    def _failed(
        self, filter_: Filter, fault: Exception | str, kind: Kind | None = None
    ) -> Outcome | Awaitable[Outcome] | None:
        """Note a fault. Unless the filter fails open, the client gets an error in place of what it waits for, or is closed."""
        request = self._request
        event = f"a {self._direction} of api_key {request.api_key}, version {request.api_version}"
        hook: Hook = "on_request" if self._direction == Direction.REQUEST else "on_response"
        self._chain.note_fault(filter_, hook, event, fault, kind=kind, api_key=request.api_key)
        if filter_.fails_open:
            return None
        # Raised if the request cannot be read, or if the response would be too large
        with suppress(KproxyError, ValueError):
            message = self._error_for(filter_)
            if message is not None and self._direction == Direction.REQUEST:
                return self._reply(filter_, message)
            if message is not None:
                self._note_edit(filter_, f"{self._direction} changed")
                self._begin_again(message)
                return None
        self._note_edit(filter_, f"{self._direction} dropped")
        return Close(f"filter {filter_.name or type(filter_).__name__} failed")

    def _error_for(self, filter_: Filter) -> MessageStruct | None:
        """Return the error response after a fault; None if there can be none.

        Raises DecodeError if the request cannot be read.
        """
        request = self._request
        places = error_places(request.api_key, request.api_version)
        if filter_.fault_error is None or places is None:
            return None
        if self._direction == Direction.REQUEST:
            self._unused = None
            requested = None if self._wants_no_answer() else self._read()
        else:
            requested = request.message
        if requested is None and (self._direction == Direction.REQUEST or places.error is None):
            return None
        request_type = known_message(Direction.REQUEST, request.api_key)
        empty: Any = struct_types(request_type.name)[request_type.name]()
        return error_response(request.request(self._connection, requested or empty), filter_.fault_error)

    def _begin_again(self, message: MessageStruct) -> None:
        """Continue with a response that was made here in place of the broker's."""
        self._frame = self._response_frame(message)
        self._unused, self._unread, self._body_start, self._rest = None, None, 0, b""

    def _finish(self) -> Send | Cut:
        if self._cut is not None:
            return Cut(self._frame[: min(self._cut, len(self._frame) - 1)])
        if self._direction == Direction.RESPONSE:
            return Send(self._frame)
        request = self._request
        if not self._chain.awaits(request):
            return Send(self._frame)
        if self._unread is None and self._is_paired():
            request.message = self._unused or self._read()
        return Send(self._frame, request)

    def _is_paired(self) -> bool:
        """Return whether some filter wants this request and the responses of its API."""
        request = self._request
        answered = self._chain.filters_for(Direction.RESPONSE, request.api_key, request.api_version)
        used = [filter_ for filter_ in answered if filter_.uses_requests]
        return any(filter_ in used or filter_.keeps_requests for filter_ in self._filters) and bool(answered)

    def _message(self) -> Message:
        return known_message(self._direction, self._request.api_key)  # filters want only what is in the facts

    def _read(self) -> MessageStruct:
        """Decode the message in the frame. Raises DecodeError."""
        if self._unread is not None:
            raise self._unread
        try:
            if not self._body_start:
                self._read_header()
            return self._decoded()
        except DecodeError as error:
            self._unread = error
            raise

    def _decoded(self) -> MessageStruct:
        """Decode the message. Bytes behind it are kept: some software sends them, and what reads it ignores them."""
        message, version = self._message(), self._request.api_version
        try:
            return message.decode(version, self._frame, self._body_start)
        except DecodeError:
            if self._direction == Direction.REQUEST and len(message.programs(version)) > 1:
                raise  # of two layouts the broker may read another: a policy reads what the broker reads
            size = message.check(version, self._frame, self._body_start, trailing=True).trailing
            self._rest = self._frame[len(self._frame) - size :]
            return message.decode(version, self._frame, self._body_start, trailing=size)

    def _read_header(self) -> None:
        self._body_start = SIZE_FIELD + _header_size(self._direction, self._request, self._frame)

    def _is_fallback(self) -> bool:
        """Return whether this is the answer of a broker that lacks the version of ApiVersions, in another layout (KIP-511)."""
        if self._request.api_key != ApiKey.API_VERSIONS or self._direction == Direction.REQUEST:
            return False
        try:
            self._read_header()
            self._message().check(self._request.api_version, self._frame, self._body_start, trailing=True)
        except DecodeError:  # expected: the answer does not have the layout of the requested version
            return True
        return False

    def _written(self, message: MessageStruct) -> bytes:
        """Return the frame with *message* in place of its own. Raises EncodeError, Unusable."""
        header = self._frame[SIZE_FIELD : self._body_start]
        frame = _encoded(self._message(), self._request.api_version, message, header)
        if self._rest:
            return self._framed(frame[SIZE_FIELD:], self._rest)
        self._check_size(len(frame) - SIZE_FIELD)
        return frame

    def _framed(self, *parts: bytes) -> bytes:
        """Return a frame with these parts."""
        size = sum(map(len, parts))
        self._check_size(size)
        return b"".join((pack(">i", size), *parts))

    def _check_size(self, size: int) -> None:
        if size > self._chain.most_frame_size:
            raise Unusable(f"the frame would be {size} bytes, and {self._chain.most_frame_size} are allowed")

    def _reply(
        self, filter_: Filter, message: MessageStruct, version: int | None = None
    ) -> Outcome | Awaitable[Outcome]:
        """Run a response made by *filter_* through the filters that the request has passed."""
        request = self._request
        if self._wants_no_answer():
            self._note_edit(filter_, "answered")
            return Answer(b"")
        frame = self._response_frame(message, version)
        self._note_edit(filter_, "answered")
        filters = self._chain.filters_passed(filter_, request.api_key, request.api_version)
        outcome = Passage(self._chain, self._connection, Direction.RESPONSE, request, frame, filters, self._edits).go()
        return _as_answer_later(outcome) if isinstance(outcome, Awaitable) else _as_answer(outcome)

    def _response_frame(self, message: MessageStruct, version: int | None = None) -> bytes:
        """Return the whole frame of a response that was made here. Raises EncodeError, Unusable."""
        request = self._request
        body_of = known_message(Direction.RESPONSE, request.api_key)
        no_tags = b"\0" * response_header_version(request.api_key, request.api_version)
        body = _encoded(body_of, request.api_version if version is None else version, message)
        return self._framed(pack(">i", request.correlation_id), no_tags, body)

    def _wants_no_answer(self) -> bool:
        if self._request.api_key != ApiKey.PRODUCE:
            return False
        return self._message().peek(self._request.api_version, "acks", self._frame, self._body_start) == 0


def _encoded(message: Message, api_version: int, given: MessageStruct, header: bytes | None = None) -> bytes:
    """Encode what a filter returned, which may be anything; with *header*, as a frame. Raises EncodeError, Unusable."""
    try:
        return message.encode(api_version, given, header)
    except EncodeError:
        raise
    except Exception as error:
        raise Unusable(f"it is no {message.name}: {type(error).__name__}: {error}") from error


def _as_answer(outcome: Outcome) -> Outcome:
    return Answer(outcome.frame) if isinstance(outcome, Send) else outcome


async def _as_answer_later(outcome: Awaitable[Outcome]) -> Outcome:
    return _as_answer(await outcome)
