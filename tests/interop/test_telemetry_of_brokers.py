"""telemetry beside a broker that takes client metrics: what its plugin gets is what kproxy shows and forwards, byte for byte."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from tests.interop.measuring import COUNT, shown
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance, started
from tests.support.kafka.jars import NEWEST, run_tool
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import PLAINTEXT
from tests.support.otlp import Collector, attributes, http_collector

pytestmark = [pytest.mark.usefixtures("kafka"), pytest.mark.slow]
ADDED = {"client_id", "client_instance_id", "client_software_name", "client_software_version"}


class Push(NamedTuple):
    """What the plugin says of one."""

    client_id: str
    instance_id: str
    is_last: bool
    metrics: MetricsData


class Receiving(NamedTuple):
    """The broker, and where its plugin writes."""

    cluster: Cluster
    file: Path

    def pushes(self, client_id: str) -> list[Push]:
        """Those of a client, in their order."""
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        words = [line.split(" ") for line in lines]
        return [
            Push(name, instance_id, last == "true", MetricsData.FromString(base64.b64decode(data)))
            for name, instance_id, last, data in words
            if name == client_id
        ]


@pytest.fixture(scope="module")
def receiving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiving]:
    """A broker with the plugin, and a subscription to everything each second."""
    folder = tmp_path_factory.mktemp("telemetry-broker")
    file = folder / "pushes"
    extra = {"metric.reporters": "TelemetryBroker$Receiver", "client.telemetry.file": str(file)}
    source = str(Path(__file__).with_name("TelemetryBroker.java"))
    cluster = started(folder, NEWEST, extra=extra, main=source)
    words = ["--bootstrap-server", cluster.open, "--alter", "--name", "all", "--metrics", "*", "--interval", "1000"]
    run_tool(NEWEST, "org.apache.kafka.tools.ClientMetricsCommand", *words)
    yield Receiving(cluster, file)
    cluster.close()


@pytest.fixture
def tapping(receiving: Receiving, tmp_path: Path) -> Iterator[tuple[Entrance, Collector]]:
    """The way in through a proxy that taps and forwards; where it forwards to."""
    with http_collector() as collector:
        options = {"mode": "tap", "forward": {"otlp": collector.address}}
        filters = [{"use": "telemetry", "with": options}]
        served = virtual_cluster(receiving.cluster.bootstrap("PLAIN"), filters=filters)
        proxy = Proxy(tmp_path / "proxy", [served], workers=2)
        try:
            proxy.start()
            yield Entrance(receiving.cluster, proxy.bootstrap(), PLAINTEXT, proxy), collector
        finally:
            proxy.close()


def forwarded(collector: Collector, client_id: str) -> list[Any]:
    """The resources of a client that were forwarded, without what kproxy has added."""
    found = []
    for told, metrics in collector.resources():
        if told["client_id"] == client_id:
            plain = type(metrics).FromString(metrics.SerializeToString())
            kept = [each for each in plain.resource.attributes if each.key not in ADDED]
            del plain.resource.attributes[:]
            plain.resource.attributes.extend(kept)
            found.append(plain)
    return found


def received(pushes: list[Push]) -> list[Any]:
    """The resources of pushes; a resource that was not there is an empty one."""
    found = [metrics for push in pushes for metrics in push.metrics.resource_metrics]
    for metrics in found:
        metrics.resource.SetInParent()
    return found


def settled(receiving: Receiving, entrance: Entrance, collector: Collector, client_id: str) -> list[Push]:
    """All pushes of a client that has ended, once as many were forwarded; the same ones.

    Java's producer ends without a last push where it has nothing to send; librdkafka's sends one.
    """
    pushes = receiving.pushes(client_id)
    assert pushes
    expected = received(pushes)
    eventually(lambda: len(forwarded(collector, client_id)) >= len(expected), what="all pushes were forwarded")
    assert sorted(map(repr, forwarded(collector, client_id))) == sorted(map(repr, expected))
    assert {told["client_instance_id"] for told, _ in collector.resources() if told["client_id"] == client_id} == {
        push.instance_id for push in pushes
    }
    assert entrance.proxy is not None
    counted = entrance.proxy.count("kproxy_filter_events_total", 'event="pushes"', 'name="NONE"')
    assert counted == len(pushes) == entrance.proxy.count("kproxy_filter_events_total", 'name="exported"')
    return pushes


def push_with_librdkafka(receiving: Receiving, entrance: Entrance, topic: str, client_id: str) -> None:
    """Produce, push, and end, which is when the last push is sent."""
    producer = Producer({"bootstrap.servers": entrance.bootstrap, "client.id": client_id, "enable.metrics.push": True})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    eventually(lambda: producer.poll(0.1) or receiving.pushes(client_id), what="a push")


def test_librdkafka(receiving: Receiving, tapping: tuple[Entrance, Collector], topic_name: str) -> None:
    entrance, collector = tapping
    topic = receiving.cluster.topic(topic_name)
    push_with_librdkafka(receiving, entrance, topic, "librdkafka-app")
    pushes = settled(receiving, entrance, collector, "librdkafka-app")
    assert [push.is_last for push in pushes] == [False] * (len(pushes) - 1) + [True]
    last = next(push for push in pushes if push.metrics.resource_metrics)
    names = {
        metric.name
        for each in last.metrics.resource_metrics
        for scope in each.scope_metrics
        for metric in scope.metrics
    }
    expected = {f"kafka_client_{name.removeprefix('org.apache.kafka.').replace('.', '_')}" for name in names}
    assert expected & set(shown(entrance, "librdkafka-app"))
    assert attributes(next(iter(collector.resources()))[1].resource)["client_software_name"] == "confluent-kafka-python"
