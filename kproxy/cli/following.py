"""``--follow``: a file that another process is writing, read on as it grows, until Ctrl-C.

Followed by name, as ``tail -F`` does: when the file was rotated (another file has its name) the new one is read on, and when it
was cut, from its beginning. Parts of a decoded log, and of a capture in pcapng, continue each other; a pcap file does not.
"""

import os
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from kproxy.capture.reader import open_raw

POLL_S = 0.1  # between two looks for more
CONTINUING = (b"{", b"\x0a\x0d\x0d\x0a")  # first bytes of a decoded log, and of a section of pcapng


class GrowingFile:
    """A file as a kproxy.capture.reader.RawFile whose reads wait for more bytes at its end.

    Args:
        path: the file.
        wait: called while there are no more bytes; it sleeps. If it raises, that ends the read.
    """

    def __init__(self, path: Path, wait: Callable[[], None] = lambda: time.sleep(POLL_S)) -> None:
        self._path = path
        self._wait = wait
        self._raw = open_raw(path)

    def readinto(self, buffer: memoryview, /) -> int | None:
        """See RawFile."""
        while not (count := self._raw.readinto(buffer)):
            replacement = self._replacement()
            if replacement is not None:
                count = self._raw.readinto(buffer)  # what was written between the last read and the rotation
                if count:
                    replacement.close()
                    return count
                if not _continues(replacement):
                    replacement.close()
                    return 0
                self._raw.close()
                self._raw = replacement
                continue
            self._wait()
        return count

    def close(self) -> None:
        """See RawFile."""
        self._raw.close()

    def _replacement(self) -> FileIO | None:
        """Return the file that now has the name, if it is another one or was truncated; None if not, or while it is empty."""
        try:
            named, ours = self._path.stat(), os.fstat(self._raw.fileno())
            is_same = (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)
            if not named.st_size or (is_same and named.st_size >= self._raw.tell()):
                return None
            return open_raw(self._path)
        except OSError:  # between two files
            return None


def _continues(file: FileIO) -> bool:
    """Return whether the file can be read as the continuation of one of its kind."""
    first = os.pread(file.fileno(), 4, 0)
    return first.startswith(CONTINUING)
