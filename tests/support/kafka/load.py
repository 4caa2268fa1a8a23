"""Load on a cluster that loses brokers: what was sent, what was acknowledged, what stands on disk in the end."""

import threading
from collections import Counter

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.processes import eventually
from tests.support.sockets import end_offsets, metadata

PARTITIONS, MOST_UNDERWAY, PATIENCE = 6, 500, 120
_PACE = 0.001  # seconds between two records: what matters is when they come, not how many


class Load(threading.Thread):
    """An idempotent producer of the numbers from 0 on, acks=all, until it is told to end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,  # of 10 s: nothing is written while it waits for a broker that is back
            }
        )
        self._topic = topic
        self._over = threading.Event()
        self.sent = self.acknowledged = 0
        self.errors: list[KafkaError] = []

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error)

    def run(self) -> None:
        while not self._over.is_set():
            self._producer.produce(
                self._topic, str(self.sent).encode(), partition=self.sent % PARTITIONS, on_delivery=self._delivered
            )
            self.sent += 1
            self._producer.poll(0)
            self._over.wait(_PACE)
            while self.sent - self.acknowledged - len(self.errors) >= MOST_UNDERWAY and not self._over.is_set():
                self._producer.poll(0.1)
        self._producer.flush(PATIENCE)

    def more(self, count: int = 500) -> None:
        """Return when *count* more have been acknowledged."""
        goal = self.acknowledged + count
        eventually(lambda: self.acknowledged >= goal, what=f"{count} more acknowledged")

    def end(self) -> None:
        self._over.set()
        self.join(PATIENCE)


def healthy(cluster: Cluster, *topics: str) -> None:
    """Until every broker is there and every replica in sync."""

    def in_sync() -> bool:
        found = metadata(cluster.open, topics)
        return len(found.brokers) == len(cluster.brokers) and all(
            len(replicas) == len(cluster.brokers) for replicas in found.in_sync.values()
        )

    cluster.wait()
    eventually(in_sync, what="all replicas are in sync")


def stored(cluster: Cluster, topic: str) -> Counter[bytes]:
    """How often each value stands in *topic*, read past the proxy."""
    ends = end_offsets(cluster.open, topic)
    reader = Consumer(
        {"bootstrap.servers": cluster.open, "group.id": f"count-{topic}", "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    found: Counter[bytes] = Counter()
    try:
        while found.total() < sum(ends.values()):
            messages = reader.consume(min(1_000, sum(ends.values()) - found.total()), timeout=30)
            assert messages, f"{found.total()} of {sum(ends.values())} were to be read"
            found.update(message.value() or b"" for message in messages)
    finally:
        reader.close()
    return found
