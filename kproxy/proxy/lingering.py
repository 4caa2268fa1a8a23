"""Closing a client's connection without taking back what was sent to it.

Linux answers close() with a reset where bytes of the client lie unread, and throws away what the client has not fetched yet
(tcp(7), RFC 1122 section 4.2.2.13). So the end is announced first, and what still comes is read and dropped until the client
has gone, or for a while.
"""

import socket
import time

LINGER_S = 2.0
CHUNK = 65_536


class Lingering:
    """Sockets that only wait for their clients to go."""

    def __init__(self) -> None:
        self._left: list[tuple[socket.socket, float]] = []

    def __len__(self) -> int:
        return len(self._left)

    def add(self, fd: int) -> None:
        """Announce the end of a connected, non-blocking socket; it belongs to this object from now on."""
        leaving = socket.socket(fileno=fd)
        try:
            leaving.shutdown(socket.SHUT_WR)
        except OSError:
            leaving.close()
        else:
            self._left.append((leaving, time.monotonic() + LINGER_S))

    def sweep(self) -> None:
        """Drop what has come, and close what is over."""
        now = time.monotonic()
        staying = []
        for leaving, until in self._left:
            if _is_there(leaving) and now < until:
                staying.append((leaving, until))
            else:
                leaving.close()
        self._left = staying

    def close(self) -> None:
        """Close all, whoever is there."""
        for leaving, _ in self._left:
            leaving.close()
        self._left = []


def _is_there(leaving: socket.socket) -> bool:
    """Drop what has come; False at the client's end."""
    try:
        while leaving.recv(CHUNK):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
