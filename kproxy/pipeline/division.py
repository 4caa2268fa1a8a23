"""Divide a capture by connection: each of several tasks decodes some connections, and together they decode what one would.

Each task reads and reassembles the whole capture (a small part of the time where frames are large, up to a third where they
are tiny), and decodes

    the head       all connections, until HEAD bytes were read and no event is held back (late_names.py)
    the rest       its own connections; of the others reassembly only counts bytes. Of the connections of the head the
                   largest go to different tasks; later ones go by their number

so that all tasks agree on numbers and roles without a word. ``Division.position`` counts items of the capture: an event has the
same position in whichever task it occurs, and events in the order of their positions are those of an undivided run.

What connections tell each other, names of topics and protocols of groups, is a Fact. A task publishes those of its own
connections, and asks for those of others where it lacks one: it then gets all facts up to some position, and uses those
before its own. Where that cannot give what an undivided run gives (an event would wait for a name, two connections contradict
each other), CannotDivide is raised, and the caller decodes the capture undivided.

Nothing here starts a process: kproxy.cli.jobs does, for ``kproxy decode --jobs``.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

from kproxy.capture import Data, Differs, Flow, Opened, Uncopied
from kproxy.output.opening import NO_PROTOCOLS, Opener, Protocols
from kproxy.pipeline.flow_reader import FlowEvents, Item
from kproxy.pipeline.late_names import LateNames
from kproxy.protocol.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.session import ClusterView, Frame

HEAD = 1024 * 1024  # bytes of payload
PROGRESS = 1_024  # items between two calls of Link.report

Value: TypeAlias = str | Protocols  # the name of a topic; or the type and name of a group's protocol


class CannotDivide(Exception):
    """The tasks cannot give what an undivided run gives."""


class Fact(NamedTuple):
    """What a connection has shown that others need: the name of a topic, by its id, or the protocols of a group."""

    position: int
    key: tuple[str, str]  # ("topic", id) or ("group", id)
    value: Value


class Link(Protocol):
    """How a task reaches the other tasks."""

    def publish(self, fact: Fact) -> None:
        """Send a fact with the next message, at the latest before progress beyond its position."""

    def ask(self, before: int) -> tuple[int, list[Fact]]:
        """Wait until all other tasks have come to *before*; return how far they are and their facts that are new."""

    def report(self) -> None:
        """Tell how far this task is; called every PROGRESS items."""


class Division:
    """The share of one task: task number *task*, from 0, of *tasks*.

    Args:
        link: to the other tasks.
        head: bytes of payload after which the capture is divided.
        on_divide: called once, when the head ends.
    """

    def __init__(
        self, task: int, tasks: int, link: Link, *, head: int = HEAD, on_divide: Callable[[], None] = lambda: None
    ) -> None:
        self.task = task
        self.position = 0  # items of the capture so far; the last one is being processed
        self.divided = False
        self.facts = Facts(self, link)
        self.cluster = DividedClusterView(self.facts)
        self._tasks = tasks
        self._next_report = 0
        self._link = link
        self._head = head
        self._on_divide = on_divide
        self._sizes: dict[Flow, int] = {}  # payload of each flow in the head

    def opener(self, opener: Opener) -> Opener:
        """An Opener that knows what *opener* does, and learns from other tasks, too."""
        return DividedOpener(self.facts, opener)

    def own(
        self, items: Iterator[Item | Uncopied], flows: Callable[[], FlowEvents], names: LateNames
    ) -> Iterator[Item]:
        """Pass on the items that this task decodes; *flows* is what reads them, *names* where its events go."""
        for item in items:
            if type(item) is Uncopied:
                self.position += item.count
                self._report()
                continue
            self.position += type(item) is not Differs  # which depends on the bytes of flows that are not wanted
            if self.divided:
                if type(item) is Opened:
                    item.flow.wanted = item.flow.number % self._tasks == self.task
                if item.flow.wanted:
                    yield item
                self._report()
            else:
                if type(item) is Data:
                    self._sizes[item.flow] = self._sizes.get(item.flow, 0) + len(item.data)
                    self._head -= len(item.data)
                yield item
                if self._head <= 0 and not names.holds:
                    names.before_holding = _refuse_to_hold
                    self._divide(flows())

    def _report(self) -> None:
        if self.position >= self._next_report:
            self._next_report = self.position + PROGRESS
            self._link.report()

    def _divide(self, flows: FlowEvents) -> None:
        loads = [0] * self._tasks
        for flow in flows.open_flows():
            self._sizes.setdefault(flow, 0)
        # Added to each: a connection that was large in the head may be small in the rest, and the other way round.
        usual = 2 * sum(self._sizes.values()) // max(1, len(self._sizes))
        for flow, size in sorted(self._sizes.items(), key=lambda item: (-item[1], item[0].number)):
            task = loads.index(min(loads))
            loads[task] += size + usual
            flow.wanted = task == self.task
        self._sizes.clear()
        for flow in flows.open_flows():
            if not flow.wanted:
                flows.forget(flow)
        self.cluster.read_all()  # what follows is published
        self.divided = True
        self._on_divide()


def _refuse_to_hold() -> None:
    raise CannotDivide("an event would wait for the name of a topic")


class Facts:
    """Facts of this task's connections, for other tasks; and theirs, of which only those before the own position are found."""

    def __init__(self, division: Division, link: Link) -> None:
        self._division = division
        self._link = link
        self._found: dict[tuple[str, str], Value] = {}
        self._ahead: deque[Fact] = deque()  # of positions this task has not come to
        self._known_until = 0  # all facts of other tasks up to this position were received

    @property
    def shared(self) -> bool:
        """Whether the capture is divided, so that other tasks do not see what this one sees."""
        return self._division.divided

    def publish(self, kind: str, key: str, value: Value) -> None:
        """Tell other tasks what the item in processing has shown."""
        self._link.publish(Fact(self._division.position, (kind, key), value))

    def find(self, kind: str, key: str) -> Value | None:
        """What connections of other tasks have shown before the item in processing; it waits for them where it must."""
        if (kind, key) not in self._found and self.shared:
            self._catch_up(self._division.position)
        return self._found.get((kind, key))

    def _catch_up(self, position: int) -> None:
        if position > self._known_until + 1:
            self._known_until, facts = self._link.ask(position)
            self._ahead.extend(sorted(facts))
        while self._ahead and self._ahead[0].position < position:
            fact = self._ahead.popleft()
            self._found[fact.key] = fact.value


