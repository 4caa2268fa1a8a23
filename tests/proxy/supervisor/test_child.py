"""One place for a process: who dies is replaced, who is stopped is not, who cannot be started is no loop."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.config.structs import Cluster, Config
from kproxy.proxy.child_process import STACK_SIGNAL, ChildArguments
from kproxy.proxy.messages import LONGEST_LINE, Brokers, Configure, Drain, Message
from kproxy.proxy.supervisor import child as child_module
from kproxy.proxy.supervisor.child import (
    HANG_S,
    LOOK_EVERY_S,
    MOST_DELAY,
    Activity,
    Backoff,
    Child,
    Watchdog,
    create_stack_file,
    frames,
    stack_of,
)
from kproxy.proxy.supervisor.processes import Process
from tests.support.frames import heartbeat, heartbeat_answer, request, string
from tests.support.hanging import FATAL
from tests.support.hanging import HANG_S as SHORTER
from tests.support.kafka.processes import children, command_line, eventually
from tests.support.loops import run
from tests.support.peers import ScriptedBroker, answering
from tests.support.ports import free_ports
from tests.support.sockets import Wire
from tests.support.supervised import STAND_IN, Event, Supervised, supervised


def test_the_first_restart_is_at_once_and_no_wait_is_long() -> None:
    backoff = Backoff()
    waits = [backoff.after(lived=0.1) for _ in range(20)]
    assert waits[:6] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.5]
    assert set(waits[6:]) == {MOST_DELAY}
    assert backoff.after(lived=60) == 0.0
    assert backoff.after(lived=0.1) == 0.1


class Listener:
    """A Fleet that configures, and remembers."""

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


async def keep(listener: Listener, module: str = STAND_IN) -> tuple[Child, asyncio.Task[None]]:
    child = Child(module, 0, arguments, listener)
    return child, asyncio.get_running_loop().create_task(child.run())


def test_it_is_started_configured_and_ends_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "LAST_MESSAGES", 20.0)  # a busy machine takes its time to end a process

    async def main() -> Any:
        listener = Listener()
        child, keeping = await keep(listener)
        answer = await listener.answers.get()
        ready = child.ready
        received = await listener.received.get()
        child.stop()
        await child.send(Drain(1))
        await keeping
        return answer, ready, type(received), listener.codes, child.ready, child.pid

    assert run("asyncio", main()) == ("", True, Brokers, [0], False, None)


def test_one_whose_channel_another_still_holds_is_replaced_as_well() -> None:
    async def main() -> Any:
        listener = Listener("fork")
        child, keeping = await keep(listener)
        others = []
        for _ in range(2):
            await listener.answers.get()
            while (message := await listener.received.get()).cluster != "forked":  # type: ignore[attr-defined]
                pass
            others.append(message.brokers[0][0])  # type: ignore[attr-defined]
            assert child.pid
            os.kill(child.pid, signal.SIGKILL)
        child.kill()
        await keeping
        for pid in others:
            os.kill(pid, signal.SIGKILL)
        return listener.codes

    assert run("asyncio", main()) == [-9, -9]


@pytest.mark.parametrize(
    ("words", "module", "why"),
    [
        ("x.die", STAND_IN, "worker 0 ended with exit code 7 before it was ready"),
        ("x.fail", STAND_IN, "127.0.0.1:1: address already in use"),
        ("plain", "tests.support.no_such_module", "worker 0 ended with exit code 1 before it was ready"),
    ],
)
def test_one_that_cannot_work_says_why(words: str, module: str, why: str) -> None:
    async def main() -> str:
        listener = Listener(words)
        child, keeping = await keep(listener, module)
        answer = await listener.answers.get()
        child.kill()
        await keeping
        return answer

    assert run("asyncio", main()) == why


@pytest.mark.parametrize("what", ["a process", "its channel"])
def test_23_without_file_descriptors_none_can_be_started_and_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def no_more(*_: object) -> None:
        raise OSError(24, "Too many open files")

    if what == "a process":
        monkeypatch.setattr(child_module, "start_child", no_more)
    else:
        monkeypatch.setattr(child_module, "socket", SimpleNamespace(socketpair=no_more))

    async def main() -> Any:
        listener = Listener()
        child, keeping = await keep(listener)
        while len(listener.codes) < 3:
            await asyncio.sleep(0)
        child.stop()
        await keeping
        return listener.codes

    assert set(run("asyncio", main())) == {None}


def test_a_configuration_too_long_for_a_message_is_answered_and_ends_nothing() -> None:
    async def main() -> list[str]:
        listener = Listener()
        child, keeping = await keep(listener)
        first = await listener.answers.get()
        answer = await child.configure(Listener("x" * LONGEST_LINE).config)
        again = await child.configure(listener.config)
        child.kill()
        await keeping
        return [first, answer, again]

    assert run("asyncio", main()) == ["", "the configuration is too long to be sent to a process", ""]


def test_one_that_does_not_read_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "MOST_SEND", 0.2)

    async def main() -> Any:
        listener = Listener()
        child, keeping = await keep(listener)
        await listener.answers.get()
        assert child.pid
        os.kill(child.pid, signal.SIGSTOP)
        for _ in range(10):
            await child.send(Brokers("x" * 500_000, []))
        answer = await listener.answers.get()
        child.kill()
        await keeping
        return answer, listener.codes[0]

    assert run("asyncio", main()) == ("", -9)


PATIENCE = 60
HEARTBEAT = 12


class Running:
    """A `kproxy run` that may hang, before a broker that answers."""

    def __init__(self, folder: Path, broker: ScriptedBroker, stack: ExitStack, **settings: Any) -> None:
        self.listen = f"127.0.0.1:{free_ports(3)}"
        self.log = folder / "kafka.jsonl"
        cluster = {
            "listen": self.listen,
            "bootstrap": [broker.address],
            "addresses": {"mode": "fixed"},
            "filters": [{"use": "tests.support.hanging:Hanging"}],
        }
        config = {"clusters": [cluster], "admin": None, "analysis": {"log": {"path": str(self.log)}}, **settings}
        file = folder / "kproxy.yaml"
        file.write_text(json.dumps(config), encoding="utf-8")
        self.supervisor: Supervised = stack.enter_context(
            supervised(json.dumps({"file": str(file)}), "tests.support.hanging")
        )
        self.supervisor.until("serving")

    def pid(self, name: str) -> int:
        """The process of that title."""
        found = [pid for pid in children(self.supervisor.process.pid) if name in command_line(pid)]
        assert len(found) == 1, found
        return found[0]

    def hung(self) -> Event:
        """What was logged of the process that hung; it was killed."""
        event = self.supervisor.until("a process hangs")
        ended = self.supervisor.until("a process ended", exit_code=-signal.SIGKILL)
        assert ended.get("worker") == event.get("worker")
        return event

    def beat(self, correlation_id: int) -> None:
        """An exchange on a connection of its own."""
        with Wire(self.listen) as wire:
            wire.send(heartbeat(correlation_id))
            assert wire.frame() == heartbeat_answer(correlation_id)

    def logged(self) -> list[int]:
        """Correlation ids in all parts of the decoded log."""
        parts = self.log.parent.glob("kafka*.jsonl")
        lines = [line for part in parts for line in part.read_text().splitlines(keepends=True)]
        whole = (line for line in lines if line.endswith("\n"))  # the last one may be half written
        return [json.loads(line)["correlationId"] for line in whole]

    def reaches_the_log(self, first: int) -> bool:
        """Whether an exchange of now is decoded: correlation ids from *first* on."""
        for correlation_id in range(first, first + 20):
            self.beat(correlation_id)
            time.sleep(0.05)
        return any(correlation_id >= first for correlation_id in self.logged())


def open_sockets(pid: int) -> int:
    return sum(str(file.readlink()).startswith("socket:") for file in Path(f"/proc/{pid}/fd").iterdir())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    with ExitStack() as stack:
        broker = stack.enter_context(ScriptedBroker(answering))
        yield lambda **settings: Running(tmp_path, broker, stack, **settings)


def fatal(body: bytes) -> bytes:
    """A request on which the filter, or the analyzer, hangs."""
    return request(HEARTBEAT, 0, 7, body, client_id=FATAL)


BODY = string("g") + b"\0\0\0\5" + string("m-1")


@pytest.mark.slow
def test_an_analyzer_that_hangs_in_c_is_replaced_and_traffic_goes_on(start: Callable[..., Running]) -> None:
    running = start()
    with Wire(running.listen) as wire:
        wire.send(request(999, 0, 7, BODY, client_id=FATAL))  # which no filter wants
        assert wire.frame() == heartbeat_answer(7)
        running.beat(8)
        event = running.hung()
        assert event["process"] == "analyzer" and event["seconds"] >= SHORTER
        assert any("hanging.py" in frame and "hang_in_c" in frame for frame in event["stack"])
        assert all(re.fullmatch(r"[\w.<> ]+:\d+ [\w.<>]+|--", frame) for frame in event["stack"])  # no values
        wire.send(heartbeat(9))
        assert wire.frame() == heartbeat_answer(9)
    eventually(lambda: running.reaches_the_log(100), patience=PATIENCE, what="the log of another analyzer")


def test_a_worker_that_hangs_in_c_is_replaced_and_the_other_goes_on(start: Callable[..., Running]) -> None:
    running = start(workers=2)
    workers = [pid for pid in children(running.supervisor.process.pid) if "kproxy: worker" in command_line(pid)]
    idle = [open_sockets(pid) for pid in workers]
    connections: list[Wire] = []
    with ExitStack() as stack:
        # Until each worker has two, with their sockets at the broker: on a busy machine one may take all for a while
        while len(connections) < 16 or any(
            open_sockets(pid) <= least for pid, least in zip(workers, idle, strict=True)
        ):
            assert len(connections) < 1_000, "one worker takes all connections"
            wire = stack.enter_context(Wire(running.listen))
            connections.append(wire)
            wire.send(heartbeat(len(connections)))
            assert wire.frame() == heartbeat_answer(len(connections))
        connections[0].send(fatal(BODY))
        event = running.hung()
        assert event["worker"] in (0, 1)
        assert any("hanging.py" in frame and "hang_in_c" in frame for frame in event["stack"])
        alive = 0
        for number, wire in enumerate(connections[1:]):
            wire.socket.settimeout(PATIENCE)
            try:
                wire.send(heartbeat(number))
                alive += wire.frame() == heartbeat_answer(number)
            except (EOFError, ConnectionError):
                pass  # of the worker that hung
        assert 0 < alive < len(connections)
    running.beat(50)


@pytest.mark.slow
def test_who_is_stopped_is_replaced(start: Callable[..., Running]) -> None:
    running = start()
    for name in ("kproxy: worker", "kproxy-analyzer"):
        os.kill(running.pid(name), signal.SIGSTOP)
    events = [running.supervisor.until("a process hangs") for _ in range(2)]  # both may hang before the first has ended
    assert {event.get("worker", event.get("process")) for event in events} == {0, "analyzer"}
    assert all("stack" not in event for event in events)  # they could not say
    eventually(lambda: running.beat(1) is None, patience=PATIENCE, what="another worker")
    eventually(lambda: running.reaches_the_log(100), patience=PATIENCE, what="the log of another analyzer")


@pytest.mark.slow
def test_all_that_are_stopped_together_and_go_on_together_are_left_alone(start: Callable[..., Running]) -> None:
    """As a suspended machine or a paused container does."""
    running = start(workers=2)
    running.beat(1)
    processes = list(children(running.supervisor.process.pid))
    assert len(processes) == 4
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(2 * SHORTER)  # what is tested is that this time does not count
    for pid in processes:
        os.kill(pid, signal.SIGCONT)
    for number in range(20):
        running.beat(100 + number)
    eventually(lambda: running.reaches_the_log(200), patience=PATIENCE, what="the log of the same analyzer")
    assert running.supervisor.tell(signal.SIGTERM).ended() == 0
    assert running.supervisor.events("a process hangs") == []
    assert set(processes[1:]) & set(children(running.supervisor.process.pid)) == set()


def looked(watchdog: Watchdog, activity: Callable[[int], Activity], seconds: int) -> int | None:
    """The second at which it says that the process hangs, of *seconds* looks one second apart."""
    for second in range(1, seconds + 1):
        if watchdog.look(float(second), activity(second)):
            return second
    return None


def state(letter: bytes, cpu: float = 0.0) -> Callable[[int], Activity]:
    """A process that is in one state and gets that share of a core."""
    return lambda second: Activity(frozenset({letter}), cpu * second)


@pytest.mark.parametrize(
    ("activity", "at"),
    [
        (state(b"S"), HANG_S),  # waits for what never comes
        (state(b"T"), HANG_S),  # stopped
        (state(b"R", 1.0), HANG_S),  # computes without end
        (state(b"R", 0.1), 10 * HANG_S),  # the same with a tenth of a core
        (state(b"R", 0.0), None),  # waits for a core
        (state(b"D"), None),  # waits for the disk
        (state(b"t"), None),  # in a debugger
        (lambda _: Activity(frozenset(), 0.0), None),  # gone
    ],
)
def test_only_time_that_a_process_could_use_counts(activity: Callable[[int], Activity], at: float | None) -> None:
    watchdog = Watchdog(0.0)
    watchdog.hear()
    assert looked(watchdog, activity, 200) == (None if at is None else pytest.approx(at, abs=1))


def test_a_process_that_has_not_spoken_yet_is_not_watched() -> None:
    assert looked(Watchdog(0.0), state(b"S"), 100) is None


def test_a_message_ends_the_silence() -> None:
    watchdog = Watchdog(0.0)
    watchdog.hear()
    for second in range(1, 100):
        assert not watchdog.look(float(second), state(b"S")(second))
        if second % int(HANG_S - 1) == 0:
            watchdog.hear()


def test_what_was_read_of_a_ring_is_progress_and_no_start() -> None:
    """An analyzer that reads the rest of a dead worker's ring sends no message meanwhile."""
    watchdog = Watchdog(0.0)
    watchdog.hear()
    for second in range(1, 100):
        watchdog.progress()
        assert not watchdog.look(float(second), state(b"R", 1.0)(second))
    silent = Watchdog(0.0)
    silent.progress()
    assert looked(silent, state(b"S"), 100) is None


