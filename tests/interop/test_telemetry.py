"""telemetry before a broker that takes no client metrics: what clients push is at /metrics, and is what they say themselves."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.interop.clients import Librdkafka
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST, java
from tests.support.kafka.processes import eventually, spawn, stop, tail
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import PLAINTEXT

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)
Behind = Callable[..., Entrance]
COUNT = 500


@pytest.fixture
def behind(single: Cluster, tmp_path: Path) -> Iterator[Behind]:
    """Starts a proxy with the filter before the broker; returns the way in."""
    started: list[Proxy] = []

    def start(bootstrap: Sequence[str] = (), **options: Any) -> Entrance:
        filters = [{"use": "telemetry", "with": {"push_interval": "1s", **options}}]
        served = virtual_cluster(bootstrap or single.bootstrap("PLAIN"), filters=filters)
        proxy = Proxy(tmp_path / f"proxy-{len(started)}", [served], workers=2)
        started.append(proxy)
        proxy.start()
        return Entrance(single, proxy.bootstrap(), PLAINTEXT, proxy)

    yield start
    for proxy in started:
        proxy.close()


def shown(entrance: Entrance, client_id: str) -> dict[str, float]:
    """Sample name -> the sum of what is shown of a client without labels of its own."""
    assert entrance.proxy is not None
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(entrance.proxy.get("/metrics")[1]):
        for sample in family.samples:
            if sample.name.startswith("kafka_client_") and sample.labels["client_id"] == client_id:
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


class Measuring:
    """Java producers that say how often they have sent (Measuring.java)."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "measuring.log"
        self._process = spawn(java(NEWEST, str(Path(__file__).with_name("Measuring.java"))), self._log, piped=True)

    def produce(self, entrance: Entrance, topic: str, client_id: str, count: int) -> float:
        """Produce so many records; returns what the producer has counted. It goes on to push what it measures."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{entrance.bootstrap} {topic} {client_id} {count}\n".encode())
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, tail(self._log)
        return float(answer)

    def close(self) -> None:
        stop(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def measuring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measuring]:
    process = Measuring(tmp_path_factory.mktemp("measuring"))
    yield process
    process.close()


@pytest.mark.parametrize(
    ("codec", "temporality"), [("zstd", "cumulative"), ("lz4", "delta"), ("gzip", "delta"), ("snappy", "cumulative")]
)
def test_java_pushes_what_it_has_counted(
    behind: Behind, measuring: Measuring, topic_name: str, codec: str, temporality: str
) -> None:
    """By its own default it pushes. A sum of what came between pushes is the sum that it has itself."""
    entrance = behind(compression=[codec], temporality=temporality)
    topic = entrance.cluster.topic(topic_name)
    client_id = f"java-{codec}"
    counted = measuring.produce(entrance, topic, client_id, COUNT)
    assert counted == COUNT
    name = "kafka_client_producer_record_send_total"
    eventually(lambda: shown(entrance, client_id).get(name) == counted, what=f"{name} is {counted}")
    found = shown(entrance, client_id)
    assert found["kafka_client_producer_record_error_total"] == 0
    assert found["kafka_client_producer_connection_count"] >= 1
    assert entrance.proxy is not None
    assert entrance.proxy.count("kproxy_filter_events_total", 'filter="telemetry"', 'name="NONE"') >= 1


@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip", "snappy", "none"])
def test_librdkafka_pushes_what_its_statistics_say(behind: Behind, topic_name: str, codec: str) -> None:
    entrance = behind(compression=[codec])
    topic = entrance.cluster.topic(topic_name)
    statistics: list[dict[str, Any]] = []
    producer = Producer(
        {
            "bootstrap.servers": entrance.bootstrap,
            "client.id": "librdkafka-app",
            "enable.metrics.push": True,
            "statistics.interval.ms": 200,
            "stats_cb": lambda text: statistics.append(json.loads(text)),
        }
    )
    for number in range(COUNT):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    name = "kafka_client_producer_connection_creation_total"

    def same() -> bool:
        producer.poll(0.2)
        made = sum(broker["connects"] for broker in statistics[-1]["brokers"].values()) if statistics else 0
        return made > 0 and shown(entrance, "librdkafka-app").get(name) == made

    eventually(same, what="as many connections as the statistics have")
    assert "kafka_client_producer_request_latency_avg" in " ".join(shown(entrance, "librdkafka-app"))


def test_beside_a_broker_that_takes_pushes_the_same_is_shown(
    behind: Behind, measuring: Measuring, topic_name: str
) -> None:
    """Two proxies: what the one beyond takes as a broker does, the one in the mode tap reads along."""
    beyond = behind(temporality="delta")
    entrance = behind([beyond.bootstrap], mode="tap")
    topic = entrance.cluster.topic(topic_name)
    counted = measuring.produce(entrance, topic, "java-tapped", COUNT)
    name = "kafka_client_producer_record_send_total"
    for each in (entrance, beyond):
        eventually(lambda each=each: shown(each, "java-tapped").get(name) == counted == COUNT, what=name)


def test_a_client_without_pushes_is_not_disturbed(behind: Behind, topic_name: str) -> None:
    entrance = behind()
    topic = entrance.cluster.topic(topic_name)
    settings = {"enable_metrics_push": False, "client_id": "quiet"}
    assert Librdkafka().produce(entrance, topic, COUNT, **settings) == COUNT
    assert sorted(Librdkafka().consume(entrance, topic, COUNT, **settings)) == sorted(
        str(n).encode() for n in range(COUNT)
    )
    assert shown(entrance, "quiet") == {}
