"""StoppedMessages over stand-in workers: what is known of stops, whom questions go to, and breakpoints that outlive no page."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kproxy.config.structs import Cluster, Config, Page
from kproxy.filters.breakpoints.breakpoint import Breakpoint
from kproxy.proxy.messages import (
    BreakpointGivenUp,
    Decide,
    Message,
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
from kproxy.proxy.supervisor.fleet import Questions
from kproxy.proxy.supervisor.stopped import MOST_ENDED, NotDone, StoppedMessages

LOOP = "asyncio"  # as the supervisor has
PRODUCE = Breakpoint('apiName == "Produce"')


class Child:
    """A worker that writes down what it is sent."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sent: list[Message] = []
        self.answer: Callable[[Message], None] = lambda message: None

    async def send(self, message: Message) -> bool:
        self.sent.append(message)
        self.answer(message)
        return True


class Slot:
    """Of a worker."""

    def __init__(self, child: Child) -> None:
        self.child = child


class Fleet:
    """Two workers."""

    def __init__(self, page: Page) -> None:
        self.config = Config(clusters=[Cluster(listen="127.0.0.1:1", bootstrap=["b:1"])], page=page)
        self.children = [Child(0), Child(1)]
        self.slots = [Slot(child) for child in self.children]
        self.breakpoints: UseBreakpoints | None = None
        self.draining = False
        self.listeners: list[Callable[[int, Any], None]] = []
        self.questions = Questions()
        self.silent: set[int] = set()  # workers that do not answer yet

    def tell(self, worker: int, message: Any) -> None:
        for listener in self.listeners:
            listener(worker, message)

    async def send_all(self, message: Message) -> None:
        for child in self.children:
            await child.send(message)
            if isinstance(message, UseBreakpoints) and child.number not in self.silent:
                self.questions.note(child.number, StopAnswer(message.question))


def stop(id_: str, at: int = 0) -> Stop:
    words = ("default", 1, "c:1", "b:1", None, "app", "request", 0, 9, 4, 10, "true", True, True)
    return Stop(id_, *words, at, at + 5_000)  # type: ignore[arg-type]


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(Page(edits=True))


@pytest.fixture
def stopped(fleet: Fleet) -> StoppedMessages:
    return StoppedMessages(fleet)  # type: ignore[arg-type]


def with_fleet(work: Callable[[Fleet, StoppedMessages], Coroutine[Any, Any, None]], **page: Any) -> None:
    async def run() -> None:
        fleet = Fleet(Page(edits=True, **page))
        async with asyncio.timeout(60):
            await work(fleet, StoppedMessages(fleet))  # type: ignore[arg-type]

    asyncio.run(run())


def test_what_is_stopped_is_known_until_it_ends_or_its_worker_does() -> None:
    async def work(fleet: Fleet, stopped: StoppedMessages) -> None:
        fleet.tell(0, Stopped(stop("0-1", at=2)))
        fleet.tell(1, Stopped(stop("1-1", at=1)))
        fleet.tell(1, Stopped(stop("1-2", at=3)))
        assert [one.id for one in stopped.stops()] == ["1-1", "0-1", "1-2"]
        fleet.tell(1, StopEnded("1-1", "drop", "10.0.0.9:4000"))
        assert [one.id for one in stopped.stops()] == ["0-1", "1-2"]
        fleet.tell(1, None)
        assert [one.id for one in stopped.stops()] == ["0-1"]
        assert [(one.id, one.why) for one, _ in stopped.ended(5)] == [("1-2", "worker ended"), ("1-1", "")]
        with pytest.raises(NotDone, match="not stopped any more: the process that held it has ended"):
            stopped.stop("1-2")
        with pytest.raises(NotDone, match=r"not stopped any more: 10\.0\.0\.9:4000 dropped it"):
            await stopped.body("1-1")
        fleet.tell(1, StopEnded("no such"))
        with pytest.raises(NotDone, match=r"not stopped any more$"):
            stopped.stop("no such")


async def test_a_message_on_which_another_page_has_decided_a_moment_ago_says_who(
    fleet: Fleet, stopped: StoppedMessages
) -> None:
    fleet.tell(0, Stopped(stop("0-1")))

    def answer(message: Message) -> None:
        fleet.tell(0, StopEnded("0-1", "error", "10.0.0.9:4000"))
        fleet.questions.note(0, StopAnswer(message.question, refused=GONE))  # type: ignore[attr-defined]

    fleet.children[0].answer = answer
    with pytest.raises(NotDone, match=r"10\.0\.0\.9:4000 answered it with an error"):
        await stopped.decide("0-1", Decide(0, "0-1", "drop", "a"))


async def test_how_many_ends_are_known_is_bounded(fleet: Fleet, stopped: StoppedMessages) -> None:
    for number in range(MOST_ENDED + 10):
        fleet.tell(0, Stopped(stop(str(number))))
        fleet.tell(0, StopEnded(str(number), by="a"))
    assert len(stopped.ended(10_000)) == MOST_ENDED
    assert stopped.ended(1)[0].id == str(MOST_ENDED + 9)


