"""The contract between kproxy and a filter. Its rules, and what is true of Kafka, are in the package's docstring."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from msgspec import Struct

from kproxy.options import OtlpEndpoint, Rotated
from kproxy.protocol import ApiKey, MessageStruct, Versions, known_message
from kproxy.protocol import Direction as Direction  # noqa: PLC0414 - filters import it from here
from kproxy.protocol.constants import FRAME_LIMIT
from kproxy.protocol.structs import struct_types

if TYPE_CHECKING:
    from kproxy.protocol.found import RecordsField
    from kproxy.protocol.records import Record
    from kproxy.schemas.store import Schemas

Result = TypeVar("Result")
TOPIC_NAMES = "topic_names"  # in Runtime.kept
UNKNOWN_SERVER_ERROR = -1  # of Kafka's error codes


class AddressMap(Protocol):
    """Maps broker addresses to the proxy's; one per virtual cluster."""

    def advertise(self, node_id: int, host: str, port: int, connection: "ConnectionFacts") -> tuple[str, int] | None:
        """Return the address that clients are to use for a broker, and serve it from now on; None: it cannot be mapped."""

    def known(self, node_id: int, host: str, port: int, connection: "ConnectionFacts") -> tuple[str, int] | None:
        """Return the address that clients use for a broker that is served already, else None."""


class Journal(Protocol):
    """An append-only file of numbered lines. It outlives the process, also when that is killed.

    At any time ``seen == written + dropped + open``, where *open* are the numbers taken and neither written nor dropped yet. What
    was open when a process was killed is counted as dropped by the next one, which says so in a line of its own.
    """

    @property
    def seen(self) -> int:
        """How many numbers were taken so far, in this process and in earlier ones."""

    @property
    def written(self) -> int:
        """How many of them have their line in the file."""

    @property
    def dropped(self) -> int:
        """How many of them have no line in the file and will get none."""

    @property
    def is_writable(self) -> bool:
        """Whether the last line could be written; begins a new part of the file if there is none."""

    @property
    def is_late(self) -> bool:
        """Whether the disk is slow and may answer soon, so that a line that cannot be written now is worth another try."""

    def take(self) -> int:
        """Return the next number, from 1."""

    def write(self, number: int, line: bytes) -> bool:
        """Write the line of a number; it has no newline. Returns False if that failed: the number is still open then."""

    def drop(self, number: int) -> None:
        """Count a number as dropped. Dropped numbers get a line of their own as soon as one can be written."""


class SharedSet(Protocol):
    """Texts that the filters of a cluster share in all workers: what one adds, the others have moments later.

    It holds at most 200,000 texts of at most 300 characters; those added longest ago are forgotten.
    """

    def add(self, value: str) -> None:
        """Add a value."""

    def added_since(self, change: int) -> tuple[int, list[str]]:
        """Return the number of the last change, and the values added after change number *change*, the newest last.

        With 0, that is all values.
        """

    def __contains__(self, value: str) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...


class SharedCount(Protocol):
    """A number that the filters of a cluster count together in all workers: each of them gets every number once.

    It stays when the configuration is loaded again and when a worker dies. /metrics and /filters of the admin port show it.
    """

    @property
    def value(self) -> int:
        """The present number."""

    def add(self, amount: int = 1) -> int:
        """Add to it, and return the sum."""


class SharedTimes(Protocol):
    """A time for each of many names, which the filters of a cluster move on together in all workers.

    The times stay when the configuration is loaded again and when a worker dies. If there are too many names, those with the
    earliest times are forgotten first.
    """

    def move_on(self, name: str, seconds: float, now: float) -> float:
        """Add *seconds* to the time of a name, or to *now* (of Runtime.monotonic) if that is later; return the sum."""


class ClientMetric(Struct, frozen=True, array_like=True):
    """A number that a client has measured: a data point of OpenTelemetry (KIP-714)."""

    name: str
    is_counter: bool  # it only grows; else it is a gauge
    is_delta: bool  # the value is the change since the last one; else it is the present value
    attributes: tuple[tuple[str, str], ...]
    value: float  # finite


class MetricsExport(Protocol):
    """Sends metrics to a collector of OTLP."""

    def offer(self, data: bytes) -> bool:
        """Queue a MetricsData message; False if it is dropped. Never waits."""

    def close(self) -> None:
        """Stop using it: what is queued is still sent, if that takes a few seconds at most."""


