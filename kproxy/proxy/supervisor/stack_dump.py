"""The stack of a child that hangs: the child writes it on a signal, even where it hangs in C (faulthandler), into shared memory.

The file is a memfd that supervisor and child share. A child that is stopped writes nothing.
"""

import asyncio
import os
import re
from pathlib import PurePath

from kproxy.proxy.child_process import STACK_SIGNAL
from kproxy.proxy.supervisor.processes import Process

DUMP_S = 1.0  # seconds that a dump is waited for
LOOK_EVERY_S = 0.05
MOST_FRAMES = 9  # of a thread
MOST_DUMP = 65_536  # bytes

_THREAD = re.compile(r"^(?:Current thread|Thread) .*$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def create_stack_file() -> int:
    """Return a file descriptor of memory that a child can write its stack to. Raises OSError."""
    return os.memfd_create("kproxy-stack")


async def stack_of(process: Process, fd: int) -> list[str]:
    """Have a process write its stack to *fd*; return the frames, innermost first. Empty if it does not within DUMP_S."""
    process.send_signal(STACK_SIGNAL)
    before = b""
    for _ in range(int(DUMP_S / LOOK_EVERY_S)):
        await asyncio.sleep(LOOK_EVERY_S)
        dump = os.pread(fd, MOST_DUMP, 0)
        if dump and dump == before:
            break
        before = dump
    return frames(before.decode("utf-8", "replace"))


def frames(dump: str) -> list[str]:
    """The frames in what faulthandler writes, as "connections.py:12 receive"; "--" between those of two threads."""
    found: list[str] = []
    for thread in _THREAD.split(dump):
        inner = _FRAME.findall(thread)[:MOST_FRAMES]
        found += ["--"] if found and inner else []
        found += [f"{PurePath(file).name}:{line} {function}" for file, line, function in inner]
    return found