async def test_a_question_goes_to_the_worker_that_has_the_message_and_its_answer_comes_in_parts(
    fleet: Fleet, stopped: StoppedMessages
) -> None:
    fleet.tell(1, Stopped(stop("1-1")))

    def answer(message: Message) -> None:
        assert isinstance(message, ShowStop)
        fleet.questions.note(0, StopAnswer(message.question, b"of another worker"))
        fleet.questions.note(1, StopAnswer(message.question, b"two ", more=True))
        fleet.questions.note(1, StopAnswer(message.question, b"parts"))

    fleet.children[1].answer = answer
    assert await stopped.body("1-1") == b"two parts"
    assert not fleet.children[0].sent


async def test_a_decision_that_comes_too_late_says_so(fleet: Fleet, stopped: StoppedMessages) -> None:
    fleet.tell(0, Stopped(stop("0-1")))
    fleet.children[0].answer = lambda message: fleet.questions.note(
        0,
        StopAnswer(message.question, refused="too late"),  # type: ignore[attr-defined]
    )
    with pytest.raises(NotDone, match="too late"):
        await stopped.decide("0-1", Decide(0, "0-1", "drop", "a"))
    (sent,) = fleet.children[0].sent
    assert isinstance(sent, Decide)
    assert (sent.action, sent.by, sent.id) == ("drop", "a", "0-1")


async def test_a_worker_that_dies_answers_no_question(fleet: Fleet, stopped: StoppedMessages) -> None:
    fleet.tell(0, Stopped(stop("0-1")))
    fleet.children[0].answer = lambda message: fleet.questions.end(0)
    with pytest.raises(NotDone, match="its worker has ended"):
        await stopped.body("0-1")


async def test_all_workers_get_breakpoints_and_those_that_start_later_too(
    fleet: Fleet, stopped: StoppedMessages
) -> None:
    await stopped.use([PRODUCE], "a")
    expected = UseBreakpoints([SetBreakpoint('apiName == "Produce"', "request")], question=1)
    assert [child.sent for child in fleet.children] == [[expected], [expected]]
    assert fleet.breakpoints == expected
    assert stopped.breakpoints == [PRODUCE]
    with pytest.raises(ValueError, match="breakpoint 1: "):
        await stopped.use([Breakpoint("nonsense ==")], "a")
    assert stopped.breakpoints == [PRODUCE]


async def test_they_are_set_once_all_workers_use_them_but_for_those_that_have_ended(
    fleet: Fleet, stopped: StoppedMessages
) -> None:
    def answers(number: int) -> None:
        fleet.questions.note(1, StopAnswer(number))

    def has_ended(_: int) -> None:
        fleet.questions.end(1)

    for ends in (answers, has_ended):
        fleet.silent = {1}
        setting = asyncio.ensure_future(stopped.use([PRODUCE], "a"))
        while not fleet.children[1].sent:
            await asyncio.sleep(0)
        sent = fleet.children[1].sent.pop()
        assert isinstance(sent, UseBreakpoints)
        fleet.questions.note(0, StopAnswer(sent.question))  # the other one a second time
        fleet.questions.note(1, StopAnswer(sent.question - 1))
        done, _ = await asyncio.wait([setting], timeout=0.05)
        assert not done
        ends(sent.question)
        await setting


def test_breakpoints_go_when_the_page_has_gone() -> None:
    async def work(fleet: Fleet, stopped: StoppedMessages) -> None:
        await stopped.use([PRODUCE], "a")
        while not any(isinstance(message, ResumeAll) for message in fleet.children[1].sent):
            await asyncio.sleep(0.01)
        assert stopped.breakpoints == []
        kinds = [type(message) for message in fleet.children[1].sent]
        assert kinds == [UseBreakpoints, UseBreakpoints, ResumeAll]

    with_fleet(work, away=0.05)


def test_a_page_that_waits_for_news_is_there() -> None:
    async def work(fleet: Fleet, stopped: StoppedMessages) -> None:
        await stopped.use([PRODUCE], "a")
        await stopped.news(stopped.generation, 0.3)
        assert stopped.breakpoints == [PRODUCE]

    with_fleet(work, away=0.05)


async def test_news_ends_the_wait(fleet: Fleet, stopped: StoppedMessages) -> None:
    waiting = asyncio.ensure_future(stopped.news(stopped.generation, 30))
    await asyncio.sleep(0)
    assert not waiting.done()
    fleet.tell(0, Stopped(stop("0-1")))
    await waiting
    await stopped.news(stopped.generation - 1, 30)


async def test_resuming_all_is_for_all_workers(fleet: Fleet, stopped: StoppedMessages) -> None:
    fleet.tell(0, Stopped(stop("0-1")))
    fleet.tell(1, Stopped(stop("1-1")))
    assert await stopped.resume_all("a") == 2
    assert [child.sent for child in fleet.children] == [[ResumeAll("a")], [ResumeAll("a")]]


async def test_a_breakpoint_that_a_worker_has_given_up_says_so_while_it_is_set(
    fleet: Fleet, stopped: StoppedMessages
) -> None:
    other = Breakpoint("true", "response")
    await stopped.use([PRODUCE, other], "a")
    before = stopped.generation
    fleet.tell(0, BreakpointGivenUp(PRODUCE.condition, "request", "It took too long."))
    fleet.tell(1, BreakpointGivenUp("not set", "request", "It took too long."))
    assert stopped.given_up == {PRODUCE: "It took too long."}
    assert stopped.generation == before + 1
    await stopped.use([other, PRODUCE], "a")
    assert stopped.given_up == {PRODUCE: "It took too long."}
    await stopped.use([other], "a")
    await stopped.use([other, PRODUCE], "a")
    assert stopped.given_up == {}
