"""Captures of any size for the benchmarks, made by hand from fixed numbers: the same bytes on every machine, written fast.

SHAPES, in the newest versions that tshark 4.0 can read:

    mtu1500, loopback   four producers and four consumers on one broker: batches of 16 KB to 1 MB of 1 KB records, in segments of
                        1460 bytes or of 64 KB, and Heartbeats, OffsetCommits and Metadata among them
    tiny                short connections of a consumer group: a dozen small requests each, then FIN
    mixed               tiny connections, and Produce and Fetch of one to sixteen records of 1 KB on long ones, MTU 1500

``write_cluster`` (for Spark): six brokers; TOPICS topics, each with an id, four producers and four consumers on connections that
last as long as the capture (Produce 13 and Fetch 13, which name topics by id; their names are on other connections, in Metadata
12), batches of 1 KB to 256 KB with the small ones most frequent; and, between them, short connections of consumer groups.
"""

import random
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tests.support.frames import crc32c, frame, varint


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


NO_TAGS = b"\0"


BROKER_PORT = 9092
TOPIC = b"orders.events"
SEGMENT = {"mtu1500": 1460, "loopback": 65_483}  # TCP payload bytes of a full packet
BATCH_SIZES = [16_000] * 12 + [64_000] * 6 + [256_000] * 2 + [1_000_000]


