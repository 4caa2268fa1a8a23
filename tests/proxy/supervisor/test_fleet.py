"""The fleet over stand-in children: shared memory that outlasts them, changes that are taken back, the end in time."""

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kproxy.config.structs import Analysis, Cluster, Config, Timeouts
from kproxy.proxy.messages import Brokers, Configure, KnownKeys, Learned, Message
from kproxy.proxy.supervisor.child import Child
from kproxy.proxy.supervisor.fleet import Fleet, Modules
from kproxy.proxy.tap.counted import Total
from tests.support.loops import run
from tests.support.supervised import STAND_IN

MODULES = Modules(STAND_IN, STAND_IN)


def config(words: str = "plain", workers: int = 1, analysis: bool = False, drain: float = 20) -> Config:
    cluster = Cluster(name=words, listen="127.0.0.1:19092", bootstrap=["b:1"])
    return Config(
        clusters=[cluster], workers=workers, analysis=Analysis(enabled=analysis), timeouts=Timeouts(drain=drain)
    )


def with_fleet(first: Config, test: Callable[[Fleet, str], Awaitable[Any]]) -> Any:
    """Start a fleet, run *test* with it and what ``start()`` said, end it."""

    async def main() -> Any:
        fleet = Fleet(first, MODULES)
        try:
            return await test(fleet, await fleet.start())
        finally:
            await fleet.kill()
            assert not fleet.failure.done(), fleet.failure

    return run("asyncio", main())


def name_given(child: Child) -> str:
    """Name of the cluster in the last configuration that a child was sent."""
    assert child.last_configure is not None
    return child.last_configure.decode().clusters[0].name


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def replaced(fleet: Fleet, number: int) -> None:
    """Kill a worker and wait until another is ready in its place."""
    child = fleet.slots[number].child
    pid = child.pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    while child.pid in (pid, None) or not child.ready:
        await asyncio.sleep(0.01)


def test_a_dead_worker_has_no_client() -> None:
    async def test(fleet: Fleet, why: str) -> Any:
        (counters,) = fleet.counters()
        counters.add(Total.CONNECTIONS_OPENED, 5)
        counters.put(Total.CONNECTIONS_OPEN, 4)
        await replaced(fleet, 0)
        return why, counters.totals()

    why, totals = with_fleet(config(), test)
    assert why == ""
    assert (totals[Total.CONNECTIONS_OPENED], totals[Total.CONNECTIONS_OPEN]) == (5, 0)


def test_a_worker_that_cannot_take_its_place_tries_again() -> None:
    """At the start that is the end; later, others go on serving."""

    async def test(fleet: Fleet, _: str) -> Any:
        pids = set()
        fleet._configure = Configure.to(config("plain.die"))
        child = fleet.slots[0].child
        assert child.pid
        os.kill(child.pid, signal.SIGKILL)
        while len(pids) < 4:
            pids.add(child.pid)
            await asyncio.sleep(0.001)
        return child.ready

    assert with_fleet(config(), test) is False


def test_a_change_that_one_refuses_is_taken_back_by_all() -> None:
    async def test(fleet: Fleet, _: str) -> Any:
        why = await fleet.change(config("plain.fail", workers=2))
        given = [name_given(slot.child) for slot in fleet.slots]
        return why, fleet.config.clusters[0].name, given, all(slot.child.ready for slot in fleet.slots)

    expected = ("127.0.0.1:1: address already in use", "plain", ["plain", "plain"], True)
    assert with_fleet(config(workers=2), test) == expected


def test_a_worker_that_begins_during_a_change_takes_it_as_well() -> None:
    async def test(fleet: Fleet, _: str) -> Any:
        child = fleet.slots[1].child
        changing = asyncio.ensure_future(fleet.change(config("other", workers=2)))
        assert child.pid
        os.kill(child.pid, signal.SIGKILL)  # it may or may not have answered
        why = await changing
        while not child.ready:
            await asyncio.sleep(0.01)
        return why, name_given(child), fleet.config.clusters[0].name

    why, given, name = with_fleet(config(workers=2), test)
    assert given == name == ("plain" if why else "other")


