"""What joins a capture to the sessions: flows in, events out.

A flow is Kafka if its first bytes are, whatever its port. Where the capture has its beginning, the one who opened the connection
is the client; where it has not, the side is on which pieces begin with requests (sides.py). A flow of TLS is decrypted first,
if the keys are there. Other flows are dropped at once.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, Literal, TypeAlias

from kproxy.capture import Closed, CloseReason, Data, Ended, Flow, FlowItem, Gap
from kproxy.capture.tls import KeyLog
from kproxy.pipeline.sides import Sides
from kproxy.pipeline.tls_flow import Decrypted, TlsFlow, begins_tls, is_client_hello
from kproxy.protocol.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.session import (
    KAFKA,
    ClusterView,
    Connection,
    Direction,
    Event,
    Foreign,
    Limits,
    NotKafka,
    Session,
    looks_like_responses,
    recognise,
)
from kproxy.session import Gap as PassedOver

PROBE_SIZE = (
    256 * 1024
)  # bytes of a flow looked at before it is called something else, and most that wait for the decision
PROBE_PIECES = 256
JOINED_SIZE = (
    128 * 1024 * 1024
)  # of a flow without its beginning: the capture may begin inside one message, of 100 MB at most
RUN_PIECES = 16  # of a direction without its beginning: how many are tried as one, joined with as many that follow
ENOUGH = 2048  # bytes of a direction that are enough to tell what it begins with
UNKNOWN = "no Kafka request at its start, and nothing else that kproxy knows"
CUT_SHORT = "too little of each packet was captured to tell what it is: record whole packets (tcpdump -s 0)"
HEADERS_ONLY = "none of its bytes were captured, only headers: record whole packets (tcpdump -s 0)"
UNHEARD = (
    "nothing the client sent is in the capture, and Kafka is known by its requests: was only one direction recorded?"
)
RESPONSES = (
    "only the broker's side is in the capture, in what looks like Kafka responses; without the requests nothing says how "
    "to read them: record both directions (is it a one-way filter or mirror?)"
)
UNKNOWN_MIDSTREAM = "the capture begins in the middle of it, and nothing in it looks like a Kafka request"


class _State(Enum):
    UNDECIDED = "undecided"
    IS_KAFKA = "Kafka"


UNDECIDED: Final = _State.UNDECIDED
IS_KAFKA: Final = _State.IS_KAFKA
Verdict: TypeAlias = Foreign | Literal[_State.UNDECIDED, _State.IS_KAFKA]
Item: TypeAlias = FlowItem | Data
OnEnd: TypeAlias = Callable[[int, Ended | Closed], None]


class FlowReader:
    """One flow of a capture: finds out whether it is Kafka and who is the client, then feeds a Session.

    Args:
        number: of the connection, as the events shall carry it.
        flow: the capture's.
        cluster, limits: given to the session.
        keylog: the secrets for TLS.
        inside: the TLS that the items were inside of, and are decrypted from.
    """

    def __init__(
        self,
        number: int,
        flow: Flow,
        cluster: ClusterView,
        limits: Limits,
        *,
        keylog: KeyLog,
        inside: TlsFlow | None = None,
    ) -> None:
        self.number = number
        self.flow = flow
        self.cluster = cluster
        self.limits = limits
        self.keylog = keylog
        self.session: Session | None = None
        self.dropped = False  # known not to be Kafka
        self._inside = inside
        self._outside: TlsFlow | None = None
        self._reader_inside: FlowReader | None = None
        self._pending: list[Item] = []  # what waits for the decision
        self._pieces = 0
        self._held = [0, 0]  # bytes and pieces that wait
        self._forgotten: dict[int, int] = {}  # of each side: bytes that do not wait any more
        self._sizes = [0, 0]  # bytes of each direction so far
        self._start = (bytearray(), bytearray())  # what each direction begins with, up to ENOUGH
        self._missing = 0
        self._lost = False  # bytes are missing, so that what came is not the beginning
        self._sides = Sides()
        self._foreign: Foreign | None = None  # what a flow without beginning seems to be, unless a request is found

    def take(self, item: Item) -> list[Event]:
        """The events that an item of the flow makes."""
        if self.session is not None:
            return _feed(self.session, item)
        if self._outside is not None and self._reader_inside is not None:
            return self._outside.receive(item, self._reader_inside.take)
        if self.dropped:
            return []
        self._pending.append(item)
        verdict: Verdict = UNDECIDED
        if isinstance(item, Data | Decrypted):
            verdict = self._probe(item.direction, item.data)
        elif isinstance(item, Gap):
            self._lost = True
            self._missing += item.size or 0
        elif isinstance(item, Closed):
            verdict = self._give_up()
        if verdict is UNDECIDED:
            return []
        if verdict is IS_KAFKA:
            return self._begin()
        return self._begin_tls() if self._is_tls(verdict) else self._drop(verdict, item.time_ns)

    @property
    def _from_start(self) -> bool:
        """Whether the first bytes are the connection's first, and the client is known."""
        return self.flow.client_known or self._inside is not None

    def _probe(self, direction: int, data: bytes) -> Verdict:
        self._pieces += 1
        self._held[0] += len(data)
        self._held[1] += 1
        self._sizes[direction] += len(data)
        start = self._start[direction]
        start += data[: ENOUGH - len(start)]
        whole = self._from_start and not self._lost
        verdict = self._probe_start(direction, data) if whole else self._probe_piece(direction, data)
        if verdict is UNDECIDED and (self._held[0] > PROBE_SIZE or self._held[1] > PROBE_PIECES):
            if whole or sum(self._sizes) > JOINED_SIZE or (not all(self._sizes) and self._has_responses()):
                return self._give_up()
            self._forget()
        return verdict

    def _forget(self) -> None:
        """Let the older half of what waits go: nothing in it was the beginning of a request."""
        kept: list[Item] = []
        for item in self._pending:
            if not isinstance(item, Data | Decrypted) or (
                self._held[0] <= PROBE_SIZE // 2 and self._held[1] <= PROBE_PIECES // 2
            ):
                kept.append(item)
                continue
            self._held[0] -= len(item.data)
            self._held[1] -= 1
            self._forgotten[item.side] = self._forgotten.get(item.side, 0) + len(item.data)
        self._pending = kept

    def _probe_start(self, direction: int, data: bytes) -> Verdict:
        """Judge a flow by its first bytes. A response alone can only tell that it is something else."""
        self._sides.read(direction, data)
        found = recognise(bytes(self._start[direction]), Direction(direction))
        if found is KAFKA:
            return UNDECIDED if direction else IS_KAFKA
        return UNDECIDED if found is None else found

    def _probe_piece(self, direction: int, data: bytes) -> Verdict:
        """Judge a flow without a beginning: clients write whole requests, so that pieces begin with them."""
        client = self._sides.read(direction, data)
        if client is not None and self._can_be(client):
            return self._with_client(client)
        found = recognise(bytes(self._start[direction]), Direction(direction))
        if isinstance(found, Foreign) and found.kind == "tls":
            return found
        if isinstance(found, Foreign) and found.kind != "unknown":
            self._foreign = found  # it may be the inside of a record, too
        found = recognise(data[:ENOUGH], Direction(direction))  # TLS, too, is written in whole records
        return found if isinstance(found, Foreign) and found.kind == "tls" and begins_tls(data) else UNDECIDED

    def _give_up(self) -> Verdict:
        if not any(self._sizes):  # nothing was said at all, or only the headers of the packets were captured
            return Foreign("unknown", Direction.REQUEST, HEADERS_ONLY) if self._lost else UNDECIDED
        if not all(self._sizes) and (one_sided := self._judge_one_sided(1 if self._sizes[1] else 0)) is not None:
            return one_sided
        client = self._sides.claimed() if self._lost or not self._from_start else None
        if client is not None and self._can_be(client):
            return self._with_client(client)
        what = UNKNOWN if self._from_start else UNKNOWN_MIDSTREAM
        if self._missing > sum(self._sizes):
            what = CUT_SHORT
        return self._foreign or Foreign("unknown", Direction.REQUEST, what)

    def _judge_one_sided(self, direction: int) -> Foreign | None:
        """Judge a flow of which only one direction has bytes: whether they are the broker's."""
        if (direction == 1 or not self._from_start) and self._has_responses():
            if direction == 0:
                self.flow.swap()  # the one taken for the client is the broker
            return Foreign("one-sided", Direction.RESPONSE, RESPONSES)
        if self._from_start and direction == 1:
            return Foreign("unknown", Direction.RESPONSE, UNHEARD)
        return None

    def _has_responses(self) -> bool:
        """Whether what waits, all of one direction, has responses; brokers write them whole, so that pieces begin with them."""
        runs: list[list[bytes]] = [[]]
        for item in self._pending:
            if isinstance(item, Data | Decrypted):
                runs[-1].append(item.data)
            elif isinstance(item, Gap):
                runs.append([])
        if self._from_start and not self._lost:
            return looks_like_responses(b"".join(runs[0]))
        return any(
            looks_like_responses(b"".join(run[begin : begin + RUN_PIECES]))
            for run in runs
            for begin in range(min(len(run), RUN_PIECES))
        )

    def _can_be(self, client: int) -> bool:
        return client == 0 or not self._from_start

    def _with_client(self, direction: int) -> Verdict:
        if direction == 1:
            self.flow.swap()  # the one taken for the broker is the client
        return IS_KAFKA

    def _begin(self) -> list[Event]:
        flow = self.flow
        session = self.session = Session(
            number=self.number,
            client=flow.client,
            broker=flow.server,
            cluster=self.cluster,
            limits=self.limits,
            from_start=self._inside is not None or (flow.half(0).from_start, flow.half(1).from_start),
        )
        if self._inside is not None:
            session.connection.tls = self._inside.facts
        pending, self._pending = self._pending, []
        passed = [
            PassedOver(session.connection, pending[0].time_ns, flow.direction(side), 0, size)
            for side, size in sorted(self._forgotten.items())
        ]
        return [*passed, *(event for item in pending for event in _feed(session, item))]

    def _is_tls(self, foreign: Foreign) -> bool:
        """Whether a flow that is not Kafka in the clear may be Kafka in TLS."""
        if foreign.kind != "tls" or self._inside is not None:
            return False
        return not self._from_start or any(map(begins_tls, self._start))  # not: an alert alone

    def _begin_tls(self) -> list[Event]:
        if not self.flow.client_known and is_client_hello(self._start[1]):
            self.flow.swap()  # the one taken for the broker is the client
        tls = self._outside = TlsFlow(self.number, self.flow, self.keylog)
        self._reader_inside = FlowReader(
            self.number, self.flow, self.cluster, self.limits, keylog=self.keylog, inside=tls
        )
        pending, self._pending = self._pending, []
        return [event for item in pending for event in self.take(item)]

    def _drop(self, foreign: Foreign, at: int) -> list[Event]:
        self.dropped = True
        self._pending.clear()
        connection = Connection(self.number, self.flow.client, self.flow.server)
        return [NotKafka(connection, at, foreign.kind, foreign.direction, foreign.what)]


