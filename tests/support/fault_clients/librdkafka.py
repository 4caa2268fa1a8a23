"""librdkafka: confluent-kafka."""

import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from kproxy.protocol.error_codes import ErrorCode
from tests.support.fault_clients import PATIENCE_S, RECORDS, WORK, Seen

STEP_S = 20.0
NAMES = {"ApiVersions": "ApiVersion"}  # as it writes them
TEXTS = sorted(((KafkaError(code).str(), code.name) for code in ErrorCode if code), key=lambda pair: -len(pair[0]))
NAME_OF = {int(code): code.name for code in ErrorCode}
WITH_TOPICS = re.compile(r"\d+ brokers, [1-9]\d* topics|received top level error code")
Said = list[str | None]
QUIET = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 20}


class LibrdkafkaClient(logging.Handler):
    """Producer, consumer and admin client."""

    name = "librdkafka"

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.before_listings: Callable[[], None] = lambda: None  # called when each list_topics is one request
        self.logger = logging.Logger("librdkafka", logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def run(self, api: str, bootstrap: str, topic: str, client_id: str, settings: dict[str, str]) -> Seen:
        self.lines = []
        debug = "protocol,msg,metadata,topic,fetch,cgrp,consumer,eos,feature,broker,admin"
        work = "coordinator" if api == "FindCoordinator" else "list" if settings.pop("list", "") else WORK[api]
        base: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "debug": debug,
            **QUIET,
            **settings,
        }
        said: Said = []
        try:
            words = {**base, "logger": self.logger}
            if work == "list":
                _metadata_of_partitions(words, topic, said, self.before_listings)
            else:
                _WORK[work](words, topic, said)
        except KafkaException as error:
            said.append(_name(error.args[0]))
        if work == "list":
            return Seen([frozenset({one}) if one else frozenset() for one in said], said)
        return Seen([frozenset(found) for found in self._responses(api)], said)

    def _responses(self, api: str) -> Iterator[set[str]]:
        """The errors that are named behind each response of the API, before the next one."""
        received = re.compile(rf"Received {NAMES.get(api, api)}Response ")
        found: set[str] | None = None
        for line in self.lines:
            begins = WITH_TOPICS.search(line) if api == "Metadata" else received.search(line)
            if begins:
                if found is not None:
                    yield found
                found = set()
            if found is not None:
                found |= set(_errors_in(line))
        if found is not None:
            yield found


def _errors_in(line: str) -> Iterator[str]:
    named = re.search(r"ApiVersionRequest v\d+ failed due to ([A-Z_]+)", line)
    if named:
        yield named[1]
    for text, name in TEXTS:
        if text in line:
            line = line.replace(text, "")
            yield name


def _name(error: KafkaError | None) -> str | None:
    if error is None:
        return None
    code = error.code()
    return NAME_OF[code] if code in NAME_OF else str(error.name())


def _step(said: Said, step: Callable[[], Any]) -> None:
    try:
        step()
        said.append(None)
    except KafkaException as error:
        said.append(_name(error.args[0]))


def _produce(words: dict[str, Any], topic: str, said: Said) -> None:
    producer = Producer({"message.timeout.ms": 30_000, **words})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=lambda error, _: said.append(_name(error)))
        producer.flush(STEP_S)
    producer.poll(0)


def _transactions(words: dict[str, Any], topic: str, said: Said) -> None:
    producer = Producer({"transactional.id": words["client.id"], **words})
    _step(said, lambda: producer.init_transactions(STEP_S))
    _drain(producer)


def _drain(client: Any) -> None:
    """Let it hand over what it has logged."""
    for _ in range(3):
        client.poll(0.05)


def _metadata(words: dict[str, Any], topic: str, said: Said) -> None:
    admin = AdminClient(words)
    for _ in range(RECORDS):
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=STEP_S)
        _step(said, described[topic].result)
        _drain(admin)


def _metadata_of_partitions(words: dict[str, Any], topic: str, said: Said, before: Callable[[], None]) -> None:
    """What list_topics gives with the errors of partitions and of the whole response, which describe_topics does not.

    At its begin librdkafka asks for metadata of the topic by itself, too; later each list_topics is one request.
    """
    client = Producer({"topic.metadata.refresh.interval.ms": -1, **words})
    for _ in range(RECORDS):
        client.list_topics(topic, STEP_S)
    before()
    for _ in range(RECORDS):

        def step() -> None:
            found = client.list_topics(topic, STEP_S).topics[topic]
            wrong = [each.error for each in (found, *found.partitions.values()) if each.error is not None]
            if wrong:
                raise KafkaException(wrong[0])

        _step(said, step)
    _drain(client)


def _coordinator(words: dict[str, Any], topic: str, said: Said) -> None:
    """Ask for brokers first: an answer of the bootstrap broker is lost when librdkafka gets to know who that is."""
    producer = Producer({"transactional.id": words["client.id"], **words})
    producer.list_topics(timeout=STEP_S)
    _step(said, lambda: producer.init_transactions(STEP_S))
    _drain(producer)


def _fetch(words: dict[str, Any], topic: str, said: Said) -> None:
    group = {"group.id": words["client.id"], "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer({**group, "fetch.message.max.bytes": 1, "fetch.error.backoff.ms": 20, **words})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        _read(consumer, said)
    finally:
        consumer.close()


def _group(words: dict[str, Any], topic: str, said: Said, commits: int = 0) -> None:
    group = {"group.id": words["client.id"], "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**group, **words})
    try:
        consumer.subscribe([topic])
        _read(consumer, said)
        for number in range(commits):
            offsets = [TopicPartition(topic, 0, number)]
            _step(said, lambda offsets=offsets: consumer.commit(offsets=offsets, asynchronous=False))
        _drain(consumer)
    finally:
        consumer.close()


def _commit(words: dict[str, Any], topic: str, said: Said) -> None:
    _group(words, topic, said, RECORDS)


def _read(consumer: Consumer, said: Said) -> None:
    found, end = 0, time.monotonic() + PATIENCE_S
    while found < RECORDS and time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found += 1
        else:
            said.append(_name(error))
            if error.code() in (KafkaError._FATAL, KafkaError._AUTO_OFFSET_RESET):  # nothing comes any more
                return
    said.append(None if found >= RECORDS else "NOTHING")


_WORK: dict[str, Callable[[dict[str, Any], str, Said], None]] = {
    "produce": _produce,
    "fetch": _fetch,
    "metadata": _metadata,
    "coordinator": _coordinator,
    "group": _group,
    "commit": _commit,
    "transactions": _transactions,
}
