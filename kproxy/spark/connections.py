"""What the connections of a capture must know of each other when each is decoded by itself.

An undivided run reads packets in order, so at each packet it knows what earlier ones showed. A connection that is decoded by
itself gets the same knowledge from ``Shared``, where every fact has the number of the packet that shows it:

    names       topic id -> (packet, name): the first ones from the head of the capture (read_head), the rest from other
                connections, which report what they have learned
    waits       packets whose events an undivided run holds back until later packets have named their topics (late_names.py)
    servers     endpoints that accepted a connection, and flows: how many each has, for the client of a connection without SYN
    shuffled    from which packet the times of the capture go back
    secrets     of TLS, from all of the capture

``SharedView`` notes the topic ids whose names it did not know. If another connection turns out to know such a name, the
connections are decoded again, with all names: see divided.py.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import length_hint
from typing import Any, NamedTuple

from msgspec import Struct, field

from kproxy.capture import Data, Doubts, FlowItem, Flows
from kproxy.capture.roles import Endpoints
from kproxy.capture.segments import Payloads
from kproxy.capture.splitting import PartReader, PartSurvey, SeekableFile, Start, first_disorder
from kproxy.capture.unwrap import Unwrapper
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.pipeline.late_names import LateNames
from kproxy.pipeline.run import Run
from kproxy.protocol.addresses import KAFKA_PORTS
from kproxy.protocol.constants import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.session import ClusterView, Event, Frame
from kproxy.session.cluster import Names as NamesInBody

END = 1 << 62  # a packet number after all others
Names = dict[str, tuple[int, str]]
Position = Callable[[], int]
MOST_NAMES = 1_000_000
MOST_BODIES, LONGEST_BODY = 64, 64 << 10  # whose names a task keeps
HEAD = 32 << 20  # bytes of the file


class Shared(Struct):
    """The facts, see above; plain values, sent to every executor once."""

    names: Names = {}
    waits: dict[int, int] = {}  # packet -> the packet at which its events are written
    servers: dict[bytes, int] = {}
    flows: dict[bytes, list[int]] = {}  # endpoint of a connection without SYN -> first packets of all its flows
    shuffled_from: int = 0
    secrets: list[tuple[int, bytes]] = []


def gather(surveys: list[PartSurvey]) -> Shared:
    """Put together what the surveys of all parts showed."""
    servers: dict[bytes, int] = {}
    first: dict[bytes, int] = {}
    joined: set[bytes] = set()
    for survey in surveys:
        before = survey.first_number - 1
        for end, number in survey.servers.items():
            servers[end] = min(servers.get(end, END), before + number)
        for key, (number, is_syn, _) in survey.connections.items():
            if key not in first:
                first[key] = before + number
                if not is_syn:
                    joined.add(key)
    needed = {end for key in joined for end in _ends(key)}
    flows: dict[bytes, list[int]] = {end: [] for end in needed}
    for key, number in sorted(first.items(), key=lambda item: item[1]):
        for end in _ends(key):
            if end in needed:
                flows[end].append(number)
    secrets = [secret for survey in surveys for secret in survey.secrets]
    return Shared(servers=servers, flows=flows, shuffled_from=first_disorder(surveys), secrets=secrets)


def _ends(key: bytes) -> tuple[bytes, bytes]:
    return key[: len(key) // 2], key[len(key) // 2 :]


class SharedEndpoints(Endpoints):
    """What all connections showed about endpoints before a packet.

    Args:
        shared: what is known.
        position: the number of the packet that is being read.
        on_flow: called for each new flow.
    """

    def __init__(self, shared: Shared, position: Position, on_flow: Callable[[], None]) -> None:
        super().__init__()
        self._shared = shared
        self._position = position
        self._on_flow = on_flow

    def count(self, key: bytes) -> None:
        self._on_flow()

    def _evidence(self, end: bytes) -> tuple[bool, bool, int, int]:
        port, position = int.from_bytes(end[-2:], "big"), self._position()
        serves = end in self._servers or self._shared.servers.get(end, END) <= position
        flows = bisect_right(self._shared.flows.get(end, []), position)
        return serves, port in KAFKA_PORTS, flows, -port


class View(ClusterView):
    """A ClusterView that remembers at which packet it learned a name, and all cluster ids that it saw."""

    def __init__(self, position: Position) -> None:
        self.cluster_ids: set[str] = set()
        self.learned: Names = {}
        self._position = position
        super().__init__()
        super().learn_topic(METADATA_TOPIC_ID, METADATA_TOPIC)

    def note(self, frame: Frame) -> None:
        """See ClusterView; read at once, so that the position is right."""
        super().note(frame)
        self.read_all()

    def learn_topic(self, topic_id: str, name: str) -> None:
        super().learn_topic(topic_id, name)
        if topic_id not in self.learned and len(self.learned) < MOST_NAMES:
            self.learned[topic_id] = self._position(), name

    def read_all(self) -> None:
        super().read_all()
        if self._cluster_id is not None and len(self.cluster_ids) < MOST_NAMES:
            self.cluster_ids.add(self._cluster_id)


class SharedView(View):
    """The view of one connection, which also knows what other connections showed.

    Args:
        shared: what is known.
        position: the number of the packet that is being read.
        read: the names in the latest bodies that connections of this task showed: clients receive the same ones again and again.
    """

    def __init__(self, shared: Shared, position: Position, read: dict[object, NamesInBody]) -> None:
        super().__init__(position)
        self._read = read
        self.missed: dict[str, int] = {}  # topic id -> the last packet at which its name was needed, but unknown
        self._shared = shared
        self._found: dict[str, str] = {}  # that other connections showed before an earlier packet of this one

    def names_in(self, frame: Frame) -> NamesInBody:
        """See ClusterView."""
        if len(frame.data) > LONGEST_BODY:
            return super().names_in(frame)
        body = frame.message, frame.body_version, frame.layout, frame.data[frame.body_start :]
        names = self._read.get(body)
        if names is None:
            if len(self._read) >= MOST_BODIES:
                self._read.clear()
            names = self._read[body] = super().names_in(frame)
        return names

    def topic_name(self, topic_id: str) -> str | None:
        """See ClusterView."""
        name = super().topic_name(topic_id) or self._found.get(topic_id)
        if name is not None:
            return name
        position = self._position()
        known_until = self._shared.waits.get(position, position)
        number, found = self._shared.names.get(topic_id, (END, None))
        if found is not None and number <= known_until:
            if number <= position:
                self._found[topic_id] = found
            return found
        self.missed[topic_id] = max(self.missed.get(topic_id, 0), known_until)
        return None


def merge(names: Iterable[Names]) -> Names:
    """Put names together; of each topic id, keep the one from the earliest packet."""
    merged: Names = {}
    for some in names:
        for topic_id, found in some.items():
            if topic_id not in merged or found < merged[topic_id]:
                merged[topic_id] = found
    return merged


def answers(known: Names, learned: Names, missed: dict[str, int]) -> bool:
    """Whether *learned* has a name that was missed, or another name than the one taken as known."""
    if any(topic_id in known and entry[1] != known[topic_id][1] for topic_id, entry in learned.items()):
        return True
    return any(learned.get(topic_id, (END, ""))[0] <= until for topic_id, until in missed.items())


class Head(Struct):
    """Names of topics, and packets whose events wait for names."""

    names: Names
    waits: dict[int, int]


class HasSecrets(Struct):
    """TLS secrets from the survey; see kproxy.pipeline.tls_flow.Secrets."""

    secrets: list[tuple[int, bytes]]


def read_head(
    files: Iterable[tuple[SeekableFile, Start, int]],
    run: Run,
    secrets: list[tuple[int, bytes]],
    *,
    head: int = HEAD,
) -> Head:
    """Follow the first *head* bytes of a capture: names of topics, and which events are held back for a name.

    An undivided run holds events back until their topics have names, but only at the beginning (late_names.py). Which events
    it holds depends on all connections together, so one task finds out: it follows the capture without making rows until no
    event is held any more, or *head* bytes are read.

    Args:
        files: of the capture: each with how it begins, and where it ends, at the latest.
        run: has the options, and the key log.
        secrets: of TLS, from all of the capture.
        head: see HEAD.
    """
    run.secrets.read_from(HasSecrets(secrets))
    flows = Flows(None, Unwrapper(None))
    at = _Position(flows)
    view = View(at)
    waits: dict[int, int] = {}
    read: deque[int] = deque()  # the packets of the events that were read and not yet written

    def write(event: Event) -> None:
        number, now = read.popleft(), at()
        if number != now:
            waits[number] = max(now, waits.get(number, 0))

    names = LateNames(write, lambda end: None)
    events = FlowEvents(
        _items(files, flows, at, head),
        keylog=run.keylog,
        limits=run.options.limits,
        on_end=names.end,
        cluster=view,
        contain=run.options.contain,
    )
    for event in events:
        read.append(at())
        names.write(event)
        if names.is_settled and not names.holds:
            break
    at.ended = True
    names.close()
    return Head(view.learned, waits)


class _Position:
    """The number of the packet that is being read."""

    def __init__(self, flows: Flows) -> None:
        self.ended = False
        self._flows = flows

    def __call__(self) -> int:
        return END if self.ended else self._flows.packets


def _items(
    files: Iterable[tuple[SeekableFile, Start, int]], flows: Flows, at: _Position, left: int
) -> Iterator[FlowItem | Data | Any]:
    for raw, start, size in files:
        if left <= 0:
            return
        stop = min(size, start.first + left)
        reader = PartReader(raw, start.first, stop, start.preamble, packets=1)
        for batch in reader.batches():
            yield from flows.receive(batch)
        if stop < size and reader.problem is None and not reader.at_end:
            return
        left -= reader.position - start.first
    at.ended = True
    yield from flows.close()


class Learned(Struct):
    """What a task's connections showed that concerns other connections."""

    names: Names = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)  # the first packet of each flow
    cluster_ids: set[str] = field(default_factory=set)
    doubts: Doubts = Doubts()

    def add(self, view: SharedView) -> None:
        self.names = merge([self.names, view.learned]) if view.learned else self.names
        for topic_id, until in view.missed.items():
            self.missed[topic_id] = max(until, self.missed.get(topic_id, 0))
        self.cluster_ids |= view.cluster_ids


