"""Arriving: a pipe, read as its bytes come. Nobody knows when that is: what came so far is shown meanwhile."""

import select
from collections.abc import Callable
from io import FileIO

LOOK_MS = 100


class Arriving:
    """An unbuffered file (kproxy.capture.files.RawFile) that may be read while nothing comes.

    Args:
        raw: the pipe, owned from here on.
        waits: called every LOOK_MS while nothing comes. When it returns False, the pipe ends here.
    """

    def __init__(self, raw: FileIO, waits: Callable[[], bool]) -> None:
        self._raw = raw
        self._waits = waits
        self._poll = select.poll()
        self._poll.register(raw, select.POLLIN)

    def readinto(self, buffer: memoryview, /) -> int | None:
        """See RawFile."""
        while not self._poll.poll(LOOK_MS):
            if not self._waits():
                return 0
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """See RawFile."""
        self._raw.close()
