"""Exchanges as spans: what a collector gets is what the client has done, and belongs to the client's traces."""

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import PLAINTEXT
from tests.support.otlp import Collector, attributes, grpc_collector, http_collector

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]
Behind = Callable[..., Entrance]
SECRET = b"value-that-must-stay-here"


@pytest.fixture
def behind(single: Cluster, tmp_path: Path) -> Iterator[Behind]:
    """Starts a proxy with traces before the broker; returns the way in."""
    started: list[Proxy] = []

    def start(collector: Collector, **traces: Any) -> Entrance:
        proxy = Proxy(
            tmp_path / f"proxy-{len(started)}",
            [virtual_cluster(single.bootstrap("PLAIN"))],
            traces={"otlp": collector.address, "sample": 1, **traces},
        )
        started.append(proxy)
        proxy.start().analyzing()
        return Entrance(single, proxy.bootstrap(), PLAINTEXT, proxy)

    yield start
    for proxy in started:
        proxy.close()


def traceparent(flags: str = "01") -> tuple[bytes, bytes, bytes]:
    """Trace id, span id, and the header that has both."""
    trace_id, span_id = secrets.token_bytes(16), secrets.token_bytes(8)
    return trace_id, span_id, f"00-{trace_id.hex()}-{span_id.hex()}-{flags}".encode()


def produce(entrance: Entrance, topic: str, headers: list[list[tuple[str, bytes]]], **settings: Any) -> Producer:
    """Produce records with these headers in one request."""
    producer = Producer(
        {"bootstrap.servers": entrance.bootstrap, "client.id": "traced-app", "linger.ms": 500, **settings}
    )
    for each in headers:
        producer.produce(topic, SECRET, key=SECRET, headers=each, partition=0)
    assert producer.flush(30) == 0
    return producer


def cluster_id(cluster: Cluster) -> str:
    """As the broker itself says it."""
    return str(AdminClient({"bootstrap.servers": cluster.open}).list_topics(timeout=30).cluster_id)


def of_api(collector: Collector, api: str) -> list[Span]:
    return [span for span in collector.spans() if attributes(span)["messaging.operation.name"] == api]


def arrived(collector: Collector, api: str, count: int = 1) -> list[Span]:
    eventually(lambda: len(of_api(collector, api)) >= count, what=f"{count} spans of {api}")
    return of_api(collector, api)


@pytest.mark.parametrize("transport", ["http/protobuf", "grpc"])
def test_a_produce_request_is_in_the_trace_of_its_records(behind: Behind, topic_name: str, transport: str) -> None:
    with http_collector() if transport == "http/protobuf" else grpc_collector() as collector:
        entrance = behind(collector, protocol=transport, sample=0, headers={"X-Team": "payments"}, service_name="edge")
        topic = entrance.cluster.topic(topic_name)
        trace_id, span_id, header = traceparent()
        produce(entrance, topic, [[("traceparent", header)]] * 3, **{"compression.type": "lz4"})
        [span] = arrived(collector, "Produce")
        assert (span.trace_id, span.parent_span_id) == (trace_id, span_id)
        assert (span.name, span.kind) == (f"Produce {topic}", Span.SPAN_KIND_CLIENT)
        found = attributes(span)
        host, _, port = entrance.cluster.bootstrap("PLAIN")[0].rpartition(":")
        expected = {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": "0",
            "messaging.batch.message_count": 3,
            "messaging.client.id": "traced-app",
            "server.address": host,
            "server.port": int(port),
            "network.peer.address": host,
            "client.address": "127.0.0.1",
            "messaging.kafka.cluster.id": cluster_id(entrance.cluster),
            "kproxy.acks": -1,
            "kproxy.cluster": "default",
        }
        assert {name: found.get(name) for name in expected} == expected
        assert found["user_agent.original"].startswith("confluent-kafka-python/")
        assert span.status.code == Status.STATUS_CODE_UNSET
        names = [event.name for event in span.events]
        assert sorted(names) == ["request received", "request sent", "response began", "response sent"]
        phases = [found[f"kproxy.{name}_ms"] for name in ("request_in_proxy", "broker", "response_in_proxy")]
        sent = span.events[names.index("response sent")].time_unix_nano
        assert all(phase > 0 for phase in phases)
        assert sum(phases) == pytest.approx((sent - span.start_time_unix_nano) / 1e6)
        at = [span.start_time_unix_nano, *(event.time_unix_nano for event in span.events)]
        assert at == sorted(at)
        [resource] = {
            attributes(each.resource)["service.name"]
            for request in collector.requests
            for each in request.resource_spans
        }
        assert resource == "edge"
        assert collector.headers[0]["x-team"] == "payments"
        assert of_api(collector, "Metadata") == []  # without a trace of the client's nothing is sampled here
        assert entrance.proxy is not None
        eventually(
            lambda: entrance.proxy.count("kproxy_spans_total", 'outcome="exported"') == len(collector.spans()),
            what="counts",
        )  # type: ignore[union-attr]
        assert entrance.proxy.count("kproxy_spans_total", 'outcome="failed"') == 0
        assert all(SECRET not in request.SerializeToString() for request in collector.requests)
        assert "payments" not in entrance.proxy.get("/config")[1]


