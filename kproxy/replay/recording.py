"""Recording: the requests of captures in the order in which they were sent, and what recorded answers show of the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kproxy.errors import DecodeError, UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.times import render_size
from kproxy.output.tls import why_not_decrypted
from kproxy.pipeline.decoded_log import DecodedLog, MergedLog
from kproxy.pipeline.inputs import find_inputs
from kproxy.pipeline.output import Observer, Source
from kproxy.pipeline.run import Options, Run
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import join_address
from kproxy.session import BadFrame, Event, Exchange, FetchSession, Frame, Gap, NotKafka, SaslToken
from kproxy.session.exchanges import peeked

MOST_HELD = 1_073_741_824  # bytes of frames
MOST_REQUESTS = 2_000_000
MOST_NAMES = 100_000  # topics, nodes, topic ids
MOST_KINDS = 20  # of events that are no exchange
_OTHERS: dict[type[Event], str] = {
    Gap: "gap in the capture: requests in it are not known",
    NotKafka: "connection without Kafka",
    BadFrame: "frame that is none of Kafka's",
    SaslToken: (
        "raw SASL token, as follows SaslHandshake v0: it is not sent, as connections to the new cluster log in by themselves,"
        " where --command-config says how"
    ),
}
FULL_EPOCHS = (0, -1)  # of a Fetch that names all its partitions (KIP-227)

ConnectionId = tuple[int, int]  # number of the source, and of the connection in it


@dataclass(slots=True)
class Recorded:
    """A recorded request, with its answer if there is one."""

    number: int  # in the order of sending, from 1
    connection: ConnectionId
    client: str
    broker: str  # "host:port"
    api_key: int
    api_version: int
    api_name: str
    client_id: str | None
    correlation_id: int
    request: Frame
    response: Frame | None
    expects_response: bool
    sent_at: int  # ns since the epoch
    answered_at: int | None
    session: FetchSession | None = None  # the whole session, if some requests that changed it are not sent

    def body(self) -> Any:
        """Decode the request. Raises DecodeError."""
        return self.request.decode()

    def answer(self) -> Any:
        """Decode the recorded response; None if there is none, or it cannot be read."""
        return None if self.response is None else self.response.body()

    @property
    def readable(self) -> bool:
        """Whether the request is complete and can be decoded."""
        return self.request.message is not None and self.request.error is None and not self.request.cut


@dataclass(slots=True)
class Recording:
    """The content of the captures."""

    requests: list[Recorded] = field(default_factory=list)
    nodes: dict[str, int] = field(default_factory=dict)  # "host:port" -> node id, as Metadata named them
    topics: dict[str, int] = field(default_factory=dict)  # topic -> partitions
    leaders: dict[tuple[str, int], int] = field(default_factory=dict)  # topic, partition -> the first leader, a node id
    names: dict[str, str] = field(default_factory=dict)  # topic id -> topic
    damages: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # files that were left out, as they are copies
    unframed: dict[str, int] = field(default_factory=dict)  # other events, in words -> how often
    seen: int = 0  # requests in all, selected or not

    @property
    def span_ns(self) -> int:
        """Nanoseconds from the first request to the last."""
        return self.requests[-1].sent_at - self.requests[0].sent_at if self.requests else 0

    @property
    def connections(self) -> int:
        """How many connections have a request that was selected."""
        return len({one.connection for one in self.requests})


def read_recording(
    paths: Sequence[Path],
    *,
    where: str | None = None,
    keylog: Path | None = None,
    separate: bool = False,
    most_held: int = MOST_HELD,
) -> Recording:
    """Read captures completely, as one capture unless each is *separate*.

    Raises:
        UsageError: a source is no capture, *where* is no condition, or the selected requests exceed *most_held* bytes.
    """
    collector = _Collector(most_held)
    with Run(Options(where=where, keylog=keylog), [collector]) as run:
        inputs = find_inputs(paths, separate=separate)
        for files in inputs.files:
            with files.open() as source:
                if isinstance(source, DecodedLog | MergedLog):
                    raise UsageError(
                        f"{source.name} is a decoded log, which has no records and no bytes to send: replay needs captures"
                    )
                for _ in run.read(source):
                    pass
        damages = [*inputs.damages, *run.damages]
    recording = collector.finish(damages)
    recording.notes = [*inputs.notes, *run.notes]
    return recording


class _Collector(Observer):
    """An output that keeps the requests that are shown, and learns from all."""

    def __init__(self, most_held: int) -> None:
        self._recording = Recording()
        self._source = 0
        self._held = 0
        self._most_held = most_held
        self._epochs: dict[tuple[ConnectionId, int], int] = {}  # fetch session -> epoch of its last selected request

    def start_source(self, source: Source) -> None:
        self._source = source.number

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        if not isinstance(event, Exchange):
            self._note_other(event)
            return
        self._recording.seen += event.request is not None
        self._learn(event)
        if not shown or event.request is None or event.api_key is None or event.api_version is None:
            return
        self._held += sum(len(frame.data) for frame in (event.request, event.response) if frame is not None)
        if self._held > self._most_held or len(self._recording.requests) >= MOST_REQUESTS:
            raise UsageError(
                f"the requests to replay and their answers are more than {render_size(self._most_held)}"
                f" or {MOST_REQUESTS:,} requests: select some of them with --where"
            )
        self._recording.requests.append(self._recorded(event))

    def _note_other(self, event: Event) -> None:
        """Note an event that is no request; it may explain why an expected one is missing."""
        kind = _OTHERS.get(type(event))
        if isinstance(event, NotKafka) and event.what:
            facts = event.connection.tls
            what = f"tls: {why_not_decrypted(facts)}" if facts is not None and facts.missing else event.what
            kind = f"connection without Kafka: {what}"
        unframed = self._recording.unframed
        if kind is not None and (kind in unframed or len(unframed) < MOST_KINDS):
            unframed[kind] = unframed.get(kind, 0) + 1

    def finish(self, damages: list[str]) -> Recording:
        """Sort the requests, which are in the order of their answers so far."""
        recording = self._recording
        recording.damages = damages
        recording.requests.sort(key=lambda one: (one.sent_at, one.connection))
        for number, one in enumerate(recording.requests, 1):
            one.number = number
        return recording

    def _recorded(self, exchange: Exchange) -> Recorded:
        request, response = exchange.request, exchange.response
        assert request is not None and exchange.api_key is not None and exchange.api_version is not None
        connection = (self._source, exchange.connection.number)
        return Recorded(
            number=0,
            connection=connection,
            client=exchange.connection.client,
            broker=exchange.connection.broker,
            api_key=exchange.api_key,
            api_version=exchange.api_version,
            api_name=exchange.api_name or f"API {exchange.api_key}",
            client_id=exchange.client_id,
            correlation_id=exchange.correlation_id or 0,
            request=request,
            response=response,
            expects_response=exchange.expects_response,
            sent_at=request.ended_at,
            answered_at=None if response is None else response.ended_at,
            session=self._broken_session(exchange, connection),
        )

    def _broken_session(self, exchange: Exchange, connection: ConnectionId) -> FetchSession | None:
        """Return the whole fetch session if its selected requests do not follow each other; else None."""
        if exchange.api_key != ApiKey.FETCH:
            return None
        session_id, epoch = _peek(exchange.request, "sessionId"), _peek(exchange.request, "sessionEpoch")
        if epoch is None:
            return None
        if epoch in FULL_EPOCHS:
            given = _peek(exchange.response, "sessionId")
            if given:
                self._note_epoch((connection, given), 0)
            return None
        key = (connection, session_id or 0)
        follows = self._epochs.get(key) == epoch - 1
        self._note_epoch(key, epoch)
        return None if follows else exchange.fetch_session

    def _note_epoch(self, key: tuple[ConnectionId, int], epoch: int) -> None:
        if len(self._epochs) < MOST_NAMES or key in self._epochs:
            self._epochs[key] = epoch

    def _learn(self, exchange: Exchange) -> None:
        recording = self._recording
        if exchange.topic_names and len(recording.names) < MOST_NAMES:
            recording.names.update(exchange.topic_names)
        if exchange.api_key not in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER) or exchange.response is None:
            return
        try:
            answer: Any = exchange.response_body()
        except DecodeError:
            return
        if answer is None:
            return
        for broker in answer.brokers:
            node = broker.node_id if exchange.api_key == ApiKey.METADATA else broker.broker_id
            if len(recording.nodes) < MOST_NAMES:
                recording.nodes[join_address(str(broker.host), broker.port)] = node
        for topic in answer.topics if exchange.api_key == ApiKey.METADATA else ():
            if not topic.error_code and topic.name and len(recording.topics) < MOST_NAMES:
                recording.topics[topic.name] = max(len(topic.partitions), recording.topics.get(topic.name, 0))
                for one in topic.partitions if len(recording.leaders) < MOST_NAMES else ():
                    if one.leader_id >= 0:
                        recording.leaders.setdefault((topic.name, one.partition_index), one.leader_id)


def _peek(frame: Frame | None, name: str) -> int | None:
    return None if frame is None or frame.error is not None else peeked(frame, name)
