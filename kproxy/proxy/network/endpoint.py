"""The text of an endpoint: "host:port", with IPv6 in brackets. Numbers are told from names here and nowhere else."""

import socket

from kproxy.errors import UsageError

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
MOST_PORT = 65_535
MOST_HOST = 255  # RFC 1035, section 2.3.4


def join(host: str, port: int) -> str:
    """``"10.0.0.1:9092"``, ``"[::1]:9092"``, ``"broker-1:9092"``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(endpoint: str) -> tuple[str, int]:
    """Host (without brackets) and port of "host:port".

    Raises UsageError for what has no host or no port, a port past 65,535, or an IPv6 address without brackets.
    """
    host, colon, port = endpoint.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    if not colon or not name or len(name) > MOST_HOST or (":" in name) is not bracketed:
        raise UsageError(f'"{endpoint}" is no address; write "host:port", or "[::1]:9092" for IPv6')
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(MOST_PORT)) and int(port) <= MOST_PORT):
        raise UsageError(f'"{endpoint}" has no port that can be: it is a number up to {MOST_PORT} after the last colon')
    return name, int(port)


def numeric(host: str, port: int = 0) -> tuple[int, SocketAddress] | None:
    """Address family and socket address of a host that is a number already; None for a name, which must be resolved."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, UnicodeEncodeError, ValueError):
            continue
        return family, (host, port) if family == socket.AF_INET else (host, port, 0, 0)
    return None
