"""A capture file of any size for the decode benchmark, written fast and the same every time.

Four producers and four consumers on one broker, port 9092, in the newest versions that tshark 4.0 can read: Produce v8
and Fetch v11 with batches of 16 KB to 1 MB of 1 KB records, and Heartbeats, OffsetCommits and Metadata among them.
"""

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tests.bench.bodies import NO_TAGS, compact, compact_array, uvarint

BROKER_PORT = 9092
TOPIC = b"orders.events"
SEGMENT = {"mtu1500": 1460, "loopback": 65_483}  # TCP payload bytes of a full packet
BATCH_SIZES = [16_000] * 12 + [64_000] * 6 + [256_000] * 2 + [1_000_000]

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


def zigzag(value: int) -> bytes:
    return uvarint(value << 1 ^ value >> 63)


def record_batch(chance: random.Random, size: int) -> bytes:
    """A batch of magic 2, not compressed, of about *size* bytes in records of 1 KB."""
    records = []
    for number in range(max(1, size // 1024)):
        key = b"key-%06d" % chance.randrange(1_000_000)
        value = chance.randbytes(500).hex().encode()
        record = (
            b"\0" + zigzag(number) + zigzag(number) + zigzag(len(key)) + key + zigzag(len(value)) + value + zigzag(0)
        )
        records.append(zigzag(len(record)) + record)
    at = 1_763_000_000_000
    fields = struct.pack(">hiqqqhii", 0, len(records) - 1, at, at + len(records), -1, -1, -1, len(records))
    checked = fields + b"".join(records)
    after_length = struct.pack(">ibI", 0, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(after_length)) + after_length


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def string(data: bytes) -> bytes:
    return struct.pack(">h", len(data)) + data


def array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


NULL_STRING = b"\xff\xff"


def request(api_key: int, api_version: int, correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    """A frame with request header v1, or v2 where the version is flexible."""
    header = struct.pack(">hhi", api_key, api_version, correlation_id) + string(b"bench-01")
    return framed(header + (NO_TAGS if flexible else b"") + body)


def response(correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    """A frame with response header v0, or v1 where the version is flexible."""
    return framed(struct.pack(">i", correlation_id) + (NO_TAGS if flexible else b"") + body)


Exchange = tuple[bytes, bytes]


def produce_v8(correlation_id: int, batch: bytes, topic: bytes = TOPIC) -> Exchange:
    asked = array([struct.pack(">i", 0) + framed(batch)])
    body = NULL_STRING + struct.pack(">hi", -1, 30_000) + array([string(topic) + asked])
    told = struct.pack(">ihqqq", 0, 0, correlation_id, -1, 0) + array([]) + NULL_STRING
    answer = array([string(topic) + array([told])]) + struct.pack(">i", 0)
    return request(0, 8, correlation_id, body), response(correlation_id, answer)


def fetch_v11(correlation_id: int, batch: bytes) -> Exchange:
    asked = struct.pack(">iiqqi", 0, 5, correlation_id, -1, 1 << 20)
    limits = struct.pack(">iiiibii", -1, 500, 1, 50 << 20, 1, 4711, correlation_id)
    body = limits + array([string(TOPIC) + array([asked])]) + array([]) + string(b"")
    told = (
        struct.pack(">ihqqq", 0, 0, correlation_id, correlation_id, 0)
        + array([])
        + struct.pack(">i", -1)
        + framed(batch)
    )
    answer = struct.pack(">ihi", 0, 0, 4711) + array([string(TOPIC) + array([told])])
    return request(1, 11, correlation_id, body), response(correlation_id, answer)


def metadata_v8(correlation_id: int) -> Exchange:
    body = array([string(TOPIC)]) + b"\1\0\0"
    brokers = [
        struct.pack(">i", n) + string(b"broker.example.com") + struct.pack(">i", 9092) + NULL_STRING for n in range(3)
    ]
    replicas = array([struct.pack(">i", number) for number in range(3)])
    partitions = [struct.pack(">hiii", 0, n, n % 3, 7) + replicas + replicas + array([]) for n in range(12)]
    topic = struct.pack(">h", 0) + string(TOPIC) + b"\0" + array(partitions) + struct.pack(">i", -(2**31))
    cluster = string(b"Nk018hRAQFytWskYqtQduw") + struct.pack(">i", 1)
    answer = struct.pack(">i", 0) + array(brokers) + cluster + array([topic]) + struct.pack(">i", -(2**31))
    return request(3, 8, correlation_id, body), response(correlation_id, answer)


def heartbeat_v4(correlation_id: int) -> Exchange:
    body = compact(b"orders-group") + struct.pack(">i", 3) + compact(b"member-1") + compact(None) + NO_TAGS
    answer = struct.pack(">ih", 0, 0) + NO_TAGS
    return request(12, 4, correlation_id, body, flexible=True), response(correlation_id, answer, flexible=True)


def offset_commit_v8(correlation_id: int) -> Exchange:
    partition = struct.pack(">iqi", 0, correlation_id, 5) + compact(b"") + NO_TAGS
    topics = compact_array([compact(TOPIC) + compact_array([partition]) + NO_TAGS])
    body = compact(b"orders-group") + struct.pack(">i", 3) + compact(b"member-1") + compact(None) + topics + NO_TAGS
    told = compact_array([compact(TOPIC) + compact_array([struct.pack(">ih", 0, 0) + NO_TAGS]) + NO_TAGS])
    answer = struct.pack(">i", 0) + told + NO_TAGS
    return request(8, 8, correlation_id, body, flexible=True), response(correlation_id, answer, flexible=True)


class Connection:
    """One TCP connection over Ethernet and IPv4, as packets of a pcap file."""

    def __init__(self, out: BinaryIO, number: int, segment: int) -> None:
        self.out, self.segment = out, segment
        self.port = 40_000 + number % 25_000
        self.next = [1_000 * number & 0xFFFFFFFF, 2_000 * number & 0xFFFFFFFF]  # sequence numbers: client, broker

    def open(self, at: int) -> None:
        self._packet(0, b"", 0x02, at)
        self.next[0] += 1
        self._packet(1, b"", 0x12, at)
        self.next[1] += 1
        self._packet(0, b"", 0x10, at)

    def finish(self, at: int) -> None:
        """FIN of the client, then of the broker."""
        for side in (0, 1):
            self._packet(side, b"", 0x11, at)
            self.next[side] = self.next[side] + 1 & 0xFFFFFFFF
        self._packet(0, b"", 0x10, at)

    def send(self, side: int, data: bytes, at: int) -> None:
        """Data of one side (0 the client) in full segments; every second one is acknowledged (RFC 1122, 4.2.3.2)."""
        for number, start in enumerate(range(0, len(data), self.segment)):
            part = data[start : start + self.segment]
            self._packet(side, part, 0x18, at + number)
            self.next[side] = self.next[side] + len(part) & 0xFFFFFFFF
            if number % 2:
                self._packet(1 - side, b"", 0x10, at + number)

    def _packet(self, side: int, data: bytes, flags: int, at: int) -> None:
        ports = (self.port, BROKER_PORT) if side == 0 else (BROKER_PORT, self.port)
        hosts = (b"\x0a\0\0\1", b"\x0a\0\0\2") if side == 0 else (b"\x0a\0\0\2", b"\x0a\0\0\1")
        acknowledged = self.next[1 - side] if flags & 0x10 else 0
        tcp = struct.pack(">HHIIBBHHH", *ports, self.next[side], acknowledged, 0x50, flags, 65_535, 0, 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0, *hosts)
        size = 14 + 40 + len(data)
        header = struct.pack("<IIII", at // 1_000_000, at % 1_000_000, size, size)
        self.out.write(b"".join((header, b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0", ip, tcp, data)))


def conversations(chance: random.Random) -> Iterator[tuple[int, Exchange]]:
    """(connection, exchange) without end."""
    batches = {size: record_batch(chance, size) for size in set(BATCH_SIZES)}
    correlation_id = 0
    while True:
        correlation_id += 1
        connection = chance.randrange(8)
        match chance.randrange(8):
            case 0:
                yield connection, heartbeat_v4(correlation_id)
            case 1:
                yield connection, offset_commit_v8(correlation_id)
            case 2:
                yield connection, metadata_v8(correlation_id)
            case _:
                batch = batches[chance.choice(BATCH_SIZES)]
                make = produce_v8 if connection < 4 else fetch_v11
                yield connection, make(correlation_id, batch)


def file_header() -> bytes:
    """Of a pcap file with microseconds and Ethernet."""
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)


def write_capture(path: Path, size: int, kind: str) -> int:
    """Write about *size* bytes of traffic; *kind* is a key of SEGMENT. Returns the number of exchanges in it."""
    exchanges = 0
    at = 1_763_000_000_000_000  # microseconds
    with path.open("wb") as out:
        out.write(file_header())
        connections = [Connection(out, number, SEGMENT[kind]) for number in range(8)]
        for connection in connections:
            connection.open(at)
        for number, (asked, answered) in conversations(random.Random(9092)):
            connections[number].send(0, asked, at)
            connections[number].send(1, answered, at + 900)
            at += 1_500
            exchanges += 1
            if out.tell() >= size:
                return exchanges
    raise AssertionError("conversations never end")
