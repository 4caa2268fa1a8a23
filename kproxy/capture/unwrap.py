"""Find the packets inside packets that have no TCP segment: reassemble IP fragments, unpack tunnels.

Fragments (RFC 791 section 3.2, RFC 8200 section 4.5): if they overlap, the first bytes count, as in TCP; differing later ones
are counted. (A host drops such an IPv6 datagram, RFC 5722; an observer keeps it.) A fragment that does not fit is dropped alone:
not a multiple of eight bytes though not the last, beyond 64 KiB, or beyond the datagram's end. A datagram that is incomplete
after the number of fragments or the time in Limits is dropped and counted; at the memory limit, the oldest one is.

Tunnels (IP in IP, GRE with ERSPAN and NVGRE, VXLAN, Geneve, MPLS, PPPoE) are recognised by ethertype, IP protocol or UDP port;
scapy then reads their headers one by one, up to Ethernet or IP, and the packet inside goes through links.dissect. This takes
about 0.1 ms a packet, but is rare: scapy is imported at the first such packet, and is an extra (``kproxy-kafka[tunnels]``).

To add a tunnel: a Tunnel, and its number in BY_ETHERTYPE, BY_PROTOCOL or BY_UDP_PORT.
"""

import importlib
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from kproxy.capture.items import Datagram, Limits, Packet
from kproxy.capture.links import OUTCOME_NAMES, read_datagram

NOT_IP, FRAGMENT, UDP, OTHER_PROTOCOL = (OUTCOME_NAMES[number] for number in (3, 4, 7, 8))


class Unwrapper:
    """Called by ``Flows`` for packets without a TCP segment; each capture needs its own, as it holds IP fragments."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.fragments = Fragments(Limits() if limits is None else limits)

    @property
    def passed_over(self) -> dict[str, int]:
        """Number of fragments without a complete datagram, by reason (see Fragments)."""
        return self.fragments.passed_over

    def __call__(self, packet: Packet, what: str) -> list[Packet] | str:
        """Return the packets inside *packet* (none yet for a fragment), or a name to count it by; *what* is its outcome."""
        if what == FRAGMENT:
            return self.fragments.receive(packet)
        if what in (NOT_IP, UDP, OTHER_PROTOCOL):
            return open_tunnel(packet, what)
        return what


RAW_IP = 101  # link type
MAX_DATAGRAM = 65_535
HELD_MORE = 256  # approximate bytes of memory that a piece takes in addition to its data
REMEMBERED = 16  # complete datagrams are remembered for 1/16 of the patience, to recognise duplicates
IPV4_HEADER, IPV6_HEADER, FRAGMENT_HEADER = 20, 40, 8

INCOMPLETE = "IP fragment of a datagram that was never complete"
MALFORMED = "malformed IP fragment"
DIFFERS = "IP fragment that overlaps another and differs (the first one counts)"
DUPLICATE = "IP fragment seen before"

Key: TypeAlias = tuple[int | bytes, ...]


class Fragment(NamedTuple):
    """A fragment: bytes *start* to *end* of a datagram's payload; *data* is shorter if the capture cut the packet."""

    key: Key
    start: int
    end: int
    data: bytes
    is_last: bool
    protocol: int
    header: bytes  # the datagram's IP header; its size field is set later


class Piece(NamedTuple):
    """Bytes *start* to *end* of a datagram's payload; *data* is shorter if the capture cut the packet."""

    start: int
    end: int
    data: bytes


