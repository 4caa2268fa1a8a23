"""Write pcapng: the blocks of a file with one Ethernet interface, and the packets of TCP connections that carry given bytes.

Blocks and options as in draft-ietf-opsawg-pcapng, little-endian, times in nanoseconds. Packets: RFC 9293 (TCP), 791 (IPv4), 8200
(IPv6), 1071 (checksums).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from kproxy.protocol.wire cimport Buffer, reserve
from kproxy.session.exchanges cimport Exchange, Frame

from struct import Struct

from kproxy.protocol.addresses import parse_ip, split_address

cdef extern from "endian.h" nogil:
    uint16_t be16toh(uint16_t value)
    uint32_t htole32(uint32_t value)

# Blocks of a file

SECTION_HEADER, INTERFACE, ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER_MAGIC = 0x1A2B3C4D
ETHERNET = 1  # LINKTYPE_ETHERNET
COMMENT, INTERFACE_NAME, APPLICATION, RESOLUTION = 1, 2, 4, 9  # option codes
NANOSECONDS = b"\x09"  # if_tsresol: 10 to the -9
UNKNOWN_SIZE = -1  # of the section
MOST_COMMENT = 4096  # bytes; an option holds 65,535

_SECTION = Struct("<IHHq")
_INTERFACE = Struct("<HHI")
_OPTION = Struct("<HH")
_SIZE = Struct("<I")

cdef enum:
    PACKET_TYPE = 6  # ENHANCED_PACKET
    PACKET_HEAD = 28  # bytes before the data: type, size, interface, two words of time, two sizes
    COMMENT_CODE = 1  # COMMENT


def file_header(application: str) -> bytes:
    """Return what a file begins with: the section, which names the *application*, and its only interface."""
    section = _SECTION.pack(BYTE_ORDER_MAGIC, 1, 0, UNKNOWN_SIZE) + _options((APPLICATION, application.encode()))
    interface = _INTERFACE.pack(ETHERNET, 0, 0) + _options((INTERFACE_NAME, b"kproxy"), (RESOLUTION, NANOSECONDS))
    return _block(SECTION_HEADER, section) + _block(INTERFACE, interface)


def packet(at: int, bytes data not None, bytes comment not None=b"") -> bytes:
    """Return one packet at *at*, in ns since the epoch; *comment*: at most MOST_COMMENT bytes of UTF-8."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef bytes text = _text(comment)
    cdef bytes block = PyBytes_FromStringAndSize(NULL, _block_size(size, text))
    cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(block)
    memcpy(to + PACKET_HEAD, PyBytes_AS_STRING(data), size)
    _put_around(to, at & 0xFFFFFFFFFFFFFFFF, size, text)
    return block


cdef inline uint64_t _block_size(uint64_t size, bytes text):
    """Return the size of the block of a packet of *size* bytes with a comment, if *text* is not empty."""
    cdef uint64_t options = 4 + _padded(PyBytes_GET_SIZE(text)) + 4 if text else 0  # and the end of options
    return PACKET_HEAD + _padded(size) + options + 4


cdef int _put_around(uint8_t* to, uint64_t moment, uint64_t size, bytes text) except -1:
    """Write what is before and behind a packet's bytes in its block."""
    cdef uint64_t text_size = PyBytes_GET_SIZE(text)
    cdef uint64_t whole = _block_size(size, text)
    _put_le32(to, PACKET_TYPE)
    _put_le32(to + 4, whole)
    _put_le32(to + 8, 0)
    _put_le32(to + 12, moment >> 32)
    _put_le32(to + 16, moment & 0xFFFFFFFF)
    _put_le32(to + 20, size)
    _put_le32(to + 24, size)
    to += PACKET_HEAD
    memset(to + size, 0, _padded(size) - size)
    to += _padded(size)
    if text_size:
        _put_le32(to, COMMENT_CODE | text_size << 16)
        memcpy(to + 4, PyBytes_AS_STRING(text), text_size)
        memset(to + 4 + text_size, 0, _padded(text_size) - text_size + 4)
        to += 4 + _padded(text_size) + 4
    _put_le32(to, whole)
    return 0


