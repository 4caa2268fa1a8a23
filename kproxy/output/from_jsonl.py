"""Lines of the decoded log back to events; the inverse of jsonl.py, whose docstring is the contract.

Nothing is decoded again: bodies, embedded payloads, and reasons why something could not be read are taken from the line. Frames
have sizes, times and headers, but no bytes; ``encode`` builds those of their bodies from the JSON, for the tables. Anyone may
have written a line, so its text is no more trusted than text from the wire.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from kproxy.errors import CaptureError, EncodeError, Malformed
from kproxy.output.bodies import OPENABLE, READABLE, Bodies
from kproxy.output.escaping import printable
from kproxy.output.jsonl import START
from kproxy.output.times import parse_instant
from kproxy.output.tls import tls_facts
from kproxy.protocol import ApiKey, Beginning, Message, RequestHeader, ResponseHeader
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.protocol.embedded.payload import Embedded
from kproxy.protocol.message import request_message, response_message
from kproxy.protocol.object_codec import encode
from kproxy.protocol.program import Program
from kproxy.session import (
    BadFrame,
    Connection,
    Cut,
    Direction,
    Event,
    Exchange,
    Frame,
    Gap,
    Note,
    NotKafka,
    SaslToken,
    TcpFacts,
    Tls,
)
from kproxy.session.fetch_session import FETCH_SESSIONS_FROM, FetchSessions
from kproxy.session.recognise import SOFTWARE_FROM

# Raised by reading or showing JSON that is well formed, but not what its line declares
LINE_ERRORS = (
    msgspec.MsgspecError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
MOST_NUMBERS = 100_000  # of connections, that are kept from other connections
MOST_CONNECTIONS = 1_000  # whose authentication and fetch sessions are remembered
MOST_PARTITIONS = 10_000  # of one fetch session
MOST_TOPICS = 100_000  # whose names are remembered
LONGEST_NAME = 249  # Topic.MAX_NAME_LENGTH
LONGEST_SOFTWARE = 255  # characters of its name, and of its version
FULL_EPOCHS = (0, -1)

Address = Annotated[str, Meta(max_length=300, pattern=r"^[0-9A-Za-z_.:%\[\]-]*\Z")]  # "": the broker was not chosen yet
Short = Annotated[int, Meta(ge=-(2**15), lt=2**15)]
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Size = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Milliseconds = Annotated[float, Meta(ge=0, le=1e9)]
Side = Literal["request", "response"]
NULL = Raw(b"null")


class _Line(Struct, rename="camel"):
    """A line: what all have, then what exchanges have, then what the other events have."""

    event: Literal["exchange", "tls", "saslToken", "gap", "badFrame", "note", "notKafka"]
    connection: Long
    client: Address
    broker: Address

    api_key: Short | None = None
    api_version: Short | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    request_at: str | None = None
    response_at: str | None = None
    request_in_proxy_ms: Milliseconds | None = None
    broker_ms: Milliseconds | None = None
    response_in_proxy_ms: Milliseconds | None = None
    request_size: int | None = None
    response_size: int | None = None
    request_header: Raw = NULL
    request: Raw = NULL
    response_header: Raw = NULL
    response: Raw = NULL
    embedded: Raw = Raw(b"[]")
    undecoded: str | None = None
    unanswered: str | None = None
    expects_response: bool = True
    topic_names: dict[str, str] = {}
    layout: str | None = None
    assumed_version: Short | None = None
    bodies: str | None = None
    trailing: dict[Side, Size] | None = None
    missing: dict[Side, str | None] | None = None
    edited: list[str] = []

    at: str | None = None
    direction: Side = "request"
    size: int | None = None
    mechanism: str | None = None
    token: dict[str, Any] | None = None
    skipped: int = 0
    cut: str | None = None
    reason: str = ""
    kind: str = "unknown"
    what: str = ""
    tls: dict[str, Any] | None = None
    tcp: "_Tcp | None" = None


class _Tcp(Struct, rename="camel"):
    syn_at: str | None = None
    last_syn_at: str | None = None
    syns: Long = 0
    syn_ack_at: str | None = None
    closed_by: Literal["client", "broker"] | None = None
    closed_at: str | None = None


class _Embedded(Struct):
    path: str
    where: Side = msgspec.field(name="in")
    kind: str
    json: Any = None
    error: str | None = None


class _FetchPartition(Struct, rename="camel"):
    partition: int
    fetch_offset: int
    partition_max_bytes: int


class _FetchTopic(Struct, rename="camel"):
    partitions: list[_FetchPartition]
    topic: str = ""
    topic_id: str = ""


class _Forgotten(Struct, rename="camel"):
    partitions: list[int]
    topic: str = ""
    topic_id: str = ""


class _FetchRequest(Struct, rename="camel"):
    """What fetch sessions need: decoding all of a body with its schema takes a hundred times longer."""

    session_id: int = 0
    session_epoch: int = -1
    topics: list[_FetchTopic] = []
    forgotten_topics_data: list[_Forgotten] = []


class _FetchResponse(Struct, rename="camel"):
    session_id: int = 0


class _Software(Struct, rename="camel"):
    client_software_name: str | None = None
    client_software_version: str | None = None


_read_line = msgspec.json.Decoder(_Line).decode
_read_embedded = msgspec.json.Decoder(list[_Embedded]).decode
_read_fetch_request = msgspec.json.Decoder(_FetchRequest).decode
_read_fetch_response = msgspec.json.Decoder(_FetchResponse).decode


class _LoggedHeader:
    """The header of a frame, as JSON only."""

    def __init__(self, json: bytes) -> None:
        self._json = json

    def to_json(self) -> bytes:
        """Kafka's JSON of it, UTF-8."""
        return self._json


