"""One place for a process: who dies is replaced, who is stopped is not, who cannot be started is no loop."""

import asyncio
import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.config import Cluster, Config
from kproxy.proxy.channel import LONGEST_LINE
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.messages import Brokers, Configure, Drain, Message
from kproxy.proxy.supervisor import child as child_module
from kproxy.proxy.supervisor.child import MOST_DELAY, Backoff, Child
from tests.support.loops import run
from tests.support.supervised import STAND_IN


def test_the_first_restart_is_at_once_and_no_wait_is_long() -> None:
    backoff = Backoff()
    waits = [backoff.after(lived=0.1) for _ in range(20)]
    assert waits[:6] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.5]
    assert set(waits[6:]) == {MOST_DELAY}
    assert backoff.after(lived=60) == 0.0
    assert backoff.after(lived=0.1) == 0.1


class Told:
    """A ChildListener that configures, and remembers."""

    def __init__(self, words: str = "plain") -> None:
        self.config = Configure.to(Config(clusters=[Cluster(name=words, listen="127.0.0.1:1", bootstrap=["b:1"])]))
        self.received: asyncio.Queue[Message] = asyncio.Queue()
        self.answers: asyncio.Queue[str] = asyncio.Queue()
        self.codes: list[int | None] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def started(self, child: Child) -> None:
        task = asyncio.get_running_loop().create_task(self._configure(child))
        self._tasks.add(task)

    async def _configure(self, child: Child) -> None:
        self.answers.put_nowait(await child.configure(self.config))

    async def on_message(self, child: Child, message: Message) -> None:
        self.received.put_nowait(message)

    def ended(self, child: Child, code: int | None) -> None:
        self.codes.append(code)


def arguments(control: int, stack: int) -> ChildArguments:
    return ChildArguments(os.getpid(), control, worker=0, stack=stack)


async def keep(told: Told, module: str = STAND_IN) -> tuple[Child, asyncio.Task[None]]:
    child = Child(module, 0, arguments, told)
    return child, asyncio.get_running_loop().create_task(child.run())


def test_it_is_started_configured_and_ends_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "LAST_MESSAGES", 20.0)  # a busy machine takes its time to end a process

    async def main() -> Any:
        told = Told()
        child, keeping = await keep(told)
        answer = await told.answers.get()
        ready = child.ready
        received = await told.received.get()
        child.stop()
        await child.send(Drain(1))
        await keeping
        return answer, ready, type(received), told.codes, child.ready, child.pid

    assert run("asyncio", main()) == ("", True, Brokers, [0], False, None)


def test_a_killed_one_is_replaced() -> None:
    async def main() -> Any:
        told = Told()
        child, keeping = await keep(told)
        pids = []
        for _ in range(3):
            await told.answers.get()
            assert child.pid
            pids.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)
        child.kill()
        await keeping
        return len(set(pids)), told.codes

    count, codes = run("asyncio", main())
    assert count == 3
    assert set(codes) == {-9}


def test_one_whose_channel_another_still_holds_is_replaced_as_well() -> None:
    async def main() -> Any:
        told = Told("fork")
        child, keeping = await keep(told)
        others = []
        for _ in range(2):
            await told.answers.get()
            while (message := await told.received.get()).cluster != "forked":  # type: ignore[attr-defined]
                pass
            others.append(message.brokers[0][0])  # type: ignore[attr-defined]
            assert child.pid
            os.kill(child.pid, signal.SIGKILL)
        child.kill()
        await keeping
        for pid in others:
            os.kill(pid, signal.SIGKILL)
        return told.codes

    assert run("asyncio", main()) == [-9, -9]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("x.die", "worker 0 ended with exit code 7 before it was ready"),
        ("x.fail", "127.0.0.1:1: address already in use"),
    ],
)
def test_one_that_cannot_work_says_why(words: str, why: str) -> None:
    async def main() -> str:
        told = Told(words)
        child, keeping = await keep(told)
        answer = await told.answers.get()
        child.kill()
        await keeping
        return answer

    assert run("asyncio", main()) == why


def test_23_without_file_descriptors_none_can_be_started_and_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_more(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(child_module, "start_child", no_more)

    async def main() -> Any:
        told = Told()
        child, keeping = await keep(told)
        while len(told.codes) < 3:
            await asyncio.sleep(0)
        child.stop()
        await keeping
        return told.codes

    assert set(run("asyncio", main())) == {None}


def test_23_nor_without_any_for_a_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(child_module, "socket", SimpleNamespace(socketpair=no_more))

    async def main() -> Any:
        told = Told()
        child, keeping = await keep(told)
        while len(told.codes) < 2:
            await asyncio.sleep(0)
        child.stop()
        await keeping
        return told.codes

    assert set(run("asyncio", main())) == {None}


def test_a_module_that_is_not_there_ends_by_its_exit_code() -> None:
    async def main() -> str:
        told = Told()
        child, keeping = await keep(told, "tests.support.no_such_module")
        answer = await told.answers.get()
        child.kill()
        await keeping
        return answer

    assert run("asyncio", main()) == "worker 0 ended with exit code 1 before it was ready"


def test_a_configuration_too_long_for_a_message_is_answered_and_ends_nothing() -> None:
    async def main() -> list[str]:
        told = Told()
        child, keeping = await keep(told)
        first = await told.answers.get()
        answer = await child.configure(Told("x" * LONGEST_LINE).config)
        again = await child.configure(told.config)
        child.kill()
        await keeping
        return [first, answer, again]

    assert run("asyncio", main()) == ["", "the configuration is too long to be sent to a process", ""]


def test_one_that_does_not_read_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "MOST_SEND", 0.2)

    async def main() -> Any:
        told = Told()
        child, keeping = await keep(told)
        await told.answers.get()
        assert child.pid
        os.kill(child.pid, signal.SIGSTOP)
        for _ in range(10):
            await child.send(Brokers("x" * 500_000, []))
        answer = await told.answers.get()
        child.kill()
        await keeping
        return answer, told.codes[0]

    assert run("asyncio", main()) == ("", -9)
