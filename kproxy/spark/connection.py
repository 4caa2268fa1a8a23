"""Decode connections one at a time: from blocks of segments in order to rows. Memory holds one block and one session."""

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from kproxy.capture import Data, FlowItem, Flows
from kproxy.pipeline.run import Run
from kproxy.spark.facts import END, Names, Shared, SharedEndpoints, SharedView, merge
from kproxy.spark.head import HasSecrets


class Learned(Struct):
    """What a task's connections showed that concerns other connections; see facts.py."""

    names: Names = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)  # the first packet of each flow
    cluster_ids: set[str] = field(default_factory=set)

    def add(self, view: SharedView) -> None:
        """Add what one connection showed."""
        self.names = merge([self.names, view.learned]) if view.learned else self.names
        for topic_id, until in view.missed.items():
            self.missed[topic_id] = max(until, self.missed.get(topic_id, 0))
        self.cluster_ids |= view.cluster_ids


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
        run.secrets.read_from(HasSecrets(shared.secrets))

    def read(self, key: bytes, blocks: Iterable[bytes]) -> Iterator[None]:
        """Read a connection, pausing after each event."""
        source = _Source(self._shared, self.learned.flows)
        view = SharedView(self._shared, source.position)
        yield from self._run.read_connection(source.items(key, blocks), self._name, view)
        view.read_all()
        self.learned.add(view)


class _Source:
    """The flow items of one connection (or of several, one after the other, between the same endpoints)."""

    def __init__(self, shared: Shared, numbers: list[int]) -> None:
        self._at = 0
        self._numbers = numbers
        endpoints = SharedEndpoints(shared, self._received, self._note_flow)
        self._flows = Flows(endpoints=endpoints, shuffled_from=shared.shuffled_from)

    def position(self) -> int:
        """The number of the packet that the current item is from."""
        return self._at

    def _received(self) -> int:
        """The number of the packet that was reassembled last; a block is reassembled before its items are read."""
        return self._flows.packets

    def _note_flow(self) -> None:
        self._numbers.append(self._flows.packets)

    def items(self, key: bytes, blocks: Iterable[bytes]) -> Iterator[FlowItem | Data]:
        """Yield the items of the segments; ``position`` belongs to the item yielded last."""
        out: list[FlowItem | Data] = []
        numbers: list[int] = []
        for block in blocks:
            self._flows.receive_block(key, block, 0, out, numbers)
            for item, self._at in zip(out, numbers, strict=True):
                yield item
            out.clear()
            numbers.clear()
        last = self._flows.packets
        out = self._flows.close()
        self._at = END + last
        yield from out
