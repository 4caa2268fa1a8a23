"""Read one flow of a capture: find out whether it is Kafka and which side is the client, then feed a Session.

Kafka is found by content, on any port. A flow is a machine of four states; ``FlowReader.state`` is where it is:

    state      what is true in it                                   items of the flow                      next state
    UNDECIDED  ``_pending`` holds the items, in order; at most       bytes are probed; a verdict decides.   KAFKA, TLS or
               PROBE_SIZE bytes in PROBE_PIECES pieces. The oldest   Closed forces a verdict                DROPPED
               are dropped, and counted in a Gap, if the beginning
               of the flow was not captured
    KAFKA      ``session`` is set and owns all bytes that are held   go to the session                      DROPPED, if
                                                                                                            it failed
    TLS        ``_tls`` decrypts; ``_inside`` is a FlowReader of     are decrypted; what comes out goes to  DROPPED, if
               its own, UNDECIDED at first, for what comes out       ``_inside``, which cannot become TLS   it failed
    DROPPED    nothing is held; a NotKafka event was made, or an     are ignored                            (final)
               exception was contained and counted (``fail``)

If the capture has the first bytes of the flow, they decide, and the side that opened the connection is the client. Otherwise
requests are searched for at the beginnings of pieces (sides.py), in at most JOINED_SIZE bytes. Responses without any request
are KAFKA too if their bodies have the layout of Kafka responses: they are shown, and a Note says what is missing. Entering a
state feeds it everything pending, so no byte is lost except those dropped before, which a Gap event counts.

Memory is bounded by the numbers above for UNDECIDED, by session.Limits for KAFKA, and for TLS by one record each way and the
secrets (KeyLog).
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from kproxy.capture import Closed, CloseReason, Data, Ended, Flow, FlowItem, Gap
from kproxy.capture.tls import KeyLog
from kproxy.pipeline.attempts import tcp_facts, without_bytes
from kproxy.pipeline.connections import new_cluster_view
from kproxy.pipeline.output import SIDES, End
from kproxy.pipeline.sides import Sides
from kproxy.pipeline.tls_flow import Decrypted, TlsFlow, begins_tls, is_client_hello
from kproxy.session import (
    KAFKA,
    ClusterView,
    Connection,
    Cut,
    Direction,
    Event,
    Foreign,
    Limits,
    Note,
    NotKafka,
    Session,
    looks_like_responses,
    may_be_response,
    recognise,
)
from kproxy.session import Gap as PassedOver
from kproxy.session.endings import who_closed
from kproxy.session.recognise import have_layouts

PROBE_SIZE = 256 * 1024  # bytes probed before a flow is declared not to be Kafka, and the most that may be pending
PROBE_PIECES = 256
JOINED_HELD = 16 * 1024 * 1024  # bytes that may be pending while they could all belong to one request
JOINED_SIZE = 128 * 1024 * 1024  # bytes searched in a flow that begins inside a message (which has at most 100 MB)
RUN_PIECES = 16  # consecutive pieces tried as responses, in a direction without its beginning
MOST_CUT = 65_536  # bytes that a snaplen may have cut off each packet of such a run
ENOUGH = 2048  # bytes of a direction that suffice to recognise its protocol
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


ENDINGS = {  # why a flow is over if its end is not in the capture
    CloseReason.REUSED: "another connection between the same addresses began",
    CloseReason.EVICTED: "the connection was given up, as there were too many,",
}


class State(StrEnum):
    """See the table above."""

    UNDECIDED = "undecided"
    KAFKA = "Kafka"
    TLS = "TLS"
    DROPPED = "dropped"


TRANSITIONS = {
    State.UNDECIDED: {State.KAFKA, State.TLS, State.DROPPED},
    State.KAFKA: {State.DROPPED},
    State.TLS: {State.DROPPED},
    State.DROPPED: set[State](),
}

Verdict: TypeAlias = Foreign | State  # another protocol (or TLS), or State.KAFKA, or State.UNDECIDED
Item: TypeAlias = FlowItem | Data
DIRECTIONS = tuple(Direction)
PAYLOAD: Final = (Data, Decrypted)  # items with bytes
OnEnd: TypeAlias = Callable[[End], None]


class FlowReader:
    """The state machine of one flow.

    Args:
        number: the connection's number in events.
        flow: the flow in the capture.
        cluster, limits: passed to the session.
        keylog: the secrets for TLS.
        outside: the TLS flow that was decrypted into this one; None for a flow of the capture itself.
    """

    def __init__(
        self,
        number: int,
        flow: Flow,
        cluster: ClusterView,
        limits: Limits,
        *,
        keylog: KeyLog,
        outside: TlsFlow | None = None,
    ) -> None:
        self.number = number
        self.flow = flow
        self.cluster = cluster
        self.limits = limits
        self.keylog = keylog
        self.state = State.UNDECIDED
        self.session: Session | None = None  # in state KAFKA
        self.held: list[Event] = []  # by FlowEvents, until the flow ends
        self._outside = outside
        self._tls: TlsFlow | None = None  # in state TLS
        self._inside: FlowReader | None = None  # in state TLS
        # Everything below is used in state UNDECIDED only.
        self._pending: list[Item] = []
        self._pieces = 0
        self._held = [0, 0]  # pending bytes and pieces
        self._most = [PROBE_SIZE, PROBE_PIECES]  # more bytes or pieces pending: drop the older half
        self._dropped: dict[int, int] = {}  # by side: bytes dropped from _pending
        self._sizes = [0, 0]  # bytes of each direction so far
        self._start = (bytearray(), bytearray())  # the first bytes of each direction, up to ENOUGH
        self._missing = 0
        self._lost = False  # bytes are missing, so the first bytes here are not the beginning
        self._responses_alone = False  # there is no byte of the client, and _pending begins with a response
        self._foreign: Foreign | None = None  # what a flow without its beginning seems to be, unless a request shows up

    @cached_property
    def _sides(self) -> Sides:
        return Sides(JOINED_HELD)  # made when first used: the first bytes decide about most flows

    def receive(self, item: Item) -> list[Event]:
        """Process the next item of the flow; return the resulting events."""
        if self.session is not None:
            return _feed(self.session, item)
        if self._tls is not None and self._inside is not None:
            return self._tls.receive(item, self._inside.receive)
        if self.state is State.DROPPED:
            return []
        return self._probe(item)

    def fail(self) -> None:
        """Stop decoding the flow, as an exception left its state unreliable."""
        if self.state is not State.DROPPED:
            self._enter(State.DROPPED)
        self.session = self._tls = self._inside = None

    def _enter(self, state: State) -> list[Item]:
        """Change the state; return the pending items."""
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state
        pending, self._pending = self._pending, []
        return pending

    # UNDECIDED: each item may lead to a verdict

    def _probe(self, item: Item) -> list[Event]:
        self._pending.append(item)
        verdict: Verdict = State.UNDECIDED
        if isinstance(item, PAYLOAD):
            verdict = self._probe_bytes(item.direction, item.data)
        elif isinstance(item, Gap):
            verdict = self._probe_gap(item)
        elif isinstance(item, Closed):
            verdict = self._last_verdict()
        if verdict is State.UNDECIDED:
            return []
        if not isinstance(verdict, Foreign):
            return self._begin_session()
        return self._begin_tls() if self._may_be_decrypted(verdict) else self._drop(verdict, item.time_ns)

    def _probe_gap(self, gap: Gap) -> Verdict:
        """Note that bytes are missing; if a snaplen cut a packet, the size of the cut helps to judge what remains."""
        # The beginning of a cut response is enough to recognise it; that of a cut request may not be.
        self._lost |= not gap.cut or gap.direction == Direction.REQUEST
        self._missing += gap.size or 0
        client = self._sides.interrupt(gap.direction, (gap.size or 0) if gap.cut else 0)
        return State.UNDECIDED if client is None or not self._can_be_client(client) else self._with_client(client)

    @property
    def _from_start(self) -> bool:
        """Whether the first bytes are the connection's first, and the client is known."""
        return self.flow.client_known or self._outside is not None

    def _probe_bytes(self, direction: int, data: bytes) -> Verdict:
        self._pieces += 1
        self._held[0] += len(data)
        self._held[1] += 1
        self._sizes[direction] += len(data)
        start = self._start[direction]
        start += data[: ENOUGH - len(start)]
        has_beginning = self._from_start and not self._lost
        verdict = self._probe_start(direction, data) if has_beginning else self._probe_piece(direction, data)
        if verdict is State.UNDECIDED and (self._held[0] > self._most[0] or self._held[1] > self._most[1]):
            is_one_sided = not all(self._sizes)
            if has_beginning or sum(self._sizes) > JOINED_SIZE or (is_one_sided and self._find_responses() is not None):
                return self._last_verdict()
            self._drop_older_half()
        return verdict

    def _drop_older_half(self) -> None:
        """Drop the older half of the pending items, but no bytes that could begin an incomplete request."""
        pending = [0, 0]
        for item in self._pending:
            if isinstance(item, PAYLOAD):
                pending[item.direction] += len(item.data)
        kept: list[Item] = []
        for index, item in enumerate(self._pending):
            if not isinstance(item, PAYLOAD):
                kept.append(item)
                continue
            size, direction = len(item.data), item.direction
            if self._is_half_full() or pending[direction] - size < self._sides.held(direction):
                kept += self._pending[index:]
                break
            pending[direction] -= size
            self._held[0] -= size
            self._held[1] -= 1
            self._dropped[item.side] = self._dropped.get(item.side, 0) + size
        self._pending = kept
        # At most half of the next limit stays, so each item is examined a bounded number of times.
        self._most = [max(PROBE_SIZE, 2 * self._held[0]), max(PROBE_PIECES, 2 * self._held[1])]

    def _is_half_full(self) -> bool:
        return self._held[0] <= PROBE_SIZE // 2 and self._held[1] <= PROBE_PIECES // 2

    def _probe_start(self, direction: int, data: bytes) -> Verdict:
        """Judge a flow by its first bytes; a response may reveal another protocol, or answer a possible request."""
        protocol = recognise(bytes(self._start[direction]), DIRECTIONS[direction])
        if protocol is KAFKA and direction == Direction.REQUEST:
            return State.KAFKA
        client = self._sides.read(direction, data)
        if isinstance(protocol, Foreign):
            return protocol
        return State.KAFKA if client == Direction.REQUEST else State.UNDECIDED

    def _probe_piece(self, direction: int, data: bytes) -> Verdict:
        """Judge a flow without its beginning: clients write complete requests, so some pieces begin with one."""
        client = self._sides.read(direction, data)
        if client is not None and self._can_be_client(client):
            return self._with_client(client)
        first = recognise(bytes(self._start[direction]), DIRECTIONS[direction])
        if isinstance(first, Foreign) and first.kind == "tls":
            return first
        if isinstance(first, Foreign) and first.kind not in ("unknown", "text"):  # four letters are in many a record
            self._foreign = first  # not final: the same bytes could be inside a record
        piece = recognise(data[:ENOUGH], DIRECTIONS[direction])  # TLS records begin at the beginning of pieces, too
        return piece if isinstance(piece, Foreign) and piece.kind == "tls" and begins_tls(data) else State.UNDECIDED

    def _last_verdict(self) -> Verdict:
        """Judge by what is known so far: the flow has ended, or enough of it was probed."""
        if not any(self._sizes):  # no bytes were sent, or only packet headers were captured
            if self._lost:
                return Foreign("unknown", Direction.REQUEST, HEADERS_ONLY)
            return (self._outside is None and without_bytes(self.flow)) or State.UNDECIDED
        if not all(self._sizes) and (one_sided := self._judge_one_sided(self._only_direction())) is not None:
            return one_sided
        client = self._sides.claimed() if self._lost or not self._from_start else None
        if client is not None and self._can_be_client(client):
            return self._with_client(client)
        what = UNKNOWN if self._from_start else UNKNOWN_MIDSTREAM
        if self._missing > sum(self._sizes):
            what = CUT_SHORT
        return self._foreign or Foreign("unknown", Direction.REQUEST, what)

    def _only_direction(self) -> Direction:
        return Direction.RESPONSE if self._sizes[Direction.RESPONSE] else Direction.REQUEST

    def _judge_one_sided(self, direction: Direction) -> Verdict | None:
        """Judge a flow with bytes in one direction only; None if they are not recognised as the broker's."""
        responses = self._find_responses() if direction == Direction.RESPONSE or not self._from_start else None
        if responses is not None:
            if direction == Direction.REQUEST:
                self.flow.swap()  # the side taken for the client is the broker
            if not responses.are_kafka:
                return Foreign("one-sided", Direction.RESPONSE, RESPONSES)
            self._begin_with(responses)
            return State.KAFKA
        if self._from_start and direction == Direction.RESPONSE:
            return Foreign("unknown", Direction.RESPONSE, UNHEARD)
        return None

    def _find_responses(self) -> "Responses | None":
        """Find responses among the pending pieces, all of one direction: brokers write them so that pieces begin with one."""
        runs: list[list[Piece]] = [[]]
        for index, item in enumerate(self._pending):
            if isinstance(item, PAYLOAD):
                runs[-1].append(Piece(index, item.data))
            elif isinstance(item, Gap) and runs[-1] and item.cut and item.size is not None and item.size <= MOST_CUT:
                runs[-1][-1] = runs[-1][-1]._replace(cut=item.size)
            elif isinstance(item, Gap):
                runs.append([])
        if self._from_start and not self._lost:
            return _responses_in(runs[0], from_start=True)
        candidates = (
            _responses_in(run[begin : begin + RUN_PIECES], from_start=False)
            for run in runs
            for begin, piece in enumerate(run)
            if may_be_response(piece.data)
        )
        return next((responses for responses in candidates if responses is not None), None)

    def _begin_with(self, responses: "Responses") -> None:
        """Drop the pending items before the responses, which will be decoded without their requests."""
        for item in self._pending[: responses.place]:
            if isinstance(item, PAYLOAD):
                self._dropped[item.side] = self._dropped.get(item.side, 0) + len(item.data)
        del self._pending[: responses.place]
        self._responses_alone = True

    def _can_be_client(self, direction: int) -> bool:
        return direction == Direction.REQUEST or not self._from_start

    def _with_client(self, direction: int) -> Verdict:
        if direction == Direction.RESPONSE:
            self.flow.swap()  # the side taken for the broker is the client
        return State.KAFKA

    # UNDECIDED to KAFKA

    def _begin_session(self) -> list[Event]:
        flow = self.flow
        pending = self._enter(State.KAFKA)
        session = self.session = Session(
            number=self.number,
            client=flow.client,
            broker=flow.server,
            cluster=self.cluster,
            limits=self.limits,
            from_start=self._begins(),
        )
        if self._outside is not None:
            session.connection.tls = self._outside.facts
        session.connection.tcp = tcp_facts(self.flow)
        events: list[Event] = [
            PassedOver(session.connection, pending[0].time_ns, flow.direction(side), 0, size)
            for side, size in sorted(self._dropped.items())
        ]
        if self._responses_alone:
            events.append(Note(session.connection, pending[0].time_ns, Direction.RESPONSE, RESPONSES))
        return [*events, *(event for item in pending for event in _feed(session, item))]

    def _begins(self) -> tuple[bool, bool]:
        """Return for each direction whether the first bytes for the session are the beginning of a frame."""
        if self._responses_alone:
            return False, True
        if self._outside is not None:
            return True, True
        return self.flow.half(0).from_start, self.flow.half(1).from_start

    # UNDECIDED to TLS

    def _may_be_decrypted(self, foreign: Foreign) -> bool:
        """Return whether a flow that is not plain Kafka may be Kafka in TLS."""
        if foreign.kind != "tls" or self._outside is not None:
            return False
        return not self._from_start or any(map(begins_tls, self._start))  # a single alert is not enough

    def _begin_tls(self) -> list[Event]:
        if not self.flow.client_known and is_client_hello(self._start[1]):
            self.flow.swap()  # the side taken for the broker is the client
        tls = self._tls = TlsFlow(self.number, self.flow, self.keylog)
        self._inside = FlowReader(self.number, self.flow, self.cluster, self.limits, keylog=self.keylog, outside=tls)
        return [event for item in self._enter(State.TLS) for event in self.receive(item)]

    # UNDECIDED to DROPPED

    def _drop(self, foreign: Foreign, at: int) -> list[Event]:
        self._enter(State.DROPPED)
        connection = Connection(self.number, self.flow.client, self.flow.server, tcp=tcp_facts(self.flow))
        at = at if any(self._sizes) or self._lost else self.flow.syn_at
        return [NotKafka(connection, at, foreign.kind, foreign.direction, foreign.what)]


