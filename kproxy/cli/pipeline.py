"""What joins a capture to the sessions: flows in, events out.

A flow is Kafka if its first bytes are, whatever its port. Where the capture has its beginning, the one who opened the connection
is the client; where it has not, the side is on which a piece begins with a request. A flow of TLS is decrypted first, if the
keys are there. Other flows are dropped at once.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, Literal, TypeAlias

from kproxy.capture import Closed, Data, Ended, Flow, FlowItem, Gap
from kproxy.capture.tls import KeyLog
from kproxy.cli.tls_flow import Decrypted, TlsFlow, begins_tls, is_client_hello
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
    looks_like_request,
    recognise,
)

PROBE_SIZE = 256 * 1024  # bytes of a flow looked at before it is called something else
PROBE_PIECES = 256
ENOUGH = 2048  # bytes of a direction that are enough to tell what it begins with
DIRECTIONS = (Direction.REQUEST, Direction.RESPONSE)
UNKNOWN = "no Kafka request at its start, and nothing else that kproxy knows"
UNKNOWN_MIDSTREAM = "the capture begins in the middle of it, and nothing in it looks like a Kafka request"


# Of every KRaft cluster, and in no Metadata response (org.apache.kafka.common.Uuid.METADATA_TOPIC_ID; KIP-516, KIP-595)
METADATA_TOPIC_ID, METADATA_TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ", "__cluster_metadata"


class _State(Enum):
    UNDECIDED = "undecided"
    IS_KAFKA = "Kafka"


UNDECIDED: Final = _State.UNDECIDED
IS_KAFKA: Final = _State.IS_KAFKA
Verdict: TypeAlias = Foreign | Literal[_State.UNDECIDED, _State.IS_KAFKA]
Item: TypeAlias = FlowItem | Data


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
        self._size = 0
        self._start = (bytearray(), bytearray())  # what each direction begins with, up to ENOUGH

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
        self._size += len(data)
        start = self._start[direction]
        start += data[: ENOUGH - len(start)]
        verdict = self._probe_start(direction) if self._from_start else self._probe_piece(direction, data)
        if verdict is UNDECIDED and (self._size > PROBE_SIZE or self._pieces > PROBE_PIECES):
            return self._give_up()
        return verdict

    def _probe_start(self, direction: int) -> Verdict:
        """Judge a flow by its first bytes. A response alone can only tell that it is something else."""
        found = recognise(bytes(self._start[direction]), DIRECTIONS[direction])
        if found is KAFKA:
            return UNDECIDED if direction else IS_KAFKA
        return UNDECIDED if found is None else found

    def _probe_piece(self, direction: int, data: bytes) -> Verdict:
        """Judge a flow without a beginning: clients write whole requests, so that pieces begin with them."""
        if looks_like_request(data):
            if direction == 1:
                self.flow.swap()  # the one taken for the broker is the client
            return IS_KAFKA
        found = recognise(bytes(self._start[direction]), DIRECTIONS[direction])
        if isinstance(found, Foreign) and found.kind != "unknown":
            return found
        found = recognise(data[:ENOUGH], DIRECTIONS[direction])  # TLS, too, is written in whole records
        return found if isinstance(found, Foreign) and found.kind == "tls" and begins_tls(data) else UNDECIDED

    def _give_up(self) -> Verdict:
        if not self._size:
            return UNDECIDED  # nothing was said at all
        what = UNKNOWN if self._from_start else UNKNOWN_MIDSTREAM
        return Foreign("unknown", Direction.REQUEST, what)

    def _begin(self) -> list[Event]:
        flow = self.flow
        session = self.session = Session(
            number=self.number,
            client=flow.client,
            broker=flow.server,
            cluster=self.cluster,
            limits=self.limits,
            from_start=self._inside is not None or (flow.half(0).from_start and flow.half(1).from_start),
        )
        if self._inside is not None:
            session.connection.tls = self._inside.facts
        pending, self._pending = self._pending, []
        return [event for item in pending for event in _feed(session, item)]

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
        return session.receive(DIRECTIONS[item.direction], item.data, item.time_ns)
    if isinstance(item, Gap):
        return session.gap(DIRECTIONS[item.direction], item.size, item.time_ns)
    if isinstance(item, Ended):
        return session.end(DIRECTIONS[item.direction], item.time_ns)
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
    """

    def __init__(
        self,
        flow_items: Iterator[Item],
        *,
        numbers_from: int = 0,
        limits: Limits | None = None,
        keylog: KeyLog | None = None,
    ) -> None:
        self.flows = 0  # the highest number of a flow so far
        self._items = flow_items
        self._numbers_from = numbers_from
        self._limits = Limits() if limits is None else limits
        self._keylog = KeyLog() if keylog is None else keylog
        self._cluster = ClusterView()  # a capture shows one cluster, mostly; topic ids of others do not collide
        self._cluster.learn_topic(METADATA_TOPIC_ID, METADATA_TOPIC)

    def __iter__(self) -> Iterator[Event]:
        for item in self._items:
            flow = item.flow
            reader = flow.attached
            if reader is None:
                self.flows = max(self.flows, flow.number)
                reader = flow.attached = self._reader(flow)
            yield from reader.take(item)
            if isinstance(item, Closed):
                flow.attached = None  # a reader holds its flow: without this, only the garbage collector frees them

    def _reader(self, flow: Flow) -> FlowReader:
        return FlowReader(self._numbers_from + flow.number, flow, self._cluster, self._limits, keylog=self._keylog)
