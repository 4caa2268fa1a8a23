"""What tests leave behind: processes, listening sockets and threads that are there when all tests are over.

A process is known by a mark in its environment, which children inherit even when their parent has ended, and pytest adds
the name of the test that started it (PYTEST_CURRENT_TEST).
"""

import contextlib
import gc
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

MARK = "KPROXY_TEST_PROCESS"
PATIENCE_S = 60  # for what was killed to be gone
_LISTENING = "0A"  # the state in /proc/net/tcp


class Leftovers:
    """Begins when a test process begins."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._threads = set(threading.enumerate())
        self._sockets = set(_own_listeners())
        os.environ[MARK] = self._mark
        os.environ["SPT_NOENV"] = "1"  # setproctitle: leave the environment where /proc shows it

    def found(self) -> list[str]:
        """A line for everything that is left; empty as soon as nothing is."""
        gc.collect()
        end = time.monotonic() + PATIENCE_S
        while (left := list(self._left())) and time.monotonic() < end:
            time.sleep(0.05)
        return left

    def _left(self) -> Iterator[str]:
        for process, variables in _environments():
            if variables.get(MARK) == self._mark and process != os.getpid():
                yield f"process {process} ({_command_line(process)}), started by {variables.get('PYTEST_CURRENT_TEST')}"
        for inode, address in _own_listeners().items():
            if inode not in self._sockets:
                yield f"a socket that listens on {address}"
        for thread in set(threading.enumerate()) - self._threads:
            if not thread.daemon:
                yield f"thread {thread.name}"


def _environments() -> Iterator[tuple[int, dict[str, str]]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (folder / "environ").read_bytes().decode(errors="replace")
            pairs = (line.partition("=") for line in text.split("\0"))
            yield int(folder.name), {name: value for name, _, value in pairs}


def _command_line(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200].strip()
    return "ended"


def _own_listeners() -> dict[str, str]:
    """The listening TCP sockets that this process holds, as inode -> address in hexadecimal."""
    mine = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            mine.add(str(entry.readlink()))
    rows = [line.split() for file in ("tcp", "tcp6") for line in _lines(Path("/proc/net") / file)]
    return {row[9]: row[1] for row in rows if row[3] == _LISTENING and f"socket:[{row[9]}]" in mine}


def _lines(file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return file.read_text().splitlines()[1:]
    return []