class LoggedRequestHeader(_LoggedHeader, RequestHeader):
    """The header of a request, as JSON only."""


class LoggedResponseHeader(_LoggedHeader, ResponseHeader):
    """The header of a response, as JSON only."""


class LoggedRecords(Struct, frozen=True):
    """A records field. The log has its size and, usually, the headers of its batches."""

    size: int
    opened: dict[str, Any] = {}

    def __len__(self) -> int:
        return self.size


class LoggedFrame(Frame):
    """A frame whose bytes are not in the log; its body is decoded from the JSON."""

    def __init__(self, size: int, at: int) -> None:
        super().__init__(b"", at, at, size=size - SIZE_FIELD)
        self.json: bytes | None = None  # of the body
        self.json_version = 0
        self.records: dict[str, Any] = {}  # path of a records field -> what the log says of it

    def encode(self) -> tuple[Program, bytes, list["LoggedRecords"]]:
        """Encode the JSON of the body. Raises DecodeError.

        Withheld bytes are empty; a records field is the number of a LoggedRecords, in four bytes.
        """
        if self.message is None or self.json is None:
            raise Malformed("the log does not have it", message="body")
        logged: list[LoggedRecords] = []

        def number(path: str, size: int) -> bytes:
            opened = self.records.get(path)
            logged.append(LoggedRecords(size, opened if isinstance(opened, dict) else {}))
            return (len(logged) - 1).to_bytes(4) if size else b""

        try:
            shown = self.message.from_shown(self.json_version, self.json, number)
            program = self.message.lenient_program(self.json_version)
            return program, encode(program, shown), logged
        except EncodeError as error:
            raise Malformed(str(error), message=self.message.name) from None

    def body(self) -> Any:
        """See Frame.body. None too where the log withholds bytes or has only sizes: credentials, and records."""
        if self.message is None or self.json is None or self.unread or self.cut:
            return None
        try:
            return self.message.from_json(self.json_version, self.json)
        except EncodeError:
            return None