class Runtime(Protocol):
    """What the proxy gives to a filter (``Filter.runtime``), as filters do no I/O and read no clock."""

    worker: int  # number of the worker process, from 0
    cluster: str  # name of the virtual cluster
    kept: dict[str, Any]  # what a filter keeps beyond a reload of the configuration, under its name

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait; other connections go on."""

    def journal(self, file: Rotated) -> Journal:
        """Return the journal of this worker, opened at the first call: for ``audit.jsonl`` worker 0 writes ``audit-0.jsonl``."""

    def require_journal(self, file: Rotated, is_required: bool) -> None:
        """Say that requests are refused while a journal cannot be written; with False, when the filter stops, no longer.

        While they are refused, /readyz is 503 and says why.
        """

    def shared_set(self, name: str) -> SharedSet:
        """Return the set of that name, which outlives a reload of the configuration. Begin the name with the filter's."""

    def shared_count(self, filter_name: str, event: str, name: str) -> SharedCount:
        """Return the count of an event of a filter. Raises UsageError if there are too many.

        *name* tells counts of the same event apart.
        """

    def shared_times(self, name: str) -> SharedTimes:
        """Return the times of that name, which has to begin with that of the filter."""

    def show_client_metrics(
        self,
        client_id: str,
        instance_id: str,
        metrics: Sequence[ClientMetric],
        keep_s: float,
        *,
        most_names: int,
        most_series: int,
    ) -> None:
        """Show what a client has measured at /metrics, until nothing came of it for *keep_s* seconds.

        Names and values may have anything: they are cut and escaped. What is beyond *most_names*, *most_series* of a name, or
        the caps of all clusters together (kproxy.output.client_metrics) is dropped and counted.
        """

    def export_metrics(self, filter_name: str, endpoint: OtlpEndpoint) -> MetricsExport:
        """Return the way to a collector; call it in ``on_start``. What becomes of each message is counted, as shared counts
        of the event "forwarded": exported, dropped, failed. Raises UsageError if the endpoint cannot be used.
        """

    def schemas(self) -> "Schemas":
        """Return the sources of schemas of the configuration. They never wait: what a registry has to be asked for is None now,
        and ``Schemas.is_asked`` until it has answered. Raises UsageError if they cannot be used.
        """

    def in_thread(self, function: Callable[[], Result]) -> Awaitable[Result]:
        """Call a function that takes long in a thread, so that other connections go on.

        Returns what it returns, and raises what it raises.
        """

    def warn(self, event: str, reason: str) -> None:
        """Log a warning. *event* is a fixed text; *reason* may contain anything, and is escaped."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What kproxy learned of a client from its TLS handshake."""

    version: str | None  # "TLS 1.3"
    server_name: str | None  # the host that it wants to reach (SNI)
    certificate: str | None  # subject of its verified certificate (RFC 4514); None without one


@dataclass(slots=True)
class ConnectionFacts:
    """What a filter can know about the connection of a frame."""

    number: int  # unique in its worker
    cluster: str  # name of the virtual cluster
    client: str  # "address:port"; with PROXY protocol the one it names
    listener: str  # "address:port" that the client connected to
    broker: str  # "address:port" on the other side
    addresses: AddressMap | None = None  # None: addresses stay as they are (transparent, fixed)
    principal: str | None = None  # who authenticated: by SASL (see Filter.identifies), else subject of the certificate
    mechanism: str | None = None  # of SASL, once it has succeeded; None: the principal is of the certificate, if any
    groups: frozenset[str] = frozenset()  # of a client that has logged in to kproxy: from the users file, or its token
    claims: Mapping[str, Any] = field(default_factory=dict)  # of its token (OAUTHBEARER)
    refused_user: str | None = None  # who a client claimed to be whose login kproxy refused; empty: it did not say
    software: tuple[str, str] | None = None  # name and version of the client's library (KIP-511; see Filter.identifies)
    tls: ClientTls | None = None  # None: the client has none
    state: dict[str, Any] = field(default_factory=dict)  # of filters, under their names
    mute_s: float = (
        0.0  # set by a filter: after this frame, read no requests for so long, as brokers that throttle (KIP-219)
    )


@dataclass(slots=True)
class Request:
    """A request for a filter. ``message`` is an object of kproxy.protocol; it may be changed and returned in Replace."""

    connection: ConnectionFacts
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: MessageStruct
    kept: dict[str, Any] = field(default_factory=dict, compare=False)  # for its response: RequestFacts.kept

    @property
    def expects_response(self) -> bool:
        """Whether a response follows.

        A Produce with acks=0 gets none; if something is wrong with it, brokers close the connection.
        """
        return self.api_key != ApiKey.PRODUCE or getattr(self.message, "acks", 1) != 0

    def new_response(self, **values: Any) -> Any:
        """Make an empty response, for ``Reply``; keyword arguments set fields. Its ``struct_types`` has the structs for them.

        Raises TypeError for a name that is not a field.
        """
        message = known_message(Direction.RESPONSE, self.api_key)
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
    kept: dict[str, Any] = field(default_factory=dict, compare=False)  # by filters for the response, under their names

    def copy(self) -> "RequestFacts":
        """Return a copy for a filter, so that the filter's changes to it do not reach the chain; ``kept`` is the same."""
        return RequestFacts(
            self.api_key, self.api_version, self.correlation_id, self.client_id, self.message, self.kept
        )

    def request(self, connection: ConnectionFacts, message: Any) -> Request:
        """Return the request with a message, as filters get it."""
        return Request(
            connection, self.api_key, self.api_version, self.correlation_id, self.client_id, message, self.kept
        )


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
    version: int | None = (
        None  # of the response, where it is not the request's: ApiVersions has one such case (KIP-511)
    )


