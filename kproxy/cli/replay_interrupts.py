"""What ends ``kproxy replay`` before its last request: Ctrl-C, SIGTERM, and a standard output whose reader is gone.

The first one stops the sending, so that the report of what was done can be printed; a second signal ends the process at once.
"""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts(stop: Callable[[], object]) -> Iterator[None]:
    """Call *stop* once, in the running loop, at the first of them."""
    loop = asyncio.get_running_loop()
    pipe = _pipe()

    def leave() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        if pipe is not None:
            loop.remove_reader(pipe)

    def interrupt() -> None:
        leave()
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    if pipe is not None:
        # A pipe for writing becomes "readable" only by an error: its reading end was closed
        loop.add_reader(pipe, interrupt)
    try:
        yield
    finally:
        leave()


def _pipe() -> int | None:
    """Return the file descriptor of standard output if it is a pipe, else None."""
    try:
        descriptor = sys.stdout.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):  # it is closed, or no file
        return None
