"""PageFeed: exchanges for the live page, as a capture over a socket. Never waited for: what the page does not take is dropped.

It stands where LivePcapng has a RotatingFile. What is dropped is whole pieces, counted. Behind it the feed goes on over another
connection to the page, with a capture of its own: a reader would take connections that begin again in the same one for repeated.
"""

import socket
from collections.abc import Callable
from contextlib import suppress

MOST_WAITING = 8 << 20  # bytes
SEND = 256 << 10  # bytes after which they are sent without ``flush``
ENDED = "the page has ended"


class PageFeed:
    """The analyzer's end.

    Args:
        connect: returns a stream socket to the page, owned from here on; called again after something was dropped. Raises
            OSError.
        is_busy: whether the analyzer has no time for the page, as the rings fill: then the page is what it leaves out.
    """

    def __init__(self, connect: Callable[[], socket.socket], is_busy: Callable[[], bool] = lambda: False) -> None:
        self._is_busy = is_busy
        self._connect = connect
        connected = connect()
        connected.setblocking(False)
        self._socket: socket.socket | None = connected
        self._waiting = bytearray()
        self._is_dropping = False
        self._has_begun = False
        self.dropped = 0  # pieces
        self.begin_part: Callable[[], bytes] = bytes

    @property
    def has_ended(self) -> bool:
        """Whether the page has closed its end."""
        return self._socket is None

    def is_open(self) -> bool:
        """Whether a piece can be appended; counts one that cannot as dropped."""
        if self._socket is None:
            return False
        is_busy = self._is_busy()
        if is_busy or self._is_dropping or len(self._waiting) > MOST_WAITING:
            self.flush()
            self._is_dropping = is_busy or bool(self._waiting) or not self._connect_again()
            if self._is_dropping:
                self.dropped += 1
                return False
        if not self._has_begun:
            self._has_begun = True
            self._waiting += self.begin_part()
        return self._socket is not None

    def _connect_again(self) -> bool:
        """Begin another capture; False: the page does not accept one now."""
        if self._socket is None:
            return False
        try:
            connected = self._connect()
        except BlockingIOError:
            return False
        except OSError:
            self.close()
            return False
        self.close()
        connected.setblocking(False)
        self._socket, self._has_begun = connected, False
        return True

    def append(self, data: bytes) -> None:
        """Append a piece, after ``is_open``."""
        self._waiting += data
        if len(self._waiting) >= SEND:
            self.flush()

    def flush(self) -> None:
        """Send what the socket takes now."""
        while self._waiting and self._socket is not None:
            try:
                sent = self._socket.send(memoryview(self._waiting)[:SEND])
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            del self._waiting[:sent]

    def close(self, error: BaseException | None = None) -> None:
        """Close it; what waits is not sent."""
        ended, self._socket = self._socket, None
        self._waiting.clear()
        if ended is not None:
            with suppress(OSError):
                ended.close()


def connect(path: str, is_busy: Callable[[], bool] = lambda: False) -> PageFeed:
    """Connect to a page that listens at a path; *is_busy* as of PageFeed. Raises OSError."""

    def connected() -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.setblocking(False)
            made.connect(path)
        except BaseException:
            made.close()
            raise
        return made

    return PageFeed(connected, is_busy)
