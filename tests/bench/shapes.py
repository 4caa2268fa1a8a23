"""The captures that the decode benchmark times, by shape: what is big, what is small, and what people capture.

    mtu1500, loopback   traffic.py: batches of 16 KB to 1 MB in segments of 1460 bytes, or of 64 KB
    tiny                short connections of a consumer group: a dozen small requests each, then FIN
    mixed               tiny connections, and Produce and Fetch of one to sixteen records of 1 KB on long ones, MTU 1500

All in the newest versions that tshark 4.0 can read.
"""

import random
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tests.bench import traffic
from tests.bench.bodies import NO_TAGS, compact, compact_array
from tests.bench.traffic import SEGMENT, TOPIC, Exchange, array, request, response, string

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
    subscription = compact(struct.pack(">h", 0) + array([string(TOPIC)]) + traffic.framed(b""))
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
    traffic.metadata_v8,
    find_coordinator_v2,
    join_group_v6,
    offset_fetch_v5,
    traffic.heartbeat_v4,
    traffic.offset_commit_v8,
    traffic.heartbeat_v4,
    traffic.offset_commit_v8,
    traffic.heartbeat_v4,
    leave_group_v2,
)


def write_tiny(path: Path, size: int) -> int:
    """Write about *size* bytes of short connections, two at a time; the number of exchanges in them."""
    connections, at = 0, FIRST_AT
    with path.open("wb") as out:
        out.write(traffic.file_header())
        while out.tell() < size:
            pair = [short_connection(out, connections + one, at + BETWEEN + one) for one in (0, 1)]
            at = max(map(max, zip(*pair, strict=True)))
            connections += 2
    return connections * len(SESSION)


def short_connection(out: BinaryIO, number: int, at: int) -> Iterator[int]:
    """Write a connection of SESSION, pausing after each exchange; yields the time."""
    connection = traffic.Connection(out, number, SEGMENT["mtu1500"])
    connection.open(at)
    for correlation_id, make in enumerate(SESSION):
        _exchange(connection, make(correlation_id), at)
        at += BETWEEN
        yield at
    connection.finish(at)


def write_mixed(path: Path, size: int) -> int:
    """Write about *size* bytes of long connections with data and short ones; the number of exchanges in them."""
    chance = random.Random(9092)
    batches = [traffic.record_batch(chance, 1_024 << scale) for scale in range(5)]
    connections, at = 8, FIRST_AT
    with path.open("wb") as out:
        out.write(traffic.file_header())
        long = [traffic.Connection(out, number, SEGMENT["mtu1500"]) for number in range(connections)]
        for connection in long:
            connection.open(at)
        while out.tell() < size:
            for correlation_id, now in enumerate(short_connection(out, connections, at + BETWEEN)):
                number = chance.randrange(8)
                make = traffic.produce_v8 if number < 4 else traffic.fetch_v11
                _exchange(long[number], make(correlation_id, chance.choice(batches)), now)
                at = now
            connections += 1
    return 2 * len(SESSION) * (connections - 8)


def _exchange(connection: traffic.Connection, exchange: Exchange, at: int) -> None:
    asked, answered = exchange
    connection.send(0, asked, at)
    connection.send(1, answered, at + 400)


SHAPES: dict[str, Write] = {
    **{kind: partial(traffic.write_capture, kind=kind) for kind in SEGMENT},
    "tiny": write_tiny,
    "mixed": write_mixed,
}
