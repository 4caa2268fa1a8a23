"""Breakpoints with Kafka's own client and librdkafka before a real broker: what a person makes of a message is what arrives."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.fault_clients.java import JavaClient
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.wire import end_offsets
from tests.support.person import Person

LONG_HOLD = 120  # seconds; in these tests nothing is to go on by itself
Started = tuple[Entrance, Person]
Starts = Callable[..., Started]

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)


@pytest.fixture
def start(single: Cluster, tmp_path: Path) -> Iterator[Starts]:
    """Starts a proxy that allows breakpoints; returns the way in and a person at its page."""
    started: list[Proxy] = []

    def start(*filters: dict[str, Any], workers: int = 1, **page: Any) -> Started:
        served = virtual_cluster(single.bootstrap("PLAIN"), filters=list(filters))
        settings = {"edits": True, "hold": LONG_HOLD, **page}
        proxy = Proxy(tmp_path / f"proxy-{len(started)}", [served], page=settings, workers=workers)
        started.append(proxy)
        proxy.start()
        return Entrance(single, proxy.bootstrap(), proxy=proxy), Person(proxy)

    yield start
    for proxy in started:
        proxy.close()


@pytest.fixture
def at_once() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def produce(bootstrap: str, topic: str, value: bytes, **settings: Any) -> KafkaError | None:
    """Produce a record with librdkafka; what its delivery report says."""
    reports: list[KafkaError | None] = []
    given = {"bootstrap.servers": bootstrap, "log_level": 0, "retry.backoff.ms": 20, **settings}
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


def test_an_edited_request_is_what_the_broker_gets_and_an_edited_response_what_the_client_gets(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor
) -> None:
    entrance, person = start()
    single.topic(topic_name)
    person.stop_at(f'api == "Produce" && "{topic_name}" in topics')
    report = at_once.submit(produce, entrance.bootstrap, topic_name, b"as the client wrote it")
    (stop,) = person.stops()
    assert (stop["api"], stop["direction"], stop["expectsResponse"]) == ("Produce", "request", True)
    person.replace(stop, "as the client wrote it", "as the person wrote it, which is longer")
    assert report.result(60) is None
    direct = single.open
    assert values(direct, topic_name, 1, **{"check.crcs": True}) == [b"as the person wrote it, which is longer"]

    person.stop_at('api == "Fetch" && response.responses.exists(r, size(r.partitions) > 0)', direction="response")
    read = at_once.submit(values, entrance.bootstrap, topic_name, 1, **{"check.crcs": True})

    def edit() -> bool:
        for one in person.stops():
            text = person.shown(one)["json"]
            if "as the person wrote it" in text:
                person.decide(one, "replace", json=text.replace("as the person wrote it", "as another person has it"))
                return True
            person.decide(one, "resume")
        return False

    eventually(edit, what="the Fetch response with the record")
    person.stop_at()
    person.done("POST", "/stops/resume-all")
    assert read.result(60) == [b"as another person has it, which is longer"]
    assert values(direct, topic_name, 1) == [b"as the person wrote it, which is longer"], "of the client alone"


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_client_sees_exactly_the_error_that_a_person_has_chosen(
    start: Starts, single: Cluster, topic_name: str, at_once: ThreadPoolExecutor, client: str
) -> None:
    entrance, person = start()
    single.topic(topic_name)
    person.stop_at('api == "Produce"')
    if client == "java":
        java = JavaClient()
        seen = at_once.submit(java.run, "Produce", entrance.bootstrap, topic_name, "c", {"retries": "0"})
    else:
        seen = at_once.submit(produce, entrance.bootstrap, topic_name, b"v", retries=0)
    (stop,) = person.stops()
    person.decide(stop, "error", error="TOPIC_AUTHORIZATION_FAILED")
    person.stop_at()
    person.done("POST", "/stops/resume-all")
    if client == "java":
        answered = seen.result(60)
        java.close()
        assert answered.responses[0] == {"TOPIC_AUTHORIZATION_FAILED"}
        assert answered.said[0] == "TOPIC_AUTHORIZATION_FAILED"
        assert answered.said[1:] == [None, None]
    else:
        assert seen.result(60).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert end_offsets(single.open, topic_name) == {0: 2 if client == "java" else 0}
