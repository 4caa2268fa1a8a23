"""Filters that go wrong between clients and a broker: observers disturb nothing, policies give errors that clients know.

That Java knows the errors of every API: tests/filters/test_error_responses.py (Kafka's classes), test_faults.py.
"""

from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.interop.clients import Client, KafkaPython, Librdkafka, values
from tests.interop.conftest import Behind
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.sockets import end_offsets

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)
LIMITS = {"frame_size": "8MiB", "held_frame_size": "8MiB"}
SIDES = ("request", "response")
FAULTS_TOTAL = "kproxy_filter_faults_total"
FAULTS = ("raises", "hangs", "another correlation id", "grows past the cap", "no verdict")


def before(behind: Behind, use: str, **options: Any) -> Entrance:
    """The way in through one of the filters that fail."""
    return behind({"use": f"tests.interop.failing_filters:{use}", "with": options}, limits=LIMITS)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_observer_that_fails_at_every_hook_disturbs_no_client(behind: Behind, topic_name: str, fault: str) -> None:
    client = Librdkafka()
    entrance = before(behind, "Observer", fault=fault)
    topic = entrance.cluster.topic(topic_name)
    assert client.produce(entrance, topic, 20) == 20
    assert client.consume(entrance, topic, 20) == values(20)
    assert entrance.proxy is not None
    name, metrics = f'cluster="{entrance.name}"', entrance.proxy.metrics().items()
    counted = {shown: count for shown, count in metrics if FAULTS_TOTAL in shown and name in shown and count}
    kind = {"raises": "raised", "hangs": "timed_out"}.get(fault, "unusable")
    assert all('filter="Observer"' in shown and f'kind="{kind}"' in shown for shown in counted)
    by_hook = {hook: sum(count for shown, count in counted.items() if f'"on_{hook}"' in shown) for hook in SIDES}
    if fault == "another correlation id":  # that one is not the filter's to change
        assert counted == {}
    else:
        assert min(by_hook.values()) > 0 and sum(by_hook.values()) > 20


@pytest.mark.parametrize("client", [Librdkafka(), KafkaPython()], ids=lambda client: client.name)
def test_an_observer_that_fails_at_heads_and_tails_disturbs_no_client(
    behind: Behind, topic_name: str, client: Client
) -> None:
    entrance = before(behind, "ObserverOfParts", fault="raises")
    topic = entrance.cluster.topic(topic_name)
    assert client.produce(entrance, topic, 20) == 20
    assert client.consume(entrance, topic, 20) == values(20)


@pytest.mark.slow
def test_a_policy_that_fails_gives_librdkafka_an_error_that_it_knows(behind: Behind, topic_name: str) -> None:
    """A producer for each fault: its record is reported as failed with Kafka's own error; one that fails at no API goes on."""
    entrance = before(behind, "Policy")
    topic = entrance.cluster.topic(topic_name)
    faults = [fault for fault in FAULTS if fault != "another correlation id"]
    cases = [f"{side} Produce {fault}" for side in SIDES for fault in faults]
    reports: dict[str, str | None] = {}
    producers = []
    for case in ["control", *cases]:
        settings = {"bootstrap.servers": entrance.bootstrap, "client.id": case, "message.timeout.ms": 20_000}
        producer = Producer({**settings, "log_level": 0})

        def reported(error: KafkaError | None, _: Message, case: str = case) -> None:
            reports[case] = None if error is None else error.name()

        producer.produce(topic, case.encode(), on_delivery=reported)
        producers.append(producer)
    assert [producer.flush(60) for producer in producers] == [0] * len(producers)
    assert reports == {"control": None, **dict.fromkeys(cases, "UNKNOWN")}
    reached = 1 + len(faults)  # what fails on the response has been written
    assert end_offsets(entrance.cluster.open, topic) == {0: reached}
