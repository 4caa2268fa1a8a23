"""Watchdog: notice a child that hangs: in C, in a loop that does not end, waiting for what never comes, or stopped.

A child sends a message at least once a second (Alive, AnalyzerCounts), unless it is busy: an analyzer that reads a long rest of a
dead worker's ring. One that neither sends nor reads for HANG_S, in which it could have, hangs. Time in which it
could not does not count:

    what it waited for a core      only the CPU time that it got counts: a loaded machine or a CPU quota is no hang
    what it waited for the disk    nor is a slow disk, and killing the process would not end the wait
    while a debugger holds it
    while the supervisor did not look itself: stopped, suspended with the machine, or without a core. One look counts of it

The clock is CLOCK_MONOTONIC, which no change of the time of day moves.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

HANG_S = 10.0  # seconds; Kafka's clients wait 30 for a response
LOOK_EVERY_S = 1.0
RUNNABLE, WAITS_FOR_DISK, TRACED = b"R", b"D", b"t"  # states of /proc/PID/stat (proc_pid_stat(5))
TICKS = os.sysconf("SC_CLK_TCK")


class Activity(NamedTuple):
    """What a process is doing, over its threads."""

    states: frozenset[bytes]
    cpu_s: float  # so far

    @classmethod
    def of(cls, pid: int) -> "Activity":
        """What process *pid* is doing now; no states if it is gone."""
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
    """Of one process. Call ``hear`` for each of its messages and ``look`` every LOOK_EVERY_S.

    It begins to watch with the first message: how long a process may take to start is not its business.
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
        """Note that the process has done something, which is as good as a message."""
        self.silent_s = 0.0

    def look(self, now: float, activity: Activity) -> bool:
        """Return whether the process hangs, as it looks at time *now* (seconds)."""
        passed = min(now - self._looked_at, LOOK_EVERY_S)
        ran = max(activity.cpu_s - self._cpu_s, 0.0)
        self._looked_at, self._cpu_s = now, activity.cpu_s
        if activity.states & {WAITS_FOR_DISK, TRACED} or not activity.states:
            return False
        self.silent_s += min(ran, passed) if RUNNABLE in activity.states else passed
        return self._watching and self.silent_s >= HANG_S
