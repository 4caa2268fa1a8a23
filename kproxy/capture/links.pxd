# A packet's TCP segment, for reassembly.pyx.

from libc.stdint cimport uint8_t, uint16_t, uint32_t


cdef enum Outcome:
    SEGMENT = 0  # a TCP segment: all fields are set
    CUT_SHORT = 1
    UNKNOWN_LINK = 2
    NOT_IP = 3
    FRAGMENT = 4
    MALFORMED_IP = 5
    TOO_MANY_HEADERS = 6
    UDP = 7
    OTHER_PROTOCOL = 8
    MALFORMED_TCP = 9
    OUTCOMES = 10


cdef enum:
    FIN = 1
    SYN = 2
    RST = 4
    ACK = 16
    KEY_SIZE = 36


cdef struct Segment:
    uint8_t key[36]  # both endpoints (address, port), the smaller one first: the same for both directions
    uint8_t key_size  # 12 for IPv4, 36 for IPv6
    uint8_t side  # 0: sent by the endpoint that is first in the key
    uint8_t flags
    uint32_t sequence
    uint32_t acknowledgment
    Py_ssize_t payload  # position in the packet
    uint32_t size  # captured bytes of the payload
    uint32_t missing  # bytes of the payload that the capture cut off


cdef Outcome dissect(
    const uint8_t* data, Py_ssize_t size, Py_ssize_t original_size, uint16_t link_type, Segment* segment
) noexcept nogil
