"""Messages between the supervisor and its children, and the channel that carries them: JSON lines over a socket pair.

The unions near the end say who gets which: ToWorker, ToAnalyzer, ToSupervisor. A Configure is answered by Ready or Failed, in
order; ListConnections by Connections; ShowStop, Decide and UseBreakpoints by StopAnswer. To add a message: add its Struct here
and to the union of its receiver, and handle it there (worker.py, analyzer/process.py, supervisor/child.py and fleet.py). A child
may be newer than its supervisor, after an upgrade on disk: unknown fields are ignored, a line that is no message of the
receiver's union is passed to ``on_malformed`` and skipped.

When the channel ends, the child exits: its supervisor is gone.
"""

import asyncio
import functools
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from types import UnionType
from typing import Any, Generic, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from kproxy.config.structs import Config
from kproxy.filters.contract import ClientMetric

BrokerAddress: TypeAlias = tuple[int, str, int]  # node id, host, port
STOP_PART = 512 * 1024  # bytes of a stopped message in one of the channel: as base64 well below its longest line
LONGEST_REASON = 10_000  # characters of why a configuration cannot be used
LogValue: TypeAlias = str | int | float | bool | list[str | int | float | bool | None] | None


class Message(Struct, frozen=True, tag_field="type"):
    """Anything sent on a channel."""


class Configure(Message, frozen=True, tag="configure"):
    """Use this configuration from now on. After Failed the previous one stays in use."""

    config: msgspec.Raw
    reload_filters: bool = False  # load the modules of filters again: their files have changed

    @classmethod
    def to(cls, config: Config, reload_filters: bool = False) -> Self:
        """The message with *config*, encoded once for all receivers."""
        return cls(msgspec.Raw(msgspec.json.encode(config)), reload_filters)

    def decode(self) -> Config:
        """Return the configuration. Raises msgspec.MsgspecError; answer that by Failed."""
        return msgspec.json.decode(self.config, type=Config)


class Drain(Message, frozen=True, tag="drain"):
    """Finish and exit. A worker accepts no more and waits until all in flight is answered; the analyzer reads the taps."""

    seconds: float


class ReloadCertificates(Message, frozen=True, tag="reload_certificates"):
    """TLS files have changed: make new TLS contexts."""


class ListConnections(Message, frozen=True, tag="list_connections"):
    """Send the open connections."""

    question: int  # number of the answer


class SetBreakpoint(Struct, frozen=True):
    """A breakpoint, see kproxy.filters.breakpoints."""

    condition: str
    direction: str  # request or response


class UseBreakpoints(Message, frozen=True, tag="use_breakpoints"):
    """Stop messages that match these breakpoints, in place of those that were set before."""

    breakpoints: list[SetBreakpoint]
    question: int = 0  # number of the answer, once they are in use


class ShowStop(Message, frozen=True, tag="show_stop"):
    """Send the bytes of a stopped message."""

    question: int  # number of the answer
    id: str


class Decide(Message, frozen=True, tag="decide"):
    """Decide about a stopped message. A body that replaces it comes in parts; the last part decides."""

    question: int
    id: str
    action: str  # of kproxy.filters.breakpoints.decision, or "keep": more time
    by: str  # address of the browser
    error: int = 0
    seconds: float = 0.0  # of keep: from now
    part: bytes = b""
    more: bool = False  # another part follows

    def parts(self, body: bytes) -> Iterator[Self]:
        for start in range(0, len(body) or 1, STOP_PART):
            part, more = body[start : start + STOP_PART], start + STOP_PART < len(body)
            yield type(self)(self.question, self.id, self.action, self.by, self.error, self.seconds, part, more)


class ResumeAll(Message, frozen=True, tag="resume_all"):
    """Let all stopped messages go on unchanged."""

    by: str  # address of the browser; "" if no person decided
    why: str = ""  # the reason if no person decided: Why in kproxy.filters.breakpoints.decision


class ForgetWorker(Message, frozen=True, tag="forget_worker"):
    """A worker died: its connections are over. Another process takes over its tap ring."""

    worker: int


class FeedPage(Message, frozen=True, tag="feed_page"):
    """Send exchanges to the live page that listens at this path (Unix domain socket); "": stop sending.

    Keep the last exchanges, of so many bytes in all, for a page that comes later.
    """

    path: str
    past: int = 0


class Ready(Message, frozen=True, tag="ready"):
    """The configuration is in use; a worker listens."""


class Failed(Message, frozen=True, tag="failed"):
    """The configuration cannot be used: an address is in use, a filter does not load."""

    why: str  # one clear sentence

    @classmethod
    def because(cls, error: Exception) -> Self:
        """Return the message for an error; a text that would not fit the channel is cut."""
        why = str(error).encode("utf-8", "backslashreplace").decode()
        return cls(why if len(why) <= LONGEST_REASON else f"{why[:LONGEST_REASON]}...")


class LogEvent(Message, frozen=True, tag="log"):
    """An event for the log, which the supervisor alone writes."""

    level: str
    event: str
    keys: dict[str, LogValue] = {}  # of KEYS in logs.py


