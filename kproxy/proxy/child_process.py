"""How a child process begins, which the supervisor has forked: it takes its title, then runs main() of a module.

`ps`, `top` and `pgrep` show

    kproxy run --listen ... --bootstrap ...    the supervisor (or: kproxy run -c FILE); name: kproxy
    kproxy: worker 0                           a worker, numbered as in the log and at /connections; name: kproxy:worker0
    kproxy: analyzer (kproxy-analyzer)         the analyzer; name: kproxy:analyzer
"""

import faulthandler
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from setproctitle import setproctitle, setthreadtitle

from kproxy.proxy.system_calls import die_with_parent

STACK_SIGNAL = signal.SIGQUIT  # a child writes its stack; it is in a process group of its own, away from Ctrl-\
ANALYZER_NAME = "kproxy-analyzer"  # in the analyzer's title: scripts look for it
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # which are the supervisor's
FIRST_OTHER_FD = 3  # after standard input, output and error


class ChildArguments(NamedTuple):
    """What the supervisor gives a child: file descriptors, unless a comment says otherwise. The child inherits no others."""

    parent: int  # process id of the supervisor
    control: int
    counters: int = -1  # a worker's own; -1: none
    taps: tuple[int, ...] = ()  # a worker's own; for the analyzer those of all workers
    limits: int = -1  # SharedLimits, of all workers; -1: none
    worker: int = -1  # number of the worker; -1: the analyzer
    counts: int = -1  # SharedCounts, of all workers; -1: none
    stack: int = -1  # where to write the stack on STACK_SIGNAL; -1: nowhere
    doorbell: int = -1  # an eventfd on which workers wake the analyzer; -1: there is no analyzer

    def fds(self) -> list[int]:
        """The file descriptors that the child inherits, besides the standard ones."""
        ours = self.control, self.counters, *self.taps, self.limits, self.counts, self.stack, self.doorbell
        return [fd for fd in ours if fd >= 0]


def set_process_title(title: str, name: str) -> None:
    """Show *title* as the command line of this process and *name*, cut to 15 bytes, as its name (/proc/PID/comm).

    setproctitle writes over the command line in memory and moves the environment away. Otherwise prctl(PR_SET_MM_ARG_START) would
    be needed, which takes CAP_SYS_RESOURCE.
    """
    setproctitle(title)
    setthreadtitle(name)


def begin_child(arguments: ChildArguments) -> None:
    """Ignore the supervisor's signals, write the stack on STACK_SIGNAL, die with the supervisor, take the title."""
    if arguments.stack >= 0:
        faulthandler.register(STACK_SIGNAL, os.fdopen(os.dup(arguments.stack), "wb"), all_threads=True)
    _follow(arguments.parent)
    if arguments.worker < 0:
        set_process_title(f"kproxy: analyzer ({ANALYZER_NAME})", "kproxy:analyzer")
    else:
        set_process_title(f"kproxy: worker {arguments.worker}", f"kproxy:worker{arguments.worker}")


def _follow(parent: int) -> None:
    """Ignore the supervisor's signals, and die with it: Linux kills this process too. Exit if the supervisor is gone already."""
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)


def leave_supervisor(fds: Sequence[int], parent: int) -> None:
    """In a fork whose signals are blocked: keep only these file descriptors and the standard ones, die with the supervisor."""
    signal.set_wakeup_fd(-1)
    os.setpgid(0, 0)
    _close_other_fds(fds)
    _follow(parent)


def become_child(module: str, arguments: ChildArguments) -> NoReturn:
    """Run a child to its end in this process, a fork whose signals are blocked, and exit as Python does.

    The supervisor's event loop and connections stay on the stack, unused: their file descriptors are closed here, and destroying
    the objects would close others with the same numbers.
    """
    code = 1
    try:
        leave_supervisor(arguments.fds(), arguments.parent)
        begin_child(arguments)
        importlib.import_module(module).main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _close_other_fds(inherited: Sequence[int]) -> None:
    """Close all file descriptors but the standard ones and *inherited*; read nothing from standard input."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    first = FIRST_OTHER_FD
    for fd in sorted(inherited):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