class DividedClusterView(ClusterView):
    """Names of topics, those that connections of other tasks have shown included."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self._facts = facts
        super().learn_topic(METADATA_TOPIC_ID, METADATA_TOPIC)

    def note(self, frame: Frame) -> None:
        """See ClusterView; the frame is read at once, as other tasks may wait for what it shows."""
        super().note(frame)
        if self._facts.shared:
            self.read_all()

    def learn_topic(self, topic_id: str, name: str) -> None:
        """See ClusterView."""
        known = self._topics.get(topic_id)
        super().learn_topic(topic_id, name)
        if known == name or not self._facts.shared:
            return
        if known is not None:
            raise CannotDivide("a topic id changes its name")
        self._facts.publish("topic", topic_id, name)

    def topic_name(self, topic_id: str) -> str | None:
        """See ClusterView."""
        name = super().topic_name(topic_id)
        found = self._facts.find("topic", topic_id) if name is None else None
        return found if isinstance(found, str) else name


class DividedOpener(Opener):
    """Opens payloads, knowing the protocols of groups that connections of other tasks have shown.

    Args:
        facts: of the task.
        opener: what it knows at first.
    """

    def __init__(self, facts: Facts, opener: Opener) -> None:
        super().__init__(opener.viewers)
        self.groups.update(opener.groups)
        self._facts = facts

    def note_protocols(self, group_id: str, protocols: Protocols) -> None:
        """See Opener."""
        known = self.groups.get(group_id, NO_PROTOCOLS)
        super().note_protocols(group_id, protocols)
        if known == protocols or not self._facts.shared:
            return
        if known != NO_PROTOCOLS and (known[0] != protocols[0] or known[1] is not None):
            raise CannotDivide("a group changes its protocol")
        if protocols[1] is not None:
            self._facts.publish("group", group_id, protocols)

    def protocols_of(self, group_id: str) -> Protocols:
        """See Opener."""
        protocols = super().protocols_of(group_id)
        found = self._facts.find("group", group_id) if protocols[1] is None else None
        return found if isinstance(found, tuple) else protocols
