"""Read and write addresses as text: "host:port", IPv6 in brackets, IPv4-mapped IPv6. No name is resolved.

    join_address, split_address     for text from a program
    parse_address, parse_host       for text from a person: strict, with errors that say what to write instead
    parse_ip, unmapped, mapped      numeric hosts; an IPv4-mapped address and the IPv4 address in it (RFC 4291, 2.5.5.2)

A socket of both families names its IPv4 peers "::ffff:a.b.c.d". ``unmapped`` returns the IPv4 address, for comparing and
showing; ``mapped`` is for headers that need both ends in one family.
"""

import ipaddress
import re
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple, TypeAlias

IPAddress: TypeAlias = IPv4Address | IPv6Address

MOST_PORT = 65_535
# where listeners are by custom, also those of containers on a host; no ephemeral ports (from 32768 on)
KAFKA_PORTS = frozenset(start + port for start in (0, 10_000, 20_000) for port in range(9091, 9100))
LONGEST_NAME = 253  # characters of a host name without the trailing dot (RFC 1035, 2.3.4)
ANY_HOSTS = ("0.0.0.0", "::", "")  # all addresses of IPv4, of IPv6, of both; what a person may write

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)


class Address(NamedTuple):
    """Host and port; ``str()`` is "host:port", IPv6 in brackets."""

    host: str  # without brackets
    port: int

    def __str__(self) -> str:
        return join_address(self.host, self.port)


def join_address(host: str, port: int) -> str:
    """Return ``"10.0.0.1:9092"``, ``"[::1]:9092"`` or ``"broker-1:9092"``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def join_ip_address(address: IPAddress, port: int) -> str:
    """As ``join_address``; an IPv4-mapped address is ``"[::ffff:10.0.0.1]:9092"`` (RFC 5952, 5; not every Python does so)."""
    return join_address(render_ip(address), port)


def as_reached_here(address: str) -> str:
    """Return how this machine reaches a listening address that a person wrote: ":9644" becomes ``"127.0.0.1:9644"``."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("", "0.0.0.0", "[::]") else address


def split_address(text: str) -> Address:
    """Split a text from ``join_address`` into host (without brackets) and port. Raises ValueError."""
    host, _, port = text.rpartition(":")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def address_of(text: str) -> str:
    """Return the host of "host:port", without brackets; the whole text if there is no port."""
    try:
        return split_address(text).host
    except ValueError:
        return text


def parse_address(text: str, *, any_host: bool = False) -> Address:
    """Parse what a person wrote: "kafka:9092" -> ("kafka", 9092), "[::1]:9092" -> ("::1", 9092).

    Args:
        text: the address.
        any_host: accept a missing host (":9092"), which means all addresses of both families and stays "".

    Raises ValueError with what is wrong and what to write instead.
    """
    if "@" in text or "://" in text:
        raise ValueError('it is not an address alone: write "host:port", without a scheme, user or password')
    host, colon, port = text.rpartition(":")
    if not colon or not port:
        write = f'"host:{text}"' + (f' or ":{text}"' if any_host else "") if text.isdecimal() else '"host:port"'
        raise ValueError(f"it has no {'host' if text.isdecimal() else 'port'}: write {write}")
    if host.startswith("["):
        host = _parse_bracketed(host)
    elif ":" in host:
        raise ValueError(f'an IPv6 address goes in brackets: "[{host}]:{port}"')
    elif host or not any_host:
        parse_host(host)
    return Address(host, _parse_port(port))


def parse_host(host: str) -> str:
    """Return *host* if it is a name or an address without brackets. Raises ValueError that says what is wrong."""
    if not host:
        raise ValueError('it has no host: write "host:port"')
    if ":" in host:
        return str(IPv6Address(host))
    if re.fullmatch(r"[0-9.]+", host, re.ASCII):
        _check_ipv4(host)
    elif len(host) > LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split(".")):
        raise ValueError("the host is no name: letters, digits, hyphens and dots")
    return host


def parse_ip(host: str) -> IPAddress | None:
    """Return *host* as an IP address, without brackets or an IPv6 zone; None for a name."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return None


def unmapped(address: IPAddress) -> IPAddress:
    """Return the IPv4 address in an IPv4-mapped IPv6 address; other addresses unchanged."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def mapped(address: IPAddress) -> IPv6Address:
    """Return an IPv4 address as an IPv4-mapped IPv6 address; IPv6 addresses unchanged."""
    return IPv6Address(b"\0" * 10 + b"\xff\xff" + address.packed) if isinstance(address, IPv4Address) else address


def render_ip(address: IPAddress) -> str:
    """Return the text of an address, with the IPv4 part of an IPv4-mapped one in dots in every version of Python."""
    inner = unmapped(address)
    return str(address) if inner is address else f"::ffff:{inner}"


def unmapped_host(host: str) -> str:
    """Return a host with ``::ffff:10.0.0.1`` as ``10.0.0.1``, and without an IPv6 zone; names unchanged."""
    address = parse_ip(host) if ":" in host else None
    return host if address is None else str(unmapped(address))


def _check_ipv4(host: str) -> None:
    try:
        IPv4Address(host)
    except ValueError:
        raise ValueError(f"{host} is no IPv4 address") from None


def _parse_bracketed(bracketed: str) -> str:
    inside, bracket, after = bracketed[1:].partition("]")
    try:
        IPv6Address(inside)
    except ValueError:
        bracket = ""
    if not bracket or after:
        raise ValueError('that is no IPv6 address: write "[::1]:9092"')
    return inside


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= MOST_PORT:
        raise ValueError(f"the port has to be a number from 1 to {MOST_PORT}")
    return int(text)
