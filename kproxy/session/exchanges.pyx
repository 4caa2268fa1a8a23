# cython: language_level=3, nonecheck=True, auto_pickle=False
"""Frames and exchanges, how to read the bodies of each API, and which response belongs to which request.

    Frame, Exchange   what a session makes of bytes; their fields are explained in exchanges.pxd
    Route             how to treat one API at one version: its messages, its response header, what the session learns from it
    InFlight          the queue of unanswered requests and raw SASL tokens; bounded by count and bytes

Pairing: a broker answers a connection's requests in their order, so a response belongs to the head of InFlight, and the
correlation id confirms it. If it does not (bytes are missing in the capture), ``InFlight.find`` looks for the request whose
correlation id and body layout fit. The protocol's exceptions are here, each with its source; the rest comes from the facts.

This module is compiled because every request of a capture or live connection costs an Exchange and two Frames, which take seven
times as long to create as Python classes.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, TYPE_CHECKING

cimport cython
from libc.stdint cimport int64_t

from kproxy.protocol.headers cimport read_response_header, request_header_version, ResponseHeader
from kproxy.protocol.found cimport Found, NamedPartition, RecordsField
from kproxy.protocol.object_codec cimport decode as decode_object
from kproxy.protocol.program cimport Program, ROLE_ERROR_CODE, ROLE_GROUP_ID, ROLE_PARTITION, ROLE_THROTTLE_TIME, ROLE_TOPIC_ID

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, Message, request_message, RequestHeader, response_header_version, response_message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.found import records_fields
from kproxy.protocol.json_sink import to_json
from kproxy.protocol.facts import facts
from kproxy.session.cluster import has_topic_ids, REQUESTS_WITH_NAMES, RESPONSES_WITH_NAMES
from kproxy.session.endings import CAPTURE_ENDED, inside
from kproxy.session.endings import Cut
from kproxy.session.fetch_session import FETCH_SESSIONS_FROM, FetchSession, FetchSessions

if TYPE_CHECKING:
    from kproxy.session.events import Connection
    from kproxy.session.limits import Limits

TOKEN: tuple[Exchange | None, Route | None] = (None, None)
cdef Found _found = Found()
cdef tuple _CUTS = tuple(Cut)
cdef int _NEVER_SENT = Cut.RESET
cdef int MOST_SOUGHT = 64  # requests in flight whose responses a hunt searches for
cdef int FEW_BYTES = 4  # bytes that real software leaves after a message; more suggest another API

_FRAME_FIELDS = (
    "data", "started_at", "ended_at", "header", "body_start", "message", "body_version", "layout", "assumed_version", "error",
    "cut", "unread", "size", "trailing", "sent_at",
    "edits",
)
_EXCHANGE_FIELDS = (
    "connection", "at", "api_key", "api_version", "correlation_id", "client_id", "request", "response", "expects_response",
    "unanswered", "undecoded", "topic_names", "fetch_sessions", "fetch_number",
)


cdef tuple _values(value, tuple names):
    return tuple([getattr(value, name) for name in names])


def _why_cut(Frame frame, str side, connection):
    ended = CAPTURE_ENDED if frame.cut is Cut.CAPTURE_ENDED else connection.closed if frame.cut is Cut.RESET else None
    return frame.cut.text if ended is None else inside(ended, side)


cdef str _shown(value, tuple names):
    return f"{type(value).__name__}({', '.join([f'{name}={getattr(value, name)!r}' for name in names])})"


cdef object _copied(value, tuple names, dict changes):
    copy = type(value)(*_values(value, names))
    for name, changed in changes.items():
        setattr(copy, name, changed)
    return copy


@cython.freelist(64)  # reused instances
cdef class Frame:
    """One frame, which owns its bytes. Its header is decoded; its body was checked but is decoded only on demand."""

    def __init__(
        self, bytes data, int64_t started_at, int64_t ended_at, header: RequestHeader | ResponseHeader | None = None,
        Py_ssize_t body_start=0, message: Message | None = None, int body_version=0, layout: str | None = None,
        assumed_version: int | None = None, error: DecodeError | None = None, int cut=0, bint unread=False,
        int64_t size=-1, int64_t trailing=0, int64_t sent_at=0, edits: list[str] | None = None,
    ):
        self.data = data
        self.started_at = started_at
        self.ended_at = ended_at
        self.header = header
        self.body_start = body_start
        self.message = message
        self.body_version = body_version
        self.layout = layout
        self.assumed_version = assumed_version
        self.error = error
        if cut:
            self.cut = cut
        self.unread = unread
        self.absent = 0 if size < 0 else size - len(data)
        self.trailing = trailing
        self.sent_at = sent_at
        self.edits = edits

    @property
    def cut(self) -> Cut:
        """Why ``data`` is only the beginning of the frame."""
        return _CUTS[self.cut_code]

    @cut.setter
    def cut(self, int cut):
        self.cut_code = Cut(cut)

    @property
    def size(self) -> int:
        """The value of its size field, even if ``data`` is shorter."""
        return len(self.data) + self.absent

    @size.setter
    def size(self, int64_t size):
        self.absent = size - len(self.data)

    @property
    def wire_size(self) -> int:
        """Bytes on the wire, including the size field."""
        return len(self.data) + self.absent + 4

    cpdef bint has_end(self) noexcept:
        """Return whether its last byte was sent, as far as known, so that ``ended_at`` is the time of that byte."""
        return self.cut_code < _NEVER_SENT

    def body(self) -> Any:
        """Decode the body to an object with Kafka's fields in snake_case; None if it cannot be read.

        Every call decodes it again. Credentials in the bytes are in the object, too.
        """
        if self.message is None or self.error is not None or self.unread or self.cut_code:
            return None
        try:
            return self.decode()
        except DecodeError:
            return None

    def decode(self) -> Any:
        """As ``body``, for a frame that has a message; raises DecodeError, also for a cut frame."""
        cdef Program program = self.layout_program()
        decoded = decode_object(program, self.data, self.body_start, self.trailing)
        if program.release != (<Program>self.message.programs(self.body_version)[0]).release:
            decoded.layout = program.release
        return decoded

    cdef Program layout_program(self):
        """Return the layout of the body, or of its beginning if it is cut. Needs a message; raises DecodeError."""
        if self.program is None:
            if self.cut_code:
                return self.message.lenient_program(self.body_version)
            fit = self.message.check(self.body_version, self.data, self.body_start, trailing=True, nulls=True)
            self.program = self.message.program_of(self.body_version, fit)
        return self.program

    cdef Found find(self, int roles):
        """Find fields with these roles in the body, or in what is here of it. The result is overwritten by the next call."""
        if self.message is None or self.error is not None or self.unread:
            _found.clear()
        else:
            _found.search(self.layout_program(), self.data, self.body_start, roles)
        return _found

    def topic_ids(self) -> list[str]:
        """Return the topic ids in a complete body, as Kafka writes them, in their order."""
        return [] if self.cut_code else self.find(ROLE_TOPIC_ID).topic_ids()

    def group_ids(self) -> list[str]:
        """Return the values of the fields groupId in a body, cut or complete, in their order; at most 100."""
        return self.find(ROLE_GROUP_ID).group_ids()

    def partitions(self) -> list[NamedPartition]:
        """Return the partitions in a body, cut or complete, in their order; at most 50,000."""
        return self.find(ROLE_PARTITION).partitions()

    def records_fields(self) -> list[RecordsField]:
        """Return the records fields of a complete body that are not empty, in their order."""
        if self.message is None or self.error is not None or self.unread or self.cut_code:
            return []
        return records_fields(self.layout_program(), self.data, self.body_start, self.trailing)

    def error_codes(self) -> list[int]:
        """Return each error code other than 0 in a response, cut or complete, once, in their order."""
        return self.find(ROLE_ERROR_CODE).error_codes()

    cdef int find_refusal(self, bint *has_errors, int64_t *throttle_ms) except -1:
        """Find whether a response, cut or complete, has an error code, and the throttle time in it."""
        cdef Found found = self.find(ROLE_ERROR_CODE | ROLE_THROTTLE_TIME)
        has_errors[0] = found.has_errors()
        throttle_ms[0] = found.throttle_ms
        return 0

    def to_json(self) -> bytes:
        """Return the body as Kafka's JSON (UTF-8), credentials withheld. Needs a message; raises DecodeError."""
        return to_json(self.layout_program(), self.data, self.body_start, True, self.trailing)

    def beginning(self) -> dict[str, Any] | None:
        """Return the complete fields of a cut body as Kafka's JSON in a dict, credentials withheld; None if there are none.

        The last element of each array may lack fields, and more may have followed; Message.beginning has these details.
        """
        if self.message is None or not self.cut_code:
            return None
        import json  # rarely needed

        beginning = self.message.beginning(self.body_version, self.data, self.body_start, withhold=True)
        return json.loads(beginning.json) or None

    def copy(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return _copied(self, _FRAME_FIELDS, changes)

    def __eq__(self, other):
        if type(other) is not type(self):
            return NotImplemented
        return _values(self, _FRAME_FIELDS) == _values(other, _FRAME_FIELDS)

    def __reduce__(self):
        return type(self), _values(self, _FRAME_FIELDS)

    def __repr__(self):
        return _shown(self, _FRAME_FIELDS)


cdef class Event:
    """The base of everything that a session reports."""

    def __init__(self, connection: Connection, int64_t at):
        self.connection = connection
        self.at = at


cdef class Exchange(Event):
    """A request and its response; either may be missing (acks=0, unanswered, the capture starts late)."""

    def __init__(
        self, connection: Connection, int64_t at, api_key: int | None = None, api_version: int | None = None,
        correlation_id: int | None = None, client_id: str | None = None, Frame request=None, Frame response=None,
        bint expects_response=True, unanswered: str | None = None, undecoded: str | None = None,
        topic_names: Mapping[str, str] | None = None, fetch_sessions: FetchSessions | None = None, int64_t fetch_number=0,
    ):
        self.connection = connection
        self.at = at
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        self.response = response
        self.expects_response = expects_response
        self.unanswered = unanswered
        self.undecoded = undecoded
        self.topic_names = {} if topic_names is None else topic_names
        self.fetch_sessions = fetch_sessions
        self.fetch_number = fetch_number

    @property
    def api_name(self) -> str | None:
        """Kafka's name of the API; None if the request was not seen or the API is unknown."""
        api = None if self.api_key is None else facts().apis.get(self.api_key)
        return None if api is None else api.name

    @property
    def latency_ns(self) -> int | None:
        """Time from the request's first byte to the response's last one; None if either was not seen or not sent."""
        if self.request is None or self.response is None or not self.response.has_end():
            return None
        return self.response.ended_at - self.request.started_at

    @property
    def latency_ms(self) -> float | None:
        """``latency_ns`` in milliseconds."""
        nanoseconds = self.latency_ns
        return None if nanoseconds is None else nanoseconds / 1e6

    @property
    def request_in_proxy_ms(self) -> float | None:
        """Time from receiving the request's first byte in the proxy to sending its last one to the broker; None if unknown."""
        return None if self.request is None or self.request.sent_at <= 0 else (self.request.sent_at - self.request.started_at) / 1e6

    @property
    def broker_ms(self) -> float | None:
        """Time from sending the request's last byte to the broker to receiving the response's first one; None if unknown.

        0 if the broker answered before it had the complete request.
        """
        if self.request is None or self.response is None or self.request.sent_at <= 0 or self.response.sent_at < 0:
            return None
        return max(0, self.response.started_at - self.request.sent_at) / 1e6

    @property
    def response_in_proxy_ms(self) -> float | None:
        """Time from receiving the response's first byte in the proxy to sending its last one to the client; None if unknown."""
        if self.response is None or self.response.sent_at <= 0:
            return None
        return (self.response.sent_at - self.response.started_at) / 1e6

    @property
    def bodies(self) -> str | None:
        """Why bodies lack their ends, in words; None if both are complete."""
        reasons = [
            (side, _why_cut(frame, side, self.connection))
            for side, frame in (("request", self.request), ("response", self.response))
            if frame is not None and frame.cut
        ]
        if len({text for _, text in reasons}) > 1:
            return "; ".join([f"{side}: {text}" for side, text in reasons])
        return reasons[0][1] if reasons else None

    @property
    def edited(self) -> list[str]:
        """What a proxy did to the messages, in words: "request changed by mask". They are shown as they were received."""
        return [edit for frame in (self.request, self.response) if frame is not None for edit in frame.edits or ()]

    def request_body(self) -> Any:
        """Decode the request's body (Frame.body); None without a request, or if ``undecoded`` says why."""
        return None if self.request is None else self.request.body()

    def response_body(self) -> Any:
        """Decode the response's body (Frame.body); None without a response, or if ``undecoded`` says why."""
        return None if self.response is None else self.response.body()

    @property
    def fetch_session(self) -> FetchSession | None:
        """All partitions that a Fetch request reads, including unchanged ones that it does not name.

        None for anything but a Fetch in a fetch session, and for one too far back to be remembered.
        """
        return None if self.fetch_sessions is None else self.fetch_sessions.at(self.fetch_number)

    def copy(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return _copied(self, _EXCHANGE_FIELDS, changes)

    def __eq__(self, other):
        if type(other) is not type(self):
            return NotImplemented
        return _values(self, _EXCHANGE_FIELDS) == _values(other, _EXCHANGE_FIELDS)

    def __reduce__(self):
        return type(self), _values(self, _EXCHANGE_FIELDS)

    def __repr__(self):
        return _shown(self, _EXCHANGE_FIELDS)


# Routes


_STEPS = {
    ApiKey.PRODUCE: NOTE_UNANSWERED,
    ApiKey.FETCH: FOLLOW_FETCH_SESSION,
    ApiKey.API_VERSIONS: LEARN_SOFTWARE,
    ApiKey.SASL_HANDSHAKE: BEGIN_SASL,
    ApiKey.SASL_AUTHENTICATE: FOLLOW_SASL,
}


cdef class Route:
    """One API at one version: how to read its messages. Shared by all sessions."""

    def __init__(self, int api_key, int api_version, request: Message, response: Message | None):
        step = _STEPS.get(api_key, ORDINARY)
        self.api_key = api_key
        self.api_version = api_version
        self.name = request.name
        self.request = request
        self.response = response
        self.newest_request = _newest_layout(request, api_version)
        self.newest_response = _newest_layout(response, api_version)
        self.response_header_version = response_header_version(api_key, api_version) if response else 0
        self.request_step = ORDINARY if step in (FOLLOW_FETCH_SESSION, FOLLOW_SASL) else step
        self.response_step = ORDINARY if step in (NOTE_UNANSWERED, LEARN_SOFTWARE) else step
        if step == FOLLOW_FETCH_SESSION and api_version < FETCH_SESSIONS_FROM:
            self.response_step = ORDINARY
        self.has_topic_ids = has_topic_ids(request, api_version) or has_topic_ids(response, api_version)
        self.request_has_names = api_key in REQUESTS_WITH_NAMES
        self.response_has_names = api_key in RESPONSES_WITH_NAMES
        self.learns = bool(self.response_step or self.has_topic_ids or self.request_has_names or self.response_has_names)

    cpdef int read_request(self, Frame frame) except -1:  # type: (...) -> None
        """Check the request body from ``frame.body_start`` on, and set in the frame how to read it, or why that fails."""
        return read_as(frame, self.request, self.newest_request, self.api_version)

    cpdef int read_response(self, Frame frame) except -1:  # type: (...) -> None
        """Check the response body from ``frame.body_start`` on, and set in the frame how to read it, or why that fails."""
        read_as(frame, self.response, self.newest_response, self.api_version)
        if frame.cut_code and self.request_step == LEARN_SOFTWARE and is_refusal(frame):
            frame.body_version = 0
        if self.request_step == LEARN_SOFTWARE and (frame.error is not None or frame.trailing):
            read_refusal(frame, self.response)
        return 0

    cpdef bint expects_response(self, Frame produce) except -1:
        """Return whether the broker answers a Produce request: not with acks=0 (KafkaApis)."""
        try:
            if self.newest_request is not None:
                return self.newest_request.peek("acks", produce.data, produce.body_start) != 0
            return self.request.peek(self.api_version, "acks", produce.data, produce.body_start) != 0
        except DecodeError:
            return True

    def may_be_unanswered(self, Frame request not None) -> bool:
        """Return whether a request may get no answer: a Produce that is cut before its acks."""
        return self.request_step == NOTE_UNANSWERED and request.cut_code != 0 and peeked(request, "acks") is None

    def fits_response(self, bytes data, *, int64_t trailing=0) -> bool:
        """Return whether *data* is a response to this API and version, with at most *trailing* bytes after it."""
        frame = Frame(data, 0, 0)
        try:
            frame.body_start = read_response_header(data, self.response_header_version).size
        except DecodeError:
            return False
        self.read_response(frame)
        if frame.message is None or frame.trailing > trailing:
            return False
        try:
            self.response.check(frame.body_version, data, frame.body_start, trailing=True)
        except DecodeError:
            return False  # it fits only if nulls are accepted, which is not convincing
        return True


cdef Program _newest_layout(message, int version):
    """Return the layout of nearly every body of that version; None if only ``Message.check`` can decide."""
    if message is None or version not in message.versions:
        return None
    return message.programs(version)[0]


cdef int read_as(Frame frame, message, Program newest, int api_version) except -1:
    """As read_body, but try the most common layout first."""
    if frame.cut_code:
        return read_beginning(frame, message, api_version)
    if newest is None or newest.check(frame.data, frame.body_start) is not None:
        return read_body(frame, message, api_version)
    frame.message = message
    frame.body_version = api_version
    frame.program = newest
    return 0


cpdef int read_body(Frame frame, message: Message | None, int api_version) except -1:  # type: (...) -> None
    """Check the body as *message* at *api_version*; set in the frame how to read it and what follows, or why that fails."""
    if message is None:
        return 0
    try:
        layout = message.check(api_version, frame.data, frame.body_start, trailing=True, nulls=True)
    except DecodeError as error:
        frame.error = error
        return 0
    frame.message = message
    frame.program = message.program_of(layout.version, layout)
    frame.body_version = layout.version
    frame.layout = layout.release
    frame.trailing = layout.trailing
    if layout.assumed:
        frame.assumed_version = layout.version
    return 0


cdef int read_refusal(Frame frame, message) except -1:
    """Read an ApiVersions response that does not fit its version as version 0, if that fits better.

    A broker that lacks the version answers in the layout of version 0 (ApiVersionsResponse.parse, KIP-511). If bytes follow the
    message, its error code must say so, too: the few fields of version 0 fit the beginning of many other bodies.
    """
    cdef Frame refusal = Frame(frame.data, frame.started_at, frame.ended_at, body_start=frame.body_start)
    read_body(refusal, message, 0)
    if refusal.error is not None or (refusal.trailing and (frame.error is None or not is_refusal(refusal))):
        return 0
    frame.message = message
    frame.program = refusal.program
    frame.body_version = 0
    frame.layout = frame.assumed_version = frame.error = None
    frame.trailing = refusal.trailing
    return 0


cdef int read_beginning(Frame frame, message, int api_version) except -1:
    """Set in a cut frame how to read its beginning; not for versions above the facts, which only a complete body confirms."""
    if message is not None and api_version in message.versions:
        frame.message = message
        frame.body_version = api_version
    return 0


def peeked(Frame frame not None, str name) -> int | None:
    """Return the integer in a top-level field of a body, cut or complete; None if the field or the body cannot be read."""
    if frame.message is None:
        return None
    try:
        return frame.message.peek(frame.body_version, name, frame.data, frame.body_start)
    except (DecodeError, KeyError):
        return None


def decoded(Frame frame not None) -> Any:
    """Return the decoded body of a complete frame that was read without error, else None."""
    return None if frame.message is None or frame.cut_code else frame.decode()


cdef dict _routes = {}


cpdef Route route_of(int api_key, int api_version):  # type: (...) -> Route | None
    """Return the route of an API, also at a version above the facts; None if the API is unknown."""
    known = _routes.get(api_key << 16 | api_version)
    if known is not None:
        return known
    request = request_message(api_key)
    if request is None or api_version < 0:
        return None
    route = Route(api_key, api_version, request, response_message(api_key))
    if api_version in request.versions:  # others are not kept, as a client can send any number
        _routes[api_key << 16 | api_version] = route
    return route


def is_refusal(Frame api_versions not None) -> bool:
    """Return whether an ApiVersions response says that the broker lacks the version, and so read only the header.

    The broker treats such a request as version 0, which has no fields, and answers in version 0 (RequestContext.parseRequest,
    KIP-511).
    """
    return peeked(api_versions, "errorCode") == ErrorCode.UNSUPPORTED_VERSION


def failed(Frame response not None) -> bool:
    """Return whether a response has a nonzero top-level error code, or cannot be read."""
    return peeked(response, "errorCode") != 0


# Requests in flight


cdef class InFlight:
    """The queue of unanswered requests; responses come in request order, so the next one belongs to the head.

    An entry is (Exchange, Route). Without an exchange it is a SASL token, without a route a request of an unknown API.
    """

    def __init__(self, limits: Limits):
        self.most = limits.in_flight
        self.most_size = limits.in_flight_size
        self.queue = deque()

    cpdef bint add(self, Exchange exchange, Route route: Route | None, int64_t size) except -1:
        """Add a request whose frame holds *size* bytes; return whether the limits are now exceeded."""
        self.queue.append((exchange, route))
        self.size += size
        return self.size > self.most_size or len(self.queue) > self.most

    def add_token(self) -> bool:
        """Add a client's token, which the broker answers with another one; returns the same as ``add``."""
        self.queue.append(TOKEN)
        return len(self.queue) > self.most

    @property
    def overfull(self) -> bool:
        """Whether the limits are exceeded, so that the oldest entry must go; a single entry may always stay."""
        held = len(self.queue)
        return held > 1 and (self.size > self.most_size or held > self.most)

    cpdef tuple take(self):  # type: (...) -> tuple[Exchange | None, Route | None]
        """Remove and return the head. Raises IndexError if the queue is empty."""
        cdef tuple entry = self.queue.popleft()
        cdef Exchange exchange = entry[0]
        if exchange is not None and exchange.request is not None:
            self.size -= len(exchange.request.data)
        return entry

    def drop_tokens(self) -> None:
        """Remove all tokens, as authentication is over."""
        self.queue = deque([entry for entry in self.queue if entry is not TOKEN])

    def skips_tokens(self, Frame frame not None) -> bool:
        """Return whether a response belongs to the first request, although unanswered tokens come before it."""
        for exchange, _ in self.queue:
            if exchange is not None:
                return correlation_id_of(frame.data) == exchange.correlation_id
        return False

    def sought(self) -> list[tuple[int, Route]]:
        """Return (correlation id, route) of the oldest requests whose responses can be recognised; at most MOST_SOUGHT."""
        found = []
        for exchange, route in self.queue:
            if len(found) == MOST_SOUGHT:
                break
            if exchange is not None and route is not None and exchange.correlation_id is not None:
                found.append((exchange.correlation_id, route))
        return found

    def find(self, Frame frame not None) -> int | None:
        """Return the index of the request that *frame* answers, and read the frame's header; None if there is none."""
        for trailing in (0, FEW_BYTES):
            index = 0
            for exchange, route in self.queue:
                if exchange is not None and _answers(frame, exchange, route, trailing):
                    return index
                index += 1
        return None


def correlation_id_of(bytes response not None) -> int | None:
    """Return the correlation id of a response, even if the rest of its header is damaged or cut; None if it is too short."""
    try:
        return read_response_header(response[:4], 0).correlation_id
    except DecodeError:
        return None


cpdef tuple beginning_of_request(bytes data):  # type: (...) -> tuple[int | None, int | None, int | None, str | None]
    """Return API key, version, correlation id and client id of a request whose header is cut; None for missing ones."""
    api_key = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else None
    api_version = int.from_bytes(data[2:4], "big", signed=True) if len(data) >= 4 else None
    correlation_id = int.from_bytes(data[4:8], "big", signed=True) if len(data) >= 8 else None
    client_id = None
    if len(data) >= 10 and request_header_version(api_key, api_version) > 0:
        size = int.from_bytes(data[8:10], "big", signed=True)
        if 0 <= size <= len(data) - 10:  # only the tagged fields behind it are cut
            client_id = data[10 : 10 + size].decode("utf-8", "surrogateescape")
    return api_key, api_version, correlation_id, client_id


cdef bint _answers(Frame frame, Exchange exchange, Route route, int64_t trailing) except -1:
    """Return whether a response fits a request, by its correlation id and, if the API is known, by its body."""
    cdef ResponseHeader header
    if frame.cut_code and exchange.correlation_id is not None and correlation_id_of(frame.data) == exchange.correlation_id:
        return True
    try:
        header = read_response_header(frame.data, 0 if route is None else route.response_header_version)
    except DecodeError:
        return False
    if header.correlation_id != exchange.correlation_id:
        return False
    if route is not None and not frame.cut_code and not route.fits_response(frame.data, trailing=trailing):
        return False
    frame.header = header
    frame.body_start = header.size
    return True
