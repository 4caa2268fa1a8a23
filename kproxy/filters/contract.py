"""The contract between kproxy and a filter. Its rules, and what is true of Kafka, are in the package's docstring."""

from collections.abc import Awaitable, Collection
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Protocol

from kproxy.protocol import MessageStruct, Versions, response_message
from kproxy.protocol.structs import struct_types
from kproxy.session import Direction


class AddressMap(Protocol):
    """What the proxy does about broker addresses; one per virtual cluster."""

    def advertise(self, node_id: int, host: str, port: int, connection: "ConnectionFacts") -> tuple[str, int] | None:
        """The address clients are to use for a broker, served from now on; None: it cannot be mapped."""

    def known(self, node_id: int, host: str, port: int, connection: "ConnectionFacts") -> tuple[str, int] | None:
        """The address clients use for a broker that is known to be there; None: it is not. Nothing is learned."""


@dataclass(slots=True)
class ConnectionFacts:
    """What a filter may know of the connection it is asked about."""

    number: int  # unique in its worker
    cluster: str  # name of the virtual cluster
    client: str  # "address:port"; with PROXY protocol the one it names
    listener: str  # "address:port" the client came to
    broker: str  # "address:port" on the other side
    addresses: AddressMap | None = None  # None: addresses stay as they are (transparent, fixed)
    principal: str | None = None  # subject of the client's certificate
    state: dict[str, Any] = field(default_factory=dict)  # for filters, by their names


@dataclass(slots=True)
class Request:
    """A request as a filter sees it. ``message`` is an object of kproxy.protocol; it may be changed and put in Replace."""

    connection: ConnectionFacts
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: MessageStruct

    def new_response(self, **values: Any) -> Any:
        """An empty response to it, for ``Reply``; keyword arguments set fields. Its ``struct_types`` has the structs for them.

        Raises TypeError for a name that is not a field.
        """
        message = response_message(self.api_key)
        assert message is not None  # every API of the facts has one
        return struct_types(message.name)[message.name](**values)


@dataclass(slots=True)
class RequestFacts:
    """What is known of the request that a response answers.

    ``message`` is the request as it went to the broker, where some filter wants requests and responses of this API.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    message: MessageStruct | None = None


@dataclass(slots=True)
class Response:
    """A response as a filter sees it, with what is known of its request."""

    connection: ConnectionFacts
    request: RequestFacts
    message: MessageStruct


@dataclass(frozen=True, slots=True)
class Forward:
    """The frame goes on as it is."""


@dataclass(frozen=True, slots=True)
class Replace:
    """This message goes on instead: same API, version and correlation id."""

    message: MessageStruct


@dataclass(frozen=True, slots=True)
class Reply:
    """To a request only: it is not forwarded, and this response is given when its turn comes."""

    message: MessageStruct


@dataclass(frozen=True, slots=True)
class Close:
    """The connection is closed, both sides; *reason* goes to the log."""

    reason: str


Verdict = Forward | Replace | Reply | Close


class Want(IntEnum):
    """What the forwarding plane does with frames of an API at a version in one direction, whatever their size."""

    PASS = 0  # cut through: sent while the rest is still arriving
    HOLD = 1  # held whole and given to the chain; above limits.held_frame_size see Chain.when_too_large_to_hold
    TAIL = 2  # a response: cut through up to its first address, held from there on (Produce, Fetch, ...)
    REFUSE = 3  # a required filter cannot read it: the connection is closed


class Filter:
    """Base class of filters; what is not overridden forwards.

    Class attributes say what is asked for; an instance may set its own in ``__init__``, which gets what the configuration has
    under ``with``.
    """

    name: ClassVar[str] = ""  # for logs and metrics; the class's name when empty
    requests: Collection[int] = ()  # API keys whose requests it wants
    responses: Collection[int] = ()  # API keys whose responses it wants
    versions: Versions | None = None  # of these versions only; None: every one
    fails_open: bool = False  # observers: True
    required: bool = False  # traffic it cannot read must not pass
    timeout: float = 10.0  # seconds an awaited verdict may take

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """PASS, HOLD or TAIL; to be overridden where the attributes cannot say it. Asked once, when the chain is made."""
        keys = self.requests if direction == Direction.REQUEST else self.responses
        asked = api_key in keys and (self.versions is None or api_version in self.versions)
        return Want.HOLD if asked else Want.PASS

    def on_request(self, request: Request) -> Verdict | Awaitable[Verdict]:
        """Judge a request."""
        return Forward()

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Judge a response. ``Reply`` is no verdict on a response."""
        return Forward()

    def on_tail(self, connection: ConnectionFacts, request: RequestFacts, tail: bytes) -> bytes:
        """Return the tail of a TAIL response, from its first address on, as the client is to get it: as many bytes."""
        return tail

    def on_close(self, connection: ConnectionFacts) -> None:
        """The connection is gone."""


@dataclass(frozen=True, slots=True)
class Send:
    """Outcome: these bytes, a whole frame, go on; the very ones given when nothing changed.

    ``request``, of a request that filters saw, is what ``Chain.on_response`` is to be given with its response.
    """

    frame: bytes
    request: RequestFacts | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcome of a request: it stays here, and this whole response frame is sent when its turn comes.

    An empty frame: nothing is sent, as nothing is waited for (a Produce with acks=0).
    """

    frame: bytes


Outcome = Send | Answer | Close

__all__ = [
    "AddressMap",
    "Answer",
    "Close",
    "ConnectionFacts",
    "Direction",
    "Filter",
    "Forward",
    "Outcome",
    "Replace",
    "Reply",
    "Request",
    "RequestFacts",
    "Response",
    "Send",
    "Verdict",
    "Want",
]
