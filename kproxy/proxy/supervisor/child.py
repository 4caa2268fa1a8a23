"""Child: a child process that is started again when it dies, and killed when it hangs.

A process hangs in C, in an endless loop, in a wait without end, or when a signal has stopped it. It sends a message at least once
a second (Alive, AnalyzerCounts). An analyzer that is busy with the rest of a dead worker's ring may be silent, but it reads on. A
child that neither sends nor reads for HANG_S seconds hangs (Watchdog). Some time does not count:

    waiting for a core      only the CPU time that the child got counts: a loaded machine or a CPU quota is no hang
    waiting for the disk    a slow disk is no hang, and killing the process would not end the wait
    held by a debugger
    the supervisor's own absence, when it was stopped, suspended with the machine, or had no core: at most one look counts

Before a child that hangs is killed, it writes its stack for the log (faulthandler, on STACK_SIGNAL, even where it hangs in C) to
a memfd that it shares with the supervisor. A child that is stopped writes nothing.
"""

import asyncio
import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from kproxy.proxy import messages
from kproxy.proxy.child_process import STACK_SIGNAL, ChildArguments
from kproxy.proxy.logs import LogKeys, Relay, log, log_dropped_message
from kproxy.proxy.messages import Channel
from kproxy.proxy.supervisor.processes import Process, signal_name, start_child

if TYPE_CHECKING:
    from kproxy.proxy.supervisor.fleet import Fleet

HANG_S = 10.0  # seconds; Kafka's clients wait 30 for a response
LOOK_EVERY_S = 1.0
DUMP_S, DUMP_LOOK_EVERY_S = 1.0, 0.05  # how long a stack is waited for, and how often the supervisor looks for it
MOST_FRAMES = 9  # of a thread
MOST_DUMP = 65_536  # bytes
RUNNABLE, WAITS_FOR_DISK, TRACED = b"R", b"D", b"t"  # states of /proc/PID/stat (proc_pid_stat(5))
TICKS = os.sysconf("SC_CLK_TCK")

