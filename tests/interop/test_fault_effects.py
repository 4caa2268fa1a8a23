"""What a client does not hear: whether the broker has done it is for the fault to say, and is read from the broker's own log.

A request that is lost before the broker is appended once, when the client sends it again. One whose response is lost is appended
twice, unless the producer is idempotent (KIP-98).
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

from kproxy.testing import Proxy
from tests.support.fault_clients.kafka_python import KafkaProducer
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.wire import end_offsets

PATIENCE_S = 60
LOST = {  # effect, and how often the broker has appended what was sent once
    "error before": ({"error": "NOT_LEADER_OR_FOLLOWER"}, 1),
    "error after": ({"error": "NOT_LEADER_OR_FOLLOWER", "when": "after"}, 2),
    "disconnect before": ({"disconnect": True}, 1),
    "disconnect after": ({"disconnect": True, "when": "after"}, 2),
    "black hole before": ({"black_hole": True}, 1),
    "black hole after": ({"black_hole": True, "when": "after"}, 2),
    "truncated response": ({"truncate": 9}, 2),
}


def librdkafka(bootstrap: str, topic: str, idempotent: bool, patience_s: float) -> None:
    """Produce a record, until it is acknowledged; *patience_s*: with an answer."""
    settings = {"socket.timeout.ms": int(patience_s * 1_000), "retry.backoff.ms": 20}
    errors = []
    client = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": idempotent, "log_level": 0, **settings})
    client.produce(topic, b"once", partition=0, on_delivery=lambda error, _: errors.append(error))
    client.flush(PATIENCE_S)
    assert errors == [None]


def kafka_python(bootstrap: str, topic: str, idempotent: bool, patience_s: float) -> None:
    """As librdkafka."""
    timeout = {"request_timeout_ms": int(patience_s * 1_000)}
    words: dict[str, Any] = {"bootstrap_servers": bootstrap, "retry_backoff_ms": 20, **timeout}
    with closing(KafkaProducer(enable_idempotence=idempotent, **words)) as client:
        client.send(topic, b"once", partition=0).get(PATIENCE_S)


@pytest.fixture(scope="module")
def proxy(three: Cluster) -> Iterator[Proxy]:
    with Proxy(three.bootstrap()) as running:
        yield running


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("produce", [librdkafka, pytest.param(kafka_python, marks=pytest.mark.slow)])
def test_the_broker_has_what_it_got_and_an_idempotent_producer_has_it_once(
    proxy: Proxy, three: Cluster, topic_name: str, produce: Any, lost: str, idempotent: bool
) -> None:
    three.topic(topic_name)
    effect, appended = LOST[lost]
    fault = proxy.fault(api_name="Produce", topic=topic_name, call=1, **effect)
    try:
        # Only what is never answered is given up early: a broker that is busy for long must not be asked again
        produce(proxy.bootstrap, topic_name, idempotent, 3 if "black_hole" in effect else PATIENCE_S)
        assert (fault.fired, fault.calls) == (1, 2)
    finally:
        fault.remove()
    assert end_offsets(three.open, topic_name) == {0: 1 if idempotent else appended}