def test_the_number_of_workers_changes_and_memory_is_given_back() -> None:
    async def test(fleet: Fleet, _: str) -> Any:
        counts = []
        gc.collect()  # files of other tests
        for workers in (3, 1, 3, 1):
            assert await fleet.change(config(workers=workers)) == ""
            while [slot.child.ready for slot in fleet._all_slots()] != [True] * workers:
                await asyncio.sleep(0.01)
            fleet.counters()[-1].add(Total.CONNECTIONS_OPENED, 1)
            counts.append(open_files())
        return counts, sum(counters.totals()[Total.CONNECTIONS_OPENED] for counters in fleet.counters())

    counts, opened = with_fleet(config(), test)
    assert counts[0] == counts[2] > counts[1] == counts[3]
    assert opened == 4, "what was counted stays counted"


def test_the_analysis_is_switched_on_and_off() -> None:
    async def test(fleet: Fleet, _: str) -> Any:
        states = []
        for enabled in (True, False, True):
            assert await fleet.change(config(analysis=enabled)) == ""
            analyzer = fleet._analyzer
            while analyzer and not analyzer.ready:
                await asyncio.sleep(0.01)
            states.append(analyzer is not None)
        return states

    assert with_fleet(config(analysis=True), test) == [True, False, True]
    assert with_fleet(config(analysis=False), test) == [False, False, False]  # without rings


def test_what_was_learned_of_another_cluster_is_forgotten() -> None:
    async def test(fleet: Fleet, _: str) -> Any:
        before = set(fleet._brokers)
        await fleet.change(config("other"))
        return before, "plain" in fleet._brokers

    assert with_fleet(config(), test) == ({"plain"}, False)


@pytest.mark.parametrize(("words", "in_time"), [("plain", True), ("deaf", False)])
def test_all_end_in_time_or_are_ended(words: str, in_time: bool) -> None:
    async def test(fleet: Fleet, _: str) -> Any:
        pids = [slot.child.pid for slot in fleet.slots]
        done = await fleet.drain(20 if in_time else 0.05)
        return done, [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    assert with_fleet(config(words, workers=2, analysis=True), test) == (in_time, [])


def test_a_fault_of_our_own_is_told() -> None:
    async def main() -> str:
        fleet = Fleet(config(), MODULES)

        async def fault() -> None:
            raise RuntimeError("boom")

        fleet._start_task(fault(), "a test")
        return await fleet.failure

    assert run("asyncio", main()) == "a fault of kproxy's own (a test): RuntimeError('boom')"


def test_a_new_worker_is_told_what_others_have_learned_and_a_new_analyzer_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[int | None, type[Message]]] = []
    send = Child.send

    async def recorded(child: Child, message: Message) -> bool:
        sent.append((child.number, type(message)))
        return await send(child, message)

    async def test(fleet: Fleet, _: str) -> None:
        fleet._brokers["plain"] = Brokers("plain", [(1, "b", 9092)])
        await fleet.on_message(fleet.slots[0].child, Learned("plain", "ids", ["x"]))
        await fleet.on_message(fleet.slots[0].child, KnownKeys("plain", "http://idp", "{}"))
        sent.clear()
        await replaced(fleet, 0)
        analyzer = fleet._analyzer
        assert analyzer and analyzer.pid
        os.kill(analyzer.pid, signal.SIGKILL)
        while (None, Configure) not in sent or not analyzer.ready:
            await asyncio.sleep(0.01)
        await fleet._prepare(analyzer)

    monkeypatch.setattr(Child, "send", recorded)
    with_fleet(config(analysis=True), test)
    assert {(0, Brokers), (0, Learned), (0, KnownKeys)} <= set(sent)
    assert not {(None, Brokers), (None, Learned), (None, KnownKeys)} & set(sent)