def test_a_supervisor_that_did_not_look_blames_no_one() -> None:
    watchdog = Watchdog(0.0)
    watchdog.hear()
    assert not watchdog.look(3600.0, state(b"S")(1))
    assert watchdog.silent_s <= LOOK_EVERY_S


WAYS = {
    b"R": "while True: pass",
    b"S": "import time; time.sleep(600)",
    b"T": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
}


@pytest.mark.parametrize("letter", WAYS)
def test_the_kernel_says_what_a_process_does(letter: bytes) -> None:
    with subprocess.Popen([sys.executable, "-c", WAYS[letter]]) as process:
        try:
            eventually(lambda: Activity.of(process.pid).states == {letter}, what=f"state {letter!r}")
            before = Activity.of(process.pid).cpu_s
            if letter == b"R":
                eventually(lambda: Activity.of(process.pid).cpu_s > before, what="CPU time")
        finally:
            process.kill()
    assert Activity.of(process.pid) == Activity(frozenset(), 0.0)


SCRIPT = """
import faulthandler, itertools, os, sys, threading, time
faulthandler.register(int(sys.argv[2]), os.fdopen(int(sys.argv[1]), "wb"), all_threads=True)
def wait():
    time.sleep(600)
def in_c():
    print(flush=True)
    sum(itertools.repeat(0))
threading.Thread(target=wait, daemon=True).start()
in_c()
"""


def test_a_process_that_hangs_in_c_says_where_its_threads_are() -> None:
    async def main() -> Any:
        fd = create_stack_file()
        words = [sys.executable, "-c", SCRIPT, str(fd), str(int(STACK_SIGNAL))]
        with subprocess.Popen(words, stdout=subprocess.PIPE, pass_fds=[fd]) as started:
            assert started.stdout is not None
            started.stdout.readline()
            process = Process(started.pid)
            found = await stack_of(process, fd)
            process.kill()
            await process.ended
        os.close(fd)
        return found

    found = asyncio.run(main())
    threads = [part.split("\n") for part in "\n".join(found).split("\n--\n")]
    assert {thread[0].split(" ")[1] for thread in threads} == {"in_c", "wait"}
    assert ["in_c", "<module>"] in [[frame.split(" ")[1] for frame in thread] for thread in threads]


def test_what_is_no_dump_has_no_frames() -> None:
    assert frames("") == frames("Fatal Python error: nothing\n  in particular\n") == []