_THREAD = re.compile(r"^(?:Current thread|Thread) .*$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


class Activity(NamedTuple):
    """What the threads of a process are doing: their states, and the CPU time of all."""

    states: frozenset[bytes]
    cpu_s: float

    @classmethod
    def of(cls, pid: int) -> "Activity":
        """Return what process *pid* is doing now; without states if it has ended."""
        states, ticks = set(), 0
        for thread in _threads(pid):
            with suppress(OSError, ValueError, IndexError):  # a thread that ends meanwhile
                # the second field is the name in parentheses, which may hold any byte
                fields = Path(f"/proc/{pid}/task/{thread}/stat").read_bytes().rpartition(b")")[2].split()
                states.add(fields[0])
                ticks += int(fields[11]) + int(fields[12])
        return cls(frozenset(states), ticks / TICKS)


def _threads(pid: int) -> list[str]:
    with suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names are enough
    return []


class Watchdog:
    """Watches one process. Call ``hear`` for each of its messages and ``look`` every LOOK_EVERY_S.

    It begins to watch with the first message, as starting may take any time.
    """

    def __init__(self, now: float) -> None:
        self.silent_s = 0.0  # since the last message, as far as it counts
        self._watching = False
        self._looked_at = now
        self._cpu_s = 0.0

    def hear(self) -> None:
        """Note a message of the process."""
        self._watching = True
        self.silent_s = 0.0

    def progress(self) -> None:
        """Note that the process did some of its work, which counts as a message."""
        self.silent_s = 0.0

    def look(self, now: float, activity: Activity) -> bool:
        """Return whether the process hangs, given what it does at time *now* (seconds)."""
        passed = min(now - self._looked_at, LOOK_EVERY_S)
        ran = max(activity.cpu_s - self._cpu_s, 0.0)
        self._looked_at, self._cpu_s = now, activity.cpu_s
        if activity.states & {WAITS_FOR_DISK, TRACED} or not activity.states:
            return False
        self.silent_s += min(ran, passed) if RUNNABLE in activity.states else passed
        return self._watching and self.silent_s >= HANG_S


def create_stack_file() -> int:
    """Return a file descriptor of memory that a child can write its stack to. Raises OSError."""
    return os.memfd_create("kproxy-stack")


async def stack_of(process: Process, fd: int) -> list[str]:
    """Have a process write its stack to *fd*; return its frames, innermost first, or none if it does not write within DUMP_S."""
    process.send_signal(STACK_SIGNAL)
    before = b""
    for _ in range(int(DUMP_S / DUMP_LOOK_EVERY_S)):
        await asyncio.sleep(DUMP_LOOK_EVERY_S)
        dump = os.pread(fd, MOST_DUMP, 0)
        if dump and dump == before:
            break
        before = dump
    return frames(before.decode("utf-8", "replace"))


def frames(dump: str) -> list[str]:
    """Return the frames of a faulthandler dump as "connections.py:12 receive", with "--" between two threads."""
    shown: list[str] = []
    for thread in _THREAD.split(dump):
        inner = _FRAME.findall(thread)[:MOST_FRAMES]
        shown += ["--"] if shown and inner else []
        shown += [f"{PurePath(file).name}:{line} {function}" for file, line, function in inner]
    return shown


FIRST_DELAY, MOST_DELAY = 0.1, 1.5  # seconds before a restart; the very first one is at once
LONG_ENOUGH = 10.0  # seconds; a process that lived so long did not die of its start
LAST_MESSAGES = 0.5  # seconds for which the channel of a dead process is read
EXIT_S = 3.0  # seconds that a process without a channel may take to exit: on a busy machine that is slow
MOST_SEND = 5.0  # seconds without reading its channel after which a process hangs


class ProcessEnded(str):
    """Why a configuration is not in use: the process ended before it was ready."""


class Backoff:
    """The wait before a restart, longer after each early death."""

    def __init__(self) -> None:
        self._deaths = 0

    def after(self, lived: float) -> float:
        """Return the seconds to wait after a process that lived for *lived* seconds: 0, 0.1, 0.2, ... 1.5."""
        self._deaths = 1 if lived >= LONG_ENOUGH else self._deaths + 1
        return 0.0 if self._deaths == 1 else min(MOST_DELAY, FIRST_DELAY * 2 ** min(self._deaths - 2, 10))


class Child:
    """Keeps one child process running: starts it, and starts it again when it dies, until ``stop()``.

    Args:
        module: what is run, by dotted name.
        number: of a worker; None for the analyzer.
        arguments: makes its arguments from two file descriptors: its end of the channel, and memory for its stack.
        listener: its ``started``, ``on_message`` and ``ended`` are called when a process starts, sends a message, or ends.
        progress: returns a value that changes when the process has done some of its work, which may keep it from sending.
    """

    def __init__(
        self,
        module: str,
        number: int | None,
        arguments: Callable[[int, int], ChildArguments],
        listener: "Fleet",
        progress: Callable[[], object] = lambda: None,
    ) -> None:
        self.number = number
        self.name = "analyzer" if number is None else f"worker {number}"
        self.ready = False
        self.hung = 0  # processes that were killed as they hung
        self.ended_for_good = asyncio.Event()  # set when stopped and the process has ended
        self._module, self._arguments, self._listener = module, arguments, listener
        self._progress = progress
        self._relay = Relay("analyzer" if number is None else "worker", number)
        self._backoff = Backoff()
        self._stopping = asyncio.Event()
        self._channel: Channel[messages.ToSupervisor] | None = None
        self._process: Process | None = None
        self._watchdog = Watchdog(time.monotonic())
        self._answers: deque[asyncio.Future[str]] = deque()  # to configurations, in the order in which these were sent
        self.last_configure: messages.Configure | None = None  # the last one sent

    @property
    def pid(self) -> int | None:
        """Process id; None while there is no process."""
        return self._process.pid if self._process else None

    async def run(self) -> None:
        """Start the process, and again when it dies, until stopped."""
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                code = await self._run_once()
                self._ended(code)
                if not self._stopping.is_set():
                    await self._wait_after(code, time.monotonic() - began)
        finally:
            self._kill()
            self.ended_for_good.set()

    async def configure(self, message: messages.Configure) -> str:
        """Have the process, if there is one, use a configuration. Return "" once it is ready, or why it cannot."""
        if self._channel is None:
            return ""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self.last_configure = message
        if not await self.send(message) and not answer.done():
            self._answers.remove(answer)
            return "the configuration is too long to be sent to a process"
        return await answer

    async def send(self, message: messages.Message) -> bool:
        """Send a message if there is a process. A process that does not read is killed, and started again.

        Return False if the message is too long and was dropped.
        """
        if self._channel is None:
            return True
        try:
            return await asyncio.wait_for(self._channel.send(message), MOST_SEND)
        except TimeoutError:
            self._kill_hung(MOST_SEND, [])
            return True

    def stop(self) -> None:
        """Do not start it again when it ends."""
        self._stopping.set()

    def restart(self) -> None:
        """Kill the process; it is started again."""
        self._kill()

    def kill(self) -> None:
        """Kill the process and do not start it again."""
        self.stop()
        self._kill()

    async def _run_once(self) -> int | None:
        """Start the process, receive until its channel ends, wait for its end. Return its exit code; None: not started."""
        try:
            stack = create_stack_file()
        except OSError as error:
            self._log_not_started(error)
            return None
        try:
            return await self._run_with(stack)
        finally:
            os.close(stack)

    async def _run_with(self, stack: int) -> int | None:
        """Run a process that writes its stack to *stack* when it hangs; return its exit code, or None if it was not started."""
        try:
            ours, process = self._start(stack)
        except OSError as error:
            self._log_not_started(error)
            return None
        self._process = process
        self._channel = await Channel.open(ours, messages.ToSupervisor, self._on_malformed, log_dropped_message)
        process.ended.add_done_callback(self._close_later)
        if self._stopping.is_set():  # Drain was sent before it had a channel; it serves no client yet
            process.kill()
        else:
            await self._listener.started(self)
        self._watchdog = Watchdog(time.monotonic())
        watching = asyncio.get_running_loop().create_task(self._watch(process, stack), name=f"watch {self.name}")
        try:
            await self._receive(self._channel)
        finally:
            watching.cancel()
        self._channel = None
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(process.ended), EXIT_S)
        process.kill()
        return await process.ended

    def _log_not_started(self, error: OSError) -> None:
        log("error", "a process could not be started", **self._about(), reason=os.strerror(error.errno or 0))

    async def _watch(self, process: Process, stack: int) -> None:
        """Kill the process when it hangs, unless it drains, which has a time limit of its own."""
        before = self._progress()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = self._progress()
            if now != before:
                before = now
                self._watchdog.progress()
            if self._watchdog.look(time.monotonic(), Activity.of(process.pid)) and not self._stopping.is_set():
                frames = await stack_of(process, stack)
                self._kill_hung(round(self._watchdog.silent_s, 1), frames)
                return

    def _kill_hung(self, seconds: float, stack: list[str]) -> None:
        self.hung += 1
        about = self._about() | ({"stack": stack} if stack else {})
        log("error", "a process hangs", **about, pid=self.pid, seconds=seconds)
        self._kill()

    def _start(self, stack: int) -> tuple[socket.socket, Process]:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                return ours, start_child(self._module, self._arguments(theirs.fileno(), stack))
            except OSError:
                ours.close()
                raise

    async def _receive(self, channel: Channel[messages.ToSupervisor]) -> None:
        try:
            async for message in channel:
                await self._on_message(message)
        finally:
            channel.close()

    def _on_malformed(self, reason: str) -> None:
        self._relay.write(messages.LogEvent("error", "a message of a process cannot be decoded", {"reason": reason}))

    def _close_later(self, _: object) -> None:
        """Close the channel of a dead process soon, even if a process that it started holds the other end."""
        channel = self._channel
        if channel:
            asyncio.get_running_loop().call_later(LAST_MESSAGES, channel.close)

    async def _on_message(self, message: messages.ToSupervisor) -> None:
        """Handle a message of the process, or pass it to the listener."""
        self._watchdog.hear()
        match message:
            case messages.Alive():
                pass
            case messages.LogEvent():
                self._relay.write(message)
            case messages.Ready():
                self.ready = True
                self._answer("")
            case messages.Failed(why):
                self._answer(why or "it gives no reason")
            case messages.Drained(left):
                if left:
                    log("warning", "the time to drain is over: connections were closed", worker=self.number, count=left)
            case _:
                await self._listener.on_message(self, message)

    def _answer(self, answer: str) -> None:
        if self._answers:
            waiting = self._answers.popleft()
            if not waiting.cancelled():
                waiting.set_result(answer)

    def _ended(self, code: int | None) -> None:
        self.ready = False
        self._process = None
        while self._answers:
            self._answer(ProcessEnded(f"{self.name} ended {_code_words(code)} before it was ready"))
        self._listener.ended(self, code)

    async def _wait_after(self, code: int | None, lived: float) -> None:
        delay = self._backoff.after(lived)
        reason = f"it ended {_code_words(code)}, and is started again"
        log("error", "a process ended", **self._about(), exit_code=code, restart_in=delay, reason=reason)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), delay)

    def _kill(self) -> None:
        if self._process:
            self._process.kill()

    def _about(self) -> LogKeys:
        return {"process": "analyzer"} if self.number is None else {"process": "worker", "worker": self.number}


def _code_words(code: int | None) -> str:
    if code is None:
        return "without having started"
    if code >= 0:
        return f"with exit code {code}"
    name = signal_name(-code)
    return f"by signal {-code} ({name})" if name else f"by signal {-code}"
