"""How processes are started, and their ends.

`kproxy run` becomes the supervisor (kproxy.cli.running). As a command of its own (kproxy.testing) the supervisor gets its options
through a memfd, so that none of them can be seen in its command line.

Children are forked from the supervisor, which has imported what they need (start.py): they start at once, and share its memory.
A page of memory is shared until one of the processes writes to it, so the garbage collector leaves alone what was there before.
A fork copies locks, but not the threads that would release them. So no thread of the supervisor may work while it forks. There is
one exception: the thread that removes the folder of the live page.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import msgspec

from kproxy.config.reading import Options
from kproxy.proxy.child_process import IGNORED_SIGNALS, ChildArguments, become_child

WORKER = "kproxy.proxy.worker"
ANALYZER = "kproxy.proxy.analyzer.process"
SUPERVISOR = "kproxy.proxy.supervisor.start"


def supervisor_command(options: Options) -> tuple[list[str], int]:
    """Return the command line of a supervisor, and the file descriptor with its options, which it inherits."""
    fd = options_file(options)
    title = supervisor_title(options).split()  # found by `pgrep -f` from the start on
    # -P: do not import modules from the current directory
    return [sys.executable, "-P", "-m", SUPERVISOR, str(fd), *title], fd


def options_file(options: Options) -> int:
    """Return a file in memory with options, which other processes inherit."""
    fd = os.memfd_create("kproxy options", 0)
    os.write(fd, msgspec.json.encode(options))
    return fd


def inherited_options(fd: int) -> Options:
    """Return the options that ``options_file`` wrote."""
    with open(fd, "rb") as file:
        file.seek(0)
        return msgspec.json.decode(file.read(), type=Options)


def supervisor_title(options: Options) -> str:
    """Return `kproxy run` with the options that distinguish one run from another."""
    words = ["kproxy run"]
    if options.file is not None:
        words.append(f"-c {options.file}")
    if options.listen is not None:
        words.append(f"--listen {options.listen}")
    if options.bootstrap:
        words.append(f"--bootstrap {','.join(options.bootstrap)}")
    return " ".join(words)


class Process:
    """A child process, by its pidfd (pidfd_open(2)): no thread waits for it, and no signal hits a later process with its id."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid)
        self.ended: asyncio.Future[int] = self._loop.create_future()  # exit code, negative for a signal
        self._loop.add_reader(self._pidfd, self._reap)

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if not self.ended.done():
            signal.pidfd_send_signal(self._pidfd, number)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self.ended.set_result(_wait_for(self.pid))
        os.close(self._pidfd)


def signal_name(number: int) -> str:
    """Return a signal's name; "" for a real-time signal, which has none."""
    return next((one.name for one in signal.Signals if one == number), "")


def start_child(module: str, arguments: ChildArguments) -> Process:
    """Fork a child, which runs main() of the module with *arguments*. Raises OSError."""
    return forked(lambda: become_child(module, arguments))


def forked(begin: Callable[[], NoReturn]) -> Process:
    """Fork a child, which runs *begin* (see leave_supervisor). Raises OSError.

    It gets a process group of its own, so that Ctrl-C reaches only the supervisor; a signal for the group that comes before that
    waits until the child ignores it.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    gc.collect()
    gc.freeze()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            try:
                begin()
            finally:
                os._exit(1)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        return Process(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        _wait_for(pid)
        raise


def _wait_for(pid: int) -> int:
    """Wait for the end of a child; return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
