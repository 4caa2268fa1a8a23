"""Numbers of Kafka's framing that the schemas do not have: the size field, the largest frame, raw SASL tokens.

A frame is an int32 size and that many bytes: a header and a body, or a SASL token without either.
"""

SIZE_FIELD = 4  # bytes of the size field, which does not count itself
FRAME_LIMIT = 104_857_600  # the default of a broker's socket.request.max.bytes: larger frames are refused
TOKEN_LIMIT = 524_288  # the default of a broker's sasl.server.max.receive.size: the largest frame before authentication

# A client of Kafka 0.9 begins its connection with a raw GSSAPI token, without SaslHandshake. RFC 2743 section 3.1: an
# initial context token is an ASN.1 [APPLICATION 0]. As a request it would be of an API with a number above 24,576.
GSSAPI_FIRST_BYTE = 0x60
