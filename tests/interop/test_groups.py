"""Consumer groups of both protocols: members join, share the partitions, commit; the broker is asked directly what stands."""

import contextlib
import time
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.interop.clients import CLIENTS, PATIENCE, Client, values
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.tools import run_tool
from tests.support.kafka.wire import end_offsets

PARTITIONS, COUNT = 4, 2_000
PRODUCER = CLIENTS[1]


@contextlib.contextmanager
def member(entrance: Entrance, group: str, protocol: str, topic: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": entrance.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def poll_until_shared(members: Sequence[Consumer], partitions: int) -> list[bytes]:
    """Poll all until each has partitions and together they have all; what was read meanwhile is returned."""
    read: list[bytes] = []
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for one in members:
            read += [message.value() or b"" for message in one.consume(100, timeout=0.1)]
        assigned = [len(one.assignment()) for one in members]
        if all(assigned) and sum(assigned) == partitions:
            return read
    raise AssertionError(f"not shared within {PATIENCE} s: {assigned}")


def committed(entrance: Entrance, group: str, topic: str) -> dict[int, int]:
    """The group's offsets, asked of the broker past the proxy."""
    asker = Consumer({"bootstrap.servers": entrance.cluster.open, "group.id": group})
    try:
        found = asker.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], timeout=30)
        return {each.partition: each.offset for each in found}
    finally:
        asker.close()


def test_two_members_share_read_everything_and_commit(entrance: Entrance, topic_name: str) -> None:
    share_read_everything_and_commit(entrance, topic_name, "classic")


@pytest.mark.parametrize("single", [NEWEST], indirect=True)  # librdkafka wants KIP-848 as in 4.0
def test_two_members_do_so_in_the_new_protocol(entrance: Entrance, topic_name: str) -> None:
    share_read_everything_and_commit(entrance, topic_name, "consumer")


def share_read_everything_and_commit(entrance: Entrance, topic_name: str, protocol: str) -> None:
    topic = entrance.cluster.topic(topic_name, PARTITIONS)
    group = f"group-{topic}"
    with member(entrance, group, protocol, topic) as first:
        read = poll_until_shared([first], PARTITIONS)
        with member(entrance, group, protocol, topic) as second:
            read += poll_until_shared([first, second], PARTITIONS)
            assert PRODUCER.produce(entrance, topic, COUNT, sticky_partitioning_linger_ms=0) == COUNT
            end = time.monotonic() + PATIENCE
            shares = [0, 0]
            while len(read) < COUNT and time.monotonic() < end:
                for number, one in enumerate((first, second)):
                    got = one.consume(500, timeout=0.1)
                    shares[number] += len(got)
                    read += [message.value() or b"" for message in got]
            assert sorted(read, key=int) == values(COUNT)
            assert all(shares)
            first.commit(asynchronous=False)
            second.commit(asynchronous=False)
    assert committed(entrance, group, topic) == end_offsets(entrance.cluster.open, topic)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_tool_reads_in_a_group_and_describes_it(entrance: Entrance, topic_name: str, protocol: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    java: Client = CLIENTS[0]
    assert PRODUCER.produce(entrance, topic, COUNT) == COUNT
    group = f"group-{topic}"
    assert java.consume(entrance, topic, COUNT, group_id=group, group_protocol=protocol) == values(COUNT)
    described = run_tool(
        entrance.release,
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", entrance.bootstrap, "--describe", "--group", group),
    )
    (row,) = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert row[1:6] == [topic, "0", "-", str(COUNT), str(COUNT)] or row[1:5] == [topic, "0", str(COUNT), str(COUNT)]
