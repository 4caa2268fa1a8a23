"""How the kernel shares a core between our threads. No call needs a privilege; where the kernel refuses one, nothing changes.

worker      short slices (sched_setattr(2)): when it wakes up it preempts threads with longer ones, for an equal share over time.
            Since Linux 6.12; older kernels ignore it
analyzer    SCHED_IDLE (sched(7)): it gets what others leave, a little at a time (Breaks); a fair share where that is next to
            nothing (PacedLoop)
page        SCHED_IDLE as well, except for the threads that answer browsers, which have a low priority (supervisor/live_page.py)

What a tap adds to a worker's CPU is mostly this sharing, where both have one core: a wake-up that finds another process on it
costs the worker 12 to 20 µs more than one that finds the core idle, whatever that process does. With the analyzer stopped, a
worker with a tap costs 1.03 times one without.

The analyzer's event loop runs in a thread of its own:

    BACKGROUND   as a rule. The thread has SCHED_IDLE, so it hardly makes a worker on its core wait
    FAIR         the thread has the process's own priority (NICE in analyzer/process.py): about a quarter of a core that a worker
                 fills

    BACKGROUND -> FAIR    for STARVED_S the analyzer was behind and got less than FAIR_SHARE of a core: more would have helped
    FAIR -> BACKGROUND    it has caught up
    BACKGROUND -> FAIR    the process is to end: what is left to do is waited for

An analyzer that is behind although it gets its share stays in the background: more would not help it, and traffic would wait.

A thread cannot leave SCHED_IDLE without a privilege, so a change of the pace is a change of the thread that the loop runs in: the
loop stops between two of its callbacks and goes on in a new thread. The main thread only watches: the pace, and records that take
too long (Stuck). It needs the interpreter for that, which a thread in C does not give; then the supervisor's watchdog takes over.

SCHED_IDLE alone does not keep these threads out of a worker's way. The kernel is fair: a thread that has just woken up has a
claim on the core, however small its share is, and once it is chosen it keeps the core until the next tick of the clock: up to
4 ms. So analyzer and page sleep for a moment after each half millisecond of work (Breaks), but not while they are behind: a
ring fills, or the page gets exchanges a second late. At 20,000 exchanges a second on two cores, with the page open, a worker
waited for one of them for more than 2 ms 3 times a second without breaks and 0.6 times with them (perf sched), and the 99th
percentile of round trips was 4.1 ms without and 2.6 ms with them in the quietest rounds, where haproxy had 2.3.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum
from threading import Thread
from typing import Any

from kproxy.proxy.system_calls import take_slices

SHORT_SLICE_NS = 100_000  # the shortest that the kernel allows; its default is some milliseconds


def take_short_slices() -> bool:
    """Have this thread, and those that it starts, run in short slices. Return whether the kernel accepted that."""
    if os.sched_getscheduler(0) != os.SCHED_OTHER:  # someone chose another policy: leave it
        return False
    return take_slices(os.getpriority(os.PRIO_PROCESS, 0), SHORT_SLICE_NS)


def take_what_is_left() -> None:
    """Have this thread run only when no other thread wants its core."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


WORK_S = 0.0005
BREAK_S = 0.00002  # the kernel makes it 0.07 ms: a timer may be 0.05 ms late (PR_SET_TIMERSLACK)


class Breaks:
    """Lets a thread in the background sleep for a moment when it has worked for WORK_S."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def take_when_due(self) -> None:
        """Sleep, unless the last time was less than WORK_S ago."""
        if time.perf_counter() - self._since >= WORK_S:
            time.sleep(BREAK_S)
            self._since = time.perf_counter()


WATCH_EVERY_S = 0.25
STARVED_S = 0.5
FAIR_SHARE = 0.2  # of a core


class Pace(Enum):
    """How the event loop's thread is scheduled."""

    BACKGROUND = "background"
    FAIR = "fair"


class Starvation:
    """Decides the pace from what the analyzer got of the CPU and whether it is behind."""

    def __init__(self, now: float, cpu: float) -> None:
        self.pace = Pace.BACKGROUND
        self._since, self._cpu = now, cpu  # since when it is behind, and its CPU time at that moment

    def look(self, now: float, cpu: float, *, behind: bool) -> Pace:
        """Return the pace from here on; *now* in seconds, *cpu* the seconds of CPU that the process had so far."""
        if not behind:
            self.pace = Pace.BACKGROUND
        elif now - self._since < STARVED_S:
            return self.pace
        elif cpu - self._cpu < FAIR_SHARE * (now - self._since):
            self.pace = Pace.FAIR
        self._since, self._cpu = now, cpu
        return self.pace


class PacedLoop:
    """Runs a coroutine in an event loop whose thread changes with the pace.

    Args:
        is_behind: returns whether the analyzer needs more CPU; called in the main thread.
        watch: called every WATCH_EVERY_S in the main thread with the thread of the loop.
    """

    def __init__(self, is_behind: Callable[[], bool], watch: Callable[[Thread], None]) -> None:
        self._is_behind = is_behind
        self._watch = watch
        self._loop = asyncio.new_event_loop()
        self.starved = 0  # times that the pace became FAIR because the analyzer got too little
        self._is_ending = False

    def end_soon(self) -> None:
        """Go on at the pace FAIR, to the end. Called in the loop."""
        self._is_ending = True
        self._loop.stop()

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run *main* to its end. Raises what it raises."""
        task = self._loop.create_task(main, name="main")
        task.add_done_callback(lambda _: self._loop.stop())
        starvation = Starvation(time.monotonic(), time.process_time())
        while not task.done():
            self._turn(starvation)
        self._loop.close()
        task.result()

    def _turn(self, starvation: Starvation) -> None:
        """Run the loop in a thread until the pace changes, or until the end."""
        pace = Pace.FAIR if self._is_ending else starvation.pace

        def run_at_pace() -> None:
            if pace is Pace.BACKGROUND:
                take_what_is_left()
            self._loop.run_forever()

        thread = Thread(target=run_at_pace, name=pace.value, daemon=True)
        thread.start()
        is_stopping = False
        while thread.is_alive():
            thread.join(WATCH_EVERY_S)
            self._watch(thread)
            wanted = starvation.look(time.monotonic(), time.process_time(), behind=self._is_behind())
            if wanted is not pace and not is_stopping and not self._is_ending:
                is_stopping = True
                self.starved += wanted is Pace.FAIR
                self._loop.call_soon_threadsafe(self._loop.stop)
