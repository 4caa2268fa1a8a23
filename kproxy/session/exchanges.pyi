"""Frames and exchanges, how the bodies of each API are read, and which response belongs to which request."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Self

from kproxy.errors import DecodeError
from kproxy.protocol import Message, RequestHeader, ResponseHeader
from kproxy.session.events import Connection
from kproxy.session.fetch_session import FetchSession, FetchSessions
from kproxy.session.limits import Limits

@dataclass
class Frame:
    """One frame: header read, body checked by a walk but not decoded; it owns its bytes."""

    data: bytes  # what followed the size field
    started_at: int  # ns: when its first byte came
    ended_at: int  # ns: when its last byte came
    header: RequestHeader | ResponseHeader | None = None
    body_start: int = 0
    message: Message | None = None  # None: the body cannot be read
    body_version: int = 0  # the version the body is laid out as; differs from api_version for an ApiVersions fallback
    layout: str | None = None  # release whose layout was used, when it is not the newest (a version changed in place)
    assumed_version: int | None = None  # the newest known version whose layout fitted a version above the facts
    error: DecodeError | None = None  # why the body cannot be read
    cut: bool = False  # bytes at its end are missing in the capture
    unread: bool = False  # an ApiVersions request of whose body a broker that lacks the version reads nothing (KIP-511)

    @property
    def wire_size(self) -> int:
        """Bytes on the wire, the size field included."""

    def body(self) -> Any:
        """The body as an object, with Kafka's fields in snake_case; None where it cannot be read.

        It is decoded anew by each call, and holds credentials where the bytes do.
        """

    def copy(self, **changes: Any) -> Self:
        """The same frame with some fields changed."""

class Event:
    """Anything that a session reports."""

    connection: Connection
    at: int  # ns

    def __init__(self, connection: Connection, at: int) -> None: ...

@dataclass
class Exchange(Event):
    """A request and its response; either may be missing (acks=0, unanswered, the capture starts late)."""

    connection: Connection
    at: int  # ns
    api_key: int | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    request: Frame | None = None
    response: Frame | None = None
    expects_response: bool = True  # False for Produce with acks=0
    unanswered: str | None = None  # why there is no response, in words
    undecoded: str | None = None  # why something in it could not be read
    topic_names: Mapping[str, str] = field(default_factory=dict)  # id (Kafka's text form) -> name, of the ids in it
    fetch_sessions: FetchSessions | None = None  # Fetch v7+: what the connection's fetch sessions hold (KIP-227)
    fetch_number: int = 0  # which of the connection's Fetch exchanges this is

    @property
    def api_name(self) -> str | None:
        """Kafka's name of the API; None where the request was not seen, or the API is not known."""

    @property
    def latency_ms(self) -> float | None:
        """From the request's first byte to the response's last one; None where either is missing."""

    def request_body(self) -> Any:
        """The request's body as an object, see Frame.body; None without a request, or where ``undecoded`` says why."""

    def response_body(self) -> Any:
        """The response's body as an object, see Frame.body; None without a response, or where ``undecoded`` says why."""

    @property
    def fetch_session(self) -> FetchSession | None:
        """The whole of what a Fetch request asks for, partitions it left out as unchanged included.

        None for anything but a Fetch inside a fetch session, and for one so far back that it was forgotten.
        """

    def copy(self, **changes: Any) -> Self:
        """The same exchange with some fields changed."""

class Step(IntEnum):
    """What a session does with an API beyond pairing; ORDINARY is false."""

    ORDINARY = 0
    PRODUCE = 1  # may not be answered
    FETCH = 2  # may belong to a fetch session
    API_VERSIONS = 3  # names the client's software; may be answered in another version's layout
    SASL_HANDSHAKE = 4
    SASL_AUTHENTICATE = 5

class Route:
    """An API at a version; shared by all sessions."""

    def __init__(self, api_key: int, api_version: int, request: Message, response: Message | None) -> None: ...
    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def name(self) -> str:
        """Of the request message."""

    @property
    def request(self) -> Message: ...
    @property
    def response(self) -> Message | None: ...
    @property
    def response_header_version(self) -> int: ...
    @property
    def request_step(self) -> Step: ...
    @property
    def response_step(self) -> Step: ...
    @property
    def has_topic_ids(self) -> bool: ...
    @property
    def request_has_names(self) -> bool: ...
    @property
    def response_has_names(self) -> bool: ...
    @property
    def learns(self) -> bool:
        """Whether anything is learned from its exchanges."""

    def read_request(self, frame: Frame) -> None:
        """Check the request body from ``frame.body_start`` on, and write into the frame how to read it, or why not."""

    def read_response(self, frame: Frame) -> None:
        """Check the response body from ``frame.body_start`` on, and write into the frame how to read it, or why not."""

    def expects_response(self, produce: Frame) -> bool:
        """Whether a Produce request is answered: with acks=0 it never is (KafkaApis)."""

    def fits_response(self, data: bytes) -> bool:
        """Whether *data* is, to its last byte, a response to this API and version."""

def read_body(frame: Frame, message: Message | None, api_version: int) -> None:
    """Check that *message* at *api_version* consumes the body exactly; write into the frame how to read it, or why not."""

def decoded(frame: Frame) -> Any:
    """The body of a frame that was read, as an object; None of one that was not."""

def route_of(api_key: int, api_version: int) -> Route | None:
    """The route of an API; None when the API is not known. A version above the facts has one too."""

def is_refusal(api_versions: Frame) -> bool:
    """Whether an ApiVersions response says that the broker lacks the version, and so read only the request's header.

    RequestContext.parseRequest (KIP-511): such a request is taken for one of version 0, which has no fields, and answered so.
    """

def failed(response: Frame) -> bool:
    """Whether a response with an error code at its top says that, or cannot be read."""

Entry = tuple[Exchange | None, Route | None]  # without an exchange: a token; without a route: an unknown API
TOKEN: Entry

class InFlight:
    """A queue of entries; responses come in request order, so the next response belongs to its head."""

    def __init__(self, limits: Limits) -> None: ...
    @property
    def queue(self) -> deque[Entry]: ...
    def add(self, exchange: Exchange, route: Route | None, size: int) -> bool:
        """Add a request whose frame holds *size* bytes; return whether there is now more than the limits allow."""

    def add_token(self) -> bool:
        """Add a token, which the other side answers with one; the result is that of ``add``."""

    @property
    def overfull(self) -> bool:
        """Whether the oldest must be dropped; a single one may always stay."""

    def take(self) -> Entry:
        """Remove and return the head. Raises IndexError when there is none."""

    def drop_tokens(self) -> None:
        """Forget the tokens: authentication is over."""

    def skips_tokens(self, frame: Frame) -> bool:
        """Whether a response has the correlation id of the first request, though tokens that are not answered come before."""

    def sought(self) -> list[tuple[int, Route]]:
        """Correlation ids and routes of the requests whose responses can be recognised, oldest first."""

    def find(self, frame: Frame) -> int | None:
        """How many entries come before the request that *frame* answers; its header is then read. None: no request."""

def correlation_id_of(response: bytes) -> int | None:
    """The correlation id alone, of a response whose header may be damaged or cut short behind it."""