class LoggedExchange(Exchange):
    """An exchange whose ``bodies`` (why they are cut) is what the log says."""

    why_cut: str | None = None

    @property
    def bodies(self) -> str | None:
        return self.why_cut


@dataclass(slots=True)
class _Known:
    """What earlier lines have shown about a connection."""

    connection: Connection
    sessions: FetchSessions = field(default_factory=lambda: FetchSessions(MOST_PARTITIONS))
    next_epoch: int | None = None


class LogReader:
    """Reads the lines of a log, or of its rotated parts, in order. Memory is bounded: the oldest connections are forgotten."""

    line_errors = LINE_ERRORS

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, str, str], _Known] = OrderedDict()
        self._numbers: dict[int, tuple[int, str, str]] = {}  # whose they are: logs of several hosts share numbers
        self._last_number = 0
        self._topics: OrderedDict[str, str] = OrderedDict()  # id -> name: a fetch session has ids of earlier lines

    def read(self, line: bytes) -> tuple[Event, Bodies | None]:
        """Return the event of a line, and the bodies of an exchange. Raises CaptureError if it is no line of a decoded log."""
        try:
            if not line.isascii():
                line.decode()  # raise for bytes that are not UTF-8: msgspec checks only the fields that it reads
            read = _read_line(line if line.startswith(START) else msgspec.json.format(line, indent=-1))
            known = self._connection(read)
            return self._exchange(read, known) if read.event == "exchange" else (_event(read, known.connection), None)
        except LINE_ERRORS as error:
            raise CaptureError(f"no event of a decoded log ({printable(str(error), 120)})") from error

    def _connection(self, line: _Line) -> _Known:
        key = line.connection, line.client, line.broker
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(Connection(self._number(key), line.client, line.broker))
            if len(self._known) > MOST_CONNECTIONS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return known

    def _number(self, key: tuple[int, str, str]) -> int:
        """Return the number that the log gives to a connection; the next free one if another connection has it."""
        number = key[0]
        if self._numbers.get(number, key) != key:
            number = self._last_number + 1
        self._last_number = max(self._last_number, number)
        self._numbers[number] = key
        if len(self._numbers) > MOST_NUMBERS:
            del self._numbers[next(iter(self._numbers))]
        return number

    def _learn_topics(self, names: dict[str, str]) -> None:
        for topic_id, name in names.items():
            if len(topic_id) <= LONGEST_NAME and len(name) <= LONGEST_NAME:
                self._topics[topic_id] = name
                self._topics.move_to_end(topic_id)
        while len(self._topics) > MOST_TOPICS:
            self._topics.popitem(last=False)

    def _exchange(self, line: _Line, known: _Known) -> tuple[Exchange, Bodies]:
        request = _frame(line.request_size, line.request_at)
        response = _frame(line.response_size, line.response_at)
        _set_phases(line, request, response)
        key = line.api_key
        self._learn_topics(line.topic_names)
        if request is not None:
            header = _object(line.request_header)
            request.header = None if header is None else LoggedRequestHeader(header)
            _lay_out(request, line, None if key is None else request_message(key), line.request)
            request.unread = _is_unread(line)
        if response is not None:
            header = _object(line.response_header)
            response.header = None if header is None else LoggedResponseHeader(header)
            _lay_out(response, line, None if key is None else response_message(key), line.response)
        bodies = Bodies(_object(line.request), _object(line.response), line.undecoded, _embedded(line.embedded))
        _complete(line, request, response, bodies)
        _set_edits(line, request, response)
        for one in bodies.embedded:
            frame = request if one.where == "request" else response
            if frame is not None and one.kind == "records":
                frame.records[one.path] = one.json
        exchange = LoggedExchange(
            known.connection,
            max((frame.ended_at for frame in (request, response) if frame is not None), default=0),
            key,
            line.api_version,
            line.correlation_id,
            line.client_id,
            request,
            response,
            line.expects_response,
            line.unanswered,
            line.undecoded,
            self._topics,
        )
        exchange.why_cut = line.bodies
        _learn(exchange, bodies, known)
        bodies.sasl_mechanism = known.connection.sasl_mechanism
        return exchange, bodies