@dataclass(frozen=True, slots=True)
class Close:
    """Verdict: close the connection, both sides; *reason* is logged."""

    reason: str


@dataclass(frozen=True, slots=True)
class Truncate:
    """Verdict on a response: send only its first *size* bytes, size field included, then close both sides of the connection."""

    size: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Verdict: drop the frame and everything that follows in its direction; the connection stays open.

    On a request: the broker gets nothing more, but the client still gets the responses to earlier requests. On a response:
    the client gets nothing more, as no response may overtake another, but its requests still go to the broker.
    """


Verdict = Forward | Replace | Reply | Close | Truncate | Silence


@dataclass(frozen=True, slots=True)
class Edited:
    """Verdict of ``on_records``: go on with this frame.

    *then*, for what records are no part of, gets the Request or Response with the message of this frame.
    """

    frame: bytes
    then: Callable[[Any], Verdict] | None = None


class Want(IntEnum):
    """What the forwarding plane does with frames of an API at a version in one direction; size is only a bound."""

    PASS = 0  # cut through: sent while the rest is still arriving
    HOLD = 1  # held whole and given to the chain; above limits.held_frame_size see Chain.when_too_large_to_hold
    TAIL = 2  # a response: cut through up to its first address, held from there on (Produce, Fetch, ...)
    REFUSE = 3  # a required filter cannot read it: the connection is closed
    HEAD = 4  # a response: held up to the end of its addresses, cut through from there on (Metadata, DescribeCluster)


class Filter:
    """Base class of filters; methods that are not overridden forward.

    Class attributes declare the frames it wants; an instance may set its own in ``__init__``. Its arguments are those under
    ``with`` in the configuration; if ``Options`` is set, its only argument is an instance of that.
    """

    name: ClassVar[str] = ""  # for logs and metrics; the class's name when empty
    Options: ClassVar[type[Struct] | None] = None  # typed options, see kproxy.options
    runtime: Runtime  # set before the first frame, unless the chain was made without one
    requests: Collection[int] = ()  # API keys of the requests it wants
    responses: Collection[int] = ()  # API keys of the responses it wants
    versions: Versions | None = None  # of these versions only; None: every one
    fails_open: bool = False  # after a fault the frame passes unchanged: for filters that only observe
    # After a fault of a filter that does not fail open, the client gets this error; None: it is disconnected
    fault_error: int | None = UNKNOWN_SERVER_ERROR
    required: bool = False  # frames of its APIs at versions that are not in the facts must not pass
    refuses: Collection[int] = ()  # API keys with which clients could bypass it: refused, and not offered to clients
    # By API key: requests at older versions are refused, and not offered to clients
    oldest_versions: Mapping[int, int] = MappingProxyType({})
    most_frame_size: int = FRAME_LIMIT  # of what it makes of a frame: limits.frame_size, as its chain says
    names_topics: bool = False  # needs ``topic_names``
    learns_topics: bool = (
        False  # needs ``topic_names`` to know them already when a reload adds a rule that names topics
    )
    # Filters before it see other names than Metadata has, so none of these may need names by topic ids
    renames_topics: bool = False
    reads_values: bool = (
        False  # values of records have to be plain for it: it stands before a filter that encrypts them
    )
    checks_schemas = False  # it has problems_with_schemas
    encrypts_records: bool = False
    later: Sequence["Filter"] = ()  # the filters behind it, which see requests after it; set with ``runtime``
    answers: Collection[int] = ()  # API keys whose requests it may answer or drop, or whose responses it may replace
    sees_all: bool = False  # no filter before it may answer the requests that it wants: it would not see them
    identifies: bool = False  # needs the SASL principal and the software in ConnectionFacts: kproxy reads them for it
    # A request that it wants is kept for its response (RequestFacts.message), if a filter wants the response
    keeps_requests: bool = False
    uses_requests: bool = True  # it does so if it wants both; False: it does without RequestFacts.message
    # API keys of the responses that it wants only where it has put something into RequestFacts.kept; others are not held for it
    responses_to_kept: Collection[int] = ()
    timeout: float = 10.0  # seconds an awaited verdict may take

    @property
    def topic_names(self) -> Any:
        """The names of topics by their ids, with ``get``: those that Metadata responses have named to any worker."""
        return self.runtime.kept.get(TOPIC_NAMES, {})

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """Return PASS, HOLD, HEAD or TAIL. Called when the chain is made; override it if the attributes are not enough.

        HEAD and TAIL are only for the responses to which ``kproxy.filters.addresses.responses_with_addresses`` gives
        them.
        """
        keys = self.requests if direction == Direction.REQUEST else self.responses
        is_listed = api_key in keys and (self.versions is None or api_version in self.versions)
        return Want.HOLD if is_listed else Want.PASS

    def wants_frame(self, connection: ConnectionFacts, direction: Direction, request: RequestFacts) -> bool:
        """Return whether it wants a frame that it HOLDs. Called before the body is decoded, which takes long for a large one.

        For a request, ``message`` is not known yet. A filter that does not want a request may not get the message of that
        request with the response either.
        """
        return True

    def wants_topic(self, topic: str) -> bool:
        """Return whether it wants Produce requests and Fetch responses with records of a topic. Called before they are decoded.

        Asked only if all filters that want the frame override this, so none of them sees another name than it has there.
        A frame with a topic id whose name is not known is wanted. One that begins with its only topic, and is not wanted, is not
        even held.
        """
        return True

    def wants_of_large(self, direction: Direction, api_key: int, api_version: int) -> Want | None:
        """Return which part it takes of a frame that it wants to HOLD and that is larger than limits.held_frame_size.

        None, the default: it needs the complete frame, and not getting it is a fault.
        """
        return None

    def on_too_large(
        self, connection: "ConnectionFacts", direction: Direction, api_key: int, api_version: int, size: int
    ) -> None:
        """Note a frame of *size* bytes that it wants to HOLD and that passes, as it is larger than limits.held_frame_size."""

    def problems_at_start(self, has_schemas: bool) -> Iterator[str]:
        """Yield why it cannot start with the rest of the configuration. ``kproxy check`` and ``run`` refuse it then.

        *has_schemas*: the configuration names sources of schemas.
        """
        yield from ()

    def problems_with_schemas(self, schemas: "Schemas") -> Iterator[str]:
        """Yield why it cannot start with these schemas, which are at hand. ``kproxy check`` refuses it then."""
        yield from ()

    def warnings(self, before: Sequence["Filter"]) -> Iterator[str]:
        """Yield sentences about what may not be meant, with those filters listed before it. ``kproxy check`` shows them."""
        yield from ()

    def growth(self, topic: str) -> "Callable[[Record], int] | None":
        """Return what says by how many bytes a produced record of a topic grows.

        None: by none. A filter that adds records to a request asks the filters behind it, so that the batch fits afterwards.
        """
        return None

    def on_start(self) -> None:
        """Prepare: ``runtime`` is set. Called once, before the first frame; raise UsageError to refuse the configuration."""

    def on_stop(self) -> None:
        """Release everything that is held: another chain is used from now on, or the worker ends."""

    def on_records(
        self, direction: Direction, request: RequestFacts, frame: bytes, fields: Sequence["RecordsField"]
    ) -> Edited | Awaitable[Edited]:
        """Return a Produce request, or the response to a Fetch or ShareFetch, with other records in it.

        A filter that has this method gets no messages of these; for others, they have to be decoded.

        Args:
            direction, request: of the frame; or the request of the response.
            frame: complete, size field included, and well-formed.
            fields: its records fields that are not empty, in order (see FrameEdit).
        """
        return Edited(frame)

    def on_request(self, request: Request) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on a request."""
        return Forward()

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on a response; not ``Reply``."""
        return Forward()

    def on_head(self, connection: ConnectionFacts, request: RequestFacts, head: bytes) -> bytes:
        """Return what to send in place of the head of a HEAD response: its fields up to the last address. Any size will do."""
        return head

    def on_tail(self, connection: ConnectionFacts, request: RequestFacts, tail: bytes) -> bytes:
        """Return what to send in place of the tail of a TAIL response: exactly ``len(tail)`` bytes."""
        return tail

    def on_raw_login(self, connection: ConnectionFacts, is_accepted: bool) -> None:
        """Note a login by raw SASL tokens, which are no requests (SaslHandshake v0); called if a filter ``identifies``.

        Called at the first token. Called again with *is_accepted* when a request follows, which shows that the broker
        accepted the client.
        """

    def on_close(self, connection: ConnectionFacts) -> None:
        """Release what is kept for a connection that was closed."""


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


@dataclass(frozen=True, slots=True)
class Cut:
    """Outcome of a response: send these bytes, the beginning of a frame, and close the connection."""

    frame: bytes


Outcome = Send | Answer | Close | Cut | Silence
