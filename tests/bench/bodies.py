"""The two bodies that the codec benchmarks use, made by hand from fixed numbers: the same bytes on every machine."""

import random
import struct
import uuid


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact(data: bytes | None) -> bytes:
    """COMPACT_STRING, COMPACT_BYTES and COMPACT_RECORDS: length + 1, 0 is null."""
    return b"\0" if data is None else uvarint(len(data) + 1) + data


def compact_array(items: list[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def int32s(values: list[int]) -> bytes:
    return compact_array([struct.pack(">i", value) for value in values])


NO_TAGS = b"\0"


def metadata_response_v12(topics: int = 60, partitions: int = 10) -> bytes:
    """MetadataResponse v12, 28 KB: six brokers, three replicas a partition, as a cluster of some size answers."""
    brokers = [
        struct.pack(">i", number)
        + compact(f"broker-{number}.kafka.example.com".encode())
        + struct.pack(">i", 9092)
        + compact(f"rack-{number % 3}".encode())
        + NO_TAGS
        for number in range(6)
    ]
    described = []
    for topic in range(topics):
        of_topic = []
        for partition in range(partitions):
            replicas = [(topic + partition + step) % 6 for step in range(3)]
            of_topic.append(
                struct.pack(">hiii", 0, partition, replicas[0], 7 + topic)
                + int32s(replicas)
                + int32s(replicas)
                + int32s([])
                + NO_TAGS
            )
        name = f"orders.region-{topic:03}.events".encode()
        topic_id = uuid.UUID(int=0x4B50_0000_0000_4000_8000_0000_0000_0000 + topic).bytes
        flags = b"\0" + compact_array(of_topic) + struct.pack(">i", -(2**31))
        described.append(struct.pack(">h", 0) + compact(name) + topic_id + flags + NO_TAGS)
    cluster = compact(b"Nk018hRAQFytWskYqtQduw") + struct.pack(">i", 1)
    return struct.pack(">i", 0) + compact_array(brokers) + cluster + compact_array(described) + NO_TAGS


def fetch_response_v13(topics: int = 20, partitions: int = 5, record_bytes: int = 170) -> bytes:
    """FetchResponse v13, 21 KB: a hundred partitions with a small record batch each, as busy consumers get them."""
    chance = random.Random(13)
    responses = []
    for topic in range(topics):
        of_topic = []
        for partition in range(partitions):
            high_watermark = 1_000_000 + topic * 1000 + partition
            of_topic.append(
                struct.pack(">ihqqq", partition, 0, high_watermark, high_watermark, 500_000)
                + compact(None)  # abortedTransactions
                + struct.pack(">i", -1)
                + compact(chance.randbytes(record_bytes))
                + NO_TAGS
            )
        topic_id = uuid.UUID(int=0x4B50_0000_0000_4000_8000_0000_0000_0000 + topic).bytes
        responses.append(topic_id + compact_array(of_topic) + NO_TAGS)
    return struct.pack(">ihi", 0, 0, 77) + compact_array(responses) + NO_TAGS
