"""StoppedMessages: the messages that breakpoints have stopped in all workers, decisions about them, and the breakpoints
themselves.

The messages stay in their workers; the supervisor has what the page shows of each. Breakpoints are in force while a page asks for
stopped messages. After page.away seconds without a page they are removed and what is stopped goes on: a closed browser must not
leave a cluster in which each message waits for five seconds.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Literal

from kproxy.filters.breakpoints.breakpoint import Breakpoint, activate
from kproxy.filters.breakpoints.decision import how_it_ended
from kproxy.proxy.logs import log
from kproxy.proxy.messages import (
    BreakpointGivenUp,
    Decide,
    News,
    ResumeAll,
    SetBreakpoint,
    ShowStop,
    Stop,
    StopAnswer,
    StopEnded,
    Stopped,
    UseBreakpoints,
)
from kproxy.proxy.stops import GONE
from kproxy.proxy.supervisor.fleet import Fleet

ASK_SECONDS = 5.0
WORKER_ENDED = "its worker has ended"
Direction = Literal["request", "response"]
MOST_SHOWN = 10_000  # stops of all workers
MOST_ENDED = 1_000  # ended stops that are remembered, with how they ended
LONGEST_WAIT_S = 30.0  # for news


class NotDone(Exception):
    """Says in a clause why something was not done."""


class StoppedMessages:
    """The stopped messages and the breakpoints of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._stops: dict[str, tuple[int, Stop]] = {}  # by id, with the worker
        self._ended: OrderedDict[str, StopEnded] = OrderedDict()  # by id, the latest last
        self._given_up: dict[Breakpoint, str] = {}  # breakpoints that are set but given up, and why
        self._looked_at = 0.0  # when a page last asked, by the monotonic clock
        self._waiting_pages = 0
        self._watching: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.generation = 0  # grows when stopped messages or breakpoints change
        fleet.listeners.append(self._note)

    @property
    def breakpoints(self) -> list[Breakpoint]:
        used = self._fleet.breakpoints
        return [] if used is None else [Breakpoint(one.condition, _direction(one)) for one in used.breakpoints]

    @property
    def given_up(self) -> dict[Breakpoint, str]:
        """The breakpoints that a worker has given up as they take too long, and why, in sentences."""
        return self._given_up

    def stops(self) -> list[Stop]:
        return sorted((stop for _, stop in self._stops.values()), key=lambda stop: stop.stopped_ms)

    def stop(self, id_: str) -> Stop:
        """Return one stopped message. Raises NotDone."""
        worker_and_stop = self._stops.get(id_)
        if worker_and_stop is None:
            raise self._not_stopped(id_)
        return worker_and_stop[1]

    def ended(self, most: int) -> list[StopEnded]:
        """Return how the latest stops ended; the latest first."""
        return [one for one, _ in zip(reversed(self._ended.values()), range(most), strict=False)]

    def _not_stopped(self, id_: str) -> NotDone:
        ended = self._ended.get(id_)
        how = "" if ended is None else f": {how_it_ended(ended.action, ended.by, ended.why)}"
        return NotDone(f"{GONE}{how}")

    def look(self) -> None:
        """Note that a page is there."""
        self._looked_at = time.monotonic()

    async def news(self, generation: int, seconds: float) -> None:
        """Wait until something has changed since *generation*, for at most *seconds*."""
        until = time.monotonic() + min(max(seconds, 0.0), LONGEST_WAIT_S)
        self._waiting_pages += 1
        try:
            while self.generation == generation and not self._fleet.draining:
                left = until - time.monotonic()
                if left <= 0:
                    return
                try:
                    await asyncio.wait_for(self._news.wait(), left)
                except TimeoutError:
                    return
        finally:
            self._waiting_pages -= 1
            self.look()

    async def use(self, breakpoints: Sequence[Breakpoint], by: str) -> None:
        """Set these breakpoints in place of the previous ones, for messages from now on.

        Raises ValueError, one sentence, for one that cannot be used.
        """
        activate(list(breakpoints))
        self.look()
        await self._send_breakpoints(breakpoints)
        conditions = [f"{one.direction}: {one.condition}" for one in breakpoints]
        log("warning", "breakpoints were set", by=by, count=len(conditions), fields=conditions)
        if breakpoints and (self._watching is None or self._watching.done()):
            self._watching = asyncio.ensure_future(self._watch())

    async def body(self, id_: str) -> bytes:
        """Return the body of a stopped message. Raises NotDone."""
        return await self._ask(id_, lambda question: [ShowStop(question, id_)])

    async def decide(self, id_: str, decision: Decide, body: bytes = b"") -> None:
        """Apply a decision about a stopped message. Raises NotDone."""

        def messages(question: int) -> list[Decide]:
            undivided = Decide(question, id_, decision.action, decision.by, decision.error, decision.seconds)
            return list(undivided.parts(body))

        await self._ask(id_, messages)

    async def resume_all(self, by: str) -> int:
        """Let all stopped messages go on. Return how many there were."""
        count = len(self._stops)
        await self._fleet.send_all(ResumeAll(by))
        return count

    async def _ask(self, id_: str, messages: Callable[[int], Sequence[ShowStop | Decide]]) -> bytes:
        """Ask the worker that holds a message; return the bytes of its answer. Raises NotDone."""
        worker_and_stop = self._stops.get(id_)
        if worker_and_stop is None:
            raise self._not_stopped(id_)
        child = next((slot.child for slot in self._fleet.slots if slot.child.number == worker_and_stop[0]), None)
        if child is None:
            raise NotDone(WORKER_ENDED)
        with self._fleet.questions.ask([worker_and_stop[0]], StopAnswer) as (number, (question,)):
            for message in messages(number):
                await child.send(message)
            try:
                if not await question.is_answered(ASK_SECONDS):
                    raise NotDone(WORKER_ENDED)
            except TimeoutError:
                raise NotDone(f"its worker has not answered within {ASK_SECONDS:g} s") from None
        refused = question.parts[-1].refused
        if refused == GONE:  # it was decided a moment ago, for example by another page
            raise self._not_stopped(id_)
        if refused:
            raise NotDone(refused)
        return b"".join(part.part for part in question.parts)

    async def _send_breakpoints(self, breakpoints: Sequence[Breakpoint]) -> None:
        """Set breakpoints in all workers, and wait a while until they use them."""
        self._given_up = {one: why for one, why in self._given_up.items() if one in breakpoints}
        workers = [slot.child.number for slot in self._fleet.slots if slot.child.number is not None]
        with self._fleet.questions.ask(workers, StopAnswer) as (number, questions):
            message = UseBreakpoints([SetBreakpoint(one.condition, one.direction) for one in breakpoints], number)
            self._fleet.breakpoints = message
            await self._fleet.send_all(message)
            if questions:  # do not wait long for a worker that hangs: its successor begins with these breakpoints
                await asyncio.wait([question.answered for question in questions], timeout=ASK_SECONDS)
        self._tell()

    async def _watch(self) -> None:
        """Remove the breakpoints once no page has asked for page.away seconds."""
        while self.breakpoints:
            away = self._fleet.config.page.away
            left = self._looked_at + away - time.monotonic()
            if left > 0 or self._waiting_pages:
                await asyncio.sleep(max(left, 0.05))
                continue
            log("warning", "breakpoints were removed, as no page is open", seconds=away, count=len(self._stops))
            await self._send_breakpoints([])
            await self._fleet.send_all(ResumeAll("", "no page"))

    def _end(self, ended: StopEnded) -> None:
        if ended.id in self._stops:
            del self._stops[ended.id]
            self._ended[ended.id] = ended
            if len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)

    def _note(self, worker: int | None, message: News | None) -> None:
        match message:
            case None:  # its process and its connections have ended
                for id_ in [id_ for id_, (at, _) in self._stops.items() if at == worker]:
                    self._end(StopEnded(id_, why="worker ended"))
                self._tell()
            case Stopped(stop) if worker is not None and len(self._stops) < MOST_SHOWN:
                self._stops[stop.id] = worker, stop
                self._tell()
            case StopEnded():
                self._end(message)
                self._tell()
            case BreakpointGivenUp(condition, why=why):
                given_up = Breakpoint(condition, _direction(message))
                if given_up in self.breakpoints:
                    self._given_up[given_up] = why
                    self._tell()

    def _tell(self) -> None:
        self.generation += 1
        self._news.set()
        self._news = asyncio.Event()


def _direction(one: SetBreakpoint | BreakpointGivenUp) -> Direction:
    return "response" if one.direction == "response" else "request"