class Segments(NamedTuple):
    """A block of a connection (segments.pyx), the number of packets before its part, and the payloads that stayed in the file."""

    block: bytes
    before: int = 0
    payloads: Payloads | None = None


class ConnectionReader:
    """Reads the connections of a capture, in any order.

    Args:
        run: gets the events; connections are numbered by their first packet.
        name: the name of the capture.
        shared: what is known of the other connections.
    """

    def __init__(self, run: Run, name: str, shared: Shared) -> None:
        self.learned = Learned()
        self._run = run
        self._name = name
        self._shared = shared
        self._read: dict[object, NamesInBody] = {}
        run.secrets.read_from(HasSecrets(shared.secrets))

    def read(self, key: bytes, blocks: Iterable[Segments]) -> Iterator[None]:
        """Read a connection, pausing after each event."""
        source = _Source(self._shared, self.learned.flows)
        view = SharedView(self._shared, source.position, self._read)
        yield from self._run.read_connection(source.items(key, blocks), self._name, view)
        view.read_all()
        self.learned.add(view)
        self.learned.doubts = self.learned.doubts.plus(source.doubts)


class _Source:
    """The flow items of one connection (or of several, one after the other, between the same endpoints)."""

    def __init__(self, shared: Shared, numbers: list[int]) -> None:
        self._flow_numbers = numbers
        self._numbers: list[int] = []  # of the packets that the items of a block are from
        self._left: Iterator[FlowItem | Data] = iter(())  # of these items
        endpoints = SharedEndpoints(shared, self._received, self._note_flow)
        self._flows = Flows(endpoints=endpoints, shuffled_from=shared.shuffled_from)

    @property
    def doubts(self) -> Doubts:
        return self._flows.doubts

    def position(self) -> int:
        """The number of the packet that the current item is from."""
        return self._numbers[-1 - length_hint(self._left)] if self._numbers else 0

    def _received(self) -> int:
        """The number of the packet that was reassembled last; a block is reassembled before its items are read."""
        return self._flows.packets

    def _note_flow(self) -> None:
        self._flow_numbers.append(self._flows.packets)

    def items(self, key: bytes, blocks: Iterable[Segments]) -> Iterator[FlowItem | Data]:
        """Yield the items of the segments; ``position`` belongs to the item yielded last."""
        for block, before, payloads in blocks:
            out: list[FlowItem | Data] = []
            numbers: list[int] = []
            self._flows.receive_block(key, block, 0, out, numbers, payloads, before)
            if out:
                self._left, self._numbers = iter(out), numbers
                yield from self._left
        self._numbers = [END + self._flows.packets]
        self._left = iter(())
        yield from self._flows.close()