class Drained(Message, frozen=True, tag="drained"):
    """The process exits now."""

    left: int = 0  # connections closed with something in flight, as their time was over


class Brokers(Message, frozen=True, tag="brokers"):
    """All brokers that a worker has learned of in one cluster; the supervisor passes them on to the other workers."""

    cluster: str
    brokers: list[BrokerAddress]


class Learned(Message, frozen=True, tag="learned"):
    """Values that a worker's filters have added to a shared set; the supervisor passes them on (shared_state.py)."""

    cluster: str
    name: str  # of the set
    values: list[str]


class KnownKeys(Message, frozen=True, tag="known_keys"):
    """The public keys of an identity provider, as a worker was answered; the supervisor passes them on to the other workers."""

    cluster: str
    url: str
    keys: str  # a JWKS


class ClientMetrics(Message, frozen=True, tag="client_metrics"):
    """Metrics that a client has pushed, or a part of them (filters/telemetry), for /metrics."""

    cluster: str
    client_id: str
    instance_id: str
    metrics: list[ClientMetric]
    keep_s: float
    most_names: int  # in /metrics
    most_series: int  # of a name


class BrokerReach(Message, frozen=True, tag="broker_reach"):
    """Whether a worker's last attempt to connect to a broker of a cluster succeeded; sent when that changes."""

    cluster: str
    reached: bool
    reason: str = ""  # why not


class JournalState(Message, frozen=True, tag="journal_state"):
    """Whether a worker can write a journal without which requests are refused; sent when that changes."""

    path: str
    reason: str  # why it cannot be written; "": it can


class ClusterState(Struct, frozen=True):
    """A virtual cluster, as /readyz shows it."""

    name: str
    broker_reached: bool | None = None  # None: not tried yet
    reason: str | None = None  # why not


class Connection(Struct, frozen=True):
    """An open connection, as /connections shows it."""

    worker: int
    number: int
    cluster: str
    client: str
    broker: str
    node_id: int | None
    age_s: float
    idle_s: float
    requests: int
    responses: int
    request_bytes: int
    response_bytes: int
    in_flight: int
    last_api: str | None
    tls: bool


class Connections(Message, frozen=True, tag="connections"):
    """The answer to ListConnections, or a part of it."""

    question: int
    connections: list[Connection]
    more: bool  # another part follows


class Stop(Struct, frozen=True, rename="camel"):
    """A stopped message, as /page/api/stops shows it."""

    id: str  # unique over all workers and their restarts
    cluster: str
    connection: int
    client: str
    broker: str
    principal: str | None
    client_id: str | None
    direction: str
    api_key: int
    api_version: int
    correlation_id: int
    size: int  # bytes, without header
    condition: str  # of the breakpoint
    expects_response: bool
    can_fail: bool  # whether it can be answered with an error
    stopped_ms: int  # since the epoch
    resumes_ms: int  # when it goes on by itself


class Stopped(Message, frozen=True, tag="stopped"):
    """A message is stopped, or will stay stopped for longer."""

    stop: Stop


class StopEnded(Message, frozen=True, tag="stop_ended"):
    """A stop has ended; the other fields are those of its Decision (kproxy.filters.breakpoints.decision)."""

    id: str
    action: str = "resume"
    by: str = ""
    why: str = ""


class BreakpointGivenUp(Message, frozen=True, tag="breakpoint_given_up"):
    """A worker has given up a breakpoint, as its condition takes too long to evaluate."""

    condition: str
    direction: str
    why: str  # in sentences, with what to do


class StopAnswer(Message, frozen=True, tag="stop_answer"):
    """The answer to ShowStop, Decide or UseBreakpoints, or a part of it."""

    question: int
    part: bytes = b""
    more: bool = False  # another part follows
    refused: str = ""  # why it was not done


class Alive(Message, frozen=True, tag="alive"):
    """Sent once a second while the worker's event loop turns; AnalyzerCounts says it of the analyzer (supervisor/child.py)."""


class OutputCounts(Struct, frozen=True):
    """Counts of one output file."""

    written: int  # bytes
    dropped: int  # bytes
    failures: int


