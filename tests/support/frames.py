"""Kafka frames and record batches written by hand with struct alone: what kproxy reads does not come from what it writes.

Layouts are those of the protocol guide (the grammar of Kafka 3.6's documentation), with uuids as 16 bytes, and of
DefaultRecordBatch, DefaultRecord and LegacyRecord.
"""

import struct
import zlib
from struct import pack

# What franz-go 1.22.2 wrote first on a connection to Kafka 4.3.1: ApiVersions v5 (KIP-1242), with the cluster id null and the
# node id -1 behind the client's software. And what the broker, which knows versions up to 4, answered.
FRANZ_GO_API_VERSIONS = bytes.fromhex(
    "000000280012000500000000000b6672616e7a2dc3a92dc3bc00046b676f0876312e32322e3200ffffffff00"
)
KAFKA_4_3_REFUSAL = bytes.fromhex("00000010000000000023000000010012" + "00000004")


def frame(data: bytes) -> bytes:
    """int32 size and *data*."""
    return pack(">i", len(data)) + data


def string(text: str | None) -> bytes:
    """NULLABLE_STRING: int16 size, UTF-8."""
    return pack(">h", -1) if text is None else pack(">h", len(text.encode())) + text.encode()


def compact(text: str) -> bytes:
    """COMPACT_STRING of fewer than 127 bytes."""
    return bytes([len(text.encode()) + 1]) + text.encode()


def array(*elements: bytes) -> bytes:
    """ARRAY: int32 count, elements."""
    return pack(">i", len(elements)) + b"".join(elements)


def compact_array(*elements: bytes) -> bytes:
    """COMPACT_ARRAY of fewer than 127 elements."""
    return bytes([len(elements) + 1]) + b"".join(elements)


def request(
    api_key: int,
    api_version: int,
    correlation_id: int,
    body: bytes,
    *,
    client_id: str | None = "app",
    tags: bytes = b"",
) -> bytes:
    """A request frame; header version 1, or 2 when *tags* (b"\\0" for none) are given."""
    return frame(pack(">hhi", api_key, api_version, correlation_id) + string(client_id) + tags + body)


def response(correlation_id: int, body: bytes, *, tags: bytes = b"") -> bytes:
    """A response frame; header version 0, or 1 when *tags* are given."""
    return frame(pack(">i", correlation_id) + tags + body)


def heartbeat(correlation_id: int, group: str = "g", *, client_id: str | None = "app") -> bytes:
    """Heartbeat v0: group_id, generation_id, member_id."""
    return request(12, 0, correlation_id, string(group) + pack(">i", 5) + string("m-1"), client_id=client_id)


def heartbeat_answer(correlation_id: int, error_code: int = 0) -> bytes:
    """Heartbeat v0 response: error_code."""
    return response(correlation_id, pack(">h", error_code))


def produce(correlation_id: int, acks: int) -> bytes:
    """Produce v3 without topics: transactional_id, acks, timeout_ms, topic_data."""
    return request(0, 3, correlation_id, string(None) + pack(">hi", acks, 1500) + array())


def produce_answer(correlation_id: int) -> bytes:
    """Produce v3 response: responses, throttle_time_ms."""
    return response(correlation_id, array() + pack(">i", 0))


def api_versions(correlation_id: int, name: str = "testlib", version: str = "1.2") -> bytes:
    """ApiVersions v3: header 2, client_software_name, client_software_version."""
    return request(18, 3, correlation_id, compact(name) + compact(version) + b"\0", tags=b"\0")


def api_versions_answer(correlation_id: int) -> bytes:
    """ApiVersions v3 response with one API: error_code, api_keys, throttle_time_ms, no tags; header 0 (KIP-511)."""
    return response(
        correlation_id, pack(">h", 0) + compact_array(pack(">hhh", 18, 0, 3) + b"\0") + pack(">i", 0) + b"\0"
    )


def api_versions_refusal(correlation_id: int) -> bytes:
    """What a broker that lacks the version says: version 0, error 35, one entry for ApiVersions (KIP-511)."""
    return response(correlation_id, pack(">h", 35) + array(pack(">hhh", 18, 0, 2)))


def sasl_handshake(correlation_id: int, api_version: int, mechanism: str = "PLAIN") -> bytes:
    """SaslHandshake v0 or v1: mechanism."""
    return request(17, api_version, correlation_id, string(mechanism))


def sasl_handshake_answer(correlation_id: int, error_code: int = 0) -> bytes:
    """SaslHandshake response: error_code, mechanisms."""
    return response(correlation_id, pack(">h", error_code) + array(string("PLAIN"), string("GSSAPI")))


def sasl_authenticate(correlation_id: int, token: bytes) -> bytes:
    """SaslAuthenticate v0: auth_bytes."""
    return request(36, 0, correlation_id, pack(">i", len(token)) + token)


