"""Stops: every message that is held goes on once, by whichever of the ways comes first, and the supervisor is told of each."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from kproxy.config import Page
from kproxy.filters.breakpoints.decision import Decision, Why
from kproxy.filters.breakpoints.decision import Stopped as StoppedMessage
from kproxy.filters.breakpoints.stopped_text import MOST_TEXT_SIZE
from kproxy.proxy.messages import (
    STOP_PART,
    BreakpointGivenUp,
    Decide,
    Message,
    ResumeAll,
    ShowStop,
    Stop,
    StopAnswer,
    StopEnded,
    Stopped,
)
from kproxy.proxy.stops import GONE, Stops
from tests.support.filtering import connection

BY = "127.0.0.1:5000"
FOREVER = Page(edits=True, hold=300.0)


def message(body: bytes = b"body", number: int = 1) -> StoppedMessage:
    at = connection()
    at.number = number
    return StoppedMessage(at, "app", "request", 0, 9, 4, body, 'api == "Produce"', True, True)


class Bench:
    """The stops of a worker, and what was told of them."""

    def __init__(self, page: Page = FOREVER) -> None:
        self.told: list[Message] = []
        self.stops = Stops(2, self.told.append)
        self.stops.configure(page)
        self.holder = self.stops.of_cluster("default")

    def hold(self, body: bytes = b"body", number: int = 1) -> Awaitable[Decision]:
        held = self.holder.hold(message(body, number))
        assert not isinstance(held, str), held
        return held

    def shown(self) -> list[Stop]:
        return [one.stop for one in self.told if isinstance(one, Stopped)]

    def ended(self) -> list[str]:
        return [one.id for one in self.told if isinstance(one, StopEnded)]

    def answers(self) -> list[StopAnswer]:
        return [one for one in self.told if isinstance(one, StopAnswer)]


def in_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(bounded())


def test_a_decision_ends_the_stop() -> None:
    async def work() -> None:
        bench = Bench()
        held = bench.hold()
        (stop,) = bench.shown()
        assert (stop.size, stop.client_id, stop.api_key, stop.direction, stop.connection) == (4, "app", 0, "request", 1)
        assert stop.resumes_ms - stop.stopped_ms == 300_000
        bench.stops.handle(Decide(5, stop.id, "error", BY, error=29))
        assert await held == Decision("error", BY, b"", 29)
        assert bench.ended() == [stop.id]
        assert bench.answers() == [StopAnswer(5)]
        bench.stops.handle(Decide(6, stop.id, "drop", BY))
        assert bench.answers()[1:] == [StopAnswer(6, refused=GONE)]

    in_loop(work)


def test_it_goes_on_by_itself() -> None:
    async def work() -> None:
        bench = Bench(Page(edits=True, hold=0.01))
        assert await bench.hold() == Decision("resume", why="time over")
        assert bench.ended() == [bench.shown()[0].id]

    in_loop(work)


def test_more_time_is_given_when_it_is_asked_for_but_not_for_ever() -> None:
    async def work() -> None:
        bench = Bench(Page(edits=True, hold=30.0))
        held = asyncio.ensure_future(_awaited(bench.hold()))
        (stop,) = bench.shown()
        bench.stops.handle(Decide(1, stop.id, "keep", BY, seconds=200.0))
        longer = bench.shown()[1]
        assert longer.id == stop.id
        assert 195_000 < longer.resumes_ms - stop.stopped_ms < 205_000
        bench.stops.handle(Decide(2, stop.id, "keep", BY, seconds=1e9))
        assert bench.shown()[2].resumes_ms - stop.stopped_ms < 301_000
        bench.stops.handle(Decide(3, stop.id, "keep", BY, seconds=1e9))
        assert [answer.refused for answer in bench.answers()] == ["", "", "a message is stopped for at most 300 s"]
        assert not held.done()
        bench.stops.resume_all(BY)
        assert await held == Decision("resume", BY)

    in_loop(work)


async def _awaited(held: Awaitable[Decision]) -> Decision:
    return await held


def test_a_message_that_replaces_it_comes_in_parts() -> None:
    async def work() -> None:
        bench = Bench()
        held = bench.hold()
        body = bytes(range(256)) * 6_000
        parts = list(Decide(1, bench.shown()[0].id, "replace", BY).parts(body))
        assert len(parts) == 3
        for part in parts:
            bench.stops.handle(part)
        assert await held == Decision("replace", BY, body)
        assert bench.answers() == [StopAnswer(1)]

    in_loop(work)


def test_a_message_that_replaces_it_has_a_bound() -> None:
    async def work() -> None:
        bench = Bench()
        bench.hold()
        (stop,) = bench.shown()
        for _ in range(MOST_TEXT_SIZE // STOP_PART + 2):
            bench.stops.handle(Decide(1, stop.id, "replace", BY, part=bytes(STOP_PART), more=True))
        assert [answer.refused for answer in bench.answers()] == ["the message is too large"]
        assert not bench.ended()

    in_loop(work)


def test_its_bytes_are_shown_in_parts() -> None:
    async def work() -> None:
        bench = Bench()
        body = bytes(range(256)) * 5_000
        bench.hold(body)
        bench.stops.handle(ShowStop(8, bench.shown()[0].id))
        assert b"".join(answer.part for answer in bench.answers()) == body
        assert [answer.more for answer in bench.answers()] == [True, True, False]
        bench.stops.handle(ShowStop(9, "no such"))
        assert bench.answers()[-1] == StopAnswer(9, refused=GONE)

    in_loop(work)


def test_how_much_is_held_is_bounded_and_what_ends_makes_room() -> None:
    async def work() -> None:
        bench = Bench(Page(edits=True, hold=300.0, most_stops=2, most_stopped_size=100))
        bench.hold(bytes(60))
        assert bench.holder.hold(message(bytes(41))) == "too many"
        bench.hold(bytes(40))
        assert bench.holder.hold(message(b"")) == "too many"
        bench.stops.resume_all()
        bench.hold(bytes(100))
        assert bench.holder.hold(message(bytes(MOST_TEXT_SIZE + 1))) == "too large"

    in_loop(work)


def test_a_closed_connection_frees_what_it_had_and_no_other() -> None:
    async def work() -> None:
        bench = Bench()
        first, second = bench.hold(number=1), bench.hold(number=2)
        bench.stops.of_cluster("another").release(1)
        assert not bench.ended()
        bench.holder.release(1)
        assert await first == Decision("resume", why="connection closed")
        assert bench.ended() == [bench.shown()[0].id]
        bench.stops.handle(ResumeAll(BY))
        assert await second == Decision("resume", BY)

    in_loop(work)


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (lambda stops: stops.drain(), "draining"),
        (lambda stops: stops.configure(Page()), "edits off"),
        (lambda stops: stops.resume_all(why="cluster removed", cluster="default"), "cluster removed"),
        (lambda stops: stops.handle(ResumeAll("", "no page")), "no page"),
    ],
)
def test_all_goes_on_when_it_may_not_be_stopped_any_more(ends: Callable[[Stops], None], why: Why) -> None:
    async def work() -> None:
        bench = Bench()
        held = [bench.hold(number=number) for number in range(100)]
        assert len({stop.id for stop in bench.shown()}) == 100
        ends(bench.stops)
        assert [await one for one in held] == [Decision("resume", why=why)] * 100
        assert {(one.action, one.by, one.why) for one in bench.told if isinstance(one, StopEnded)} == {
            ("resume", "", why)
        }
        assert sorted(bench.ended()) == sorted(stop.id for stop in bench.shown())

    in_loop(work)


def test_nothing_is_held_while_the_worker_drains() -> None:
    async def work() -> None:
        bench = Bench()
        bench.stops.drain()
        assert bench.holder.hold(message()) == "draining"

    in_loop(work)


def test_a_wait_that_was_cancelled_frees_its_place() -> None:
    async def work() -> None:
        bench = Bench()
        waiting = asyncio.ensure_future(_awaited(bench.hold()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await asyncio.sleep(0)
        assert bench.ended() == [bench.shown()[0].id]

    in_loop(work)


def test_an_action_that_there_is_not_does_nothing() -> None:
    async def work() -> None:
        bench = Bench()
        bench.hold()
        bench.stops.handle(Decide(1, bench.shown()[0].id, "explode", BY))
        assert [answer.refused for answer in bench.answers()] == ["there is no action 'explode'"]
        assert not bench.ended()

    in_loop(work)


def test_a_breakpoint_that_is_given_up_is_told() -> None:
    bench = Bench()
    bench.holder.give_up("true", "request", "It takes too long.")
    assert bench.told == [BreakpointGivenUp("true", "request", "It takes too long.")]