class Partial(Struct):
    """An incomplete datagram; its *pieces* are in order and do not overlap."""

    number: int  # of its first fragment
    time_ns: int
    latest_ns: int
    pieces: list[Piece] = field(default_factory=list)
    fragments: int = 0
    covered: int = 0
    total: int | None = None  # payload size, known from the last fragment
    first: Fragment | None = None
    held: int = HELD_MORE

    @property
    def complete(self) -> bool:
        return self.covered == self.total and self.first is not None

    def fits(self, fragment: Fragment) -> bool:
        """Return whether the fragment agrees with the size of the datagram."""
        if self.total is not None:
            return fragment.end <= self.total and (fragment.end == self.total or not fragment.is_last)
        return not fragment.is_last or not self.pieces or self.pieces[-1].end <= fragment.end

    def add(self, fragment: Fragment) -> tuple[int, bool]:
        """Add the new bytes of a fitting fragment; return their number, and whether overlapping bytes differ."""
        index = max(0, bisect_right(self.pieces, fragment.start, key=attrgetter("start")) - 1)
        at, differs, new = fragment.start, False, []
        while index < len(self.pieces) and self.pieces[index].start < fragment.end:
            piece = self.pieces[index]
            if at < piece.start:
                new.append(_part(fragment, at, piece.start))
            differs = differs or _differs(piece, fragment)
            at = max(at, piece.end)
            index += 1
        if at < fragment.end:
            new.append(_part(fragment, at, fragment.end))
        self._insert(new)
        if fragment.is_last:
            self.total = fragment.end
        if fragment.start == 0 and self.first is None:
            self.first = fragment._replace(data=b"")
        return sum(piece.end - piece.start for piece in new), differs

    def _insert(self, new: list[Piece]) -> None:
        for piece in new:
            self.pieces.insert(bisect_right(self.pieces, piece.start, key=attrgetter("start")), piece)
            self.covered += piece.end - piece.start
            self.held += len(piece.data) + HELD_MORE

    def packet(self, packet: Packet) -> Packet:
        """Return the captured bytes of the datagram as a packet of raw IP; time and comment are those of *packet*."""
        assert self.first is not None
        total = self.covered
        payload = bytearray()
        for piece in self.pieces:
            payload += piece.data
            if len(piece.data) < piece.end - piece.start:
                break
        header = _with_size(self.first.header, total, self.first.protocol)
        return Packet(self.latest_ns, RAW_IP, header + bytes(payload), len(header) + total, packet.comment)


