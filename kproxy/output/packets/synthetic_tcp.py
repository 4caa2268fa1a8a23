"""SyntheticTcp: the packets of a TCP connection (Ethernet, IPv4 or IPv6) in which nothing comes late or out of order.

RFC 9293 (TCP), 791 (IPv4), 8200 (IPv6), 1071 (checksums). Segments are nearly as large as an IP packet can be, as on a
loopback. A segment acknowledges all that the other side has sent before it. The connection begins with a handshake, whatever
the capture showed. Bytes that are known to be missing are a hole in the sequence numbers.
"""

from struct import Struct

from kproxy.protocol.addresses import IPAddress, parse_ip, split_address

SEGMENT = 65_483  # bytes: what a loopback of 65,536 leaves to a segment with time stamps
WINDOW = 65_535
FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10
TCP = 6
HOPS = 64
MODULUS = 1 << 32
SPREAD = 0x9E3779B1  # odd: initial sequence numbers of a port's connections, one after the other, are far apart

_ETHERNET = Struct(">6s6sH")
_IPV4 = Struct(">BBHHHBBH4s4s")
_IPV6 = Struct(">IHBB16s16s")
_TCP = Struct(">HHIIBBHHH")
_MSS = Struct(">BBH")


class SyntheticTcp:
    """One connection; every method returns packets with their link layer, in order. Direction 0 is from the client.

    Args:
        number: of the connection, so that its sequence numbers differ from those of the others between the same ports.
        client, broker: as "address:port", IPv6 as "[::1]:9092".

    Raises ValueError for an address that is none.
    """

    def __init__(self, number: int, client: str, broker: str) -> None:
        ends = _parse(client), _parse(broker)
        self._ports = [port for _, port in ends]
        self._link = [_Link(ends[side][0], ends[1 - side][0], side) for side in (0, 1)]
        self._next = [number * SPREAD % MODULUS, (number * SPREAD + MODULUS // 2) % MODULUS]

    def handshake(self) -> list[bytes]:
        """SYN, SYN-ACK, ACK."""
        return [self._send(0, SYN), self._send(1, SYN | ACK), self._send(0, ACK)]

    def data(self, direction: int, data: bytes) -> list[bytes]:
        """Bytes of one side, in segments."""
        starts = range(0, len(data), SEGMENT)
        return [self._send(direction, PSH | ACK, data[start : start + SEGMENT]) for start in starts]

    def hole(self, direction: int, size: int) -> None:
        """That many bytes of a side are missing, and everybody knows but who captured."""
        self._next[direction] = (self._next[direction] + size) % MODULUS

    def acknowledge(self, direction: int) -> list[bytes]:
        """Acknowledge everything that was sent, missing bytes included."""
        return [self._send(1 - direction, ACK)]

    def farewell(self, sides: tuple[int, ...]) -> list[bytes]:
        """FINs of *sides* in that order, and the ACK of the last one."""
        return [*(self._send(side, FIN | ACK) for side in sides), *(self._send(1 - side, ACK) for side in sides[-1:])]

    def _send(self, side: int, flags: int, data: bytes = b"") -> bytes:
        sequence = self._next[side]
        acknowledged = self._next[1 - side] if flags & ACK else 0
        options = _MSS.pack(2, 4, SEGMENT) if flags & SYN else b""
        ports = self._ports[side], self._ports[1 - side]
        size = (_TCP.size + len(options)) << 2  # in words of 4 bytes, in the upper half
        header = _TCP.pack(*ports, sequence, acknowledged, size, flags, WINDOW, 0, 0) + options
        self._next[side] = (sequence + len(data) + bool(flags & (SYN | FIN))) % MODULUS
        return self._link[side].packet(header, data)


class _Link:
    """One direction of the layers below TCP. *side* makes up the hardware addresses, which no capture keeps."""

    def __init__(self, source: IPAddress, target: IPAddress, side: int) -> None:
        if source.version != target.version:
            raise ValueError(f"{source} and {target} are not of the same IP version")
        self._is_ipv6 = source.version == 6
        self._addresses = source.packed, target.packed
        hardware = [bytes((2, 0, 0, 0, 0, 1 + end)) for end in (1 - side, side)]  # 02: locally administered
        self._ethernet = _ETHERNET.pack(*hardware, 0x86DD if self._is_ipv6 else 0x0800)

    def packet(self, header: bytes, data: bytes) -> bytes:
        """Around a TCP header without its checksum and its data."""
        size = len(header) + len(data)
        pseudo = b"".join(self._addresses) + size.to_bytes(4, "big") + bytes((0, 0, 0, TCP))
        total = checksum(pseudo + header + data)
        segment = header[:16] + total.to_bytes(2, "big") + header[18:] + data
        return self._ethernet + (self._ipv6(size) if self._is_ipv6 else self._ipv4(size)) + segment

    def _ipv4(self, size: int) -> bytes:
        header = _IPV4.pack(0x45, 0, 20 + size, 0, 0x4000, HOPS, TCP, 0, *self._addresses)  # 0x4000: do not fragment
        return header[:10] + checksum(header).to_bytes(2, "big") + header[12:]

    def _ipv6(self, size: int) -> bytes:
        return _IPV6.pack(6 << 28, size, TCP, HOPS, *self._addresses)


def checksum(data: bytes) -> int:
    """The Internet checksum of RFC 1071: 16-bit ones' complement of the ones' complement sum."""
    # 2 to the 16 is 1 modulo 65535, so the sum of the words is, but for its two zeros, the number that they make up
    number = int.from_bytes(data + bytes(len(data) % 2), "big")
    total = number % 0xFFFF
    return 0xFFFF - (total or (0xFFFF if number else 0))


def _parse(address: str) -> tuple[IPAddress, int]:
    host, port = split_address(address)
    found = parse_ip(host)
    if found is None:
        raise ValueError(f"{address} does not begin with an IP address")
    return found, port
