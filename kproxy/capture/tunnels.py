"""Unpack tunnels: IP in IP, GRE with ERSPAN and NVGRE, VXLAN, Geneve, MPLS, PPPoE.

A tunnel is recognised by ethertype, IP protocol or UDP port; scapy then reads its headers one by one, up to Ethernet or IP, and
the packet inside goes through links.dissect. This takes about 0.1 ms a packet, but is rare: scapy is imported at the first such
packet, and is an extra (``kproxy-kafka[tunnels]``).

To add a tunnel: a Tunnel, and its number in BY_ETHERTYPE, BY_PROTOCOL or BY_UDP_PORT.
"""

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from kproxy.capture.links import read_datagram
from kproxy.capture.packet import Datagram, Packet

ETHERNET, RAW_IP = 1, 101  # link types
MAX_HEADERS = 16  # headers of one tunnel; each MPLS label is one
INSTALL = "to look inside, pip install 'kproxy-kafka[tunnels]'"


class Tunnel(NamedTuple):
    """A kind of tunnel: its name, and the module and name of scapy's class for its first header."""

    name: str
    module: str
    header: str


GRE = Tunnel("GRE", "scapy.layers.l2", "GRE")
VXLAN = Tunnel("VXLAN", "scapy.layers.vxlan", "VXLAN")
GENEVE = Tunnel("Geneve", "scapy.contrib.geneve", "GENEVE")
MPLS = Tunnel("MPLS", "scapy.contrib.mpls", "MPLS")
PPPOE = Tunnel("PPPoE", "scapy.layers.ppp", "PPPoE")

# Numbers of the IANA registries: EtherTypes, protocol numbers, service names and ports
BY_ETHERTYPE = {0x8847: MPLS, 0x8848: MPLS, 0x8864: PPPOE}
BY_PROTOCOL = {47: GRE, 137: MPLS}
BY_UDP_PORT = {
    4789: VXLAN,
    4790: VXLAN,
    8472: VXLAN,
    6081: GENEVE,
    6635: MPLS,
    4754: GRE,
}  # 8472: Linux's VXLAN port before IANA assigned 4789
IP_IN_IP = (4, 41)  # RFC 2003, RFC 2473
UDP = 17
VXLAN_HAS_NETWORK = 0x08  # the flag that is always set (RFC 7348 section 5)

# Importing these modules binds scapy's layers to each other.
MODULES = ("scapy.layers.inet", "scapy.layers.inet6", "scapy.contrib.erspan", *(
    tunnel.module for tunnel in (GRE, VXLAN, GENEVE, MPLS, PPPOE)))  # fmt: skip
# The layers inside a tunnel, with the link type to read them
INNER = {"Ether": ETHERNET, "IP": RAW_IP, "IPv6": RAW_IP}


def open_tunnel(packet: Packet, what: str) -> list[Packet] | str:
    """Return the packet inside *packet*, or the name to count it by: *what* if it is not a tunnel."""
    datagram = read_datagram(packet.link_type, packet.data, packet.original_size)
    if datagram is None:
        return what
    if datagram.protocol in IP_IN_IP and datagram.version:
        return [_inside(packet, datagram.payload, datagram.end, RAW_IP)]
    located = _tunnel(packet.data, datagram)
    if located is None:
        return what
    tunnel, start = located
    layers = _scapy()
    if layers is None:
        return f"{tunnel.name}; {INSTALL}"
    end = min(datagram.end, len(packet.data))
    inner = _find_inner(layers[tunnel.header], packet.data[start:end])
    if inner is None:
        return f"{tunnel.name} with nothing inside that kproxy reads"
    offset, link_type = inner
    return [_inside(packet, start + offset, datagram.end, link_type)]


def _tunnel(data: bytes, datagram: Datagram) -> tuple[Tunnel, int] | None:
    """Return the tunnel in the payload of a datagram, and its position; None if there is none."""
    if datagram.version == 0:
        tunnel = BY_ETHERTYPE.get(datagram.ethertype)
        return None if tunnel is None else (tunnel, datagram.start)
    start = datagram.payload
    if datagram.protocol != UDP:
        tunnel = BY_PROTOCOL.get(datagram.protocol)
        return None if tunnel is None else (tunnel, start)
    tunnel = BY_UDP_PORT.get(int.from_bytes(data[start + 2 : start + 4], "big"))
    start += 8
    if tunnel is None or (tunnel is VXLAN and not (data[start : start + 1] or b"\0")[0] & VXLAN_HAS_NETWORK):
        return None
    return tunnel, start


def _inside(packet: Packet, start: int, end: int, link_type: int) -> Packet:
    """Return the part of *packet* from *start* to *end*, which may be beyond the captured bytes."""
    data = packet.data[start:end]
    return replace(packet, data=data, link_type=link_type, original_size=max(len(data), end - start))


@cache
def _scapy() -> Mapping[str, Any] | None:
    """Return scapy's classes of the first headers by name; None if scapy is not installed."""
    try:
        modules = {name: importlib.import_module(name) for name in MODULES}
    except ImportError:
        return None
    return {
        tunnel.header: getattr(modules[tunnel.module], tunnel.header) for tunnel in (GRE, VXLAN, GENEVE, MPLS, PPPOE)
    }


def _find_inner(header: Any, data: bytes) -> tuple[int, int] | None:
    """Return where Ethernet or IP begins in *data*, which begins with *header*, and its link type; None without either."""
    at = 0
    below = None
    for _ in range(MAX_HEADERS):
        link_type = INNER.get(header.__name__)
        if link_type is not None:
            return (at, link_type) if at < len(data) else None
        try:
            size, header, below = _read_header(header, data[at:], below)
        except Exception:  # scapy's readers raise anything on hostile bytes; the caller counts the packet
            return None
        at += size
        if size == 0 and header.__name__ not in INNER:
            return None
    return None


def _read_header(header: Any, data: bytes, below: Any) -> tuple[int, Any, Any]:
    """Read only the first header, as scapy does; return its size, the class of the next header, and the layer itself."""
    if header.__name__ == "ERSPAN":
        return (
            0,
            _type_one(header),
            None,
        )  # it has no header of its own; scapy would guess its type from the inner MAC address
    if hasattr(header, "dispatch_hook"):
        header = header.dispatch_hook(data)
    layer = header()
    if below is not None:
        layer.add_underlayer(below)
    rest = layer.post_dissect(layer.do_dissect(layer.pre_dissect(data)))
    payload, _ = layer.extract_padding(rest)
    return len(data) - len(rest), layer.guess_payload_class(payload), layer


def _type_one(_: Any) -> Any:
    return importlib.import_module("scapy.layers.l2").Ether
