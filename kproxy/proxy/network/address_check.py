"""Check that the addresses to listen on are free, before the workers start.

Workers share their ports (SO_REUSEPORT), so they would share them with another kproxy too, and half of the clients would be
served by its configuration.
"""

import errno
import socket

from kproxy.config import Config
from kproxy.config.ports import broker_ports
from kproxy.protocol.addresses import Address, parse_address
from kproxy.proxy.network.listening import unbound_socket


def check_addresses_are_free(config: Config) -> None:
    """Bind every address alone for a moment. Raises OSError with the address as ``filename``."""
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
    """What to do about an address that cannot be listened on; *setting*: what names it, with what else it may be."""
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
