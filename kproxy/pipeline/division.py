"""Divide a capture among tasks by connection, so that together they decode what one run would.

Each task reads and reassembles the complete capture (cheap where frames are large, up to a third of the time where they are
tiny) and decodes

    the head       all connections, until HEAD bytes were read and no event is held back (late_names.py)
    the rest       its own connections; reassembly only counts the bytes of the others. The largest connections of the head
                   go to different tasks; later connections are assigned by their number

so that all tasks agree on numbers and roles without talking. ``Division.position`` counts items of the capture: an event has
the same position in every task, and sorting events by position gives the order of an undivided run.

What one connection needs from another, a topic's name or a group's protocol, is a Fact. A task publishes the facts of its own
connections and asks for a missing one: it then receives all facts up to some position and uses those before its own position.
If that cannot give the result of an undivided run (an event would have to wait for a name, or two connections contradict each
other), CannotDivide is raised, and the caller decodes the capture undivided.

Nothing here starts a process: kproxy.cli.jobs does, for ``kproxy decode --jobs``.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

from kproxy.capture import Data, Differs, Flow, Opened, Uncopied
from kproxy.output.bodies import NO_PROTOCOLS, Opener, Protocols
from kproxy.pipeline.flow_reader import FlowEvents, Item
from kproxy.pipeline.late_names import LateNames
from kproxy.protocol.constants import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.session import ClusterView, Frame

HEAD = 1024 * 1024  # bytes of payload
PROGRESS = 1_024  # items between two calls of Link.report

Value: TypeAlias = str | Protocols  # the name of a topic; or the type and name of a group's protocol


class CannotDivide(Exception):
    """Raised when the tasks cannot give the result of an undivided run."""


class Fact(NamedTuple):
    """Something that one connection showed and others need: the name of a topic id, or the protocols of a group."""

    position: int
    key: tuple[str, str]  # ("topic", id) or ("group", id)
    value: Value


class Link(Protocol):
    """How a task reaches the other tasks."""

    def publish(self, fact: Fact) -> None:
        """Send a fact to the other tasks, at the latest before reporting progress beyond its position."""

    def ask(self, before: int) -> tuple[int, list[Fact]]:
        """Wait until all other tasks have reached position *before*; return how far they are and their new facts."""

    def report(self) -> None:
        """Report how far this task is; called every PROGRESS items."""


class Division:
    """The share of one task: task number *task*, from 0, of *tasks*.

    Args:
        link: the connection to the other tasks.
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
        """Return an Opener with the knowledge of *opener* that also learns from other tasks."""
        return DividedOpener(self.facts, opener)

    def own(
        self, items: Iterator[Item | Uncopied], flows: Callable[[], FlowEvents], names: LateNames
    ) -> Iterator[Item]:
        """Yield the items that this task decodes; *flows* reads them, and *names* receives its events."""
        for item in items:
            if type(item) is Uncopied:
                self.position += item.count
                self._report()
                continue
            self.position += type(item) is not Differs  # not counted: tasks see these only for their own flows
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
        # Added to each size: a connection that was large in the head may be small in the rest, and the reverse.
        usual = 2 * sum(self._sizes.values()) // max(1, len(self._sizes))
        for flow, size in sorted(self._sizes.items(), key=lambda item: (-item[1], item[0].number)):
            task = loads.index(min(loads))
            loads[task] += size + usual
            flow.wanted = task == self.task
        self._sizes.clear()
        for flow in flows.open_flows():
            if not flow.wanted:
                flows.forget(flow)
        self.cluster.read_all()  # names found later are published
        self.divided = True
        self._on_divide()


def _refuse_to_hold() -> None:
    raise CannotDivide("an event would wait for the name of a topic")


class Facts:
    """Exchanges facts with the other tasks; ``find`` sees only those before this task's position."""

    def __init__(self, division: Division, link: Link) -> None:
        self._division = division
        self._link = link
        self._found: dict[tuple[str, str], Value] = {}
        self._ahead: deque[Fact] = deque()  # at positions that this task has not reached
        self._known_until = 0  # all facts of other tasks up to this position were received

    @property
    def shared(self) -> bool:
        """Whether the head is over, so that other tasks no longer see what this one sees."""
        return self._division.divided

    def publish(self, kind: str, key: str, value: Value) -> None:
        """Tell the other tasks what the current item has shown."""
        self._link.publish(Fact(self._division.position, (kind, key), value))

    def find(self, kind: str, key: str) -> Value | None:
        """Return what connections of other tasks showed before the current item; waits for those tasks if needed."""
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
    """A ClusterView that also knows topic names from connections of other tasks."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self._facts = facts
        super().learn_topic(METADATA_TOPIC_ID, METADATA_TOPIC)

    def note(self, frame: Frame) -> None:
        """See ClusterView; reads the frame immediately, as other tasks may wait for its facts."""
        super().note(frame)
        if self._facts.shared:
            self.read_all()

    def learn_topic(self, topic_id: str, name: str) -> None:
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
        fact = self._facts.find("topic", topic_id) if name is None else None
        return fact if isinstance(fact, str) else name


class DividedOpener(Opener):
    """An Opener that also knows group protocols from connections of other tasks.

    Args:
        facts: the task's facts.
        opener: the initial knowledge.
    """

    def __init__(self, facts: Facts, opener: Opener) -> None:
        super().__init__(opener.viewers)
        self.groups.update(opener.groups)
        self._facts = facts

    def note_protocols(self, group_id: str, protocols: Protocols) -> None:
        known = self.groups.get(group_id, NO_PROTOCOLS)
        super().note_protocols(group_id, protocols)
        if known == protocols or not self._facts.shared:
            return
        if known != NO_PROTOCOLS and (known[0] != protocols[0] or known[1] is not None):
            raise CannotDivide("a group changes its protocol")
        if protocols[1] is not None:
            self._facts.publish("group", group_id, protocols)

    def protocols_of(self, group_id: str) -> Protocols:
        protocols = super().protocols_of(group_id)
        fact = self._facts.find("group", group_id) if protocols[1] is None else None
        return fact if isinstance(fact, tuple) else protocols