def _event(line: _Line, connection: Connection) -> Event:
    if line.at is None:
        raise ValueError("no time")
    at, direction = parse_instant(line.at), Direction.of(line.direction)
    if line.tls is not None:
        connection.tls = tls_facts(line.tls)
    if line.tcp is not None:
        connection.tcp = _tcp_facts(line.tcp)
    match line.event:
        case "saslToken":
            connection.sasl_mechanism = line.mechanism
            return SaslToken(connection, at, direction, line.size or 0, line.token)
        case "gap":
            cut = next((one for one in Cut if one and one.text == line.cut), Cut.MISSING)
            return Gap(connection, at, direction, line.size, line.skipped, cut=cut)
        case "badFrame":
            return BadFrame(connection, at, direction, line.reason)
        case "note":
            return Note(connection, at, direction, line.what)
        case "notKafka":
            return NotKafka(connection, at, line.kind, direction, line.what)
    return Tls(connection, at)


def _tcp_facts(tcp: _Tcp) -> TcpFacts:
    syn_at, last_syn_at, syn_ack_at, closed_at = (
        None if text is None else parse_instant(text)
        for text in (tcp.syn_at, tcp.last_syn_at, tcp.syn_ack_at, tcp.closed_at)
    )
    return TcpFacts(syn_at, last_syn_at, tcp.syns, syn_ack_at, tcp.closed_by, closed_at)


def _frame(size: int | None, at: str | None) -> LoggedFrame | None:
    if size is None or at is None:
        return None
    return LoggedFrame(size, parse_instant(at))


def _set_phases(line: _Line, request: LoggedFrame | None, response: LoggedFrame | None) -> None:
    """Set when a proxy sent the frames on, and when the response began, from the phases in the line."""
    if request is not None and line.request_in_proxy_ms is not None:
        request.sent_at = request.started_at + round(line.request_in_proxy_ms * 1e6)
        if response is not None and line.broker_ms is not None:
            response.started_at = request.sent_at + round(line.broker_ms * 1e6)
    if response is not None and line.response_in_proxy_ms is not None:
        response.sent_at = response.started_at + round(line.response_in_proxy_ms * 1e6)


def _lay_out(frame: LoggedFrame, line: _Line, message: Message | None, body: Raw) -> None:
    """Set the layout of the body. The line has layout and assumed version for the exchange, not for each side."""
    version = line.api_version
    if message is None or version is None or _object(body) is None:
        return
    frame.message = message
    frame.json, frame.json_version = _object(body), version
    if line.api_key == ApiKey.API_VERSIONS and message is response_message(ApiKey.API_VERSIONS) and _is_refusal(frame):
        frame.json_version = 0
    older = (layout.release for layout in message.layouts[1:] if version in layout.versions)
    frame.layout = next((release for release in older if release == line.layout), None)
    if line.assumed_version is not None and version > message.versions.highest:
        frame.assumed_version = frame.json_version = line.assumed_version


def _is_refusal(api_versions: LoggedFrame) -> bool:
    """Return whether the response is in version 0 because the broker lacks the requested version (KIP-511)."""
    return api_versions.json is not None and b'"throttleTimeMs"' not in api_versions.json


def _set_edits(line: _Line, request: LoggedFrame | None, response: LoggedFrame | None) -> None:
    """Set for each frame what filters did to it."""
    for edit in line.edited:
        frame = response if response is not None and (edit.startswith("response") or request is None) else request
        if frame is not None:
            frame.edits = [*(frame.edits or ()), edit]


