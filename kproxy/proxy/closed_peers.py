"""ClosedPeers: tells when the other side of a socket has closed it, or it is broken, without reading what else it has sent.

A connection of which a message is stopped is not read, so that its end would be seen only once the stop is over. This is an epoll
of its own that asks for nothing but the end (EPOLLRDHUP). It is there only while something is watched.
"""

import asyncio
import contextlib
import select
from collections.abc import Callable

Closed = Callable[[], None]


class ClosedPeers:
    """The sockets that are watched. One may be watched for several things, each with a key."""

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._watched: dict[int, dict[str, Closed]] = {}  # file descriptor -> key -> what is called

    def watch(self, fd: int, key: str, closed: Closed) -> None:
        """Call *closed* once the other side has closed, from the next turn of the loop on. -1: there is no socket."""
        if fd < 0:
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._run)
        with contextlib.suppress(FileExistsError):  # it is watched for something else as well
            self._epoll.register(fd, select.EPOLLRDHUP)
        self._watched.setdefault(fd, {})[key] = closed

    def forget(self, fd: int, key: str) -> None:
        """Watch it no more for this; it may have been closed."""
        keys = self._watched.get(fd)
        if keys is None or keys.pop(key, None) is None or keys:
            return
        del self._watched[fd]
        if self._epoll is None:
            return
        with contextlib.suppress(OSError):  # a closed one is not in the epoll any more
            self._epoll.unregister(fd)
        if not self._watched:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _run(self) -> None:
        """Tell of those that have ended. What is called has to forget its own: a closed one is reported again and again."""
        assert self._epoll is not None
        for fd, _ in self._epoll.poll(0):
            for key, closed in list(self._watched.get(fd, {}).items()):
                self.forget(fd, key)
                closed()