cdef bytes _text(bytes text):
    """Return the comment, cut between two characters."""
    if PyBytes_GET_SIZE(text) <= MOST_COMMENT:
        return text
    return text[:MOST_COMMENT].decode("utf-8", "ignore").encode()


cdef inline void _put_le32(uint8_t* to, uint64_t value) noexcept nogil:
    cdef uint32_t word = htole32(<uint32_t>value)
    memcpy(to, &word, 4)


cdef inline uint64_t _padded(uint64_t size) noexcept nogil:
    return (size + 3) & ~<uint64_t>3


def _block(kind, body):
    size = _SIZE.pack(len(body) + 12)
    return _SIZE.pack(kind) + size + body + size


def _options(*options):
    return b"".join([_OPTION.pack(code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]) + _OPTION.pack(0, 0)


# Packets of a TCP connection

cdef enum:
    MOST_SEGMENT = 65_483  # bytes: what a loopback of 65,536 leaves to a segment with time stamps
    WINDOW = 65_535
    FIN = 0x01
    SYN = 0x02
    PSH = 0x08
    ACK = 0x10
    TCP = 6
    HOPS = 64
    SPREAD = 0x9E3779B1  # an odd multiplier: keeps initial sequence numbers of consecutive connections far apart
    ETHERNET_SIZE = 14
    IPV4_SIZE = 20
    IPV6_SIZE = 40
    TCP_SIZE = 20
    MSS_SIZE = 4
    SIZE_FIELD = 4

SEGMENT: int = MOST_SEGMENT


cdef class SyntheticTcp:
    """The packets of one connection, without delays or reordering, each with its link layer. Direction 0 is from the client.

    Segments are nearly as large as an IP packet can be, as on a loopback. A segment acknowledges everything that the other side
    has sent before it. The connection always begins with a handshake, even if the capture had none. Missing bytes become a hole
    in the sequence numbers.

    Args:
        number: the connection's number, so that connections between the same ports have different sequence numbers.
        client, broker: as "address:port", IPv6 as "[::1]:9092".

    Raises ValueError for an invalid address.
    """

    cdef uint32_t sequence[2]  # of the next byte of each side
    cdef uint16_t ports[2]
    cdef uint8_t addresses[2][16]
    cdef int address_size  # 4 or 16
    cdef uint64_t pseudo  # sum of the words of both addresses, and of the protocol's number: part of each checksum

    def __init__(self, number: int, client: str, broker: str):
        ends = [_parse(client), _parse(broker)]
        (source, _), (target, _) = ends
        if source.version != target.version:
            raise ValueError(f"{source} and {target} are not of the same IP version")
        self.address_size = 16 if source.version == 6 else 4
        for side in range(2):
            address, port = ends[side]
            packed = address.packed
            memcpy(self.addresses[side], <const uint8_t*>PyBytes_AS_STRING(packed), self.address_size)
            self.ports[side] = port
        self.pseudo = TCP + _sum(self.addresses[0], self.address_size) + _sum(self.addresses[1], self.address_size)
        self.sequence[0] = (number * SPREAD) & 0xFFFFFFFF
        self.sequence[1] = (number * SPREAD + (1 << 31)) & 0xFFFFFFFF

    def handshake(self) -> list[bytes]:
        """Return SYN, SYN-ACK and ACK."""
        return [self._send(0, SYN, NULL, 0), self._send(1, SYN | ACK, NULL, 0), self._send(0, ACK, NULL, 0)]

    def data(self, int direction, bytes data not None) -> list[bytes]:
        """Return the segments for the next bytes of one side."""
        cdef const uint8_t* bytes_of = <const uint8_t*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t start = 0
        cdef list packets = []
        while start < size:
            packets.append(self._send(direction & 1, PSH | ACK, bytes_of + start, min(size - start, MOST_SEGMENT)))
            start += MOST_SEGMENT
        return packets

    def hole(self, int direction, size: int) -> None:
        """Skip *size* missing bytes of one side; the other side will acknowledge them as if they had come."""
        self.sequence[direction & 1] += <uint32_t>(size & 0xFFFFFFFF)

    def acknowledge(self, int direction) -> list[bytes]:
        """Return the acknowledgment of everything sent in a direction, including missing bytes."""
        return [self._send(1 - (direction & 1), ACK, NULL, 0)]

    def farewell(self, sides: tuple[int, ...]) -> list[bytes]:
        """Return the FINs of *sides* in that order, and the ACK of the last one."""
        return [self._send(side, FIN | ACK, NULL, 0) for side in sides] + [self._send(1 - side, ACK, NULL, 0) for side in sides[-1:]]

    def exchange(self, Exchange exchange not None, comments: tuple[bytes, bytes]) -> bytes:
        """Return the frames of an exchange, each complete, as blocks of a file; the last packet of each has its comment.

        A frame whose first and last byte came at different times becomes two packets or more.
        """
        cdef Buffer blocks
        memset(&blocks, 0, sizeof(Buffer))
        try:
            for side, frame in enumerate((exchange.request, exchange.response)):
                if frame is not None:
                    self._put_frame(&blocks, side, frame, _text(comments[side]))
            return PyBytes_FromStringAndSize(<char *>blocks.data, blocks.size)
        finally:
            free(blocks.data)

    cdef int _put_frame(self, Buffer *blocks, int side, Frame frame, bytes text) except -1:
        cdef Py_ssize_t size = SIZE_FIELD + PyBytes_GET_SIZE(frame.data)
        cdef Py_ssize_t first = 0 if frame.started_at == frame.ended_at else min(MOST_SEGMENT, size // 2)
        cdef Py_ssize_t start = 0
        cdef Py_ssize_t stop
        while start < size:
            stop = min(start + MOST_SEGMENT, size) if start >= first else first
            self._put_segment(
                blocks, side, frame, start, stop, frame.ended_at if start >= first else frame.started_at, text if stop == size else b""
            )
            start = stop
        return 0

    cdef int _put_segment(
        self, Buffer *blocks, int side, Frame frame, Py_ssize_t start, Py_ssize_t stop, uint64_t moment, bytes text,
    ) except -1:
        """Write a part of a frame with its size field as one packet."""
        cdef Py_ssize_t heads = ETHERNET_SIZE + (IPV6_SIZE if self.address_size == 16 else IPV4_SIZE) + TCP_SIZE
        cdef uint64_t whole = _block_size(heads + stop - start, text)
        cdef uint8_t[SIZE_FIELD] field
        cdef uint8_t* to
        reserve(blocks, whole)
        to = blocks.data + blocks.size + PACKET_HEAD + heads
        _put32(field, PyBytes_GET_SIZE(frame.data))
        if start < SIZE_FIELD:
            memcpy(to, field + start, min(stop, SIZE_FIELD) - start)
        if stop > SIZE_FIELD:
            memcpy(
                to + max(SIZE_FIELD - start, 0), PyBytes_AS_STRING(frame.data) + max(start - SIZE_FIELD, 0),
                stop - max(start, SIZE_FIELD),
            )
        self._put_heads(blocks.data + blocks.size + PACKET_HEAD, side, PSH | ACK, stop - start)
        _put_around(blocks.data + blocks.size, moment, heads + stop - start, text)
        blocks.size += whole
        return 0

    cdef bytes _send(self, int side, int flags, const uint8_t* data, Py_ssize_t size):
        """Return one packet."""
        cdef Py_ssize_t heads = ETHERNET_SIZE + (IPV6_SIZE if self.address_size == 16 else IPV4_SIZE) + TCP_SIZE
        heads += MSS_SIZE if flags & SYN else 0
        cdef bytes packet = PyBytes_FromStringAndSize(NULL, heads + size)
        if size:
            memcpy(PyBytes_AS_STRING(packet) + heads, data, size)
        self._put_heads(<uint8_t*>PyBytes_AS_STRING(packet), side, flags, size)
        return packet

    cdef void _put_heads(self, uint8_t* ethernet, int side, int flags, Py_ssize_t size) noexcept nogil:
        """Write what is before the *size* bytes of a packet, which are there already, and advance the sequence numbers."""
        cdef Py_ssize_t tcp_size = TCP_SIZE + MSS_SIZE if flags & SYN else TCP_SIZE
        cdef uint8_t* ip = ethernet + ETHERNET_SIZE
        cdef uint8_t* tcp = ip + (IPV6_SIZE if self.address_size == 16 else IPV4_SIZE)
        self._put_ethernet(ethernet, side)
        self._put_tcp(tcp, side, flags, tcp_size)
        _put16(tcp + 16, _folded(self.pseudo + tcp_size + size + _sum(tcp, tcp_size + size)))
        if self.address_size == 16:
            self._put_ipv6(ip, side, tcp_size + size)
        else:
            self._put_ipv4(ip, side, tcp_size + size)
        self.sequence[side] += <uint32_t>size + (1 if flags & (SYN | FIN) else 0)

    cdef void _put_ethernet(self, uint8_t* to, int side) noexcept nogil:
        """Write made-up hardware addresses, as the real ones are unknown; 02 marks them as locally administered."""
        memset(to, 0, 12)
        to[0] = to[6] = 2
        to[5] = 2 - side
        to[11] = 1 + side
        _put16(to + 12, 0x86DD if self.address_size == 16 else 0x0800)

    cdef void _put_tcp(self, uint8_t* to, int side, int flags, Py_ssize_t size) noexcept nogil:
        """Write the TCP header, without its checksum."""
        _put16(to, self.ports[side])
        _put16(to + 2, self.ports[1 - side])
        _put32(to + 4, self.sequence[side])
        _put32(to + 8, self.sequence[1 - side] if flags & ACK else 0)
        to[12] = <uint8_t>(size << 2)  # in words of 4 bytes, in the upper half
        to[13] = <uint8_t>flags
        _put16(to + 14, WINDOW)
        _put32(to + 16, 0)
        if flags & SYN:  # the option of the maximum segment size
            to[20] = 2
            to[21] = MSS_SIZE
            _put16(to + 22, MOST_SEGMENT)

    cdef void _put_ipv4(self, uint8_t* to, int side, Py_ssize_t size) noexcept nogil:
        memset(to, 0, IPV4_SIZE)
        to[0] = 0x45
        _put16(to + 2, IPV4_SIZE + size)
        to[6] = 0x40  # do not fragment
        to[8] = HOPS
        to[9] = TCP
        memcpy(to + 12, self.addresses[side], 4)
        memcpy(to + 16, self.addresses[1 - side], 4)
        _put16(to + 10, _folded(_sum(to, IPV4_SIZE)))

    cdef void _put_ipv6(self, uint8_t* to, int side, Py_ssize_t size) noexcept nogil:
        _put32(to, 6 << 28)
        _put16(to + 4, size)
        to[6] = TCP
        to[7] = HOPS
        memcpy(to + 8, self.addresses[side], 16)
        memcpy(to + 24, self.addresses[1 - side], 16)


def checksum(bytes data not None) -> int:
    """Return the Internet checksum of RFC 1071: 16-bit ones' complement of the ones' complement sum."""
    return _folded(_sum(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)))


cdef uint64_t _sum(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """Return the ones' complement sum of 16-bit words in network order, the last one filled with a zero.

    Summing in another byte order gives the same sum in that byte order (RFC 1071, 2 B). So words of 32 bits are summed in the
    machine's byte order, and only the result is swapped.
    """
    cdef uint64_t total = 0
    cdef uint32_t word
    cdef uint16_t folded
    cdef Py_ssize_t position = 0
    while position + 4 <= size:
        memcpy(&word, data + position, 4)
        total += word
        position += 4
    if position < size:
        word = 0
        memcpy(&word, data + position, size - position)
        total += word
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    folded = <uint16_t>total
    return be16toh(folded)


cdef inline uint16_t _folded(uint64_t total) noexcept nogil:
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return <uint16_t>(0xFFFF - total)


cdef inline void _put16(uint8_t* to, uint64_t value) noexcept nogil:
    to[0] = value >> 8 & 0xFF
    to[1] = value & 0xFF


cdef inline void _put32(uint8_t* to, uint64_t value) noexcept nogil:
    to[0] = value >> 24 & 0xFF
    to[1] = value >> 16 & 0xFF
    to[2] = value >> 8 & 0xFF
    to[3] = value & 0xFF


def _parse(address):
    host, port = split_address(address)
    ip = parse_ip(host)
    if ip is None:
        raise ValueError(f"{address} does not begin with an IP address")
    return ip, port
