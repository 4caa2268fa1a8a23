"""pcapng, written: the header blocks of a file with one Ethernet interface, and packets with their comments.

Blocks and options as in draft-ietf-opsawg-pcapng, little-endian, times in nanoseconds.
"""

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
_PACKET = Struct("<IIIII")
_OPTION = Struct("<HH")
_SIZE = Struct("<I")


def file_header(application: str) -> bytes:
    """What a file begins with: the section, which names the *application*, and its only interface."""
    section = _SECTION.pack(BYTE_ORDER_MAGIC, 1, 0, UNKNOWN_SIZE) + _options((APPLICATION, application.encode()))
    interface = _INTERFACE.pack(ETHERNET, 0, 0) + _options((INTERFACE_NAME, b"kproxy"), (RESOLUTION, NANOSECONDS))
    return _block(SECTION_HEADER, section) + _block(INTERFACE, interface)


def packet(at: int, data: bytes, comment: str = "") -> bytes:
    """One packet at *at*, in ns since the epoch; *comment* is cut to MOST_COMMENT bytes, none is written when empty."""
    moment = at & 0xFFFFFFFFFFFFFFFF
    head = _PACKET.pack(0, moment >> 32, moment & 0xFFFFFFFF, len(data), len(data))
    text = comment.encode("utf-8", "backslashreplace")[:MOST_COMMENT].decode("utf-8", "ignore").encode()
    return _block(ENHANCED_PACKET, head + _padded(data) + (_options((COMMENT, text)) if text else b""))


def _block(kind: int, body: bytes) -> bytes:
    size = _SIZE.pack(len(body) + 12)
    return _SIZE.pack(kind) + size + body + size


def _options(*options: tuple[int, bytes]) -> bytes:
    return b"".join(_OPTION.pack(code, len(value)) + _padded(value) for code, value in options) + _OPTION.pack(0, 0)


def _padded(data: bytes) -> bytes:
    """To a multiple of 4 bytes."""
    return data + bytes(-len(data) % 4)
