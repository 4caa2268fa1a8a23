"""No nonce is used twice with a data key: a million records of four workers that are killed in between."""

import os
import signal
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.conftest import Behind
from tests.support.encryption import parts_of
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.sockets import end_offsets

RECORDS, WORKERS, KILLS, PRODUCERS, PARTITIONS, UNDERWAY = 1_000_000, 4, 6, 32, 4, 50_000


@pytest.mark.long
@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_no_nonce_repeats_in_a_million_records_of_four_workers_that_are_killed(
    behind: Behind, encrypting: dict[str, Any]
) -> None:
    proxy = behind(encrypting, workers=WORKERS).proxy
    assert proxy is not None
    topic = behind.broker.topic("nonces", PARTITIONS)
    # Without idempotence the broker keeps also what is sent twice, so its log has each value that came over the wire
    settings = {"bootstrap.servers": proxy.bootstrap(), "acks": "all", "linger.ms": 20, "reconnect.backoff.max.ms": 500}
    settings["batch.num.messages"] = 2_000  # a value of 5 bytes grows to 130: the broker takes batches of 1 MB
    outcomes: Counter[str] = Counter()

    def delivered(error: Any, _: Any) -> None:
        outcomes[str(error)] += 1

    producers = [Producer(settings) for _ in range(PRODUCERS)]
    lives = set(proxy.workers())
    for number in range(RECORDS):
        producer = producers[number % PRODUCERS]
        producer.produce(topic, b"value", partition=number % PARTITIONS, on_delivery=delivered)
        producer.poll(0)
        while number - outcomes.total() > UNDERWAY:  # those of other producers are counted when it is their turn
            for each in producers:
                each.poll(0.001)
        if number % (RECORDS // (KILLS + 1)) == RECORDS // (KILLS + 1) - 1 and number < RECORDS - 1_000:
            lives |= set(kill_oldest(proxy))
    assert sum(producer.flush(60) for producer in producers) == 0
    assert (outcomes, len(lives)) == ({"None": RECORDS}, WORKERS + KILLS), proxy.said()
    stored = encrypted_values(behind.broker, topic)
    assert len(stored) >= RECORDS
    used, data_keys = set(), set()
    for value in stored:
        parts = parts_of(value)
        data_keys.add(parts["wrapped"])
        used.add((parts["wrapped"], parts["nonce"]))
    assert len(used) == len(stored)
    assert WORKERS < len(data_keys) <= len(lives)  # one for each life of a worker that has written


def kill_oldest(proxy: Proxy) -> list[int]:
    """Kill a worker by SIGKILL; return the workers when there is another in its place."""
    killed = proxy.workers()[0]
    os.kill(killed, signal.SIGKILL)

    def replaced() -> list[int] | None:
        workers = proxy.workers()
        return workers if killed not in workers and len(workers) == WORKERS else None

    return eventually(replaced, what="the worker is started again") or []


def encrypted_values(broker: Cluster, topic: str) -> list[bytes]:
    """The values of a topic as the broker has them."""
    ends = end_offsets(broker.open, topic)
    consumer = Consumer({"bootstrap.servers": broker.open, "group.id": "nonces"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    values: list[bytes] = []
    try:
        while len(values) < sum(ends.values()):
            found = consumer.consume(10_000, 30)
            assert found, "nothing for 30 s"
            values += [record.value() or b"" for record in found if record.error() is None]
    finally:
        consumer.close()
    return values
