"""Lingering close: close a client's connection without losing what was sent to it.

Linux answers close() with a reset if bytes of the client are unread, and discards what the client has not received yet (tcp(7),
RFC 1122 section 4.2.2.13). So first send FIN, then read and drop until the client has closed, for at most LINGER_S. Over TLS
close_notify takes the place of FIN, towards clients and brokers.
"""

import socket
import time

LINGER_S = 2.0
CHUNK = 65_536


class LingeringClose:
    """Sockets that wait for their peers to close."""

    def __init__(self) -> None:
        self._sockets: list[tuple[socket.socket, float]] = []

    def __len__(self) -> int:
        return len(self._sockets)

    def add(self, fd: int) -> None:
        """Send FIN on a connected, non-blocking socket, and own it from now on."""
        leaving = socket.socket(fileno=fd)
        try:
            leaving.shutdown(socket.SHUT_WR)
        except OSError:
            leaving.close()
        else:
            self._sockets.append((leaving, time.monotonic() + LINGER_S))

    def add_tls(self, fd: int) -> None:
        """Own a socket on which close_notify was sent, from now on.

        No FIN is sent, as some peers drop unread data when FIN arrives.
        """
        leaving = socket.socket(fileno=fd)
        if _is_open(leaving):
            self._sockets.append((leaving, time.monotonic() + LINGER_S))
        else:
            leaving.close()

    def sweep(self) -> None:
        """Drop what was received; close the sockets whose clients have closed or whose time is over."""
        now = time.monotonic()
        staying = []
        for leaving, until in self._sockets:
            if _is_open(leaving) and now < until:
                staying.append((leaving, until))
            else:
                leaving.close()
        self._sockets = staying

    def close(self) -> None:
        for leaving, _ in self._sockets:
            leaving.close()
        self._sockets = []


def _is_open(leaving: socket.socket) -> bool:
    """Drop what was received; False once the client has closed."""
    try:
        while leaving.recv(CHUNK):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
