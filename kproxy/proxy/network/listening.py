"""Listening sockets: one per address and worker, shared by SO_REUSEPORT."""

import socket

from kproxy.errors import KproxyError
from kproxy.proxy.network.endpoint import join, numeric
from kproxy.proxy.network.upstream import KEEPALIVE

BACKLOG = 4_096
# A client that resets takes with it what it could not send yet. The kernel's first window is 64 KiB, and a broker's
# (socket.receive.buffer.bytes) 100 KiB: with less than that, more would be lost than without a proxy.
RECEIVE_BUFFER = 1_048_576


class ListenError(KproxyError):
    """An address cannot be listened on."""


def listen(host: str, port: int) -> socket.socket:
    """A listening, non-blocking socket; what is set on it, the sockets accepted have too.

    Raises ListenError.
    """
    family, address = numeric(host, port) or _resolve(host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        for option, value in KEEPALIVE.items():
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
        if family == socket.AF_INET6 and host != "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(f"cannot listen on {join(host, port)}: {error.strerror or error}") from error
    return listener


def _resolve(host: str, port: int) -> tuple[int, tuple[str, int] | tuple[str, int, int, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ListenError(f"cannot listen on {join(host, port)}: {error.strerror or error}") from error
    family, _, _, _, address = found[0]
    return family, address  # type: ignore[return-value]


def sockaddr(family: int, address: tuple[str, int] | tuple[str, int, int, int]) -> bytes:
    """The address as the kernel wants it (struct sockaddr_in, struct sockaddr_in6; ip(7), ipv6(7))."""
    port = address[1].to_bytes(2, "big")
    start = family.to_bytes(2, "little") + port
    if family == socket.AF_INET:
        return start + socket.inet_pton(family, address[0]) + bytes(8)
    flow, scope = address[2:] if len(address) == 4 else (0, 0)
    host = socket.inet_pton(family, address[0].partition("%")[0])
    return start + flow.to_bytes(4, "big") + host + scope.to_bytes(4, "little")


def endpoint_of(raw: bytes) -> tuple[str, int]:
    """Host and port of a sockaddr; of a mapped IPv4 address, the IPv4 one."""
    family = int.from_bytes(raw[:2], "little")
    port = int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET:
        return socket.inet_ntop(family, raw[4:8]), port
    if family != socket.AF_INET6:
        return "", 0
    if raw[8:20] == bytes(10) + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, raw[20:24]), port
    return socket.inet_ntop(family, raw[8:24]), port
