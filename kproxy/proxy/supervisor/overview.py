"""What the admin server is told of the whole: counters, open connections, the analysis, whether we are ready."""

import asyncio
from typing import Any

from kproxy.proxy.control import Message
from kproxy.proxy.logs import log
from kproxy.proxy.supervisor.child import Child
from kproxy.proxy.supervisor.fleet import Fleet
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters

ASK_SECONDS = 2.0
MOST_CONNECTIONS = 100_000  # told of at once


class Overview:
    """The AdminSource of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._counts: dict[str, Any] = {}
        self._asked = 0
        self._answers: dict[int, Answer] = {}
        fleet.told["connections"] = self._collect
        fleet.told["counts"] = self._remember

    def counters(self) -> list[Counters]:
        """Of all workers."""
        return self._fleet.counters()

    def clients(self) -> int:
        """How many clients are connected."""
        return sum(counters.totals()[Total.CONNECTIONS_OPEN] for counters in self.counters())

    def analysis(self) -> dict[str, Any]:
        """What the analyzer counted last; empty before it has."""
        return self._counts

    def ready(self) -> tuple[bool, str]:
        """Whether every worker serves; if not, why."""
        if self._fleet.draining:
            return False, "draining"
        waiting = [post.child.name for post in self._fleet.posts if not post.child.ready]
        return not waiting, f"not ready: {', '.join(waiting)}" if waiting else ""

    async def connections(self) -> list[dict[str, Any]]:
        """What the workers that answer in time say of their open connections."""
        asked = [self._ask(post.child) for post in self._fleet.posts if post.child.ready]
        return [connection for part in await asyncio.gather(*asked) for connection in part][:MOST_CONNECTIONS]

    async def _ask(self, child: Child) -> list[dict[str, Any]]:
        self._asked += 1
        number, answer = self._asked, Answer(child.number)
        self._answers[number] = answer
        try:
            await child.send({"do": "connections", "id": number})
            await asyncio.wait_for(answer.whole.wait(), ASK_SECONDS)
        except TimeoutError:
            log("warning", "a worker does not tell of its connections", worker=child.number, seconds=ASK_SECONDS)
        finally:
            del self._answers[number]
        return answer.connections

    def _collect(self, message: Message) -> None:
        answer = self._answers.get(message.get("id", 0))
        if answer is not None:
            answer.add(message)

    def _remember(self, message: Message) -> None:
        self._counts = {name: value for name, value in message.items() if name != "said"}


class Answer:
    """One worker's, which comes in parts."""

    def __init__(self, worker: int | None) -> None:
        self.connections: list[dict[str, Any]] = []
        self.whole = asyncio.Event()
        self._worker = worker

    def add(self, message: Message) -> None:
        """Another part of it."""
        part = message.get("connections", [])
        if len(self.connections) < MOST_CONNECTIONS:
            self.connections.extend({"worker": self._worker, **connection} for connection in part)
        if not message.get("more"):
            self.whole.set()
