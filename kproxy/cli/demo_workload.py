"""The cluster and the clients of ``kproxy demo``: librdkafka's mock cluster, a producer of orders, a group that consumes them.

Only this module imports confluent-kafka (the extra ``demo``). All traffic stays on this machine.
"""

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

try:
    from confluent_kafka import Consumer, KafkaException, Producer
except ImportError as error:
    from kproxy.errors import UsageError

    reason = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
    raise UsageError(
        f"the demo runs the mock cluster of confluent-kafka, which is missing{reason}: pip install 'kproxy-kafka[demo]'"
    ) from error

BROKERS = 3
TOPIC, GROUP = "orders", "billing"
ITEMS = ("espresso", "filter coffee", "green tea", "water", "croissant")
PAUSE_S = 0.15  # between orders, so that a person can read along
SECOND_MEMBER_S = 8.0  # then the group rebalances, which takes the mock cluster some seconds
POLL_S = 0.2
QUIET = {"log_level": 2}  # keep librdkafka's own log lines out of the output
_ignore_error: Callable[[object], None] = lambda _: None  # noqa: E731 - the cluster ends before the clients do


def scene(seconds: float | None) -> list[str]:
    """Return what happens in *seconds* (None: without end), for the introduction."""
    first = f"A shop produces to the topic {TOPIC}, and the group {GROUP} consumes it."
    second = f"After {SECOND_MEMBER_S:g} s a second member joins, and the group rebalances."
    return [first, second] if seconds is None or seconds > SECOND_MEMBER_S else [first]


class MockCluster:
    """Mock brokers inside this process; they live as long as this object."""

    def __init__(self) -> None:
        self._owner = Producer({"test.mock.num.brokers": BROKERS, "bootstrap.servers": "mock", **QUIET})
        brokers = self._owner.list_topics(timeout=10).brokers.values()
        self.bootstrap = [f"{broker.host}:{broker.port}" for broker in brokers]


@dataclass
class Counts:
    """What the clients counted."""

    produced: int = 0  # acknowledged by a broker
    consumed: int = 0
    failed: int = 0
    consumers: int = 0


class Workload:
    """A producer and a group of two consumers that connect to *bootstrap*, from ``start()`` to ``stop()``."""

    def __init__(self, bootstrap: str) -> None:
        self.counts = Counts()
        self._bootstrap = bootstrap
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._reached: dict[int, int] = {}  # partition -> the last offset that was consumed
        self._threads = [
            threading.Thread(target=self._produce, name="demo-producer"),
            threading.Thread(target=self._consume, args=("billing-1", 0.0), name="demo-billing-1"),
            threading.Thread(target=self._consume, args=("billing-2", SECOND_MEMBER_S), name="demo-billing-2"),
        ]

    def start(self) -> None:
        """Start the clients; return at once."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> Counts:
        """Flush the producer, commit offsets, leave the group, and wait for all of it: a second, or five during a rebalance."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        return self.counts

    def _settings(self, client_id: str, **others: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._bootstrap,
            "client.id": client_id,
            "error_cb": _ignore_error,
            **QUIET,
            **others,
        }

    def _produce(self) -> None:
        settings = self._settings("shop", **{"linger.ms": 50, "compression.type": "lz4", "message.timeout.ms": 5_000})
        producer = Producer(settings)
        number = 0
        while not self._ending.wait(PAUSE_S):
            for _ in range(random.randint(1, 3)):
                number += 1
                customer, order = _order(number)
                producer.produce(TOPIC, order, customer, on_delivery=self._delivered)
            producer.poll(0)
        producer.flush(2)

    def _delivered(self, error: object, _: object) -> None:
        with self._lock:
            if error is None:
                self.counts.produced += 1
            else:
                self.counts.failed += 1

    def _consume(self, client_id: str, after: float) -> None:
        if self._ending.wait(after):
            return
        settings = {"group.id": GROUP, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 2_000}
        settings |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 2_000}
        consumer = Consumer(self._settings(client_id, **settings))
        with self._lock:
            self.counts.consumers += 1
        try:
            consumer.subscribe([TOPIC])
            while not self._ending.is_set():
                record = consumer.poll(POLL_S)
                if record is None or record.error() is not None:
                    continue
                partition, offset = record.partition() or 0, record.offset() or 0
                with self._lock:
                    if offset > self._reached.get(partition, -1):  # not again after a rebalance
                        self._reached[partition] = offset
                        self.counts.consumed += 1
        except KafkaException:
            self.counts.failed += 1
        finally:
            consumer.close()


def _order(number: int) -> tuple[bytes, bytes]:
    customer = f"customer-{random.randrange(20):02d}"
    order = {"order": number, "customer": customer, "item": random.choice(ITEMS), "cents": random.randrange(150, 900)}
    return customer.encode(), json.dumps(order).encode()
