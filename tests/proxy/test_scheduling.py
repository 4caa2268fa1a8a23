"""What the kernel says of a thread after it asked for its way of sharing a core."""

import asyncio
import itertools
import os
import resource
import subprocess
import sys
import time
from threading import Thread, current_thread
from typing import Any

import pytest

from kproxy.proxy.scheduling import (
    FAIR_SHARE,
    STARVED_S,
    WORK_S,
    Breaks,
    Pace,
    PacedLoop,
    Starvation,
    take_short_slices,
    take_what_is_left,
)
from kproxy.proxy.system_calls import raise_in


def in_a_thread(*steps: object) -> list[object]:
    """The results of steps in a thread of their own: its policy dies with it."""
    results: list[object] = []
    thread = Thread(target=lambda: results.extend(step() for step in steps))  # type: ignore[operator]
    thread.start()
    thread.join()
    return results


def policy() -> int:
    return os.sched_getscheduler(0)


def test_the_policy_of_one_thread_is_not_that_of_another() -> None:
    assert in_a_thread(policy, take_what_is_left, policy) == [os.SCHED_OTHER, None, os.SCHED_IDLE]
    assert policy() == os.SCHED_OTHER


def test_short_slices_change_neither_policy_nor_priority() -> None:
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    _, *after = in_a_thread(take_short_slices, policy, lambda: os.getpriority(os.PRIO_PROCESS, 0))
    assert after == [os.SCHED_OTHER, nice]


def test_another_policy_is_left_alone() -> None:
    assert in_a_thread(take_what_is_left, take_short_slices, policy)[1:] == [False, os.SCHED_IDLE]


def sleeps() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def test_a_break_is_due_after_some_work() -> None:
    def seconds() -> float:
        breaks, before, began = Breaks(), sleeps(), time.perf_counter()
        while sleeps() < before + 5 and time.perf_counter() < began + 30:
            breaks.take_when_due()
        return time.perf_counter() - began

    (took,) = in_a_thread(seconds)
    assert 5 * WORK_S <= took < 30  # type: ignore[operator]


STEP = 0.25


def paces(starvation: Starvation, share: float, *, behind: bool, seconds: float) -> list[Pace]:
    """The pace at each look while the analyzer gets that share of a core; the clock goes on from before."""
    found = []
    for _ in range(int(seconds / STEP)):
        now, cpu = clocks[starvation]
        clocks[starvation] = now, cpu = now + STEP, cpu + share * STEP
        found.append(starvation.look(now, cpu, behind=behind))
    return found


clocks: dict[Starvation, tuple[float, float]] = {}


@pytest.fixture
def starvation() -> Starvation:
    made = Starvation(100.0, 5.0)
    clocks[made] = 100.0, 5.0
    return made


def test_who_is_behind_and_gets_nothing_gets_a_fair_share_until_it_has_caught_up(starvation: Starvation) -> None:
    assert set(paces(starvation, 0.001, behind=False, seconds=60)) == {Pace.BACKGROUND}
    starved = paces(starvation, 0.01, behind=True, seconds=4 * STARVED_S)
    assert starved[0] is Pace.BACKGROUND, "once is nothing"
    assert starved[-1] is Pace.FAIR
    assert set(paces(starvation, 0.25, behind=True, seconds=60)) == {Pace.FAIR}
    assert set(paces(starvation, 0.25, behind=False, seconds=60)) == {Pace.BACKGROUND}


def test_who_is_behind_with_a_good_share_stays_in_the_background(starvation: Starvation) -> None:
    """More would come from the traffic's share."""
    assert set(paces(starvation, 2 * FAIR_SHARE, behind=True, seconds=60)) == {Pace.BACKGROUND}


def test_the_loop_goes_on_in_another_thread_when_it_starves_and_comes_back() -> None:
    """Beside a process that never sleeps, on the same core: in the background it gets next to nothing of it."""
    behind = True
    seen: list[tuple[str, int]] = []

    async def main() -> None:
        nonlocal behind
        await until(os.SCHED_OTHER)
        behind = False
        await until(os.SCHED_IDLE)

    async def until(policy: int) -> None:
        for number in itertools.count():
            seen.append((current_thread().name, os.sched_getscheduler(0)))
            if number and seen[-1][1] == policy:
                return
            await asyncio.sleep(0.01)

    core = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            os.sched_setaffinity(busy.pid, {core})
            os.sched_setaffinity(0, {core})
            paced = PacedLoop(lambda: behind, lambda _: None)
            paced.run(main())
        finally:
            os.sched_setaffinity(0, before)
            busy.kill()
    assert paced.starved == 1
    assert list(dict.fromkeys(seen)) == [("background", os.SCHED_IDLE), ("fair", os.SCHED_OTHER)]
    assert seen[0] == seen[-1] == ("background", os.SCHED_IDLE)


def test_what_is_left_at_the_end_is_done_at_a_fair_pace() -> None:
    paced = PacedLoop(lambda: False, lambda _: None)
    seen: list[int] = []

    async def main() -> None:
        seen.append(policy())
        paced.end_soon()
        await asyncio.sleep(0.01)
        seen.append(policy())

    paced.run(main())
    assert seen == [os.SCHED_IDLE, os.SCHED_OTHER]
    assert paced.starved == 0


def test_what_the_coroutine_raises_is_raised() -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        raise KeyError("it")

    with pytest.raises(KeyError, match="it"):
        PacedLoop(lambda: False, lambda _: None).run(main())


def test_an_exception_reaches_a_thread_in_its_loop() -> None:
    class Enough(BaseException):
        pass

    caught: list[Any] = []

    def forever() -> None:
        try:
            while True:
                time.sleep(0)
        except Enough as error:
            caught.append(error)

    thread = Thread(target=forever)
    thread.start()
    raise_in(thread, Enough)
    thread.join()
    assert [type(error) for error in caught] == [Enough]
