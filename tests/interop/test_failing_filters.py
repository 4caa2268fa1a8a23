"""Filters that go wrong between clients and a broker: observers disturb nothing, policies give errors that clients know."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.interop.clients import Client, Java, KafkaPython, Librdkafka, values
from tests.interop.conftest import Behind
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST, java
from tests.support.sockets import end_offsets

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)
LIMITS = {"frame_size": "8MiB", "held_frame_size": "8MiB"}
SIDES = ("request", "response")
FAULTS_TOTAL = "kproxy_filter_faults_total"
FAULTS = ("raises", "hangs", "another correlation id", "grows past the cap", "no verdict")
STARTS = (  # what Java's clients of 4.3 send from their start to their first record, and to their end
    *("ApiVersions", "Metadata", "InitProducerId", "Produce", "EndTxn", "FindCoordinator", "JoinGroup"),
    *("SyncGroup", "OffsetFetch", "ListOffsets", "Fetch", "OffsetCommit", "ConsumerGroupHeartbeat", "DescribeCluster"),
    *("CreateTopics", "DescribeConfigs"),
)
KNOWN = ("UnknownServerException", "UNKNOWN_SERVER_ERROR", "unexpected error")
MISREAD = (
    "SchemaException",
    "BufferUnderflow",
    "correlation id",
    "IllegalState",
    "ClassCast",
    "NullPointer",
    "IndexOutOf",
)


def before(behind: Behind, use: str, **options: Any) -> Entrance:
    """The way in through one of the filters that fail."""
    return behind({"use": f"tests.interop.failing_filters:{use}", "with": options}, limits=LIMITS)


@pytest.mark.parametrize(
    ("client", "fault"),
    [
        *(pytest.param(Librdkafka(), fault, id=f"librdkafka, {fault}") for fault in FAULTS),
        *(pytest.param(KafkaPython(), fault, id=f"kafka-python, {fault}", marks=pytest.mark.slow) for fault in FAULTS),
    ],
)
def test_an_observer_that_fails_at_every_hook_disturbs_no_client(
    behind: Behind, topic_name: str, client: Client, fault: str
) -> None:
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
@pytest.mark.parametrize("fault", FAULTS)
def test_an_observer_that_fails_at_every_hook_disturbs_no_client_of_java(
    behind: Behind, topic_name: str, fault: str
) -> None:
    entrance = before(behind, "Observer", fault=fault)
    topic = entrance.cluster.topic(topic_name)
    assert Java().produce(entrance, topic, 20) == 20
    for protocol in ("classic", "consumer"):
        got = Java().consume(entrance, topic, 20, group_id=f"{topic}-{protocol}", group_protocol=protocol)
        assert got == values(20)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["raises", "hangs", "grows past the cap", "no verdict"])
@pytest.mark.parametrize("direction", ["request", "response"])
def test_a_policy_that_fails_gives_java_an_error_that_it_knows_at_every_api(
    behind: Behind, topic_name: str, direction: str, fault: str
) -> None:
    """Each start ends with Kafka's own exception, which says what went wrong, or that time ran out where Java tries again."""
    entrance = before(behind, "Policy")
    topic = entrance.cluster.topic(topic_name)
    assert Librdkafka().produce(entrance, topic, 20) == 20
    cases = [f"{direction} {api} {fault}" for api in STARTS]
    program = str(Path(__file__).with_name("Failing.java"))
    words = java(NEWEST, program, entrance.bootstrap, topic, "control Produce", *cases, heap="512m")
    run = subprocess.run(words, capture_output=True, text=True, timeout=400, check=True)
    ends = dict(line.split("|", 1) for line in run.stdout.splitlines() if "|" in line)
    assert ends.keys() == {"control Produce", *cases}, run.stderr[-2_000:]
    assert ends.pop("control Produce") == "done"
    unclear = {
        case: end
        for case, end in ends.items()
        if any(word in end for word in MISREAD)
        or not any(word in end + run.stderr for word in (*KNOWN, "TimeoutException"))
    }
    assert unclear == {}
    assert {case for case, end in ends.items() if end == "done"} == set()
    told = {case.split()[1] for case, end in ends.items() if any(word in end for word in KNOWN)}
    assert told >= set(STARTS) - {"ApiVersions", "Metadata", "ListOffsets", "Fetch"}  # which it asks again


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
