"""Addresses as people write them: "host:port", IPv6 in brackets."""

import ipaddress
import re
from typing import NamedTuple

LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)
LONGEST_NAME = 253  # RFC 1035 §2.3.4, without the trailing dot
ANY_HOST = ("0.0.0.0", "::", "")


class Address(NamedTuple):
    """Host and port; ``str()`` gives "host:port", IPv6 in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, *, any_host: bool = False) -> Address:
    """ "kafka:9092" -> ("kafka", 9092), "[::1]:9092" -> ("::1", 9092).

    Args:
        text: what a person wrote.
        any_host: the host may be missing (":9092"), for every interface; it becomes "0.0.0.0".

    Raises ValueError with what is wrong and how it is to be.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port:
        raise ValueError('it has no port: write "host:port"')
    if host.startswith("["):
        host = _ipv6(host, text)
    elif ":" in host:
        raise ValueError(f'an IPv6 address goes in brackets: "[{host}]:{port}"')
    elif not host and any_host:
        host = ANY_HOST[0]
    else:
        parse_host(host)
    return Address(host, _port(port))


def parse_host(host: str) -> str:
    """*host* itself if it is a name or an address without brackets; ValueError says what is wrong."""
    if not host:
        raise ValueError('it has no host: write "host:port"')
    if ":" in host:
        return str(ipaddress.IPv6Address(host))
    if re.fullmatch(r"[0-9.]+", host, re.ASCII):
        _ipv4(host)
    elif len(host) > LONGEST_NAME or not all(LABEL.fullmatch(label) for label in host.removesuffix(".").split(".")):
        raise ValueError("the host is no name: letters, digits, hyphens and dots")
    return host


def _ipv4(host: str) -> None:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        raise ValueError(f"{host} is no IPv4 address") from None


def _ipv6(bracketed: str, text: str) -> str:
    inside, bracket, scope = bracketed[1:].partition("]")
    try:
        ipaddress.IPv6Address(inside)
    except ValueError:
        bracket = ""
    if not bracket or scope:
        raise ValueError('that is no IPv6 address: write "[::1]:9092"')
    return inside


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= 65_535:
        raise ValueError("the port has to be a number from 1 to 65535")
    return int(text)
