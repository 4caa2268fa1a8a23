"""telemetry before a broker that takes no client metrics: what clients push is at /metrics, and is what they say themselves."""

import json
import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.interop.clients import Librdkafka
from tests.interop.measuring import COUNT, Measuring, shown
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import PLAINTEXT
from tests.support.otlp import attributes, http_collector
from tests.support.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]
Behind = Callable[..., Entrance]


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


@pytest.mark.parametrize("codec", ["zstd", "none", "lz4", "gzip", "snappy"])
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


def outcomes(entrance: Entrance) -> dict[str, float]:
    """Pushes by what they were answered."""
    assert entrance.proxy is not None
    found = {}
    for family in text_string_to_metric_families(entrance.proxy.get("/metrics")[1]):
        for sample in family.samples:
            if sample.name == "kproxy_filter_events_total" and sample.labels["event"] == "pushes":
                found[sample.labels["name"]] = sample.value
    return found


def produced(entrance: Entrance, topic: str, client_id: str, *, until: Callable[[], Any], **settings: Any) -> None:
    """Produce with librdkafka, wait, and end, which is when its last push is sent."""
    producer = Producer(
        {"bootstrap.servers": entrance.bootstrap, "client.id": client_id, "enable.metrics.push": True, **settings}
    )
    for number in range(COUNT):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    eventually(lambda: producer.poll(0.1) or until(), what="what the client is to wait for")


def test_a_subscription_that_changes_is_asked_for_anew(behind: Behind, measuring: Measuring, topic_name: str) -> None:
    """The id of the old one is unknown from then on (UNKNOWN_SUBSCRIPTION_ID); the client goes on with the new one."""
    entrance = behind(metrics=["org.apache.kafka.producer.connection."])
    assert entrance.proxy is not None
    measuring.produce(entrance, entrance.cluster.topic(topic_name), "java-changing", COUNT)
    before, after = "kafka_client_producer_connection_count", "kafka_client_producer_record_send_total"
    eventually(lambda: before in shown(entrance, "java-changing"), what=before)
    assert after not in shown(entrance, "java-changing")
    [use] = entrance.proxy.config["clusters"][0]["filters"]
    use["with"]["metrics"] = ["org.apache.kafka.producer.record."]
    entrance.proxy.write()
    entrance.proxy.process.send_signal(signal.SIGHUP)
    eventually(lambda: shown(entrance, "java-changing").get(after) == COUNT, what=after)
    assert outcomes(entrance)["UNKNOWN_SUBSCRIPTION_ID"] >= 1


def test_a_push_that_is_too_large_is_refused_and_the_client_goes_on(behind: Behind, topic_name: str) -> None:
    entrance = behind(most_bytes=10, compression=["none"])
    topic = entrance.cluster.topic(topic_name)
    produced(entrance, topic, "large", until=lambda: "TELEMETRY_TOO_LARGE" in outcomes(entrance))
    assert shown(entrance, "large") == {}
    assert len(Librdkafka().consume(entrance, topic, COUNT)) == COUNT


class Kept(logging.Handler):
    """The lines of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_the_last_push_comes_when_the_client_ends(behind: Behind, topic_name: str) -> None:
    """Before the interval is over it would be throttled, were it not the last one; by any worker it is taken, and forwarded.

    librdkafka pushes at its end only if it has its subscription, which its log says; it counts an interval above some 25
    minutes as none.
    """
    with http_collector() as collector:
        entrance = behind(push_interval="20m", forward={"otlp": collector.address})
        topic = entrance.cluster.topic(topic_name)
        for number in range(3):
            kept, logger = Kept(), logging.Logger(f"ending-{number}")
            logger.addHandler(kept)
            produced(
                *(entrance, topic, f"ending-{number}"),
                until=lambda kept=kept: any("state = PushScheduled" in line for line in kept.lines),  # type: ignore[misc]
                debug="telemetry",
                logger=logger,
            )
        eventually(lambda: outcomes(entrance).get("NONE") == 3, what="three last pushes")
        eventually(
            lambda: len({told["client_id"] for told, _ in collector.resources()}) == 3, what="they are forwarded"
        )
        told = [attributes(metrics.resource) for _, metrics in collector.resources()]
        assert {each["client_id"] for each in told} == {f"ending-{number}" for number in range(3)}
        assert {each["client_software_name"] for each in told} == {"confluent-kafka-python"}
        assert len({each["client_instance_id"] for each in told}) == 3
        proxy = entrance.proxy
        assert proxy is not None
        exported = ("kproxy_filter_events_total", 'event="forwarded"', 'name="exported"')
        # counted when the collector has answered, which is after it has told us
        eventually(lambda: proxy.count(*exported) == 3, what="they are counted")


def test_a_collector_that_is_not_there_holds_up_no_one(behind: Behind, topic_name: str) -> None:
    entrance = behind(forward={"otlp": f"http://127.0.0.1:{free_ports()}"})
    topic = entrance.cluster.topic(topic_name)
    produced(entrance, topic, "unheard", until=lambda: shown(entrance, "unheard"))
    assert len(Librdkafka().consume(entrance, topic, COUNT)) == COUNT
    assert entrance.proxy is not None
    log = entrance.proxy.log
    eventually(lambda: "metrics of clients cannot be exported" in log.read_text(encoding="utf-8"), what="it is logged")
