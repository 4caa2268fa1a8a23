"""What the admin server shows: counters, open connections, the analysis, whether we are ready."""

import asyncio

from kproxy.proxy.logs import log
from kproxy.proxy.messages import AnalyzerCounts, Connection, Connections, ListConnections
from kproxy.proxy.supervisor.child import Child
from kproxy.proxy.supervisor.fleet import Fleet
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters

ASK_SECONDS = 2.0
MOST_CONNECTIONS = 100_000  # in one answer


class Overview:
    """The AdminSource of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._counts: AnalyzerCounts | None = None
        self._asked = 0
        self._answers: dict[int, Answer] = {}
        fleet.on_connections = self._collect
        fleet.on_counts = self._remember

    def counters(self) -> list[Counters]:
        """The counters of all workers."""
        return self._fleet.counters()

    def clients(self) -> int:
        """Return how many clients are connected."""
        return sum(counters.totals()[Total.CONNECTIONS_OPEN] for counters in self.counters())

    def analysis(self) -> AnalyzerCounts | None:
        """The analyzer's last counts; None before there are any."""
        return self._counts

    def hung(self) -> dict[str, int]:
        """How many processes were killed as they hung, by kind."""
        return self._fleet.hung()

    def ready(self) -> tuple[bool, str]:
        """Return whether every worker serves, and if not, why."""
        if self._fleet.draining:
            return False, "draining"
        waiting = [slot.child.name for slot in self._fleet.slots if not slot.child.ready]
        return not waiting, f"not ready: {', '.join(waiting)}" if waiting else ""

    async def connections(self) -> list[Connection]:
        """The open connections of the workers that answer in time."""
        asked = [self._ask(slot.child) for slot in self._fleet.slots if slot.child.ready]
        return [connection for part in await asyncio.gather(*asked) for connection in part][:MOST_CONNECTIONS]

    async def _ask(self, child: Child) -> list[Connection]:
        self._asked += 1
        number, answer = self._asked, Answer()
        self._answers[number] = answer
        try:
            await child.send(ListConnections(number))
            await asyncio.wait_for(answer.whole.wait(), ASK_SECONDS)
        except TimeoutError:
            log("warning", "a worker does not list its connections", worker=child.number, seconds=ASK_SECONDS)
        finally:
            del self._answers[number]
        return answer.connections

    def _collect(self, message: Connections) -> None:
        answer = self._answers.get(message.id)
        if answer is not None:
            answer.add(message)

    def _remember(self, message: AnalyzerCounts) -> None:
        self._counts = message


class Answer:
    """The answer of one worker, which comes in parts."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.whole = asyncio.Event()

    def add(self, message: Connections) -> None:
        """Add another part."""
        if len(self.connections) < MOST_CONNECTIONS:
            self.connections.extend(message.connections)
        if not message.more:
            self.whole.set()
