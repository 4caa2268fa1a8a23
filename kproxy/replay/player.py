"""Player: takes each request of a plan from its time to the comparison of its answers.

Order (its time) ─▶ Rewriter (ids) ─▶ Connections (send, receive) ─▶ Repeating (send again) ─▶ Answers (learn ids, compare)

A request depends on what its client, or another one, had read by then: a fetch on the produce whose records it returns, a join on
the coordinator that was found. So every answer that was recorded before a request must have arrived, on any connection. Requests
that were in flight together stay so. Answers that brokers hold until other requests arrive (groups.py) are not waited for.

A request is sent again if the new coordinator or leader is not ready and the recorded one was; if a member has to join as a new
one; and if a heartbeat or a share fetch has not yet returned what the recorded one did. Produce is sent again only if nothing was
appended, and meanwhile nothing else is sent, so that records keep their order.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kproxy.errors import DecodeError, EncodeError, UpstreamError
from kproxy.protocol import ApiKey
from kproxy.proxy.broker_client import decode_response
from kproxy.replay.cluster import LinkClosed
from kproxy.replay.comparing import HEARTBEATS, NOT_READY, error_codes_of, make_next_heartbeat
from kproxy.replay.connections import Connections, Router, Way, answer_within
from kproxy.replay.groups import held_generation, join_anew, learns_of_rebalance_later, sent_together
from kproxy.replay.learned import Answers, Learned, Ready, Rewriter, encoded_again
from kproxy.replay.plan import Plan
from kproxy.replay.preparing import prepare
from kproxy.replay.recording import Recorded
from kproxy.replay.result import Outcome, Result
from kproxy.replay.sessions import acquires_later
from kproxy.replay.versions import Unsendable

NANOSECONDS = 1e9
RETRY_S = 0.1
REBALANCE_S = 1.0  # how long the new coordinator may take to tell a member's Heartbeats that the group rebalances
RETRIES_S = 10.0  # for one request whose recorded answer was ready
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
            answer = decode_response(recorded.api_key, ready.encoded.version, frame)
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


class Order:
    """The order of one replay. *speed*: how many times as fast as recorded; None: as fast as possible."""

    def __init__(self, speed: float | None, began_at: int, clock: Callable[[], float]) -> None:
        """Args:
        speed: see the class.
        began_at: the recorded time of the first request, ns.
        clock: seconds, of the event loop.
        """
        self._speed = speed
        self._began_at = began_at
        self._clock = clock
        self._began = clock()
        self._counter = itertools.count()
        # A heap by recorded time of the answer, with what is waited for together
        self._answers: list[tuple[int, int, asyncio.Future[None], str]] = []

    def due_in(self, sent_at: int) -> float:
        """Return the seconds until a request that was recorded at *sent_at* is due; 0 if it is due."""
        if self._speed is None:
            return 0.0
        due = self._began + (sent_at - self._began_at) / NANOSECONDS / self._speed
        return max(0.0, due - self._clock())

    def add(self, answered_at: int, answered: "asyncio.Future[None]", together: str = "") -> None:
        """Note a request that was sent, so that later ones wait for its answer.

        Args:
            answered_at: when the answer was recorded.
            answered: done when the answer arrives; never raises.
            together: names requests whose answers a broker may hold until another one of them arrives; "": none.
        """
        heapq.heappush(self._answers, (answered_at, next(self._counter), answered, together))

    async def wait(self, sent_at: int, together: str = "") -> None:
        """Wait until a request that was recorded at *sent_at* may be sent.

        It does not wait for answers to requests of the same *together*.
        """
        while (left := self.due_in(sent_at)) > 0:
            await asyncio.sleep(left)
        held = []
        while self._answers and self._answers[0][0] <= sent_at:
            first = heapq.heappop(self._answers)
            if together and first[3] == together:
                held.append(first)
            else:
                await first[2]
        for one in held:
            heapq.heappush(self._answers, one)

    async def wait_for_all(self) -> None:
        """Wait for every answer."""
        while self._answers:
            await heapq.heappop(self._answers)[2]


class Repeating:
    """Decides for one replay. *timeout*: seconds for each answer; no request is sent again for longer."""

    def __init__(self, learned: Learned, router: Router, timeout: float) -> None:
        self.produced: set[int] = set()  # numbers of the Produce requests that are being sent again
        self._learned = learned
        self._router = router
        self._most = min(RETRIES_S, timeout)
        # Error codes that remained after a request was sent again for the full time
        self._in_vain: set[int] = set()

    async def again(self, recorded: Recorded, ready: Ready, answer: Any, seconds: float) -> Ready | None:
        """Return the request to send again, when it is time to; None: the answer is the one to compare.

        *seconds*: since the request was first sent. Raises UpstreamError.
        """
        if recorded.api_key == ApiKey.JOIN_GROUP and await self._must_join_again(recorded, ready.body, answer):
            return encoded_again(recorded, ready)
        if self._is_late(recorded, answer, seconds):
            return None
        if learns_of_rebalance_later(recorded, answer) and seconds < REBALANCE_S:
            await asyncio.sleep(RETRY_S)
            return ready
        if self._continue_as_client(recorded, ready.body, answer):
            await asyncio.sleep(RETRY_S)
            return encoded_again(recorded, ready)
        if self._is_not_ready_yet(recorded, answer):
            return await self._retry_later(recorded, ready)
        return None

    def note_end(self, recorded: Recorded) -> None:
        """Note that a request is finished in any way."""
        self.produced.discard(recorded.number)

    def _is_late(self, recorded: Recorded, answer: Any, seconds: float) -> bool:
        """Return whether a request was sent again for long enough.

        If trying again for the full time did not help once, requests with the same errors are tried for a shorter time.
        """
        errors = NOT_READY.intersection(error_codes_of(answer))
        patience = RETRY_S * 5 if errors and errors <= self._in_vain else RETRIES_S
        if seconds < min(patience, self._most):
            return False
        if self._is_not_ready_yet(recorded, answer):
            self._in_vain |= errors
        return True

    def _continue_as_client(self, recorded: Recorded, body: Any, answer: Any) -> bool:
        """If a heartbeat or ShareFetch got less than the recorded one, change it into the next request of its client.

        Return whether it was changed.
        """
        if recorded.api_key in HEARTBEATS and not self._learned.assigned.is_as_recorded(recorded, answer):
            make_next_heartbeat(body, answer)
            return True
        if acquires_later(recorded, body, answer):
            self._learned.share_sessions(recorded).ask_again(body)
            return True
        return False

    async def _must_join_again(self, recorded: Recorded, body: Any, answer: Any) -> bool:
        """Change a JoinGroup that was answered, if its member has to send it again; return whether it has."""
        if join_anew(recorded, body, answer, self._learned.identities):
            return True
        if await self._learned.generations.is_settled(recorded, answer, self._most):
            return False
        body.member_id = answer.member_id
        return True

    def _is_not_ready_yet(self, recorded: Recorded, answer: Any) -> bool:
        """Return whether the new cluster was not ready for a request that the recorded one was ready for."""
        not_ready = NOT_READY.intersection(error_codes_of(answer))
        if not not_ready:
            return False
        if recorded.api_key == ApiKey.PRODUCE and not not_ready.issuperset(error_codes_of(answer)):
            return False  # a part of it was appended
        old = recorded.answer()
        return old is not None and not not_ready.intersection(error_codes_of(old))

    async def _retry_later(self, recorded: Recorded, ready: Ready) -> Ready | None:
        """Wait, and look up leaders and coordinators again; None: it cannot be sent again, as its fetch session was ended."""
        if recorded.api_key == ApiKey.PRODUCE:
            self.produced.add(recorded.number)  # what follows must not be appended before it
        await asyncio.sleep(RETRY_S)
        await self._router.renew(recorded.api_key, ready.body)
        if recorded.api_key != ApiKey.FETCH or ready.body.session_epoch <= 0:
            return ready
        return encoded_again(recorded, ready) if self._learned.fetch_sessions(recorded).again(ready.body) else None
