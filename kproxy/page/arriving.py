"""Arriving: read a pipe, and call back while it has no bytes, so that what was read so far can be shown."""

import select
from collections.abc import Callable
from io import FileIO

LOOK_MS = 100


class Arriving:
    """A pipe as a kproxy.capture.files.RawFile: a read waits for bytes, and calls back meanwhile.

    Args:
        raw: the pipe, owned from here on.
        waits: called every LOOK_MS while there are no bytes. Once it returns False, the pipe is read no further.
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
