"""Find the TCP segment in a captured packet: link types, VLAN tags, IPv4, IPv6 with extension headers, TCP.

A packet without a TCP segment gets one of OUTCOME_NAMES, by which kproxy.capture.reassembly counts it. unwrap.py finds
the layers of such packets with ``read_datagram``; reassembled datagrams, and packets inside a VXLAN, GRE or
other tunnel, return to ``dissect``, with link type RAW if nothing is below IP.

To add a link type: its number in the LINK_ enum; and in _network_version, which network header it has and where that begins.
To add an encapsulation: kproxy.capture.unwrap.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy

from kproxy.capture.spans cimport Span, at_most, be16, be32, swap32, u8

from kproxy.capture.items import Datagram, TcpSegment

OUTCOME_NAMES: tuple[str, ...] = (
    "tcp segment",
    "cut before the end of its headers",
    "link type not known",
    "not IP",
    "IP fragment",
    "malformed IP header",
    "more than 8 IPv6 extension headers",
    "UDP",
    "neither TCP nor UDP",
    "malformed TCP header",
)

# Link types, https://www.tcpdump.org/linktypes.html
cdef enum:
    LINK_NULL = 0
    LINK_ETHERNET = 1
    LINK_RAW_12 = 12  # DLT_RAW on most systems; 14 on OpenBSD
    LINK_RAW_14 = 14
    LINK_RAW = 101
    LINK_LOOP = 108
    LINK_LINUX_SLL = 113
    LINK_IPV4 = 228
    LINK_IPV6 = 229
    LINK_LINUX_SLL2 = 276

cdef enum:
    ETHERTYPE_IPV4 = 0x0800
    ETHERTYPE_IPV6 = 0x86DD
    ETHERTYPE_VLAN = 0x8100
    ETHERTYPE_QINQ = 0x88A8
    ETHERTYPE_OLD_QINQ = 0x9100
    MAX_TAGS = 8
    MAX_EXTENSION_HEADERS = 8
    MAX_DATAGRAM = 262_144  # "BIG TCP" exceeds 64 KiB; no packet exceeds libpcap's limit

cdef enum:
    PROTOCOL_HOP_BY_HOP = 0
    PROTOCOL_TCP = 6
    PROTOCOL_UDP = 17
    PROTOCOL_ROUTING = 43
    PROTOCOL_FRAGMENT = 44
    PROTOCOL_AUTHENTICATION = 51
    PROTOCOL_DESTINATION = 60
    PROTOCOL_MOBILITY = 135
    PROTOCOL_HIP = 139
    PROTOCOL_SHIM6 = 140


cdef struct Network:
    # An IP datagram: the protocol of its payload, and its position in the packet.
    Py_ssize_t payload
    Py_ssize_t end  # from the IP header; may be beyond the captured bytes
    Py_ssize_t source
    Py_ssize_t destination
    uint8_t address_size
    uint8_t protocol


cdef Outcome dissect(
    const uint8_t* data, Py_ssize_t size, Py_ssize_t original_size, uint16_t link_type, Segment* segment
) noexcept nogil:
    cdef Span span
    cdef Network network
    cdef Py_ssize_t at = 0
    cdef int version
    cdef Outcome outcome
    span.data, span.size, span.overrun = data, size, False
    version = _network_version(&span, link_type, &at)
    if version == 4:
        outcome = _ipv4(&span, at, original_size, &network)
    elif version == 6:
        outcome = _ipv6(&span, at, original_size, &network)
    elif span.overrun:
        return CUT_SHORT
    else:
        return UNKNOWN_LINK if version < 0 else NOT_IP
    if outcome != SEGMENT:
        return CUT_SHORT if span.overrun else outcome
    if network.protocol != PROTOCOL_TCP:
        return UDP if network.protocol == PROTOCOL_UDP else OTHER_PROTOCOL
    return _tcp(&span, &network, segment)


cdef int _network_version(Span* span, uint16_t link_type, Py_ssize_t* at) noexcept nogil:
    # Returns 4 or 6 and sets the position of that header; 0 for another protocol, -1 for an unknown link type.
    if link_type == LINK_ETHERNET:
        at[0] = 14
        return _by_ethertype(span, be16(span, 12), at)
    if link_type == LINK_LINUX_SLL:
        at[0] = 16
        return _by_ethertype(span, be16(span, 14), at)
    if link_type == LINK_LINUX_SLL2:
        at[0] = 20
        return _by_ethertype(span, be16(span, 0), at)
    if link_type == LINK_NULL or link_type == LINK_LOOP:
        at[0] = 4
        return _by_family(be32(span, 0))
    if link_type == LINK_IPV4:
        return 4
    if link_type == LINK_IPV6:
        return 6
    if link_type == LINK_RAW or link_type == LINK_RAW_12 or link_type == LINK_RAW_14:
        return _by_nibble(span, 0)
    return -1


cdef int _by_ethertype(Span* span, uint16_t ethertype, Py_ssize_t* at) noexcept nogil:
    cdef int tags = 0
    while (
        ethertype == ETHERTYPE_VLAN or ethertype == ETHERTYPE_QINQ or ethertype == ETHERTYPE_OLD_QINQ
    ) and tags < MAX_TAGS:
        ethertype = be16(span, at[0] + 2)
        at[0] += 4
        tags += 1
    if ethertype == ETHERTYPE_IPV4:
        return 4
    return 6 if ethertype == ETHERTYPE_IPV6 else 0


cdef int _by_family(uint32_t family) noexcept nogil:
    # NULL has the byte order of the machine that captured, LOOP that of the network.
    if family > 0xFFFF:
        family = swap32(family)
    if family == 2:  # AF_INET everywhere
        return 4
    # AF_INET6 of Linux, the BSDs, FreeBSD and macOS
    return 6 if family == 10 or family == 24 or family == 28 or family == 30 else 0


cdef int _by_nibble(Span* span, Py_ssize_t at) noexcept nogil:
    cdef uint8_t version = u8(span, at) >> 4
    return version if version == 4 or version == 6 else 0


cdef Outcome _ipv4(Span* span, Py_ssize_t at, Py_ssize_t original_size, Network* network) noexcept nogil:
    cdef uint8_t first = u8(span, at)
    cdef Py_ssize_t header_size = (first & 15) * 4
    cdef Py_ssize_t total = be16(span, at + 2)
    cdef uint16_t fragment = be16(span, at + 6)
    network.protocol = u8(span, at + 9)
    network.source, network.destination, network.address_size = at + 12, at + 16, 4
    network.payload = at + header_size
    # 0: captured before the network card split it (TSO); it extends to the end of the packet
    network.end = at + total if total > 0 else original_size
    if span.overrun:
        return CUT_SHORT
    if first >> 4 != 4 or header_size < 20 or network.end < network.payload or network.end - at > MAX_DATAGRAM:
        return MALFORMED_IP
    if fragment & 0x3FFF:  # more fragments, or not the first
        return FRAGMENT
    return SEGMENT


cdef Outcome _ipv6(Span* span, Py_ssize_t at, Py_ssize_t original_size, Network* network) noexcept nogil:
    cdef Py_ssize_t size = be16(span, at + 4)
    network.protocol = u8(span, at + 6)
    network.source, network.destination, network.address_size = at + 8, at + 24, 16
    network.payload = at + 40
    network.end = network.payload + size if size > 0 else original_size  # 0: TSO or a jumbogram (RFC 2675)
    if span.overrun:
        return CUT_SHORT
    if u8(span, at) >> 4 != 6 or network.end - at > MAX_DATAGRAM:
        return MALFORMED_IP
    return _extension_headers(span, network)


cdef Outcome _extension_headers(Span* span, Network* network) noexcept nogil:
    # RFC 8200 section 4; authentication (RFC 4302) counts its length in another unit.
    cdef int count = 0
    cdef uint8_t kind = network.protocol
    cdef Py_ssize_t at = network.payload
    while not span.overrun:
        if kind == PROTOCOL_FRAGMENT:
            if be16(span, at + 2) & 0xFFF9:
                return FRAGMENT  # but not an atomic fragment (RFC 6946), which is complete
            network.payload += 8
        elif kind == PROTOCOL_AUTHENTICATION:
            network.payload += (u8(span, at + 1) + 2) * 4
        elif (
            kind == PROTOCOL_HOP_BY_HOP
            or kind == PROTOCOL_ROUTING
            or kind == PROTOCOL_DESTINATION
            or kind == PROTOCOL_MOBILITY
            or kind == PROTOCOL_HIP
            or kind == PROTOCOL_SHIM6
        ):
            network.payload += (u8(span, at + 1) + 1) * 8
        else:
            network.protocol = kind
            return SEGMENT
        count += 1
        if count > MAX_EXTENSION_HEADERS:
            return TOO_MANY_HEADERS
        kind = u8(span, at)
        at = network.payload
    return CUT_SHORT


cdef Outcome _tcp(Span* span, Network* network, Segment* segment) noexcept nogil:
    cdef Py_ssize_t at = network.payload
    cdef Py_ssize_t header_size = (u8(span, at + 12) >> 4) * 4
    cdef Py_ssize_t captured_end
    segment.sequence = be32(span, at + 4)
    segment.acknowledgment = be32(span, at + 8)
    segment.flags = u8(span, at + 13)
    _make_key(span, network, segment)
    if span.overrun:
        return CUT_SHORT
    segment.payload = at + header_size
    if header_size < 20 or network.end < segment.payload:
        return MALFORMED_TCP
    captured_end = max(segment.payload, min(span.size, network.end))
    segment.size = <uint32_t>(captured_end - segment.payload) if segment.payload <= span.size else 0
    segment.missing = <uint32_t>(network.end - segment.payload) - segment.size
    return SEGMENT


cdef void _make_key(Span* span, Network* network, Segment* segment) noexcept nogil:
    cdef uint8_t ends[36]
    cdef Py_ssize_t end_size = network.address_size + 2
    cdef const uint8_t* source = at_most(span, network.source, network.address_size)
    cdef const uint8_t* destination = at_most(span, network.destination, network.address_size)
    cdef const uint8_t* ports = at_most(span, network.payload, 4)
    if source == NULL or destination == NULL or ports == NULL:
        return  # span.overrun is set
    memcpy(ends, source, network.address_size)
    memcpy(ends + network.address_size, ports, 2)
    memcpy(ends + end_size, destination, network.address_size)
    memcpy(ends + end_size + network.address_size, ports + 2, 2)
    segment.side = memcmp(ends, ends + end_size, end_size) > 0
    memcpy(segment.key, ends + (end_size if segment.side else 0), end_size)
    memcpy(segment.key + end_size, ends + (0 if segment.side else end_size), end_size)
    segment.key_size = <uint8_t>(2 * end_size)


def read_segment(int link_type, bytes data, original_size: int | None = None) -> TcpSegment | str:
    """Return the TcpSegment in a packet, or the reason why it has none (one of OUTCOME_NAMES): ``dissect`` for Python."""
    cdef Segment segment
    cdef Py_ssize_t original = len(data) if original_size is None else min(original_size, 0xFFFFFFFF)
    if not 0 <= link_type <= 0xFFFF:
        return OUTCOME_NAMES[<int>UNKNOWN_LINK]
    cdef Outcome outcome = dissect(<const uint8_t*><const char*>data, len(data), original, link_type, &segment)
    if outcome != SEGMENT:
        return OUTCOME_NAMES[<int>outcome]
    key = (<const char*>segment.key)[: segment.key_size]
    payload = data[segment.payload : segment.payload + <Py_ssize_t>segment.size]
    return TcpSegment(
        key, segment.side, segment.sequence, segment.acknowledgment, segment.flags, payload, segment.missing
    )


def read_datagram(int link_type, bytes data, Py_ssize_t original_size) -> Datagram | None:
    """Return the Datagram in a packet; None if its link type is unknown, or its headers are cut or malformed.

    *version* is 4 or 6, or 0 if it is not IP; then *start* is behind the *ethertype*, and nothing else is known. The payload
    of an IPv6 fragment is its fragment header. *end* comes from the IP header, even if less was captured.
    """
    cdef Span span
    cdef Network network
    cdef Outcome outcome
    cdef Py_ssize_t at = 0
    if not 0 <= link_type <= 0xFFFF:
        return None
    span.data, span.size, span.overrun = <const uint8_t*><const char*>data, len(data), False
    cdef int version = _network_version(&span, <uint16_t>link_type, &at)
    if version < 0 or span.overrun:
        return None
    if version == 0:
        return Datagram(0, _ethertype_before(&span, link_type, at), at, at, original_size, 0)
    if version == 4:
        outcome = _ipv4(&span, at, original_size, &network)
    else:
        outcome = _ipv6(&span, at, original_size, &network)
    if span.overrun or (outcome != SEGMENT and outcome != FRAGMENT):
        return None
    return Datagram(version, 0, at, network.payload, network.end, network.protocol)


cdef int _ethertype_before(Span* span, int link_type, Py_ssize_t at) noexcept nogil:
    # SLL2 begins with it; a VLAN tag and other headers end with it. Loopback and raw IP have none.
    if link_type == LINK_LINUX_SLL2 and at == 20:
        return be16(span, 0)
    return be16(span, at - 2) if at >= 14 else 0
