"""Listening sockets: one for each address and worker, shared by SO_REUSEPORT; and the check that addresses are free.

":9092"            all addresses, IPv6 and IPv4, whatever net.ipv6.bindv6only says; IPv4 alone where the kernel has no IPv6
"0.0.0.0:9092"     all IPv4 addresses
"[::]:9092"        all IPv6 addresses; and IPv4 where net.ipv6.bindv6only is 0, as for any program

The supervisor checks all addresses before it starts workers. Otherwise kproxy would share its ports with another kproxy as its
workers do with each other, and half of the clients would be served by the other's configuration.
"""

import errno
import socket

from kproxy.config.checks import broker_ports
from kproxy.config.structs import Config
from kproxy.errors import KproxyError
from kproxy.protocol.addresses import Address, join_address, parse_address
from kproxy.proxy.network.socket_addresses import SocketAddress, numeric_address
from kproxy.proxy.network.upstream import set_options

BACKLOG = 4_096
PAGES_BACKLOG = 64
# A client that resets discards what it could not send yet. The kernel's first window is 64 KiB, and a broker's
# (socket.receive.buffer.bytes) 100 KiB: with a smaller buffer more would be lost than without a proxy.
RECEIVE_BUFFER = 1_048_576


class ListenError(KproxyError):
    """An address cannot be listened on."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening, non-blocking socket; accepted sockets inherit its options.

    Raises ListenError.
    """
    try:
        listener, address = unbound_socket(host, port)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            set_options(listener)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ListenError(f"cannot listen on {join_address(host, port)}: {error.strerror or error}") from error
    return listener


def listen_for_pages(host: str, port: int) -> socket.socket:
    """Return a listening socket; host "": all addresses of both families, port 0: any free port.

    Raises OSError if the address is in use or not one of this machine.
    """
    listener, name = unbound_socket(host, port)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(name)
        listener.listen(PAGES_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def unbound_socket(host: str, port: int) -> tuple[socket.socket, SocketAddress]:
    """Return a socket for listening at a host, "" for all addresses of both families, and the address to bind it to.

    Raises OSError.
    """
    if not host:
        return _of_both_families(port)
    family, address = numeric_address(host, port) or _resolve(host, port)
    unbound = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6 and host != "::":
        unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return unbound, address


def _of_both_families(port: int) -> tuple[socket.socket, SocketAddress]:
    try:
        unbound = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError as error:
        if error.errno != errno.EAFNOSUPPORT:  # a kernel without IPv6 (ipv6.disable=1)
            raise
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM), ("0.0.0.0", port)
    unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return unbound, ("::", port, 0, 0)


def _resolve(host: str, port: int) -> tuple[int, SocketAddress]:
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = results[0]
    return family, address  # type: ignore[return-value]


def check_addresses_are_free(config: Config) -> None:
    """Bind every address of the clusters for a moment, without sharing. Raises OSError with the address as ``filename``."""
    for cluster in config.clusters:
        listen = parse_address(cluster.listen, any_host=True)
        ports = broker_ports(cluster).values() if cluster.addresses.mode == "port" else ()
        for port in (listen.port, *ports):
            _bind(Address(listen.host, port))


def check_admin_address_is_free(config: Config) -> None:
    """Bind the address of the admin server for a moment, if there is one. Raises OSError with the address as ``filename``."""
    if config.admin:
        _bind(parse_address(config.admin, any_host=True))


def advice_on_binding(error: OSError, setting: str) -> str:
    """Return advice on an address that cannot be listened on; *setting* names the setting, with its alternatives."""
    match error.errno:
        case errno.EADDRINUSE:
            return f"another kproxy? see ss -ltnp, or choose another address for {setting}"
        case errno.EADDRNOTAVAIL:
            return f"no address of this machine (see ip address); choose one of its own, or :PORT, for {setting}"
        case errno.EACCES:
            return (
                f"ports below 1024 need CAP_NET_BIND_SERVICE; give kproxy that, or choose a higher port for {setting}"
            )
    return f"choose another address for {setting}"


def _bind(address: Address) -> None:
    try:
        alone, name = unbound_socket(*address)
        with alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(name)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(address)) from None
