"""Faults into real clients: each does what it does with a broker that answers so. The brokers are librdkafka's mock cluster.

``None``: the client asks again by itself, and what it was asked to do succeeds. Else the error that it gives to its program.
"""

import itertools
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kproxy.protocol.error_codes import ErrorCode
from kproxy.testing import Proxy
from tests.support.documented_errors import PAIRS
from tests.support.kafka.brokers import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it reads its own schemas with
    import kafka
    from kafka import KafkaConsumer, KafkaProducer

PATIENCE_S = 40
QUIET = {"log_level": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 10}


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    owner = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock", **QUIET})
    brokers = owner.list_topics(timeout=PATIENCE_S).brokers.values()
    with Proxy([f"{broker.host}:{broker.port}" for broker in brokers]) as running:
        assert produced(running, "orders") is None
        yield running


def produced(proxy: Proxy, topic: str = "orders", **settings: Any) -> int | None:
    """Produce a record; the error code, None if it was acknowledged."""
    client = Producer(
        {"bootstrap.servers": proxy.bootstrap, "message.timeout.ms": 20_000, "error_cb": str, **QUIET, **settings}
    )
    codes: list[int | None] = []
    try:
        client.produce(topic, b"x", partition=0, on_delivery=lambda error, _: codes.append(error and error.code()))
    except KafkaException as error:
        return int(error.args[0].code())
    client.flush(PATIENCE_S)
    return codes[0]


def idempotently(proxy: Proxy) -> int | None:
    """Produce with an idempotent producer."""
    return produced(proxy, **{"enable.idempotence": True})


def fetched(proxy: Proxy) -> int | None:
    """Read a record of a partition that is assigned; the error code, None for the record."""
    settings = {"group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error"}
    client = Consumer({"bootstrap.servers": proxy.bootstrap, **settings, **QUIET})
    try:
        client.assign([TopicPartition("orders", 0, 0)])
        return _code(client.poll(PATIENCE_S))
    finally:
        client.close()


def committed(proxy: Proxy) -> int | None:
    """Read a record as the member of a group, and commit it."""
    settings = {
        "group.id": f"g-{uuid.uuid4()}",  # no member of a test before is waited for
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6_000,
    }
    client = Consumer({"bootstrap.servers": proxy.bootstrap, **settings, **QUIET})
    try:
        client.subscribe(["orders"])
        code = _code(client.poll(PATIENCE_S))
        if code is None:
            client.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        return code
    except KafkaException as error:
        return int(error.args[0].code())
    finally:
        client.close()


def listed(proxy: Proxy) -> int | None:
    """Ask for the metadata of a topic."""
    client = Producer({"bootstrap.servers": proxy.bootstrap, **QUIET})
    found = client.list_topics("orders", PATIENCE_S).topics["orders"]
    codes = [each.error.code() for each in (found, *found.partitions.values()) if each.error is not None]
    return codes[0] if codes else None


def _code(message: Any) -> int | None:
    assert message is not None, "nothing within the time"
    error: KafkaError | None = message.error()
    return error.code() if error is not None else None


WORK: dict[str, Callable[[Proxy], int | None]] = {
    "Produce": produced,
    "Fetch": fetched,
    "Metadata": listed,
    "FindCoordinator": committed,
    "JoinGroup": committed,
    "OffsetCommit": committed,
    "InitProducerId": idempotently,
    "ApiVersions": produced,
}
SAMPLE = [
    ("Produce", "NOT_LEADER_OR_FOLLOWER", None),
    ("Produce", "INVALID_RECORD", 87),
    ("Produce", "TOPIC_AUTHORIZATION_FAILED", 29),
    ("Fetch", "NOT_LEADER_OR_FOLLOWER", None),
    ("Metadata", "TOPIC_AUTHORIZATION_FAILED", 29),
    ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", None),
    ("ApiVersions", "UNSUPPORTED_VERSION", None),
]


def run(proxy: Proxy, api: str, error: str) -> tuple[int | None, int, int]:
    """What the client says, and how often the fault fired, of how many calls."""
    # librdkafka asks for metadata by itself too: for a program to see an error of it, all have to have it
    fault = proxy.fault(api=api, error=error, call=[] if api == "Metadata" else 1)
    try:
        try:
            said = WORK[api](proxy)
        except KafkaException as raised:  # of list_topics
            said = int(raised.args[0].code())
        return said, fault.fired, fault.calls
    finally:
        fault.remove()


@pytest.mark.parametrize(("api", "error", "said"), SAMPLE)
def test_librdkafka_does_what_it_does_with_a_broker(proxy: Proxy, api: str, error: str, said: int | None) -> None:
    found, fired, calls = run(proxy, api, error)
    assert found == said
    assert fired == (calls if api == "Metadata" else 1)
    assert calls > 1 or said is not None


@pytest.mark.long
@pytest.mark.parametrize(("api", "error"), PAIRS)
def test_librdkafka_gives_every_documented_error_to_its_program_or_asks_again(
    proxy: Proxy, api: str, error: str
) -> None:
    said, fired, calls = run(proxy, api, error)
    assert fired == (calls if api == "Metadata" else 1)
    if said is None:
        assert calls > 1
    else:
        fatal = said in (
            KafkaError._FATAL,
            KafkaError._FENCED,
            KafkaError._AUTO_OFFSET_RESET,
        )  # librdkafka's own, which say the error in words
        assert said == ErrorCode[error] or fatal


def test_what_failed_before_the_broker_is_not_appended_and_what_failed_after_is(
    single: Cluster, topic_name: str
) -> None:
    """kafka-python before a real broker, whose own account of what it has got is what it gives back."""
    single.topic(topic_name)
    bootstrap = single.bootstrap("PLAIN")
    with Proxy(list(bootstrap)) as proxy:
        client = KafkaProducer(bootstrap_servers=proxy.bootstrap, enable_idempotence=False, linger_ms=0)

        def send(value: bytes) -> int | None:
            try:
                client.send(topic_name, value, partition=0).get(PATIENCE_S)
            except kafka.errors.BrokerResponseError as error:
                return int(error.errno)
            return None

        assert send(b"none") is None
        before = proxy.fault(api="Produce", topic=topic_name, error="INVALID_RECORD", times=1)
        assert (send(b"before"), before.fired) == (87, 1)
        after = proxy.fault(api="Produce", topic=topic_name, error="NOT_LEADER_OR_FOLLOWER", when="after", times=1)
        assert (send(b"after"), after.fired, after.calls) == (None, 1, 2)
        moved = proxy.fault("leader_moved", topic=topic_name)
        assert (send(b"moved"), moved.fired) == (None, 1)
        client.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    consumer.assign([kafka.TopicPartition(topic_name, 0)])
    found = [record.value for record in itertools.islice(consumer, 4)]
    consumer.close()
    assert found == [b"none", b"after", b"after", b"moved"]