def _feed(session: Session, item: Item) -> list[Event]:
    if isinstance(item, Data | Decrypted):
        return session.receive(item.direction, item.data, item.time_ns)
    if isinstance(item, Gap):
        return session.gap(item.direction, item.size, item.time_ns)
    if isinstance(item, Ended):
        return session.end(item.direction, item.time_ns)
    if isinstance(item, Closed):
        return session.close(item.time_ns)
    return []


class Pipeline:
    """The events of a capture's flows, in the order in which they are known; iterate once.

    Args:
        flow_items: what kproxy.capture.read_flows gives.
        numbers_from: connections are numbered as the capture numbers its flows, plus this.
        limits: what one connection may take.
        keylog: the secrets for TLS; without it, TLS is only described.
        on_end: told, after the events of it, of every Ended and Closed item with the number of its connection.
    """

    def __init__(
        self,
        flow_items: Iterator[Item],
        *,
        numbers_from: int = 0,
        limits: Limits | None = None,
        keylog: KeyLog | None = None,
        on_end: OnEnd | None = None,
    ) -> None:
        self.flows = 0  # the highest number of a flow so far
        self._items = flow_items
        self._on_end = on_end
        self._at = 0  # ns: of the last item
        self._events: Iterator[Event] = iter(())  # of the last item, those not given out yet
        self._open: dict[Flow, FlowReader] = {}
        self._numbers_from = numbers_from
        self._limits = Limits() if limits is None else limits
        self._keylog = KeyLog() if keylog is None else keylog
        self._cluster = ClusterView()  # a capture shows one cluster, mostly; topic ids of others do not collide
        self._cluster.learn_topic(METADATA_TOPIC_ID, METADATA_TOPIC)

    def __iter__(self) -> Iterator[Event]:
        for item in self._items:
            reader = item.flow.attached
            if reader is None or reader.session is None or type(item) is not Data:
                yield from self._take(item)
                continue
            session: Session = reader.session
            self._at = item.time_ns  # of nearly all items: what _take would do, without the way there
            events = session.receive(item.direction, item.data, item.time_ns)
            if events:
                self._events = iter(events)
                yield from self._events

    def close(self) -> Iterator[Event]:
        """What is still to be told when nothing more will be read: flows that are open end here, requests in flight too."""
        yield from self._events
        for flow in list(self._open):
            yield from self._take(Closed(flow, self._at, CloseReason.CAPTURE_END))

    def _take(self, item: Item) -> Iterator[Event]:
        flow = item.flow
        self._at = item.time_ns
        reader = flow.attached
        if reader is None:
            self.flows = max(self.flows, flow.number)
            reader = flow.attached = self._open[flow] = self._reader(flow)
        self._events = iter(reader.take(item))
        yield from self._events
        if self._on_end is not None and isinstance(item, Ended | Closed):
            self._on_end(reader.number, item)
        if isinstance(item, Closed):
            flow.attached = None  # a reader holds its flow: without this, only the garbage collector frees them
            self._open.pop(flow, None)

    def _reader(self, flow: Flow) -> FlowReader:
        return FlowReader(self._numbers_from + flow.number, flow, self._cluster, self._limits, keylog=self._keylog)
