"""How processes are started: the supervisor replaces the command line's process, and starts children.

The supervisor gets its options through a memfd, so that none of them can be seen in its command line.
"""

import asyncio
import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

import msgspec

from kproxy.config.reading import Options
from kproxy.proxy.child_process import ANALYZER_NAME, ChildArguments

WORKER = "kproxy.proxy.worker"
ANALYZER = "kproxy.proxy.analyzer.process"
SUPERVISOR = "kproxy.proxy.supervisor.process"
CHILD = "kproxy.proxy.child_process"


def become_supervisor(options: Options) -> NoReturn:
    """Replace this process by the supervisor: same pid and terminal, without the command line's libraries (17 MB)."""
    sys.stdout.flush()
    sys.stderr.flush()
    words, _ = supervisor_command(options)
    os.execve(sys.executable, words, environment())


def supervisor_command(options: Options) -> tuple[list[str], int]:
    """Return the command line of a supervisor, and the file descriptor with its options, which it inherits."""
    fd = os.memfd_create("kproxy options", 0)
    os.write(fd, msgspec.json.encode(options))
    return [
        *_python(SUPERVISOR),
        str(fd),
        *supervisor_title(options).split(),
    ], fd  # found by `pgrep -f` from the start on


def inherited_options(fd: int) -> Options:
    """Return the options that ``supervisor_command`` wrote."""
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

    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        self.pid = started.pid
        self._started = started
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(started.pid)
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def ended(self) -> asyncio.Future[int]:
        """The exit code, negative for a signal, once the process has ended."""
        return self._code

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if not self._code.done():
            signal.pidfd_send_signal(self._pidfd, number)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._code.set_result(self._started.wait())
        os.close(self._pidfd)


def start_child(module: str, arguments: ChildArguments) -> Process:
    """Start a child in a process group of its own, so that Ctrl-C reaches only the supervisor. Raises OSError."""
    started = subprocess.Popen(
        child_command(module, arguments),
        stdin=subprocess.DEVNULL,
        pass_fds=arguments.fds(),
        process_group=0,
        env=environment(),
    )
    try:
        return Process(started)
    except OSError:
        started.kill()
        started.wait()
        raise


def child_command(module: str, arguments: ChildArguments) -> list[str]:
    """Return the command line of a child, before it takes its title."""
    name = [ANALYZER_NAME] if arguments.worker < 0 else []
    return [*_python(CHILD), module, *name, *arguments.words()]


def _python(module: str) -> list[str]:
    """-P: do not import modules from the current directory."""
    return [sys.executable, "-P", "-m", module]


def environment() -> dict[str, str]:
    """Return the environment with a PYTHONPATH on which this kproxy is found."""
    root = str(Path(__file__).parents[3])
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    before = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if root in installed or root in before:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *before])}
