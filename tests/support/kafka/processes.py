"""Processes that do not outlive the tests."""

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)
_OPEN = ("01", "08")  # ESTABLISHED and CLOSE_WAIT (include/net/tcp_states.h): the owner has not read all or not closed
T = TypeVar("T")


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(
    words: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    piped: bool = False,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start *words* in a session of its own; it is killed when the tests die. Output goes to *log*, or to pipes."""
    with log.open("ab") as out:
        return subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else out,
            stderr=out,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it takes no lock
            env={**os.environ, **(environment or {})},
            cwd=folder,
        )


def stop(process: subprocess.Popen[bytes], *, patience: float = 0) -> int:
    """End *process* and its group: SIGTERM when there is *patience* (seconds), then SIGKILL; close its pipes.

    Returns its exit status.
    """
    if process.poll() is None and patience:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return process.wait()


class Service:
    """What runs as a process that tests stop and start again; ``start`` sets ``_process``."""

    _process: subprocess.Popen[bytes] | None = None

    def stop(self, *, patience: float = 0) -> None:
        """Kill it, or with *patience* (seconds) ask it to end: a broker moves its leaders then."""
        if self._process is not None:
            stop(self._process, patience=patience)
            self._process = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None


def tail(log: Path, size: int = 4_000) -> str:
    """The end of a log, for the message of a failure."""
    return log.read_text(encoding="utf-8", errors="replace")[-size:] if log.exists() else ""


def eventually(ask: Callable[[], T], *, patience: float = 60, what: str = "", pause: float = 0.05) -> T:
    """Ask until the answer is true or *patience* (seconds) ends.

    OSError, EOFError and AssertionError count as no, and so does JSON that cannot be read: the last line of a file may be half
    written.
    """
    end = time.monotonic() + patience
    last: object = None
    while time.monotonic() < end:
        try:
            answer = ask()
            if answer:
                return answer
            last = answer
        except (OSError, EOFError, AssertionError, json.JSONDecodeError) as error:
            last = error
        time.sleep(pause)
    raise TimeoutError(f"{what or ask}: not within {patience} s: {last!r}")


def connections_to(address: str) -> int:
    """How many TCP connections to the port of *address* are open at that end, accepted or not."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] in _OPEN for row in rows)


def children(pid: int) -> Iterator[int]:
    """*pid* and everything that descends from it."""
    yield pid
    tasks = Path(f"/proc/{pid}/task")
    with suppress(OSError):
        for task in tasks.iterdir():
            for child in (task / "children").read_text().split():
                yield from children(int(child))


def command_line(pid: int) -> str:
    """What *pid* was started with; empty when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def resident_size(pid: int) -> int:
    """The bytes of its own memory that are resident; 0 when *pid* is gone.

    Not pages of files: the code of libraries comes and goes (kproxy.proxy.system_calls.forget_code).
    """
    with suppress(OSError):
        return kib(f"/proc/{pid}/smaps_rollup", "Anonymous:")
    return 0


def kib(file: str, name: str) -> int:
    """The bytes that a line of a file in /proc gives in kB."""
    line = next(line for line in Path(file).read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024