def test_records_of_several_traces_are_linked_and_an_unsampled_one_is_not_exported(
    behind: Behind, topic_name: str
) -> None:
    with http_collector() as collector:
        entrance = behind(collector, sample=1, apis=["Produce", "Fetch"])
        topic = entrance.cluster.topic(topic_name)
        contexts = [traceparent() for _ in range(150)]
        produce(entrance, topic, [[("traceparent", header)] for _, _, header in contexts])
        [several] = arrived(collector, "Produce")
        assert [(link.trace_id, link.span_id) for link in several.links] == [each[:2] for each in contexts[:128]]
        assert several.dropped_links_count == 22
        assert several.parent_span_id == b""
        produce(entrance, topic, [[("traceparent", traceparent("00")[2])]])
        trace_id, span_id, _ = traceparent()
        produce(entrance, topic, [[("b3", f"{trace_id.hex()}-{span_id.hex()}-1".encode())]])
        last = arrived(collector, "Produce", 2)[-1]
        assert (last.trace_id, last.parent_span_id, len(of_api(collector, "Produce"))) == (trace_id, span_id, 2)
        consumer = Consumer(
            {"bootstrap.servers": entrance.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        read = [consumer.poll(30) for _ in range(152)]
        consumer.close()
        assert None not in read

        def fetched() -> list[Span]:
            return [span for span in of_api(collector, "Fetch") if span.links]

        def contexts_fetched() -> int:
            return sum(len(span.links) + span.dropped_links_count for span in fetched())

        eventually(lambda: contexts_fetched() == 152, what="a link for each context, or its count")
        assert contexts[0][0] in {link.trace_id for span in fetched() for link in span.links}
        assert sum(attributes(span)["messaging.batch.message_count"] for span in fetched()) == 152
        assert {attributes(span)["messaging.destination.name"] for span in fetched()} == {topic}
        assert Counter(span.kind for span in collector.spans()).keys() == {Span.SPAN_KIND_CLIENT}


def test_a_hostile_trace_header_leaves_a_span_in_a_trace_of_its_own(behind: Behind, topic_name: str) -> None:
    """What is no trace context (W3C) by its size, version, digits or zeros joins nothing, and every request has its span."""
    trace_id, span_id, header = traceparent()
    hostile = [
        b"",
        b"\xff" * 55,
        b"\0" * 55,
        b"x" * 200_000,
        header[:-1],
        b"ff" + header[2:],
        header[:3] + b"0" * 32 + header[35:],
        header[:36] + b"0" * 16 + header[52:],
        header.replace(b"-", b"\n"),
        header[:3] + b"g" * 32 + header[35:],
    ]
    with http_collector() as collector:
        entrance = behind(collector)
        topic = entrance.cluster.topic(topic_name)
        for value in hostile:
            produce(entrance, topic, [[("traceparent", value), ("traceparent", b"\x1b[31m")]], **{"linger.ms": 0})
        found = arrived(collector, "Produce", len(hostile))
    assert [span.parent_span_id for span in found] == [b""] * len(hostile)
    traces = {span.trace_id for span in found}
    assert len(traces) == len(hostile) and all(len(one) == 16 and any(one) for one in traces)
    assert trace_id not in traces and span_id not in {span.span_id for span in found}


def test_an_error_is_the_status_and_the_groups_are_named(behind: Behind, topic_name: str) -> None:
    """The name is what the client has been told."""
    with http_collector() as collector:
        entrance = behind(collector)
        admin = AdminClient({"bootstrap.servers": entrance.bootstrap})
        [answer] = admin.delete_topics([f"no-{topic_name}"]).values()
        with pytest.raises(KafkaException) as told:
            answer.result(30)
        consumer = Consumer({"bootstrap.servers": entrance.bootstrap, "group.id": f"group-{topic_name}"})
        consumer.subscribe([entrance.cluster.topic(topic_name)])
        eventually(lambda: consumer.poll(0.2) or consumer.assignment(), what="partitions")
        consumer.close()
        [failed] = arrived(collector, "DeleteTopics")
        assert told.value.args[0].name() == "UNKNOWN_TOPIC_OR_PART"
        assert attributes(failed)["error.type"] == "UNKNOWN_TOPIC_OR_PARTITION"
        assert (failed.status.code, failed.status.message) == (Status.STATUS_CODE_ERROR, "UNKNOWN_TOPIC_OR_PARTITION")
        for api in ("JoinGroup", "SyncGroup", "LeaveGroup"):
            span = arrived(collector, api)[-1]
            assert attributes(span)["messaging.consumer.group.name"] == f"group-{topic_name}"


def test_a_collector_that_hangs_costs_spans_and_nothing_else(behind: Behind, topic_name: str) -> None:
    with http_collector() as collector:
        collector.hang = threading.Event()
        entrance = behind(collector, timeout="300s")
        topic = entrance.cluster.topic(topic_name)
        produce(entrance, topic, [[]] * 6_000, **{"batch.num.messages": 1, "linger.ms": 0})
        proxy = entrance.proxy
        assert proxy is not None
        eventually(lambda: proxy.count("kproxy_spans_total", 'outcome="dropped"') > 0, what="spans are dropped")
        assert proxy.count("kproxy_spans_total", 'outcome="exported"') == 0
        assert proxy.count("kproxy_analysis_up") == 1
        proxy.process.terminate()
        assert proxy.process.wait(60) == 0  # neither it nor the analyzer had to be killed
