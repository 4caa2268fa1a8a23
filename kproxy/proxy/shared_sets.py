"""SharedSets: sets of names that the filters of a virtual cluster share over all workers (filters/contract.py, SharedSet).

A worker sends what its filters add to the supervisor (messages.Learned). The supervisor keeps it and passes it on to the other
workers, also to those that start later. So another worker knows a name milliseconds later, not at once.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from kproxy.filters.bounded_set import BoundedSet
from kproxy.proxy.messages import Learned, Message

VALUES_A_MESSAGE = 500  # of the longest, in four bytes a character, so many fit a line of the channel


class SharedSets:
    """The sets of one virtual cluster in one worker, by name.

    Args:
        cluster: its name.
        send: sends a message to the supervisor.
    """

    def __init__(self, cluster: str, send: Callable[[Message], None]) -> None:
        self._cluster = cluster
        self._send = send
        self._sets: dict[str, BoundedSet] = {}
        self._unsent: dict[str, list[str]] = {}

    def named(self, name: str) -> BoundedSet:
        """Return the set of that name."""
        shared = self._sets.get(name)
        if shared is None:
            shared = self._sets[name] = BoundedSet(on_new=lambda value: self._queue(name, value))
        return shared

    def receive(self, name: str, values: Iterable[str]) -> None:
        """Add values from other workers."""
        self.named(name).receive(values)

    def _queue(self, name: str, value: str) -> None:
        """Send a value, together with all others of this turn of the loop."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.setdefault(name, []).append(value)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, {}
        for name, values in unsent.items():
            for message in in_parts(self._cluster, name, values):
                self._send(message)


class LearnedSets:
    """The shared sets of all clusters, which the supervisor keeps for workers that start later."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], BoundedSet] = {}

    def receive(self, message: Learned) -> None:
        """Keep values from a worker."""
        self._sets.setdefault((message.cluster, message.name), BoundedSet()).receive(message.values)

    def messages(self) -> Iterator[Learned]:
        """Yield messages with all values."""
        for (cluster, name), values in list(self._sets.items()):
            yield from in_parts(cluster, name, list(values))

    def forget_all_but(self, clusters: Iterable[str]) -> None:
        """Forget the sets of all other clusters."""
        kept = set(clusters)
        self._sets = {key: values for key, values in self._sets.items() if key[0] in kept}


def in_parts(cluster: str, name: str, values: list[str]) -> Iterator[Learned]:
    """Yield messages with these values, as many in each as fit."""
    for start in range(0, len(values), VALUES_A_MESSAGE):
        yield Learned(cluster, name, values[start : start + VALUES_A_MESSAGE])