def record_batch(chance: random.Random, size: int) -> bytes:
    """A batch of magic 2, not compressed, of about *size* bytes in records of 1 KB."""
    records = []
    for number in range(max(1, size // 1024)):
        key = b"key-%06d" % chance.randrange(1_000_000)
        value = chance.randbytes(500).hex().encode()
        record = (
            b"\0" + varint(number) + varint(number) + varint(len(key)) + key + varint(len(value)) + value + varint(0)
        )
        records.append(varint(len(record)) + record)
    at = 1_763_000_000_000
    fields = struct.pack(">hiqqqhii", 0, len(records) - 1, at, at + len(records), -1, -1, -1, len(records))
    checked = fields + b"".join(records)
    after_length = struct.pack(">ibI", 0, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(after_length)) + after_length


def string(data: bytes) -> bytes:
    return struct.pack(">h", len(data)) + data


def array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


NULL_STRING = b"\xff\xff"


def request(api_key: int, api_version: int, correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    """A frame with request header v1, or v2 where the version is flexible."""
    header = struct.pack(">hhi", api_key, api_version, correlation_id) + string(b"bench-01")
    return frame(header + (NO_TAGS if flexible else b"") + body)


def response(correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    """A frame with response header v0, or v1 where the version is flexible."""
    return frame(struct.pack(">i", correlation_id) + (NO_TAGS if flexible else b"") + body)


Exchange = tuple[bytes, bytes]


def produce_v8(correlation_id: int, batch: bytes, topic: bytes = TOPIC) -> Exchange:
    asked = array([struct.pack(">i", 0) + frame(batch)])
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
        + frame(batch)
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

    def __init__(
        self, out: BinaryIO, number: int, segment: int, client: bytes = b"\x0a\0\0\1", broker: bytes = b"\x0a\0\0\2"
    ) -> None:
        self.out, self.segment, self.hosts = out, segment, (client, broker)
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
        acknowledged = self.next[1 - side] if flags & 0x10 else 0
        tcp = struct.pack(">HHIIBBHHH", *ports, self.next[side], acknowledged, 0x50, flags, 65_535, 0, 0)
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0, self.hosts[side], self.hosts[1 - side]
        )
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


GROUP = b"orders-group"
MEMBER = b"bench-01-5a3f2c90-6f6a-4a63-a7dc-f2bb1a3a3b60"
FIRST_AT = 1_763_000_000_000_000  # microseconds
BETWEEN = 700  # microseconds from one exchange to the next

Write = Callable[[Path, int], int]


def api_versions_v3(correlation_id: int) -> Exchange:
    body = compact(b"bench") + compact(b"1.0") + NO_TAGS
    apis = compact_array([struct.pack(">hhh", key, 0, 8) + NO_TAGS for key in range(45)])
    # The response's header is version 0 whatever the request's is (KIP-511).
    answer = struct.pack(">h", 0) + apis + struct.pack(">i", 0) + NO_TAGS
    return request(18, 3, correlation_id, body, flexible=True), response(correlation_id, answer)


def find_coordinator_v2(correlation_id: int) -> Exchange:
    answer = struct.pack(">ih", 0, 0) + string(b"NONE") + struct.pack(">i", 1) + string(b"broker.example.com")
    return request(10, 2, correlation_id, string(GROUP) + b"\0"), response(
        correlation_id, answer + struct.pack(">i", 9092)
    )


def join_group_v6(correlation_id: int) -> Exchange:
    subscription = compact(struct.pack(">h", 0) + array([string(TOPIC)]) + frame(b""))
    protocols = compact_array([compact(b"range") + subscription + NO_TAGS])
    timeouts = struct.pack(">ii", 45_000, 300_000)
    body = compact(GROUP) + timeouts + compact(b"") + compact(None) + compact(b"consumer") + protocols + NO_TAGS
    members = compact_array([compact(MEMBER) + compact(None) + subscription + NO_TAGS])
    answer = struct.pack(">ihi", 0, 0, 3) + compact(b"range") + compact(MEMBER) + compact(MEMBER) + members + NO_TAGS
    return request(11, 6, correlation_id, body, flexible=True), response(correlation_id, answer, flexible=True)


def offset_fetch_v5(correlation_id: int) -> Exchange:
    asked = array([string(TOPIC) + array([struct.pack(">i", number) for number in range(3)])])
    told = [struct.pack(">iqi", number, correlation_id, 5) + string(b"") + struct.pack(">h", 0) for number in range(3)]
    answer = struct.pack(">i", 0) + array([string(TOPIC) + array(told)]) + struct.pack(">h", 0)
    return request(9, 5, correlation_id, string(GROUP) + asked), response(correlation_id, answer)


def leave_group_v2(correlation_id: int) -> Exchange:
    return request(13, 2, correlation_id, string(GROUP) + string(MEMBER)), response(
        correlation_id, struct.pack(">ih", 0, 0)
    )


SESSION = (
    api_versions_v3,
    metadata_v8,
    find_coordinator_v2,
    join_group_v6,
    offset_fetch_v5,
    heartbeat_v4,
    offset_commit_v8,
    heartbeat_v4,
    offset_commit_v8,
    heartbeat_v4,
    leave_group_v2,
)


def write_tiny(path: Path, size: int) -> int:
    """Write about *size* bytes of short connections, two at a time; the number of exchanges in them."""
    connections, at = 0, FIRST_AT
    with path.open("wb") as out:
        out.write(file_header())
        while out.tell() < size:
            pair = [short_connection(out, connections + one, at + BETWEEN + one) for one in (0, 1)]
            at = max(map(max, zip(*pair, strict=True)))
            connections += 2
    return connections * len(SESSION)


def short_connection(out: BinaryIO, number: int, at: int) -> Iterator[int]:
    """Write a connection of SESSION, pausing after each exchange; yields the time."""
    connection = Connection(out, number, SEGMENT["mtu1500"])
    connection.open(at)
    for correlation_id, make in enumerate(SESSION):
        send(connection, make(correlation_id), at)
        at += BETWEEN
        yield at
    connection.finish(at)


def write_mixed(path: Path, size: int) -> int:
    """Write about *size* bytes of long connections with data and short ones; the number of exchanges in them."""
    chance = random.Random(9092)
    batches = [record_batch(chance, 1_024 << scale) for scale in range(5)]
    connections, at = 8, FIRST_AT
    with path.open("wb") as out:
        out.write(file_header())
        long = [Connection(out, number, SEGMENT["mtu1500"]) for number in range(connections)]
        for connection in long:
            connection.open(at)
        while out.tell() < size:
            for correlation_id, now in enumerate(short_connection(out, connections, at + BETWEEN)):
                number = chance.randrange(8)
                make = produce_v8 if number < 4 else fetch_v11
                send(long[number], make(correlation_id, chance.choice(batches)), now)
                at = now
            connections += 1
    return 2 * len(SESSION) * (connections - 8)


SHAPES: dict[str, Write] = {
    **{kind: partial(write_capture, kind=kind) for kind in SEGMENT},
    "tiny": write_tiny,
    "mixed": write_mixed,
}

TOPICS, CLIENTS, BROKERS = 12, 4, 6
SIZES = (1, 2, 4, 8, 16, 32, 64, 256)  # KB of a batch
WEIGHTS = (24, 20, 16, 14, 12, 8, 4, 2)
SHORT_EVERY = 40  # exchanges of data between two short connections
METADATA_EVERY = 400
PORTS = 40_000


def cluster_connection(out: BinaryIO, number: int) -> Connection:
    """A connection between one of many clients and one of the brokers."""
    client = bytes((10, 0, 1 + number // PORTS % 250, 1 + number % 50))
    return Connection(out, number % PORTS, SEGMENT["mtu1500"], client, bytes((10, 1, 0, 1 + number % BROKERS)))


def topic_id(topic: int) -> bytes:
    return struct.pack(">QQ", 0x6B70726F78790000, topic + 1)


def produce_v13(correlation_id: int, topic: int, partition: int, batch: bytes) -> Exchange:
    asked = struct.pack(">i", partition) + compact(batch) + NO_TAGS
    topics = compact_array([topic_id(topic) + compact_array([asked]) + NO_TAGS])
    body = compact(None) + struct.pack(">hi", -1, 30_000) + topics + NO_TAGS
    told = struct.pack(">ihqqq", partition, 0, correlation_id, -1, 0) + compact_array([]) + compact(None) + NO_TAGS
    answer = compact_array([topic_id(topic) + compact_array([told]) + NO_TAGS]) + struct.pack(">i", 0) + NO_TAGS
    return request(0, 13, correlation_id, body, flexible=True), response(correlation_id, answer, flexible=True)


def fetch_v13(correlation_id: int, topic: int, partition: int, batch: bytes) -> Exchange:
    asked = struct.pack(">iiqiqi", partition, 5, correlation_id, -1, -1, 1 << 20) + NO_TAGS
    topics = compact_array([topic_id(topic) + compact_array([asked]) + NO_TAGS])
    limits = struct.pack(">iiiibii", -1, 500, 1, 50 << 20, 1, 4711, correlation_id)
    body = limits + topics + compact_array([]) + compact(b"") + NO_TAGS
    told = struct.pack(">ihqqq", partition, 0, correlation_id, correlation_id, 0)
    told += compact_array([]) + struct.pack(">i", -1) + compact(batch) + NO_TAGS
    answer = struct.pack(">ihi", 0, 0, 4711) + compact_array([topic_id(topic) + compact_array([told]) + NO_TAGS])
    return request(1, 13, correlation_id, body, flexible=True), response(
        correlation_id, answer + NO_TAGS, flexible=True
    )


def metadata_v12(correlation_id: int) -> Exchange:
    names = [f"events-{topic:02d}".encode() for topic in range(TOPICS)]
    body = compact_array([bytes(16) + compact(name) + NO_TAGS for name in names]) + b"\1\0" + NO_TAGS
    brokers = [
        struct.pack(">i", node)
        + compact(b"broker-%d.example.com" % node)
        + struct.pack(">i", 9092)
        + compact(None)
        + NO_TAGS
        for node in range(BROKERS)
    ]
    topics = []
    for topic, name in enumerate(names):
        replicas = compact_array([struct.pack(">i", node) for node in range(3)])
        partitions = [
            struct.pack(">hiii", 0, number, number % BROKERS, 7) + replicas * 2 + compact_array([]) + NO_TAGS
            for number in range(6)
        ]
        described = struct.pack(">h", 0) + compact(name) + topic_id(topic) + b"\0" + compact_array(partitions)
        topics.append(described + struct.pack(">i", -(2**31)) + NO_TAGS)
    cluster = compact(b"benchAAAAAAAAAAAAAAAAA") + struct.pack(">i", 1)
    answer = struct.pack(">i", 0) + compact_array(brokers) + cluster + compact_array(topics) + NO_TAGS
    return request(3, 12, correlation_id, body, flexible=True), response(correlation_id, answer, flexible=True)


def write_cluster(path: Path, size: int, seed: int = 9092) -> int:
    """Write about *size* bytes; the number of exchanges in them."""
    chance = random.Random(seed)
    batches = {kilobytes: record_batch(chance, kilobytes * 1024) for kilobytes in SIZES}
    exchanges, at, short = 0, FIRST_AT, 0
    with path.open("wb") as out:
        out.write(file_header())
        long = [cluster_connection(out, number) for number in range(2 * TOPICS * CLIENTS)]
        for connection in long:
            connection.open(at)
        while out.tell() < size:
            if exchanges % METADATA_EVERY == 0:
                send(long[exchanges // METADATA_EVERY % len(long)], metadata_v12(exchanges % 10**9), at)
                exchanges += 1
            number = chance.randrange(len(long))
            batch = batches[chance.choices(SIZES, WEIGHTS)[0]]
            make = produce_v13 if number < len(long) // 2 else fetch_v13
            send(long[number], make(exchanges % 10**9, number % TOPICS, number % 6, batch), at)
            exchanges += 1
            at += BETWEEN
            if exchanges % SHORT_EVERY == 0:
                short += 1
                connection = cluster_connection(out, len(long) + short)
                connection.open(at)
                for correlation_id, make_short in enumerate(SESSION):
                    send(connection, make_short(correlation_id), at + 50 * correlation_id)
                connection.finish(at + 50 * len(SESSION) + 450)
                exchanges += len(SESSION)
                at += BETWEEN
    return exchanges


def send(connection: Connection, exchange: Exchange, at: int) -> None:
    asked, answered = exchange
    connection.send(0, asked, at)
    connection.send(1, answered, at + 400)
