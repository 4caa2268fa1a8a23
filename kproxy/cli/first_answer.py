"""A first answer while a large source is being read, from a forked process.

The forked process goes on as if the sources ended here, so its numbers are those of a capture that is cut at this place. It
sends its text over a pipe to the reading process, which never waits for it.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

AFTER_S = 0.1  # of reading, on a processor
AFTER_WAITING_S = 2.0  # of reading where the source or the processor is slow
LEAST_LEFT_S = 1.0  # of reading: with less left, the report itself comes soon enough


class FirstAnswer:
    """The forked process, seen from both sides. ``is_here``: this is the forked process."""

    def __init__(self) -> None:
        self.is_here = False
        self.was_asked = False  # the process was forked, or too little is left to read
        self._began = time.monotonic(), time.process_time()
        self._process: int | None = None
        self._pipe = -1
        self._text: list[bytes] = []
        self._is_cancelled = False

    def is_due(self, read: int, total: int | None) -> bool:
        """Return whether it is time to fork, after *read* of *total* bytes of the sources."""
        if self.was_asked:
            return False
        spent, worked = time.monotonic() - self._began[0], time.process_time() - self._began[1]
        if worked < AFTER_S and spent < AFTER_WAITING_S:
            return False
        self.was_asked = True
        return total is None or (total - read) * spent > LEAST_LEFT_S * read

    def fork(self) -> None:
        """Fork; afterwards ``is_here`` tells the two processes apart. If it fails (no memory), there is no first answer."""
        self.was_asked = True
        if not hasattr(os, "fork"):
            return
        ours, theirs = os.pipe()
        try:
            self._process = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            return
        self.is_here = self._process == 0
        self._pipe = theirs if self.is_here else ours
        os.close(ours if self.is_here else theirs)
        if self.is_here:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads ends this one
        else:
            os.set_blocking(ours, False)

    def send(self, text: str) -> NoReturn:
        """Send the answer, and end the forked process."""
        with open(self._pipe, "wb") as pipe:  # noqa: PTH123 - a descriptor
            pipe.write(text.encode("utf-8", "backslashreplace"))
        os._exit(0)

    def received(self) -> str:
        """Return the answer once it is complete, and only once; else, or if the process failed or was cancelled, ""."""
        while self._process:
            try:
                data = os.read(self._pipe, 65_536)
            except BlockingIOError:
                return ""
            if not data:
                worked = self._reap() == 0
                return b"".join(self._text).decode("utf-8", "replace") if worked and not self._is_cancelled else ""
            self._text.append(data)
        return ""

    def cancel(self) -> None:
        """Suppress the answer; may be called in a signal handler."""
        self.was_asked = self._is_cancelled = True

    @contextmanager
    def contained(self) -> Iterator[None]:
        """End the forked process at the end of the block, also after an exception; in the other process, wait for its end."""
        try:
            yield
        except BaseException:
            if self.is_here:
                os._exit(1)
            raise
        finally:
            if self.is_here:
                os._exit(0)
            if self._process:
                with suppress(ProcessLookupError):
                    os.kill(self._process, signal.SIGKILL)
                self._reap()

    def _reap(self) -> int:
        """Wait for the end of the process, which is near; return its status."""
        os.close(self._pipe)
        process, self._process = self._process, None
        return 0 if process is None else os.waitpid(process, 0)[1]
