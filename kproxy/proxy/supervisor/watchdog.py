"""Watchdog: notice a child process that hangs, in C, in an endless loop, in a wait without end, or stopped by a signal.

A child sends a message at least once a second (Alive, AnalyzerCounts). An analyzer that is busy with the rest of a dead worker's
ring may be silent, but it reads on. A child that neither sends nor reads for HANG_S seconds hangs. Some time does not count:

    waiting for a core      only the CPU time that the child got counts: a loaded machine or a CPU quota is no hang
    waiting for the disk    a slow disk is no hang, and killing the process would not end the wait
    held by a debugger
    the supervisor's own absence, when it was stopped, suspended with the machine, or had no core: at most one look counts

The clock is CLOCK_MONOTONIC, so changes of the time of day have no effect.

Before a child that hangs is killed, it writes its stack for the log (faulthandler, on STACK_SIGNAL, even where it hangs in C) to
a memfd that it shares with the supervisor. A child that is stopped writes nothing.
"""

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from kproxy.proxy.child_process import STACK_SIGNAL
from kproxy.proxy.supervisor.processes import Process

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
