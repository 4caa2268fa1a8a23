"""Listening sockets: one per address and worker, shared by SO_REUSEPORT."""

import socket

from kproxy.errors import KproxyError
from kproxy.protocol.addresses import join_address
from kproxy.proxy.network.socket_addresses import SocketAddress, numeric_address
from kproxy.proxy.network.upstream import KEEPALIVE

BACKLOG = 4_096
# A client that resets discards what it could not send yet. The kernel's first window is 64 KiB, and a broker's
# (socket.receive.buffer.bytes) 100 KiB: with a smaller buffer more would be lost than without a proxy.
RECEIVE_BUFFER = 1_048_576


class ListenError(KproxyError):
    """An address cannot be listened on."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening, non-blocking socket; accepted sockets inherit its options.

    Raises ListenError.
    """
    family, address = numeric_address(host, port) or _resolve(host, port)
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
        raise ListenError(f"cannot listen on {join_address(host, port)}: {error.strerror or error}") from error
    return listener


def _resolve(host: str, port: int) -> tuple[int, SocketAddress]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ListenError(f"cannot listen on {join_address(host, port)}: {error.strerror or error}") from error
    family, _, _, _, address = found[0]
    return family, address  # type: ignore[return-value]
