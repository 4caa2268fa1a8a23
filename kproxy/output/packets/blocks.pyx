"""Write pcapng: the header blocks of a file with one Ethernet interface, and packets with their comments.

Blocks and options as in draft-ietf-opsawg-pcapng, little-endian, times in nanoseconds.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

from struct import Struct

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


def packet(at: int, bytes data not None, str comment not None="") -> bytes:
    """Return one packet at *at*, in ns since the epoch; *comment* is cut to MOST_COMMENT bytes, none is written when empty."""
    cdef uint64_t moment = at & 0xFFFFFFFFFFFFFFFF
    cdef uint64_t size = PyBytes_GET_SIZE(data)
    cdef bytes text = _text(comment) if comment else b""
    cdef uint64_t text_size = PyBytes_GET_SIZE(text)
    cdef uint64_t options = 4 + _padded(text_size) + 4 if text_size else 0  # and the end of options
    cdef uint64_t whole = PACKET_HEAD + _padded(size) + options + 4
    cdef bytes block = PyBytes_FromStringAndSize(NULL, whole)
    cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(block)
    _put32(to, PACKET_TYPE)
    _put32(to + 4, whole)
    _put32(to + 8, 0)
    _put32(to + 12, moment >> 32)
    _put32(to + 16, moment & 0xFFFFFFFF)
    _put32(to + 20, size)
    _put32(to + 24, size)
    to = _put_padded(to + PACKET_HEAD, <const uint8_t*>PyBytes_AS_STRING(data), size)
    if text_size:
        _put32(to, COMMENT_CODE | text_size << 16)
        to = _put_padded(to + 4, <const uint8_t*>PyBytes_AS_STRING(text), text_size)
        _put32(to, 0)
        to += 4
    _put32(to, whole)
    return block


cdef bytes _text(str comment):
    """Return the comment as UTF-8, cut between two characters."""
    cdef bytes text = comment.encode("utf-8", "backslashreplace")
    if PyBytes_GET_SIZE(text) <= MOST_COMMENT:
        return text
    return text[:MOST_COMMENT].decode("utf-8", "ignore").encode()


cdef inline void _put32(uint8_t* to, uint64_t value) noexcept nogil:
    to[0] = value & 0xFF
    to[1] = value >> 8 & 0xFF
    to[2] = value >> 16 & 0xFF
    to[3] = value >> 24 & 0xFF


cdef inline uint64_t _padded(uint64_t size) noexcept nogil:
    return (size + 3) & ~<uint64_t>3


cdef inline uint8_t* _put_padded(uint8_t* to, const uint8_t* data, uint64_t size) noexcept nogil:
    """Copy to a multiple of 4 bytes; return where it ends."""
    cdef uint64_t padded = _padded(size)
    memcpy(to, data, size)
    memset(to + size, 0, padded - size)
    return to + padded


def _block(kind, body):
    size = _SIZE.pack(len(body) + 12)
    return _SIZE.pack(kind) + size + body + size


def _options(*options):
    return b"".join([_OPTION.pack(code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]) + _OPTION.pack(0, 0)
