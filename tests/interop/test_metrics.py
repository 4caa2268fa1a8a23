"""/metrics before a real broker: lag, logins, throttling, phases and sizes, against what Kafka and the clients say themselves."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack_from
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    ThrottleEvent,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    OffsetSpec,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import Require
from tests.support.frames import array, string
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, Entrance, Entrances, Way
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import PLAINTEXT
from tests.support.sockets import Wire

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)
COUNT = 500
NAMED = "kproxy_client_requests_total"


@pytest.fixture
def entrance(single: Cluster, tmp_path: Path) -> Iterator[Entrance]:
    proxy = Proxy(tmp_path / "proxy", [virtual_cluster(single.bootstrap("PLAIN"))], workers=2)
    proxy.start()
    yield Entrance(single, proxy.bootstrap(), PLAINTEXT, proxy)
    proxy.close()


def samples(entrance: Entrance) -> dict[tuple[str, ...], float]:
    """(name, values of the labels in the order of their names) -> value."""
    assert entrance.proxy is not None
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(entrance.proxy.get("/metrics")[1])
        for sample in family.samples
    }


def kafkas_lag(cluster: Cluster, group: str, topic: str) -> list[int]:
    """Of each partition: its end less what the group has committed, asked of the broker itself."""
    admin = AdminClient({"bootstrap.servers": cluster.open})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    committed = {one.partition: one.offset for one in asked[group].result().topic_partitions if one.topic == topic}
    places = [TopicPartition(topic, partition) for partition in committed]
    ends = admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()))
    return [ends[place].result().offset - committed[place.partition] for place in places]


def test_the_lag_of_a_group_is_that_of_kafka(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name, 3)
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "linger.ms": 5})
    for number in range(COUNT):
        producer.produce(topic, b"v", partition=number % 3)
    assert producer.flush(30) == 0
    group = f"group-of-{topic}"
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": entrance.bootstrap, **settings})
    consumer.subscribe([topic])
    read = 0
    while read < COUNT:
        read += len(consumer.consume(100, 1.0))
    commits = [TopicPartition(topic, partition, offset) for partition, offset in enumerate((10, 100, 166))]
    consumer.commit(offsets=commits, asynchronous=False)
    expected = kafkas_lag(entrance.cluster, group, topic)
    assert sum(expected) == COUNT - 276

    def shown() -> bool:
        consumer.commit(offsets=commits, asynchronous=False)  # again: an analyzer that is behind leaves out bodies
        consumer.consume(1, 0.1)
        found = samples(entrance)
        lag = [found.get((f"kproxy_group_lag_{kind}records", "default", group)) for kind in ("", "max_")]
        return lag == [sum(expected), max(expected)]

    eventually(shown, what=f"a lag of {expected}")
    consumer.close()


def test_throttling_is_what_librdkafka_was_told(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    client_id = f"slow-{topic}"
    set_quota(entrance.cluster, client_id, 10_000.0)
    told: list[ThrottleEvent] = []
    settings: dict[str, Any] = {"client.id": client_id, "throttle_cb": told.append, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": entrance.bootstrap, **settings})
    for _ in range(4):
        producer.produce(topic, bytes(30_000))
        assert producer.flush(60) == 0

    def same() -> bool:
        producer.poll(0.1)  # the callbacks
        throttled = sum(event.throttle_time for event in told)
        counted = samples(entrance).get(("kproxy_client_throttle_seconds_total", client_id, "default"), 0.0)
        return throttled > 0 and counted == pytest.approx(throttled)

    eventually(same, what="the throttling that the client was told of")


def test_topics_that_begin_alike_are_counted_each_and_in_each_cluster(
    single: Cluster, tmp_path: Path, topic_name: str
) -> None:
    """Names of 249 characters, as long as Kafka allows; the numbers are those of the records produced."""
    names = [topic_name.ljust(248, "-") + end for end in "ab"]
    for name in names:
        single.topic(name)
    clusters = [virtual_cluster(single.bootstrap("PLAIN"), name=name) for name in ("one", "other")]
    proxy = Proxy(tmp_path / "proxy", clusters).start().analyzing()
    sent = {("one", names[0]): 100, ("one", names[1]): 2_000, ("other", names[0]): 30_000}
    try:
        for (cluster, topic), size in sent.items():
            bootstrap = proxy.bootstrap(("one", "other").index(cluster))
            producer = Producer({"bootstrap.servers": bootstrap, "client.id": topic})
            producer.produce(topic, bytes(size))
            assert producer.flush(30) == 0

        def counted() -> dict[tuple[str, str], float]:
            found = samples(Entrance(single, proxy.bootstrap(), PLAINTEXT, proxy)).items()
            return {(key[1], key[3]): value for key, value in found if key[0] == "kproxy_topic_bytes_total"}

        eventually(lambda: counted().keys() == sent.keys(), what="all three are counted")
        assert all(0 <= counted()[key] - size < 100 for key, size in sent.items())  # a batch's header beside the value
        clients = {key[1:] for key in samples(Entrance(single, proxy.bootstrap(), PLAINTEXT, proxy)) if key[0] == NAMED}
        assert {(topic, cluster) for cluster, topic in sent} <= clients
    finally:
        proxy.close()


def set_quota(cluster: Cluster, client_id: str, bytes_a_second: float) -> None:
    """Give a client a quota for what it produces (AlterClientQuotas v0)."""
    entity = array(string("client-id") + string(client_id))
    ops = array(string("producer_byte_rate") + pack(">d?", bytes_a_second, False))
    with Wire(cluster.open) as wire:
        answer = wire.ask(49, 0, array(entity + ops) + b"\0")
    assert unpack_from(">iih", answer) == (0, 1, 0)  # not throttled, one entry, no error


def test_logins_are_those_of_the_workload(guarded: Entrances, single: Cluster) -> None:
    entrance = guarded(Way("SASL", "SASL_PLAINTEXT", "SCRAM-SHA-256"))
    before = samples(entrance)
    right = {"bootstrap.servers": entrance.bootstrap, **entrance.security.librdkafka()}
    AdminClient(right).list_topics(timeout=30)
    wrong = AdminClient({**right, "sasl.password": "not-hers", "reconnect.backoff.max.ms": 60_000})
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=1)

    def grown(result: str) -> float:
        labels = "kproxy_sasl_logins_total", "SCRAM-SHA-256", result
        return samples(entrance).get(labels, 0) - before.get(labels, 0)

    eventually(lambda: grown("failed") >= 1 and grown("succeeded") >= 1, what="a login of each kind")
    assert entrance.proxy is not None
    opened = entrance.proxy.count("kproxy_connections_opened_total")
    assert grown("failed") + grown("succeeded") <= opened


def test_each_exchange_has_its_phases_and_sizes_and_promtool_is_content(
    entrance: Entrance, topic_name: str, require: Require
) -> None:
    topic = entrance.cluster.topic(topic_name)
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "linger.ms": 0})
    for _ in range(50):
        producer.produce(topic, b"v")
        assert producer.flush(30) == 0
    promtool = shutil.which("promtool")
    require("promtool", promtool, "there is no promtool")
    assert promtool is not None and entrance.proxy is not None
    phases = ("request_in_proxy", "broker", "response_in_proxy")

    def counted() -> dict[tuple[str, ...], float]:  # the last phase of a response when it has been sent
        found = samples(entrance)
        assert [found["kproxy_phase_seconds_count", "Produce", phase] for phase in phases] == [50] * 3
        return found

    found = eventually(counted, what="the phases of all 50")
    assert found["kproxy_request_size_bytes_count", "Produce"] == 50
    sums = [found["kproxy_phase_seconds_sum", "Produce", phase] for phase in phases]
    latency = sum(value for key, value in found.items() if key[:2] == ("kproxy_latency_seconds_sum", "Produce"))
    assert sums[0] + sums[1] == pytest.approx(latency, rel=0.05)
    text = entrance.proxy.get("/metrics")[1]
    done = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


TRAILING = re.compile(r'kproxy_trailing_bytes_frames_total\{api="(\w+)",direction="request"\}')


@pytest.mark.skipif(DIRECT, reason="about the proxy's analyzer")
def test_librdkafkas_requests_with_bytes_after_them_are_read(entrance: Entrance) -> None:
    """librdkafka 2.16: Metadata for topics = null has three bytes more, AlterUserScramCredentials one."""
    proxy = entrance.proxy
    assert proxy is not None
    proxy.analyzing()
    undecoded = proxy.count("kproxy_undecoded_exchanges_total")
    client = AdminClient({"bootstrap.servers": entrance.bootstrap})
    assert client.list_topics(timeout=30).brokers
    credential = UserScramCredentialUpsertion("zoe", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")
    for future in client.alter_user_scram_credentials([credential]).values():
        future.result(30)  # the broker has read it, whatever comes after it
    described = client.describe_user_scram_credentials(["zoe"])["zoe"].result(30)
    assert [one.iterations for one in described.scram_credential_infos] == [4096]

    def seen() -> set[str]:
        return {found[1] for name in proxy.metrics() if (found := TRAILING.match(name))}

    eventually(lambda: {"Metadata", "AlterUserScramCredentials"} <= seen(), what="both are counted")
    assert proxy.count("kproxy_undecoded_exchanges_total") == undecoded
