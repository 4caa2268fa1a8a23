"""Reassemble IP datagrams from fragments (RFC 791 section 3.2, RFC 8200 section 4.5), in bounded memory.

If fragments overlap, the first bytes count, as in TCP; differing later ones are counted. (A host drops such an IPv6 datagram,
RFC 5722; an observer keeps it.) A fragment that does not fit is dropped alone: not a multiple of eight bytes though not the
last, beyond 64 KiB, or beyond the datagram's end. A datagram that is incomplete after the number of fragments or the time in
Limits is dropped and counted; at the memory limit, the oldest one is.
"""

from bisect import bisect_right
from collections import Counter, OrderedDict
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from kproxy.capture.limits import Limits
from kproxy.capture.links import read_datagram
from kproxy.capture.packet import Packet

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
