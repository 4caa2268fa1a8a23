"""Kafka's framing beyond the schemas: the size field, the largest frame, raw SASL tokens, unsigned varints.

A frame is an int32 size and that many bytes: a header and a body, or only a SASL token.
"""

SIZE_FIELD = 4  # bytes of the size field, which does not count itself
FRAME_LIMIT = 104_857_600  # bytes; brokers refuse larger frames by default (socket.request.max.bytes)
TOKEN_LIMIT = 524_288  # bytes; the same before authentication (sasl.server.max.receive.size)

# A client of Kafka 0.9 begins with a raw GSSAPI token, without SaslHandshake. Its first byte is that of ASN.1's [APPLICATION 0]
# (RFC 2743 section 3.1), with which a request would be of an API above 24,576.
GSSAPI_FIRST_BYTE = 0x60


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint (ByteUtils.writeUnsignedVarint): seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
