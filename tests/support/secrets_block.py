"""A pcapng file taken apart at its decryption secrets blocks (draft-ietf-opsawg-pcapng, section 4.7)."""

import struct

SECRETS = 10


def without_secrets(data: bytes) -> tuple[bytes, bytes]:
    """A little-endian pcapng file without its secrets blocks, and the key logs that were in them."""
    rest = keylog = b""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        block = data[at : at + size]
        if kind == SECRETS:
            (length,) = struct.unpack_from("<I", block, 12)
            keylog += block[16 : 16 + length]
        else:
            rest += block
        at += size
    return rest, keylog