class Piece(NamedTuple):
    """Pending bytes, the index of their item in _pending, and the number of bytes that a snaplen cut behind them."""

    place: int
    data: bytes
    cut: int = 0


class Responses(NamedTuple):
    """Responses among the pending items: the index of the first one's item, and whether they are certainly Kafka's."""

    place: int
    are_kafka: bool


def _responses_in(pieces: list[Piece], *, from_start: bool) -> Responses | None:
    """Return whether consecutive pieces hold responses, the first of them at the beginning of the first piece."""
    begins = list(accumulate((len(piece.data) + piece.cut for piece in pieces), initial=0))
    data = b"".join(piece.data + bytes(piece.cut) for piece in pieces)
    if not looks_like_responses(data, None if from_start else set(begins)):
        return None
    holes = [(end - piece.cut, end) for piece, end in zip(pieces, begins[1:], strict=True) if piece.cut]
    return Responses(pieces[0].place, have_layouts(data, holes))


def _feed(session: Session, item: Item) -> list[Event]:
    if isinstance(item, PAYLOAD):
        return session.receive(item.direction, item.data, item.time_ns)
    if isinstance(item, Gap):
        return session.gap(item.direction, item.size, item.time_ns, Cut.SNAPLEN if item.cut else Cut.MISSING)
    if isinstance(item, Ended):
        _note_closer(session, item.flow)
        return session.end(item.direction, item.time_ns)
    if isinstance(item, Closed):
        _note_closer(session, item.flow)
        session.connection.tcp = tcp_facts(item.flow)  # again, as its SYN may have come behind its bytes
        return session.close(item.time_ns, ENDINGS.get(item.reason))
    return []


