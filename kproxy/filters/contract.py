"""The contract between kproxy and a filter. Its rules, and what is true of Kafka, are in the package's docstring."""

from collections.abc import Awaitable, Collection
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Protocol

from kproxy.protocol import MessageStruct, Versions, response_message
from kproxy.protocol.structs import struct_types
from kproxy.session import Direction


class AddressMap(Protocol):
    """Maps broker addresses to the proxy's; one per virtual cluster."""

    def advertise(self, node_id: int, host: str, port: int, connection: "ConnectionFacts") -> tuple[str, int] | None:
        """Return the address that clients are to use for a broker, and serve it from now on; None: it cannot be mapped."""

    def known(self, node_id: int, host: str, port: int, connection: "ConnectionFacts") -> tuple[str, int] | None:
        """Return the address that clients use for a broker that is served already, else None."""


@dataclass(slots=True)
class ConnectionFacts:
    """The connection of a frame, for filters."""

    number: int  # unique in its worker
    cluster: str  # name of the virtual cluster
    client: str  # "address:port"; with PROXY protocol the one it names
    listener: str  # "address:port" the client came to
    broker: str  # "address:port" on the other side
    addresses: AddressMap | None = None  # None: addresses stay as they are (transparent, fixed)
    principal: str | None = None  # subject of the client's certificate
    state: dict[str, Any] = field(default_factory=dict)  # of filters, under their names


@dataclass(slots=True)
class Request:
    """A request for a filter. ``message`` is an object of kproxy.protocol; it may be changed and returned in Replace."""

    connection: ConnectionFacts
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: MessageStruct

    def new_response(self, **values: Any) -> Any:
        """Make an empty response, for ``Reply``; keyword arguments set fields. Its ``struct_types`` has the structs for them.

        Raises TypeError for a name that is not a field.
        """
        message = response_message(self.api_key)
        assert message is not None  # every API of the facts has one
        return struct_types(message.name)[message.name](**values)


@dataclass(slots=True)
class RequestFacts:
    """The request of a response.

    ``message`` is the request as it was sent to the broker, if some filter wants requests and responses of this API.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    message: MessageStruct | None = None


@dataclass(slots=True)
class Response:
    """A response for a filter, and its request."""

    connection: ConnectionFacts
    request: RequestFacts
    message: MessageStruct


@dataclass(frozen=True, slots=True)
class Forward:
    """Verdict: forward the frame as it is."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Verdict: forward this message instead, with the same API, version and correlation id."""

    message: MessageStruct


@dataclass(frozen=True, slots=True)
class Reply:
    """Verdict on a request: do not forward it; send this response to the client when its turn comes."""

    message: MessageStruct


@dataclass(frozen=True, slots=True)
class Close:
    """Verdict: close the connection, both sides; *reason* is logged."""

    reason: str


Verdict = Forward | Replace | Reply | Close


class Want(IntEnum):
    """What the forwarding plane does with frames of an API at a version in one direction; size is only a bound."""

    PASS = 0  # cut through: sent while the rest is still arriving
    HOLD = 1  # held whole and given to the chain; above limits.held_frame_size see Chain.when_too_large_to_hold
    TAIL = 2  # a response: cut through up to its first address, held from there on (Produce, Fetch, ...)
    REFUSE = 3  # a required filter cannot read it: the connection is closed
    HEAD = 4  # a response: held up to the end of its addresses, cut through from there on (Metadata, DescribeCluster)


class Filter:
    """Base class of filters; methods that are not overridden forward.

    Class attributes declare the frames it wants; an instance may set its own in ``__init__``, whose arguments are those under
    ``with`` in the configuration.
    """

    name: ClassVar[str] = ""  # for logs and metrics; the class's name when empty
    requests: Collection[int] = ()  # API keys of the requests it wants
    responses: Collection[int] = ()  # API keys of the responses it wants
    versions: Versions | None = None  # of these versions only; None: every one
    fails_open: bool = False  # after a fault the frame passes unchanged (for filters that only observe), else closes
    required: bool = False  # frames of its APIs at versions that are not in the facts must not pass
    timeout: float = 10.0  # seconds an awaited verdict may take

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """Return PASS, HOLD, HEAD or TAIL. Called when the chain is made; override it where the attributes are not enough.

        HEAD and TAIL are for the responses that ``kproxy.filters.addresses.responses_with_addresses`` gives as such.
        """
        keys = self.requests if direction == Direction.REQUEST else self.responses
        asked = api_key in keys and (self.versions is None or api_version in self.versions)
        return Want.HOLD if asked else Want.PASS

    def wants_of_large(self, direction: Direction, api_key: int, api_version: int) -> Want | None:
        """Return what the filter takes of a frame it wants to HOLD and that is above limits.held_frame_size.

        None, the default: it cannot do without the whole frame, and that is a fault.
        """
        return None

    def on_request(self, request: Request) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on a request."""
        return Forward()

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on a response; not ``Reply``."""
        return Forward()

    def on_head(self, connection: ConnectionFacts, request: RequestFacts, head: bytes) -> bytes:
        """Return what to send in place of the head of a HEAD response: its first fields, up to its last address. Of any size."""
        return head

    def on_tail(self, connection: ConnectionFacts, request: RequestFacts, tail: bytes) -> bytes:
        """Return what to send in place of the tail of a TAIL response: exactly ``len(tail)`` bytes."""
        return tail

    def on_close(self, connection: ConnectionFacts) -> None:
        """Release what is kept for a connection: it is closed."""


@dataclass(frozen=True, slots=True)
class Send:
    """Outcome: forward these bytes, a whole frame; the same object as came in when nothing changed.

    ``request``, for a request that went through filters, is to be passed to ``Chain.on_response`` with its response.
    """

    frame: bytes
    request: RequestFacts | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcome of a request: it is not forwarded, and this whole response frame is sent to the client when its turn comes.

    An empty frame: nothing is sent, as the client expects no response (a Produce with acks=0).
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
