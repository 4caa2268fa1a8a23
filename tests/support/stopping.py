"""Breakpoints: a person at the page of a running proxy, by HTTP as the page does; and a scene with a real broker and clients."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster

PATIENCE_S = 60.0
Stop = dict[str, Any]


class Person:
    """Has the token, from the proxy's log."""

    def __init__(self, proxy: Proxy) -> None:
        url = urlsplit(proxy.page_url())
        self.address = f"http://{url.netloc}/page/api"
        (self.token,) = parse_qs(url.query)["token"]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and answer; header names have underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.address}{path}", data, {"x-kproxy-token": self.token, **named}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def done(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, which must be no refusal."""
        status, answer = self.ask(method, path, body)
        assert status == 200, answer
        return answer

    def stop_at(self, *conditions: str, direction: str = "request") -> None:
        """Set breakpoints in place of those before."""
        self.done("PUT", "/breakpoints", [{"condition": one, "direction": direction} for one in conditions])

    def stops(self, count: int = 1) -> list[Stop]:
        """What is stopped, once it is so many."""
        generation, wait = -1, 0.0

        def stopped() -> Sequence[Stop] | None:
            nonlocal generation, wait
            answer = self.done("GET", f"/stops?after={generation}&wait={wait}")
            generation, wait = answer["generation"], 5.0
            return answer["stops"] if len(answer["stops"]) >= count else None

        return list(eventually(stopped, patience=PATIENCE_S, what=f"{count} stops"))

    def none(self) -> None:
        """Wait until nothing is stopped."""
        eventually(lambda: self.done("GET", "/stops")["stops"] == [], patience=PATIENCE_S, what="no stops")

    def shown(self, stop: Stop) -> Any:
        """A stop with its text."""
        return self.done("GET", f"/stops/{stop['id']}")

    def decide(self, stop: Stop, action: str, **more: Any) -> Any:
        """Do something with it."""
        return self.done("POST", f"/stops/{stop['id']}", {"action": action, **more})

    def replace(self, stop: Stop, before: str, after: str) -> None:
        """Replace a piece of text in it, which it has once."""
        text = self.shown(stop)["json"]
        assert text.count(before) == 1, text
        self.decide(stop, "replace", json=text.replace(before, after))


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
