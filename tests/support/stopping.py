"""A proxy at which a person stops messages before a real broker, and clients of which some are stopped."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.person import Person, Stop

LONG_HOLD = 120  # seconds; in most tests nothing is to go on by itself
PRODUCE = 'apiName == "Produce"'


class Stopping:
    """The scene.

    Args:
        broker: behind the proxy.
        folder: of the proxy.
        topic: is made.
        filters: behind the breakpoints.
        listener: of the broker.
        settings: of the configuration; ``page`` are settings of the page.
    """

    def __init__(
        self,
        broker: Cluster,
        folder: Path,
        topic: str,
        *,
        filters: tuple[Mapping[str, Any], ...] = (),
        listener: str = "PLAIN",
        page: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        broker.topic(topic)
        self.broker = broker
        self.topic = topic
        served = virtual_cluster(broker.bootstrap(listener), filters=list(filters))
        self.proxy = Proxy(
            folder, [served], page={"edits": True, "records": True, "hold": LONG_HOLD, **(page or {})}, **settings
        )
        self._pool = ThreadPoolExecutor()

    def start(self) -> "Stopping":
        self.proxy.start()
        self.person = Person(self.proxy)
        return self

    def close(self) -> None:
        self.proxy.close()
        self._pool.shutdown(cancel_futures=True)

    def at_once(self, work: Any, *arguments: Any, **named: Any) -> "Future[Any]":
        """Call it while the test goes on."""
        return self._pool.submit(work, *arguments, **named)

    def produce(self, value: bytes, **settings: Any) -> "Future[KafkaError | None]":
        """Produce a record with librdkafka, while the test goes on; what its delivery report says."""
        return self.at_once(produce, self.proxy.bootstrap(), self.topic, value, **settings)

    def stopped_produce(self, value: bytes, **settings: Any) -> "tuple[Future[KafkaError | None], Stop]":
        """A Produce request that is stopped."""
        self.person.stop_at(PRODUCE)
        report = self.produce(value, **settings)
        (stop,) = self.person.stops()
        return report, stop

    def values(self, count: int, **settings: Any) -> list[bytes | None]:
        """The first values that the broker has."""
        return values(self.broker.open, self.topic, count, **settings)

    def logged(self, event: str) -> dict[str, Any]:
        """The event, once it is in the log."""

        def found() -> dict[str, Any] | None:
            lines = self.proxy.log.read_text(encoding="utf-8").splitlines()
            events = (json.loads(line) for line in lines if line.startswith("{"))
            return next((line for line in events if line["event"] == event), None)

        return eventually(found, what=event) or {}


@contextmanager
def stopping(*arguments: Any, **named: Any) -> Iterator[Stopping]:
    """A scene that has started; see Stopping."""
    scene = Stopping(*arguments, **named)
    try:
        yield scene.start()
    finally:
        scene.close()


def produce(bootstrap: str, topic: str, value: bytes, **settings: Any) -> KafkaError | None:
    """Produce a record with librdkafka; what its delivery report says."""
    reports: list[KafkaError | None] = []
    patience = {"socket.timeout.ms": 300_000}  # a client that gives up ends the stop
    given = {"bootstrap.servers": bootstrap, "log_level": 0, "retry.backoff.ms": 20, **patience, **settings}
    producer = Producer(given)
    producer.produce(topic, value, key=b"k", partition=0, on_delivery=lambda error, _: reports.append(error))
    producer.flush(60)
    (report,) = reports
    return report


def values(bootstrap: str, topic: str, count: int, **settings: Any) -> list[bytes | None]:
    """The first values of partition 0, read with librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []

    def read() -> bool:
        message = consumer.poll(1.0)
        if message is not None:
            if message.error() is not None:
                raise KafkaException(message.error())
            found.append(message.value())
        return len(found) >= count

    try:
        eventually(read, patience=60, what=f"{count} records")
    finally:
        consumer.close()
    return found
