"""Socket addresses: Python's tuples, the kernel's sockaddr, and which addresses no broker may have."""

import socket
from ipaddress import IPv6Address, ip_address
from typing import TypeAlias

from kproxy.protocol.addresses import Address, IPAddress, unmapped

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
