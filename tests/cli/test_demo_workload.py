"""The demo's cluster and clients on their own, without a proxy between them."""

import json
import time

from confluent_kafka import Consumer

from kproxy.cli.demo_workload import BROKERS, TOPIC, MockCluster, Workload

PATIENCE_S = 20


def test_what_is_produced_can_be_read_and_what_is_counted_is_there() -> None:
    cluster = MockCluster()
    assert len(set(cluster.bootstrap)) == BROKERS
    workload = Workload(",".join(cluster.bootstrap))
    workload.start()
    until = time.monotonic() + PATIENCE_S
    while workload.counts.consumed < 5 and time.monotonic() < until:
        time.sleep(0.05)
    counts = workload.stop()
    assert 5 <= counts.consumed <= counts.produced
    assert (counts.failed, counts.consumers) == (0, 1)
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap[0],
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
    )
    reader.subscribe([TOPIC])
    orders = []
    while len(orders) < counts.produced and time.monotonic() < until + PATIENCE_S:
        record = reader.poll(1)
        if record is not None and record.error() is None:
            orders.append((record.key(), json.loads(record.value() or b"")))
    reader.close()
    assert sorted(order["order"] for _, order in orders) == list(range(1, counts.produced + 1))
    assert all(key == order["customer"].encode() for key, order in orders)


def test_a_cluster_that_is_not_there_is_counted_as_failures_and_does_not_hang() -> None:
    workload = Workload("127.0.0.1:1")
    workload.start()
    counts = workload.stop()
    assert (counts.produced, counts.consumed) == (0, 0)
