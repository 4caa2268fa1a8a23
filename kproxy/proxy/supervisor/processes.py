"""How our processes are started: the supervisor in place of the command line, children beside it."""

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
from kproxy.proxy.control import ChildArguments

WORKER = "kproxy.proxy.worker"
ANALYZER = "kproxy.proxy.analyzer.process"
SUPERVISOR = "kproxy.proxy.supervisor.process"
NAMES = {ANALYZER: ["kproxy-analyzer"]}  # what `ps` and those who count CPU apart look for


def become_supervisor(options: Options) -> NoReturn:
    """Replace this process by the supervisor: same pid and terminal, without the command line's libraries (17 MB)."""
    sys.stdout.flush()
    sys.stderr.flush()
    words = [*_python(SUPERVISOR), msgspec.json.encode(options).decode()]
    os.execve(sys.executable, words, _environment())


class Process:
    """A child process by its pidfd (pidfd_open(2)): no thread waits for it, and no signal goes to another with its number."""

    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        self.pid = started.pid
        self._started = started
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(started.pid)
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(self._pidfd, self._bury)

    @property
    def ended(self) -> asyncio.Future[int]:
        """Its exit code, negative for a signal, once it is there."""
        return self._code

    def kill(self) -> None:
        """SIGKILL, if it is not gone."""
        if not self._code.done():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _bury(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._code.set_result(self._started.wait())
        os.close(self._pidfd)


def start_child(module: str, arguments: ChildArguments) -> Process:
    """Start a child: a process group of its own, so that Ctrl-C on the terminal reaches the supervisor alone. Raises OSError."""
    started = subprocess.Popen(
        [*_python(module), *NAMES.get(module, []), *arguments.words()],
        stdin=subprocess.DEVNULL,
        pass_fds=arguments.fds(),
        process_group=0,
        env=_environment(),
    )
    try:
        return Process(started)
    except OSError:
        started.kill()
        started.wait()
        raise


def _python(module: str) -> list[str]:
    """-P: modules of the directory that one happens to be in are not ours."""
    return [sys.executable, "-P", "-m", module]


def _environment() -> dict[str, str]:
    """The environment, in which kproxy is found where it was found this time."""
    root = str(Path(__file__).parents[3])
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    before = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if root in installed or root in before:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *before])}
