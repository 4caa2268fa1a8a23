"""PROXY protocol, versions 1 and 2: a load balancer sends the client's address before the first byte. Bytes only.

Source: haproxy's doc/proxy-protocol.txt (2020/03/05), "the specification" below. A listener that expects a header must
refuse a connection without one, as any client could claim any address otherwise (its section 2); this module never guesses.
"""

import struct
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Literal

from kproxy.errors import ProxyProtocolError
from kproxy.protocol.addresses import IPAddress, join_address, mapped, parse_ip, split_address, unmapped

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V1_START = b"PROXY "
V1_OWN = b"PROXY UNKNOWN\r\n"  # of a connection that the proxy makes for itself, as for a health check
V1_MOST = 107  # bytes with CRLF: the longest line there can be (section 2.1)
V2_START = struct.Struct("!12sBBH")  # signature, version and command, family and transport, bytes that follow
V2_MOST = 4_096  # bytes that follow: addresses take 36 or 216, the rest is TLVs; a client certificate is one
LOCAL, PROXY = 0x20, 0x21
V2_OWN = V2_START.pack(SIGNATURE, LOCAL, 0, 0)
TCP4, TCP6 = 0x11, 0x21
ADDRESS_SIZES = {0x0: 0, 0x1: 12, 0x2: 36, 0x3: 216}  # by address family: unspecified, IPv4, IPv6, UNIX
TRANSPORTS = (0x0, 0x1, 0x2)


@dataclass(frozen=True, slots=True)
class Header:
    """A PROXY header. Addresses are "address:port"; both are None if it has none: then use those of the socket.

    It has none for LOCAL and UNKNOWN (the balancer's own health checks), UNIX sockets and datagrams.
    """

    version: Literal[1, 2]
    size: int  # bytes: what the client itself sent begins here
    source: str | None = None
    destination: str | None = None


def read_header(data: bytes) -> Header | None:
    """Return the header that *data* begins with; None while it is incomplete: call again with more.

    A version 1 header has at most 107 bytes, one of version 2 at most 16 + 4,096.

    Raises:
        ProxyProtocolError: there is no header, or one that the specification does not allow.
    """
    if data[:1] == SIGNATURE[:1]:
        return _read_v2(data)
    if V1_START.startswith(data[: len(V1_START)]):
        return _read_v1(data)
    raise ProxyProtocolError(f"there is no PROXY header but {data[:12]!r}")


def write_v1(source: str, destination: str) -> bytes:
    """Return the line for a connection from *source* to *destination*, each "address:port" with a numeric address."""
    (client, client_port), (server, server_port) = _same_family(source, destination)
    return f"PROXY TCP{client.version} {client} {server} {client_port} {server_port}\r\n".encode("ascii")


def write_v2(source: str, destination: str) -> bytes:
    """Return the binary header for a connection from *source* to *destination*, without TLVs."""
    (client, client_port), (server, server_port) = _same_family(source, destination)
    addresses = client.packed + server.packed + struct.pack("!HH", client_port, server_port)
    family = TCP4 if client.version == 4 else TCP6
    return V2_START.pack(SIGNATURE, PROXY, family, len(addresses)) + addresses


def _read_v1(data: bytes) -> Header | None:
    end = data.find(b"\r\n", 0, V1_MOST)
    if end < 0:
        if len(data) >= V1_MOST:
            raise ProxyProtocolError(f"the PROXY line does not end within {V1_MOST} bytes")
        return None
    size = end + 2
    words = data[:end].split(b" ")
    if words[1] == b"UNKNOWN":  # what follows is to be ignored (section 2.1)
        return Header(1, size)
    if len(words) != 6 or words[1] not in (b"TCP4", b"TCP6"):
        raise ProxyProtocolError(
            f'the PROXY line is not "PROXY TCP4|TCP6 source destination port port": {data[:end]!r}'
        )
    _, kind, source, destination, source_port, destination_port = words
    return Header(
        1,
        size,
        join_address(_address(kind, source), _port(source_port)),
        join_address(_address(kind, destination), _port(destination_port)),
    )


def _address(kind: bytes, word: bytes) -> str:
    try:
        # An address with a zone ("fe80::1%eth0") is one to Python but not to the specification.
        return str((IPv4Address if kind == b"TCP4" else IPv6Address)(word.decode("ascii").replace("%", " ")))
    except (AddressValueError, UnicodeDecodeError):
        raise ProxyProtocolError(f"the PROXY line has {word!r} for an address of {kind.decode()}") from None


def _port(word: bytes) -> int:
    plain = 1 <= len(word) <= 5 and word.isdigit() and (word == b"0" or not word.startswith(b"0"))
    if not plain or int(word) > 65_535:
        raise ProxyProtocolError(f"the PROXY line has {word!r} for a port")
    return int(word)


def _read_v2(data: bytes) -> Header | None:
    if not SIGNATURE.startswith(data[: len(SIGNATURE)]):
        raise ProxyProtocolError(f"there is no PROXY header but {data[:12]!r}")
    if len(data) < V2_START.size:
        return None
    _, command, kind, length = V2_START.unpack_from(data)
    _check_v2(command, kind, length)
    size = V2_START.size + length
    if len(data) < size:
        return None
    if command == LOCAL or kind not in (TCP4, TCP6):
        return Header(2, size)
    width, start = 4 if kind == TCP4 else 16, V2_START.size
    source, destination = data[start : start + width], data[start + width : start + 2 * width]
    source_port, destination_port = struct.unpack_from("!HH", data, start + 2 * width)
    family: type[IPAddress] = IPv4Address if kind == TCP4 else IPv6Address
    return Header(
        2,
        size,
        join_address(str(family(source)), source_port),
        join_address(str(family(destination)), destination_port),
    )


def _check_v2(command: int, kind: int, length: int) -> None:
    """Check the start of a header. For LOCAL only the length matters (section 2.2)."""
    if command not in (LOCAL, PROXY):
        raise ProxyProtocolError(f"the PROXY header has version and command 0x{command:02x}; 0x20 and 0x21 are known")
    if length > V2_MOST:
        raise ProxyProtocolError(f"the PROXY header goes on for {length} bytes; at most {V2_MOST} are taken")
    if command == LOCAL:
        return
    if kind >> 4 not in ADDRESS_SIZES or kind & 0x0F not in TRANSPORTS:
        raise ProxyProtocolError(f"the PROXY header has family and transport 0x{kind:02x}, which are not assigned")
    needed = ADDRESS_SIZES[kind >> 4]
    if length < needed:
        raise ProxyProtocolError(f"the PROXY header has {length} bytes for addresses that take {needed}")


def _same_family(source: str, destination: str) -> tuple[tuple[IPAddress, int], tuple[IPAddress, int]]:
    """Return both addresses in one family: if they differ, the IPv4 one as "::ffff:a.b.c.d"."""
    (client, client_port), (server, server_port) = _plain(source), _plain(destination)
    if client.version != server.version:
        client, server = mapped(client), mapped(server)
    return (client, client_port), (server, server_port)


def _plain(text: str) -> tuple[IPAddress, int]:
    host, port = split_address(text)
    address = parse_ip(host)
    if address is None:
        raise ProxyProtocolError(f"{text} cannot stand in a PROXY header: it is not numeric")
    return unmapped(address), port
