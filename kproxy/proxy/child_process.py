"""How a child process begins: `python -m kproxy.proxy.child_process MODULE WORD...` takes its title, then runs MODULE.main().

The words are those of ChildArguments. This module imports little, so that the title appears at once. `ps`, `top` and `pgrep` show

    kproxy run --listen ... --bootstrap ...    the supervisor (or: kproxy run -c FILE); name: kproxy
    kproxy: worker 0                           a worker, numbered as in the log and at /connections; name: kproxy:worker0
    kproxy: analyzer (kproxy-analyzer)         the analyzer; name: kproxy:analyzer
"""

import ctypes
import faulthandler
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from setproctitle import setproctitle, setthreadtitle

PR_SET_PDEATHSIG = 1
STACK_SIGNAL = signal.SIGQUIT  # a child writes its stack; it is in a process group of its own, away from Ctrl-\
ANALYZER_NAME = "kproxy-analyzer"  # in the analyzer's command line from its start on: scripts look for it


class ChildArguments(NamedTuple):
    """What a child's command line tells it, as words like ``control=5``. The numbers are inherited file descriptors."""

    parent: int  # process id of the supervisor
    control: int
    counters: int = -1  # a worker's own; -1: none
    taps: tuple[int, ...] = ()  # a worker's own; for the analyzer those of all workers
    limits: int = -1  # SharedLimits, of all workers; -1: none
    worker: int = -1  # number of the worker; -1: the analyzer
    counts: int = -1  # SharedCounts, of all workers; -1: none
    stack: int = -1  # where to write the stack on STACK_SIGNAL; -1: nowhere

    def words(self) -> list[str]:
        """The words for the command line."""
        return [f"{name}={_joined(value)}" for name, value in self._asdict().items()]

    def fds(self) -> list[int]:
        """The file descriptors that the child inherits."""
        return [fd for fd in (self.control, self.counters, *self.taps, self.limits, self.counts, self.stack) if fd >= 0]


def parse_child_arguments(words: Sequence[str]) -> ChildArguments:
    """Invert ``ChildArguments.words()``; skip other words. Raises ValueError or KeyError."""
    values = dict(word.split("=", 1) for word in words if "=" in word)
    taps = tuple(int(fd) for fd in values["taps"].split(",") if fd)
    parent, control, counters, limits, worker, counts, stack = (
        int(values[name]) for name in ("parent", "control", "counters", "limits", "worker", "counts", "stack")
    )
    return ChildArguments(parent, control, counters, taps, limits, worker, counts, stack)


def _joined(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else ",".join(str(fd) for fd in value)


def set_process_title(title: str, name: str) -> None:
    """Show *title* as the command line of this process and *name*, cut to 15 bytes, as its name (/proc/PID/comm).

    setproctitle writes over the command line in memory and moves the environment away. Otherwise prctl(PR_SET_MM_ARG_START) would
    be needed, which takes CAP_SYS_RESOURCE.
    """
    setproctitle(title)
    setthreadtitle(name)


def begin_child(arguments: ChildArguments) -> None:
    """Ignore the supervisor's signals, write the stack on STACK_SIGNAL, die with the supervisor, take the title.

    Linux kills the child with its parent (prctl(2), PR_SET_PDEATHSIG), so a child that hangs ends as well. Exits at once if the
    parent is gone already.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if arguments.stack >= 0:
        faulthandler.register(STACK_SIGNAL, os.fdopen(os.dup(arguments.stack), "wb"), all_threads=True)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != arguments.parent:
        os._exit(1)
    if arguments.worker < 0:
        set_process_title(f"kproxy: analyzer ({ANALYZER_NAME})", "kproxy:analyzer")
    else:
        set_process_title(f"kproxy: worker {arguments.worker}", f"kproxy:worker{arguments.worker}")


def main(words: Sequence[str]) -> None:
    """Run a child: *words* are its module and its arguments."""
    arguments = parse_child_arguments(words[1:])
    begin_child(arguments)
    importlib.import_module(words[0]).main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
