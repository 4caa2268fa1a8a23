"""A time by which an HTTP request is answered as a whole: urllib3's timeouts start again with each byte that comes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_here = threading.local()  # seconds, and the timers of this thread's requests


def limit(manager: Any) -> None:
    """Let the connections of a PoolManager of urllib3 keep to ``answered_within``."""

    def limited(pool: type[Any]) -> type[Any]:
        class Connection(pool.ConnectionCls):  # type: ignore[misc, name-defined]  # its type is not known
            def request(self, *given: Any, **named: Any) -> None:
                super().request(*given, **named)
                timers = getattr(_here, "timers", None)
                if timers is not None:
                    timers.append(timer := threading.Timer(_here.seconds, _shut, (self.sock,)))
                    timer.daemon = True
                    timer.start()

        return type(pool.__name__, (pool,), {"ConnectionCls": Connection})

    manager.pool_classes_by_scheme = {name: limited(pool) for name, pool in manager.pool_classes_by_scheme.items()}


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Shut the connection of each request that this thread sends inside if its answer is not complete after *seconds*."""
    _here.seconds, _here.timers = seconds, []
    try:
        yield
    finally:
        for timer in _here.timers:
            timer.cancel()
        _here.timers = None


def _shut(connected: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)  # not that of TLS, which the reading thread uses