class Fragments:
    """Reassembles datagrams from fragments."""

    def __init__(self, limits: Limits) -> None:
        self.held = 0
        self._limits = limits
        self._count = 0
        self._dropped: Counter[str] = Counter()
        self._waiting: OrderedDict[Key, Partial] = OrderedDict()  # in the order of their first fragments
        self._complete: OrderedDict[Key, Partial] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def passed_over(self) -> dict[str, int]:
        """Number of fragments without a complete datagram, by reason; includes waiting ones."""
        counts = self._dropped.copy()
        waiting = sum(partial.fragments for partial in self._waiting.values())
        if waiting:
            counts[INCOMPLETE] += waiting
        return dict(counts)

    def receive(self, packet: Packet) -> list[Packet]:
        """Receive a packet with a fragment; return the datagram if it is now complete."""
        fragment = read_fragment(packet)
        self._count += 1
        self._expire(packet.time_ns)
        if fragment is None:
            self._dropped[MALFORMED] += 1
            return []
        if self._is_duplicate(fragment):
            self._dropped[DUPLICATE] += 1
            return []
        return self._add(fragment, packet)

    def _is_duplicate(self, fragment: Fragment) -> bool:
        """Return whether a fragment repeats bytes of a complete datagram."""
        partial = self._complete.get(fragment.key)
        if partial is None:
            return False
        same = partial.fits(fragment) and not any(
            _differs(piece, fragment)
            for piece in partial.pieces
            if piece.start < fragment.end and fragment.start < piece.end
        )
        if not same:  # the identification is used for a new datagram
            self._forget(self._complete, fragment.key)
        return same

    def _add(self, fragment: Fragment, packet: Packet) -> list[Packet]:
        key = fragment.key
        partial = self._waiting.get(key)
        if partial is None:
            partial = self._waiting[key] = Partial(self._count, packet.time_ns, packet.time_ns)
            self.held += partial.held
        before = partial.held
        if not partial.fits(fragment):
            self._dropped[MALFORMED] += 1
            return []
        new, differs = partial.add(fragment)
        self.held += partial.held - before
        if differs or not new:
            self._dropped[DIFFERS if differs else DUPLICATE] += 1
        else:
            partial.fragments += 1
        partial.latest_ns = max(partial.latest_ns, packet.time_ns)
        if not partial.complete:
            self._enforce_limit()
            return []
        self._complete[key] = self._waiting.pop(key)
        partial.number = self._count
        self._enforce_limit()
        return [partial.packet(packet)]

    def _expire(self, now_ns: int) -> None:
        patience, age_ns = self._limits.fragments_patience, self._limits.fragments_seconds * 1_000_000_000
        for table, most in ((self._waiting, patience), (self._complete, patience // REMEMBERED)):
            while table:
                key, partial = next(iter(table.items()))
                if self._count - partial.number <= most and now_ns - partial.time_ns <= age_ns:
                    break
                self._forget(table, key)

    def _enforce_limit(self) -> None:
        while self.held > self._limits.fragments_in_all and (self._complete or self._waiting):
            table = self._complete or self._waiting
            self._forget(table, next(iter(table)))

    def _forget(self, table: OrderedDict[Key, Partial], key: Key) -> None:
        partial = table.pop(key)
        self.held -= partial.held
        if table is self._waiting:
            self._dropped[INCOMPLETE] += partial.fragments


def read_fragment(packet: Packet) -> Fragment | None:
    """Return the fragment in a packet whose outcome is "IP fragment"; None if it is invalid."""
    datagram = read_datagram(packet.link_type, packet.data, packet.original_size)
    if datagram is None or datagram.version == 0:
        return None
    ip = packet.data[datagram.start : min(datagram.end, len(packet.data))]
    read = _read_ipv4 if datagram.version == 4 else _read_ipv6
    fragment = read(ip, datagram.payload - datagram.start, datagram.end - datagram.start, datagram.protocol)
    size = fragment.end - fragment.start
    if size <= 0 or (size % 8 and not fragment.is_last):
        return None
    # IPv4's size field counts the header, IPv6's does not.
    most = MAX_DATAGRAM - (IPV4_HEADER if datagram.version == 4 else 0)
    return fragment if fragment.end <= most else None


def _read_ipv4(ip: bytes, payload: int, size: int, protocol: int) -> Fragment:
    offset_field = int.from_bytes(ip[6:8], "big")
    start = (offset_field & 0x1FFF) * 8
    key = (4, ip[12:20], protocol, ip[4:6])
    header = ip[:IPV4_HEADER]
    return Fragment(key, start, start + size - payload, ip[payload:], not offset_field & 0x2000, protocol, header)


def _read_ipv6(ip: bytes, payload: int, size: int, _: int) -> Fragment:
    fragment = ip[payload : payload + FRAGMENT_HEADER]
    offset_field = int.from_bytes(fragment[2:4], "big")
    start = offset_field & 0xFFF8
    key = (6, ip[8:40], fragment[4:8])
    payload += FRAGMENT_HEADER
    header = ip[:IPV6_HEADER]
    return Fragment(key, start, start + size - payload, ip[payload:], not offset_field & 1, fragment[0], header)


def _with_size(header: bytes, size: int, protocol: int) -> bytes:
    """Return the IP header of the datagram, without options, extension headers, fragmentation or checksum."""
    if header[0] >> 4 == 4:
        total = (IPV4_HEADER + size).to_bytes(2, "big")
        return b"\x45" + header[1:2] + total + header[4:6] + b"\0\0" + header[8:IPV4_HEADER]
    return header[:4] + size.to_bytes(2, "big") + bytes([protocol]) + header[7:IPV6_HEADER]


def _part(fragment: Fragment, start: int, end: int) -> Piece:
    return Piece(start, end, fragment.data[start - fragment.start : end - fragment.start])


def _differs(piece: Piece, fragment: Fragment) -> bool:
    """Return whether the two have different bytes at the same position."""
    start = max(piece.start, fragment.start)
    end = min(piece.start + len(piece.data), fragment.start + len(fragment.data))
    if start >= end:
        return False
    known = piece.data[start - piece.start : end - piece.start]
    return known != fragment.data[start - fragment.start : end - fragment.start]


ETHERNET = 1
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
# 8472: Linux's VXLAN port before IANA assigned 4789
BY_UDP_PORT = {4789: VXLAN, 4790: VXLAN, 8472: VXLAN, 6081: GENEVE, 6635: MPLS, 4754: GRE}
IP_IN_IP = (4, 41)  # RFC 2003, RFC 2473
UDP_NUMBER = 17
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
    if datagram.protocol != UDP_NUMBER:
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
    if (
        header.__name__ == "ERSPAN"
    ):  # type I has no header of its own; scapy would guess the type from the inner MAC address
        return 0, importlib.import_module("scapy.layers.l2").Ether, None
    if hasattr(header, "dispatch_hook"):
        header = header.dispatch_hook(data)
    layer = header()
    if below is not None:
        layer.add_underlayer(below)
    rest = layer.post_dissect(layer.do_dissect(layer.pre_dissect(data)))
    payload, _ = layer.extract_padding(rest)
    return len(data) - len(rest), layer.guess_payload_class(payload), layer
