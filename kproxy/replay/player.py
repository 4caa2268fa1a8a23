"""Player: takes each request of a plan from its time to the comparison of its answers.

Order (its time) ─▶ Rewriter (ids) ─▶ Connections (send, receive) ─▶ Repeating (send again) ─▶ Answers (learn ids, compare)
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from kproxy.errors import DecodeError, EncodeError, UpstreamError
from kproxy.protocol import ApiKey
from kproxy.replay.answers import Answers
from kproxy.replay.connections import Connections, Way, answer_within
from kproxy.replay.learned import Learned
from kproxy.replay.link import LinkClosed, decode_answer
from kproxy.replay.order import Order
from kproxy.replay.plan import Plan
from kproxy.replay.preparing import prepare
from kproxy.replay.recording import Recorded
from kproxy.replay.repeating import Repeating
from kproxy.replay.result import Outcome, Result
from kproxy.replay.rewriting import Ready, Rewriter
from kproxy.replay.routing import Router
from kproxy.replay.syncing import held_generation, sent_together
from kproxy.replay.versions import Unsendable

MOST_IN_FLIGHT = 1_000  # requests, of all connections
MOST_SILENT = 20  # requests in a row without an answer, after which the replay ends


@dataclass(frozen=True)
class Options:
    """How to replay."""

    speed: float | None = None  # times as fast as recorded; None: as fast as it goes
    timeout: float = 30.0  # seconds, for each answer


@dataclass
class Player:
    """One replay; call ``play`` once. ``result`` is up to date at any moment."""

    plan: Plan
    options: Options = Options()
    result: Result = field(default_factory=Result)

    def __post_init__(self) -> None:
        self.learned = Learned(self.plan)
        router = Router(self.plan, self.learned.name)
        self._rewriter = Rewriter(self.learned, self.result.notes)
        self._connections = Connections(self.plan.cluster, router, self.plan.sent, self.result)
        self._repeating = Repeating(self.learned, router, self.options.timeout)
        self._answers = Answers(self.learned, self.result)
        self.result.planned = len(self.plan.sent)
        self._silent = 0  # requests in a row without an answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def play(self) -> Result:
        """Prepare the cluster and send all requests. If cancelled, end what was begun, then raise.

        Raises UpstreamError before the first request.
        """
        await prepare(self.plan, self.learned.identities)
        try:
            await self._play(sent_together(self.plan.sent))
        finally:
            await self._close()
            self._answers.finish()
        return self.result

    async def _play(self, requests: list[Recorded]) -> None:
        loop = asyncio.get_running_loop()
        order = Order(self.options.speed, requests[0].sent_at if requests else 0, loop.time)
        for recorded in requests:
            together = held_generation(recorded)
            await order.wait(recorded.sent_at, together)
            while len(self._tasks) >= MOST_IN_FLIGHT or (self._repeating.produced and self._tasks):
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._silent >= MOST_SILENT:
                self.result.ended = f"{MOST_SILENT} requests in a row were not answered"
                break
            await self._connections.confirm(but=recorded.connection)
            task = await self._send(recorded)
            if task is not None and recorded.answered_at is not None:
                order.add(recorded.answered_at, task, together)
        await order.wait_for_all()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._connections.confirm()

    async def _send(self, recorded: Recorded) -> "asyncio.Task[None] | None":
        """Send a request; return a task that ends when its answer was compared. None: no answer will come."""
        self._connections.take(recorded)
        try:
            ready = self._rewriter.rewrite(recorded)
        except (Unsendable, DecodeError, EncodeError) as error:
            self.result.unsent[recorded.api_name, str(error)] += 1
            self.learned.generations.note_end(recorded)
            return None
        self.result.note_sent(recorded, ready.encoded)
        try:
            way = await self._connections.way(recorded, ready.body)
            future = await self._connections.send(way, recorded, ready)
        except (UpstreamError, LinkClosed) as error:
            self._note_silence(recorded, str(error))
            self.learned.generations.note_end(recorded)
            return None
        self.learned.generations.note_sent(recorded)
        self.result.left_open.note_sent(recorded.number, recorded.api_key, ready.body)
        if future is None:
            self.result.note(recorded, Outcome.UNANSWERED)
            return None
        task = asyncio.get_running_loop().create_task(
            self._finish(way, recorded, ready, future), name=f"answer to request {recorded.number}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, way: Way, recorded: Recorded, ready: Ready, future: "asyncio.Future[bytes]") -> None:
        """Wait for an answer, learn from it and compare it. Never raises."""
        try:
            answer = await self._answer(way, recorded, ready, future)
        except (LinkClosed, UpstreamError) as error:
            self._note_silence(recorded, str(error))
        except DecodeError as error:
            self.result.note_trouble(recorded, f"an answer that cannot be decoded: {error}")
        else:
            self._silent = 0
            self.result.left_open.note_answer(recorded.number, recorded.api_key, ready.body, answer)
            self._answers.take(recorded, ready, answer)
        self._repeating.note_end(recorded)
        self.learned.generations.note_end(recorded)
        self._connections.close_if_done(recorded.connection)

    async def _answer(self, way: Way, recorded: Recorded, ready: Ready, future: "asyncio.Future[bytes]") -> Any:
        """Return the decoded answer to compare; the request is sent again until there is one.

        Raises LinkClosed, UpstreamError, DecodeError.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            frame = await answer_within(way, future, self.options.timeout)
            answer = decode_answer(recorded.api_key, ready.encoded.version, frame)
            again = await self._repeating.again(recorded, ready, answer, loop.time() - began)
            if again is None:
                return answer
            ready = again
            self.result.repeated += 1
            if recorded.api_key != ApiKey.SHARE_FETCH:  # whose session exists at one node only
                way = await self._connections.way(recorded, ready.body)
            future_again = await self._connections.send(way, recorded, ready)
            assert future_again is not None
            future = future_again

    def _note_silence(self, recorded: Recorded, why: str) -> None:
        if recorded.response is None and recorded.expects_response:
            self.result.note(recorded, Outcome.NOT_RECORDED)
        else:
            self._silent += 1
            self.result.note_trouble(recorded, why)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._connections.close()
