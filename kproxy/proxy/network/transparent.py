"""Transparent mode: where a client wanted to go before the kernel redirected it here, and when that leads in a circle.

For connections redirected by netfilter's NAT (REDIRECT, DNAT) in this network namespace; Linux alone has it.
"""

import socket
import struct
import time
from collections.abc import Callable

SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h, and IP6T_SO_ORIGINAL_DST of linux/netfilter_ipv6/ip6_tables.h
SOL_IPV6 = 41
SOCKADDR_IN = struct.Struct("!2xH4s8x")
SOCKADDR_IN6 = struct.Struct("!2xH4x16s4x")
REMEMBERED_S = 10.0  # a connection that leads back arrives at once
MOST_REMEMBERED = 65_536


def original_destination(client: int | socket.socket) -> tuple[str, int] | None:
    """Numeric host and port that the client connected to; None: nothing redirected it, it came to the listener itself.

    *client*: an accepted socket, or its file descriptor, which stays open.
    """
    accepted = socket.socket(fileno=client if isinstance(client, int) else client.fileno())
    try:
        ours = _plain(*accepted.getsockname()[:2])
        asked = _asked(accepted, ":" in ours[0])
    finally:
        accepted.detach()
    return None if asked == ours else asked


class OwnConnections:
    """Connections that this process makes to brokers. One that comes in as a client's was redirected by a wrong rule.

    Such a rule would make one client's connection into as many as there are sockets. Among several workers the circle ends
    as soon as it meets one of them twice.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """*now*: seconds of a clock that does not go back."""
        self._now = now
        self._connecting: set[socket.socket] = set()
        self._made: dict[tuple[str, int], float] = {}  # until when, oldest first

    def begin(self, connecting: socket.socket) -> None:
        """It is about to connect."""
        self._connecting.add(connecting)

    def end(self, connecting: socket.socket) -> None:
        """It is connected, or never will be; to be called while it is open."""
        self._connecting.discard(connecting)
        now = self._now()
        while self._made and (len(self._made) >= MOST_REMEMBERED or next(iter(self._made.values())) < now):
            del self._made[next(iter(self._made))]
        ours = _plain(*connecting.getsockname()[:2])
        self._made.pop(ours, None)
        self._made[ours] = now + REMEMBERED_S

    def has(self, client: tuple[str, int]) -> bool:
        """Is this client's address that of one of them?"""
        client = _plain(*client)
        if self._made.get(client, 0.0) >= self._now():
            return True
        return any(_plain(*connecting.getsockname()[:2]) == client for connecting in self._connecting)


OWN = OwnConnections(time.monotonic)  # of this process, whatever cluster they are for


def _asked(accepted: socket.socket, is_ipv6: bool) -> tuple[str, int] | None:
    layout, level = (SOCKADDR_IN6, SOL_IPV6) if is_ipv6 else (SOCKADDR_IN, socket.SOL_IP)
    try:
        port, address = layout.unpack(accepted.getsockopt(level, SO_ORIGINAL_DST, layout.size))
    except OSError:  # ENOENT: not in the table; ENOPROTOOPT: no netfilter in this kernel
        return None
    return socket.inet_ntop(socket.AF_INET6 if is_ipv6 else socket.AF_INET, address), port


def _plain(host: str, port: int) -> tuple[str, int]:
    """A socket of both families calls IPv4 addresses "::ffff:a.b.c.d"."""
    mapped = host.startswith("::ffff:") and "." in host
    return (host.removeprefix("::ffff:") if mapped else host.partition("%")[0]), port