class AnalyzerCounts(Message, frozen=True, tag="counts", kw_only=True):
    """Counts of the analyzer for /metrics, sent once a second: since it started, except for those marked "now"."""

    at: int = 0  # ns since the epoch: when it was sent
    exchanges: int = 0  # analysed, whether they could be decoded or not
    frames: int = 0  # likewise
    undecoded: list[tuple[str, int]] = []  # API, exchanges in which something could not be decoded
    trailing: list[tuple[str, str, int]] = []  # API, "request" or "response", frames with bytes after the message
    cut: list[tuple[str, str, int]] = []  # likewise, frames whose bodies are incomplete
    unanswered: int = 0  # requests that were due a response and got none
    errors: list[tuple[str, str, int]] = []  # API, error name, responses
    throttled: list[tuple[str, int]] = []  # API, responses that tell the client to wait
    throttle_ms: list[tuple[str, int]] = []  # API, how long they tell it to wait
    sasl: list[tuple[str, str, int]] = []  # mechanism, result, authentications
    gaps: int = 0  # events of the session, as the next three
    bad_frames: int = 0
    not_kafka: int = 0
    sasl_tokens: int = 0
    faults: dict[str, int] = {}  # by exception: connections whose analysis failed
    given_up: int = 0  # connections not analysed: too many, or one that held too much
    left_out: dict[
        str, int
    ] = {}  # by reason: requests that came and whose exchanges could not be made, or not be written
    ring_faults: int = 0  # times a tap ring held an impossible value
    connections: int = 0  # analysed now
    waiting_bytes: int = 0  # in the taps now
    most_lag_ns: int = 0  # longest delay behind the traffic since the last message
    starved: int = 0  # times that the analyzer got so little of the CPU that it took a fair share (scheduling.py)
    outputs: dict[str, OutputCounts] = {}  # "log", "capture"
    spans: dict[str, int] = {}  # "exported", "dropped", "failed"


class AnalyzerSeries(Message, frozen=True, tag="series"):
    """The analyzer's numbers by names from traffic; after each AnalyzerCounts one message for each kind of name."""

    kind: str  # a series of kproxy/output/metric_descriptions.py
    rows: list[tuple[tuple[str, ...], list[int]]] = []  # labels, numbers; rows that are missing have ended
    is_gauge: bool = False  # the numbers are values of the moment; else they grow while the analyzer runs


ToWorker: TypeAlias = (
    Configure
    | Brokers
    | Learned
    | KnownKeys
    | ReloadCertificates
    | ListConnections
    | Drain
    | UseBreakpoints
    | ShowStop
    | Decide
    | ResumeAll
)
ToAnalyzer: TypeAlias = Configure | ForgetWorker | FeedPage | Drain
StopNews: TypeAlias = Stopped | StopEnded | BreakpointGivenUp
News: TypeAlias = (
    BrokerReach | JournalState | ClientMetrics | AnalyzerCounts | AnalyzerSeries | StopNews
)  # of Fleet.tell
# What a Child does not handle itself but passes on to the Fleet
ToFleet: TypeAlias = Brokers | Learned | KnownKeys | Connections | StopAnswer | News
ToSupervisor: TypeAlias = Ready | Failed | LogEvent | Drained | Alive | ToFleet

LONGEST_LINE = 1 << 20
MESSAGE_DROPPED = "a message to another process is too long and is dropped"

Received = TypeVar("Received", bound=Message)


@functools.cache
def decoder(received: UnionType) -> msgspec.json.Decoder[Any]:
    """The decoder of a union of messages. It takes 0.3 MB, so it is made before the fork."""
    return msgspec.json.Decoder(received)


class Channel(Generic[Received]):
    """One end. ``async for message in channel`` ends when the other end is closed."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        received: UnionType,
        on_malformed: Callable[[str], None],
        on_too_long: Callable[[str], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.json.Decoder[Received] = decoder(received)
        self._on_malformed = on_malformed
        self._on_too_long = on_too_long

    @classmethod
    async def open(
        cls,
        end: socket.socket | int,
        received: UnionType,
        on_malformed: Callable[[str], None],
        on_too_long: Callable[[str], None],
    ) -> Self:
        """Open the channel over a socket or an inherited file descriptor, and own it from here on.

        Args:
            end: the socket or file descriptor.
            received: the union of the messages that may be received.
            on_malformed: called with the reason for each line that is none of them.
            on_too_long: called with the size of each message that is dropped by ``send``.
        """
        opened = socket.socket(fileno=end) if isinstance(end, int) else end
        opened.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=opened, limit=LONGEST_LINE + 1)
        return cls(reader, writer, received, on_malformed, on_too_long)

    async def send(self, message: Message) -> bool:
        """Send, waiting while the other end does not read. If the other end is gone, nothing is sent: reading notices its end.

        A message of more than LONGEST_LINE bytes is passed to ``on_too_long`` and dropped; the result is then False.
        """
        line = msgspec.json.encode(message) + b"\n"
        if len(line) > LONGEST_LINE:
            name = type(message).__name__
            self._on_too_long(f"{name} has {len(line):,} bytes, at most {LONGEST_LINE:,} go in a line")
            return False
        if self._writer.is_closing():
            return True
        self._writer.write(line)
        try:
            await self._writer.drain()
        except ConnectionError:
            self.close()
        return True

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Iterate over the messages as they arrive."""
        while True:
            try:
                line = await self._reader.readline()
                if not line.endswith(b"\n"):  # the end; after half a line the other end died while it wrote
                    return
                message = self._decoder.decode(line)
            except ConnectionError:
                return
            except (msgspec.MsgspecError, ValueError) as error:  # ValueError: the line is too long, or no UTF-8
                self._on_malformed(str(error))
                continue
            yield message

    def close(self) -> None:
        """Close this end; the other end's iteration ends."""
        self._writer.close()