def _note_closer(session: Session, flow: Flow) -> None:
    """Tell the session who sent FIN or RST first, as soon as the flow knows."""
    if flow.closed_by is not None and session.connection.closed is None:
        side, reset = flow.closed_by
        session.connection.closed = who_closed(flow.direction(side), reset=reset)


class FlowEvents:
    """The events of a capture's flows, in the order in which they become known; iterate once.

    A NotKafka waits for the end of its flow, as it says who ended it; before, that depends on how far packets were read ahead.

    Args:
        flow_items: from kproxy.capture.read_flows.
        numbers_from: added to a flow's number to give the connection's number.
        limits: for one connection.
        keylog: the secrets for TLS; without it, TLS is only described.
        on_end: called when a connection or one side of it has ended, after its events.
        cluster: the names of topics that the flows share; by default a new view.
        contain: exceptions that end only the flow in which they are raised, counted in ``faults``.
    """

    def __init__(
        self,
        flow_items: Iterator[Item],
        *,
        numbers_from: int = 0,
        limits: Limits | None = None,
        keylog: KeyLog | None = None,
        on_end: OnEnd | None = None,
        cluster: ClusterView | None = None,
        contain: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.flows = 0  # the highest number of a flow so far
        self.faults: dict[str, int] = {}  # flows that failed, by exception
        self._items = flow_items
        self._on_end = on_end
        self._contain = contain
        self._at = 0  # ns: of the last item
        self._events: Iterator[Event] = iter(())  # of the last item, those not yet yielded
        self._open: dict[Flow, FlowReader] = {}
        self._numbers_from = numbers_from
        self._limits = Limits() if limits is None else limits
        self._keylog = KeyLog() if keylog is None else keylog
        # A capture usually shows one cluster; topic ids of several do not collide.
        self._cluster = new_cluster_view() if cluster is None else cluster

    def __iter__(self) -> Iterator[Event]:
        for item in self._items:
            reader = item.flow.attached
            if reader is None or reader.session is None or type(item) is not Data:
                yield from self._receive(item)
                continue
            session: Session = reader.session
            self._at = item.time_ns  # the fast path for nearly all items: the same as _receive does
            try:
                events = session.receive(item.direction, item.data, item.time_ns)
            except self._contain as error:
                self._fail(reader, error)
                continue
            if len(events) == 1 and type(events[0]) is not NotKafka:
                yield events[0]
            elif events:
                self._events = iter(_held_back(reader, item, events))
                yield from self._events

    def close(self) -> Iterator[Event]:
        """End the flows that are still open, with their requests in flight, and yield their last events."""
        yield from self._events
        for flow in list(self._open):
            yield from self._receive(Closed(flow, self._at, CloseReason.CAPTURE_END))

    def open_flows(self) -> list[Flow]:
        return list(self._open)

    def forget(self, flow: Flow) -> None:
        """Stop reading a flow without reporting anything about it."""
        flow.attached = None
        self._open.pop(flow, None)

    def _receive(self, item: Item) -> Iterator[Event]:
        flow = item.flow
        self._at = item.time_ns
        reader = flow.attached
        if reader is None:
            self.flows = max(self.flows, flow.number)
            reader = flow.attached = self._open[flow] = self._reader(flow)
        try:
            self._events = iter(_held_back(reader, item, reader.receive(item)))
        except self._contain as error:
            self._fail(reader, error)
        yield from self._events
        if self._on_end is not None and isinstance(item, Ended | Closed):
            self._on_end(_end(reader.number, item))
        if isinstance(item, Closed):
            flow.attached = None  # breaks the cycle between a flow and its reader, which would wait for the collector
            self._open.pop(flow, None)

    def _reader(self, flow: Flow) -> FlowReader:
        return FlowReader(self._numbers_from + flow.number, flow, self._cluster, self._limits, keylog=self._keylog)

    def _fail(self, reader: FlowReader, error: BaseException) -> None:
        """Count the error and stop decoding the flow."""
        name = type(error).__name__
        self.faults[name] = self.faults.get(name, 0) + 1
        self._events = iter(())
        reader.fail()


def _held_back(reader: FlowReader, item: Item, events: list[Event]) -> list[Event]:
    if not isinstance(item, Ended | Closed):
        reader.held += [event for event in events if isinstance(event, NotKafka)]
        return [event for event in events if not isinstance(event, NotKafka)]
    held, reader.held = reader.held, []
    for event in held:
        event.connection.tcp = tcp_facts(item.flow)
    return [*held, *events]


def _end(number: int, item: Ended | Closed) -> End:
    if isinstance(item, Ended):
        direction = item.direction
        if item.reset and item.flow.closed_by is not None:  # it ends both directions, and either may be delivered first
            direction = item.flow.direction(item.flow.closed_by[0])
        return End(number, item.time_ns, SIDES[direction])
    return End(number, item.time_ns, reason=item.reason)
