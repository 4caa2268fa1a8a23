"""Special ids: the null id, and the id of the topic that no Metadata response lists."""

ZERO_UUID = "A" * 22  # sixteen zero bytes in Kafka's text form (org.apache.kafka.common.Uuid.ZERO_UUID): no id

# Of every KRaft cluster, and in no Metadata response (org.apache.kafka.common.Uuid.METADATA_TOPIC_ID; KIP-516, KIP-595)
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = "A" * 21 + "Q"
METADATA_TOPIC_ID_BYTES = bytes(15) + b"\x01"
