"""kafka-python."""

import ast
import logging
import re
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from typing import Any

from tests.support.fault_clients import PATIENCE_S, RECORDS, WORK, Seen, names

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it reads its own schemas with
    import kafka
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.structs import OffsetAndMetadata

RECEIVED = re.compile(r"Response \d+ \([\d.]+ ms\): (\w+)Response\w*\((.*)", re.DOTALL)
UNREAD = re.compile(r"data_container\.(\w+)Response_.*Unable to decode \d+-byte buffer: (b['\"].*)", re.DOTALL)
CODE = re.compile(r"error_code=(-?\d+)")
STEP_S = 20


class KafkaPythonClient(logging.Handler):
    """Producer, consumer and admin client."""

    name = "kafka-python"

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def run(self, api: str, bootstrap: str, topic: str, client_id: str, settings: dict[str, str]) -> Seen:
        self.lines = []
        logger = logging.getLogger("kafka")
        before = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        words = {"bootstrap_servers": bootstrap.split(","), "client_id": client_id, "retry_backoff_ms": 20, **settings}
        said: list[str | None] = []
        try:
            _WORK[WORK[api]](words, topic, said)
        except kafka.errors.KafkaError as error:
            said.append(_name(error))
        finally:
            logger.removeHandler(self)
            logger.level, logger.propagate = before
        return Seen(self._responses(api, topic), said)

    def _responses(self, api: str, topic: str) -> list[frozenset[str]]:
        found = []
        for line in self.lines:
            unread = UNREAD.search(line)
            if unread and unread[1] == api:
                found.append(names([int.from_bytes(ast.literal_eval(unread[2])[4:6], "big")]))
            received = RECEIVED.search(line)
            if received and received[1] == api:
                errors = names([int(code) for code in CODE.findall(received[2])])
                if api != "Metadata" or errors or f"'{topic}'" in received[2]:
                    found.append(errors)
        return found


def _step(said: list[str | None], step: Callable[[], Any]) -> None:
    try:
        step()
        said.append(None)
    except kafka.errors.KafkaError as error:
        said.append(_name(error))


def _name(error: Exception) -> str:
    if isinstance(error, kafka.errors.BrokerResponseError):
        return next(iter(names([int(error.errno)])), "NONE")
    return type(error).__name__


def _produce(words: dict[str, Any], topic: str, said: list[str | None]) -> None:
    words = {
        "enable_idempotence": False,
        "linger_ms": 0,
        "delivery_timeout_ms": 30_000,
        "request_timeout_ms": 15_000,
        **words,
    }
    with closing(KafkaProducer(**words)) as producer:
        for number in range(RECORDS):
            _step(said, lambda value=b"%d" % number: producer.send(topic, value, partition=0).get(STEP_S))


def _transactions(words: dict[str, Any], topic: str, said: list[str | None]) -> None:
    producer = KafkaProducer(transactional_id=words["client_id"], max_block_ms=20_000, **words)
    try:
        _step(said, producer.init_transactions)
    finally:
        producer.close(timeout=1)


def _fetch(words: dict[str, Any], topic: str, said: list[str | None]) -> None:
    words = {"auto_offset_reset": "none", "max_partition_fetch_bytes": 1, **words}
    with closing(KafkaConsumer(**words)) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        _read(consumer, said)


def _metadata(words: dict[str, Any], topic: str, said: list[str | None]) -> None:
    with closing(KafkaAdminClient(**words)) as admin:
        for _ in range(RECORDS):

            def step() -> None:
                codes = []
                for described in admin.describe_topics([topic]):
                    codes += [described["error_code"], *(each["error_code"] for each in described["partitions"])]
                wrong = next((code for code in codes if code), 0)
                if wrong:
                    raise kafka.errors.for_code(wrong)

            _step(said, step)


def _group(words: dict[str, Any], topic: str, said: list[str | None], commits: int = 0) -> None:
    words = {"group_id": words["client_id"], "auto_offset_reset": "earliest", "enable_auto_commit": False, **words}
    consumer = KafkaConsumer(**words)
    try:
        consumer.subscribe([topic])
        _read(consumer, said)
        for number in range(commits):
            offsets = {TopicPartition(topic, 0): OffsetAndMetadata(number, "", -1)}
            _step(said, lambda offsets=offsets: consumer.commit(offsets, timeout_ms=10_000))
    finally:
        consumer.close(timeout_ms=2_000)


def _commit(words: dict[str, Any], topic: str, said: list[str | None]) -> None:
    _group(words, topic, said, RECORDS)


def _read(consumer: Any, said: list[str | None]) -> None:
    found, end = 0, time.monotonic() + PATIENCE_S
    while found < RECORDS and time.monotonic() < end:
        try:
            found += sum(map(len, consumer.poll(500).values()))
        except kafka.errors.KafkaError as error:
            said.append(_name(error))
    said.append(None if found >= RECORDS else "NOTHING")


_WORK: dict[str, Callable[[dict[str, Any], str, list[str | None]], None]] = {
    "produce": _produce,
    "fetch": _fetch,
    "metadata": _metadata,
    "group": _group,
    "commit": _commit,
    "transactions": _transactions,
}
