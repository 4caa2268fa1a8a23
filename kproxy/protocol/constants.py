"""Kafka's framing and names beyond the schemas: size field, largest frame, raw SASL tokens, varints, special ids and topics.

A frame is an int32 size and that many bytes: a header and a body, or only a SASL token.
"""

SIZE_FIELD = 4  # bytes of the size field, which does not count itself
FRAME_LIMIT = 104_857_600  # bytes; brokers refuse larger frames by default (socket.request.max.bytes)
TOKEN_LIMIT = 524_288  # bytes; the same before authentication (sasl.server.max.receive.size)

# A client of Kafka 0.9 begins with a raw GSSAPI token, without SaslHandshake. Its first byte is that of ASN.1's [APPLICATION 0]
# (RFC 2743 section 3.1), with which a request would be of an API above 24,576.
GSSAPI_FIRST_BYTE = 0x60

ZERO_UUID = "A" * 22  # sixteen zero bytes in Kafka's text form (org.apache.kafka.common.Uuid.ZERO_UUID): no id

# Of every KRaft cluster, and in no Metadata response (org.apache.kafka.common.Uuid.METADATA_TOPIC_ID; KIP-516, KIP-595)
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = "A" * 21 + "Q"
METADATA_TOPIC_ID_BYTES = bytes(15) + b"\x01"

# Internal topics -> the module of Kafka that defines the messages in their records. A record of a coordinator has a message in
# its key and one in its value (CoordinatorRecordSerde); other records have one in a framed value (AbstractApiMessageSerde).
COORDINATOR_TOPICS = {
    "__consumer_offsets": "kafka-group-coordinator",
    "__transaction_state": "kafka-transaction-coordinator",
    "__share_group_state": "kafka-share-coordinator",
}
FRAMED_TOPICS = {METADATA_TOPIC: "kafka-metadata", "__remote_log_metadata": "kafka-storage"}
INTERNAL_TOPICS = frozenset({*COORDINATOR_TOPICS, *FRAMED_TOPICS})
NOT_APPENDED = -1  # the partition leader epoch of batches that no broker has appended: their offsets begin at 0


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint (ByteUtils.writeUnsignedVarint): seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