def _complete(line: _Line, request: LoggedFrame | None, response: LoggedFrame | None, bodies: Bodies) -> None:
    """Set where each frame is cut, and how many bytes come after its message."""
    trailing: Mapping[Any, int] = line.trailing or {}
    missing: Mapping[Any, str | None] = line.missing or {}
    for side, frame, json in (("request", request, bodies.request), ("response", response, bodies.response)):
        if frame is None:
            continue
        frame.trailing = trailing.get(side, 0)
        if side in missing:
            frame.cut = _cut_of(side, line.bodies or "")
            bodies.beginnings[side] = Beginning(json or b"{}", missing[side])


def _cut_of(side: str, why: str) -> Cut:
    """Return why one side is cut, from the words in the line."""
    for part in why.split("; "):
        named, _, rest = part.partition(": ")
        reason = rest if named == side else part
        for cut in Cut:
            if reason == cut.text and cut:
                return cut
    return Cut.CAPTURE_ENDED if why.startswith("the capture") else Cut.RESET


def _is_unread(line: _Line) -> bool:
    """Return whether the broker lacked the version and so did not read the request's body."""
    version = line.api_version
    return line.api_key == ApiKey.API_VERSIONS and (version or 0) >= SOFTWARE_FROM and _object(line.request) == b"{}"


def _object(raw: Raw) -> bytes | None:
    """Return the JSON if it is an object, None if it is null. Raises ValueError for anything else."""
    json = bytes(raw)
    if json == b"null":
        return None
    if not json.startswith(b"{"):
        raise ValueError(f"{printable(json[:20].decode(errors='replace'))} where an object is due")
    return json


def _embedded(raw: Raw) -> list[Embedded]:
    """Return what is inside bytes and records fields; nothing if that is too large to be decoded to objects."""
    json = bytes(raw)
    if json == b"[]" or len(json) > OPENABLE:
        return []
    return [Embedded(one.path, one.where, one.kind, one.json, one.error) for one in _read_embedded(json)]


def _learn(exchange: Exchange, bodies: Bodies, known: _Known) -> None:
    """Remember what later exchanges of the connection need, as a session does when it reads frames."""
    version = exchange.api_version or 0
    if bodies.request is None or len(bodies.request) > READABLE or bodies.beginnings:
        return
    if exchange.api_key == ApiKey.API_VERSIONS and version >= SOFTWARE_FROM:
        _learn_software(bodies.request, bodies.embedded, known.connection)
    elif exchange.api_key == ApiKey.SASL_HANDSHAKE and (handshake := exchange.request_body()) is not None:
        known.connection.sasl_mechanism = handshake.mechanism
    elif exchange.api_key == ApiKey.FETCH and version >= FETCH_SESSIONS_FROM and bodies.response is not None:
        _learn_fetch(exchange, _read_fetch_request(bodies.request), _read_fetch_response(bodies.response), known)


def _learn_software(request: bytes, embedded: list[Embedded], connection: Connection) -> None:
    """Remember the client's software; a request that the broker did not read has it in ``embedded``."""
    named = msgspec.json.decode(request, type=_Software)
    for one in embedded:
        if one.kind == "unread" and isinstance(one.json, dict):
            named = msgspec.convert(one.json, _Software)
    if named.client_software_name is not None and named.client_software_version is not None:
        connection.client_software_name = named.client_software_name[:LONGEST_SOFTWARE]
        connection.client_software_version = named.client_software_version[:LONGEST_SOFTWARE]


def _learn_fetch(exchange: Exchange, request: _FetchRequest, response: _FetchResponse, known: _Known) -> None:
    full = request.session_epoch in FULL_EPOCHS
    session_id = response.session_id if full else request.session_id
    if not session_id:
        return
    if not full and request.session_epoch != known.next_epoch:
        known.sessions = FetchSessions(MOST_PARTITIONS)  # the log lacks the requests in between
    known.next_epoch = request.session_epoch + 1
    exchange.fetch_number = known.sessions.note_body(session_id, request)
    exchange.fetch_sessions = known.sessions
