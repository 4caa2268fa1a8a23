"""Socket addresses: Python's tuples, the kernel's sockaddr, internal addresses, and in transparent mode the original destination.

``original_destination`` is for connections redirected by netfilter's NAT (REDIRECT, DNAT) in this network namespace; Linux alone
has it. ``OwnConnections`` notices when a wrong rule redirects kproxy's own connections back to it.
"""

import socket
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Any, TypeAlias

from kproxy.protocol.addresses import Address, IPAddress, unmapped, unmapped_host

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
CLOUD_METADATA = ip_address("fd00:ec2::254")  # where EC2 has over IPv6 what 169.254.169.254 has over IPv4


def numeric_address(host: str, port: int = 0) -> tuple[int, SocketAddress] | None:
    """Return address family and socket address of a numeric host; None for a name, or a zone, which must be resolved."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, UnicodeEncodeError, ValueError):
            continue
        return family, (host, port) if family == socket.AF_INET else (host, port, 0, 0)
    return None


def to_sockaddr(family: int, address: SocketAddress) -> bytes:
    """Return the address as the kernel has it: struct sockaddr_in or sockaddr_in6 (ip(7), ipv6(7))."""
    port = address[1].to_bytes(2, "big")
    start = family.to_bytes(2, "little") + port
    if family == socket.AF_INET:
        return start + socket.inet_pton(family, address[0]) + bytes(8)
    flow, scope = address[2:] if len(address) == 4 else (0, 0)
    host = socket.inet_pton(family, address[0].partition("%")[0])
    return start + flow.to_bytes(4, "big") + host + scope.to_bytes(4, "little")


def from_sockaddr(raw: bytes) -> Address:
    """Return host and port of a sockaddr, an IPv4-mapped address as IPv4; an empty host for another family."""
    family = int.from_bytes(raw[:2], "little")
    port = int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET:
        return Address(socket.inet_ntop(family, raw[4:8]), port)
    if family != socket.AF_INET6:
        return Address("", 0)
    return Address(str(unmapped(IPv6Address(raw[8:24]))), port)


def is_internal(address: IPAddress) -> bool:
    """Return whether an address is link-local or a cloud's metadata service, which gives a machine its secrets."""
    return address.is_link_local or address == CLOUD_METADATA


SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h, and IP6T_SO_ORIGINAL_DST of linux/netfilter_ipv6/ip6_tables.h
SOL_IPV6 = 41
SOCKADDR_IN, SOCKADDR_IN6 = 16, 28  # bytes
REMEMBERED_S = 10.0  # a redirected connection arrives at once
MOST_REMEMBERED = 65_536


def original_destination(client: int | socket.socket) -> tuple[str, int] | None:
    """Return the numeric host and port that the client connected to; None if it connected to the listener itself.

    *client*: an accepted socket, or its file descriptor, which stays open.
    """
    accepted = socket.socket(fileno=client if isinstance(client, int) else client.fileno())
    try:
        ours = _unmapped(accepted.getsockname())
        is_ipv6 = ":" in ours[0]
        size, level = (SOCKADDR_IN6, SOL_IPV6) if is_ipv6 else (SOCKADDR_IN, socket.SOL_IP)
        original = from_sockaddr(accepted.getsockopt(level, SO_ORIGINAL_DST, size))
    except OSError:  # ENOENT: not in the table; ENOPROTOOPT: no netfilter in this kernel
        return None
    finally:
        accepted.detach()
    return None if original == ours else original


class OwnConnections:
    """The connections that this process makes to brokers. If a client is one of them, a wrong rule redirected it back here.

    Such a rule would multiply one client connection until no socket is left. With several workers the loop ends as soon as it
    reaches the same worker again.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """*now*: seconds of a clock that does not go back."""
        self._now = now
        self._attempts: set[socket.socket] = set()
        self._made: dict[tuple[str, int], float] = {}  # until when, oldest first

    def connecting(self, connecting: socket.socket) -> None:
        self._attempts.add(connecting)

    def connected(self, connecting: socket.socket) -> None:
        """Note that the attempt of a socket is over, before the socket is closed."""
        self._attempts.discard(connecting)
        now = self._now()
        while self._made and (len(self._made) >= MOST_REMEMBERED or next(iter(self._made.values())) < now):
            del self._made[next(iter(self._made))]
        ours = _unmapped(connecting.getsockname())
        self._made.pop(ours, None)
        self._made[ours] = now + REMEMBERED_S

    def has(self, client: tuple[str, int]) -> bool:
        """Return whether this client's address is that of one of them."""
        client = _unmapped(client)
        if self._made.get(client, 0.0) >= self._now():
            return True
        return any(_unmapped(connecting.getsockname()) == client for connecting in self._attempts)


OWN = OwnConnections(time.monotonic)  # of this process, whatever cluster they are for


def _unmapped(address: tuple[Any, ...]) -> tuple[str, int]:
    return unmapped_host(address[0]), address[1]
