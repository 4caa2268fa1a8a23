"""A capture of a busy cluster, of any size, the same for the same seed: what the Spark benchmark reads.

    python -m tests.bench.cluster_capture FILE MEGABYTES [SEED]

Six brokers; TOPICS topics, each with an id, four producers and four consumers on connections that last as long as the capture
(Produce 13 and Fetch 13, which name topics by id; their names are on other connections, in Metadata 12), batches of 1 KB to 256
KB with the small ones most frequent; and, between them, short connections of consumer groups (shapes.SESSION). MTU 1500.
"""

import random
import struct
import sys
from pathlib import Path
from typing import BinaryIO

from tests.bench import traffic
from tests.bench.bodies import NO_TAGS, compact, compact_array
from tests.bench.shapes import BETWEEN, FIRST_AT, SESSION
from tests.bench.traffic import SEGMENT, Connection, Exchange, file_header, record_batch, request, response

TOPICS, CLIENTS, BROKERS = 12, 4, 6
SIZES = (1, 2, 4, 8, 16, 32, 64, 256)  # KB of a batch
WEIGHTS = (24, 20, 16, 14, 12, 8, 4, 2)
SHORT_EVERY = 40  # exchanges of data between two short connections
METADATA_EVERY = 400
PORTS = 40_000


class ClusterConnection(Connection):
    """A connection between one of many clients and one of the brokers."""

    def __init__(self, out: BinaryIO, number: int) -> None:
        super().__init__(out, number % PORTS, SEGMENT["mtu1500"])
        self.client = bytes((10, 0, 1 + number // PORTS % 250, 1 + number % 50))
        self.broker = bytes((10, 1, 0, 1 + number % BROKERS))

    def _packet(self, side: int, data: bytes, flags: int, at: int) -> None:
        ports = (self.port, traffic.BROKER_PORT) if side == 0 else (traffic.BROKER_PORT, self.port)
        hosts = (self.client, self.broker) if side == 0 else (self.broker, self.client)
        acknowledged = self.next[1 - side] if flags & 0x10 else 0
        tcp = struct.pack(">HHIIBBHHH", *ports, self.next[side], acknowledged, 0x50, flags, 65_535, 0, 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0, *hosts)
        size = 54 + len(data)
        header = struct.pack("<IIII", at // 1_000_000, at % 1_000_000, size, size)
        self.out.write(b"".join((header, b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0", ip, tcp, data)))


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
        long = [ClusterConnection(out, number) for number in range(2 * TOPICS * CLIENTS)]
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
                connection = ClusterConnection(out, len(long) + short)
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


if __name__ == "__main__":
    print(write_cluster(Path(sys.argv[1]), int(sys.argv[2]) * 1_000_000, *map(int, sys.argv[3:])), "exchanges")