def sasl_authenticate_answer(correlation_id: int, error_code: int = 0) -> bytes:
    """SaslAuthenticate v0 response: error_code, error_message, auth_bytes."""
    return response(correlation_id, pack(">h", error_code) + string(None) + pack(">i", 0))


def fetch(
    correlation_id: int,
    session_id: int,
    epoch: int,
    *,
    partitions: tuple[tuple[int, int], ...] = (),
    forgotten: tuple[int, ...] = (),
    topic: str = "orders",
) -> bytes:
    """Fetch v7 of one topic; *partitions* are (partition, fetch offset)."""
    asked = [pack(">iqqi", partition, offset, -1, 1 << 20) for partition, offset in partitions]
    topics = array(string(topic) + array(*asked)) if asked else array()
    gone = array(string(topic) + array(*(pack(">i", partition) for partition in forgotten))) if forgotten else array()
    return request(1, 7, correlation_id, pack(">iiiibii", -1, 500, 1, 1 << 20, 0, session_id, epoch) + topics + gone)


def fetch_answer(correlation_id: int, session_id: int) -> bytes:
    """Fetch v7 response without records: throttle_time_ms, error_code, session_id, responses."""
    return response(correlation_id, pack(">ihi", 0, 0, session_id) + array())


def metadata(correlation_id: int) -> bytes:
    """Metadata v12 for all topics: topics null, allow_auto_topic_creation, include_topic_authorized_operations."""
    return request(3, 12, correlation_id, b"\0" + b"\0" + b"\0" + b"\0", tags=b"\0")


def metadata_answer(correlation_id: int, topics: dict[str, bytes], brokers: dict[int, tuple[str, int]]) -> bytes:
    """Metadata v12 response; topics are name -> topic id, without partitions; the cluster id is "cluster-1"."""
    nodes = [pack(">i", node) + compact(host) + pack(">i", port) + b"\0\0" for node, (host, port) in brokers.items()]
    named = [
        pack(">h", 0) + compact(name) + topic_id + b"\0" + compact_array() + pack(">i", -(1 << 31)) + b"\0"
        for name, topic_id in topics.items()
    ]
    body = pack(">i", 0) + compact_array(*nodes) + compact("cluster-1") + pack(">i", 1) + compact_array(*named) + b"\0"
    return response(correlation_id, body, tags=b"\0")


def delete_topic(correlation_id: int, topic_id: bytes) -> bytes:
    """DeleteTopics v6 of one topic by its id: topics (name, topic_id), timeout_ms."""
    return request(20, 6, correlation_id, compact_array(b"\0" + topic_id + b"\0") + pack(">i", 100) + b"\0", tags=b"\0")


def delete_topic_answer(correlation_id: int, topic_id: bytes) -> bytes:
    """DeleteTopics v6 response that leaves the name out: throttle_time_ms, responses."""
    deleted = b"\0" + topic_id + pack(">h", 0) + b"\0" + b"\0"
    return response(correlation_id, pack(">i", 0) + compact_array(deleted) + b"\0", tags=b"\0")


_CRC32C = [0] * 256
for _value in range(256):
    _crc = _value
    for _ in range(8):
        _crc = _crc >> 1 ^ (0x82F63B78 if _crc & 1 else 0)
    _CRC32C[_value] = _crc


def crc32c(data: bytes) -> int:
    """CRC-32C (RFC 3720, B.4), byte by byte."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(value: int) -> bytes:
    """Zig-zag, as short as can be."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(key: bytes | None, value: bytes | None, delta: int = 0, headers: bytes = b"\x00") -> bytes:
    """A record of magic 2; *headers* from their count on."""
    body = b"\x00" + varint(0) + varint(delta) + sized(key) + sized(value) + headers
    return varint(len(body)) + body


def batch(
    records: bytes,
    count: int,
    *,
    attributes: int = 0,
    base_offset: int = 0,
    last_delta: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch of magic 2 with the right CRC, whatever is in it. *producer*: its id, epoch, and the base sequence."""
    delta = max(0, count - 1) if last_delta is None else last_delta
    covered = struct.pack(">hiqqqhii", attributes, delta, 1_000, 2_000, *producer, count) + records
    return struct.pack(">qiibI", base_offset, len(covered) + 9, -1, 2, crc32c(covered)) + covered


def message(
    value: bytes | None,
    *,
    key: bytes | None = None,
    magic: int = 1,
    attributes: int = 0,
    offset: int = 0,
    timestamp: int = 7,
) -> bytes:
    """A message of magic 0 or 1 with the right CRC, whatever is in it."""
    covered = struct.pack(">bB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        covered += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered
