"""Telemetry: pushes that are answered or read along, its options, and the numbers in a push."""

import gzip
import zlib
from typing import Any

import pytest
from lz4 import frame as lz4
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kproxy.errors import UsageError
from kproxy.filters.contract import Answer, ClientMetric, Close, Direction, RequestFacts, Send, Want
from kproxy.filters.loading import load_filter
from kproxy.filters.telemetry.filter import LARGE, Push, unpack
from kproxy.filters.telemetry.filter import read_push as read_push_within
from kproxy.protocol import message
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.embedded.telemetry import TooLarge
from kproxy.protocol.error_codes import ErrorCode
from tests.filters.telemetry.pushes import DELTA, Showing, counter, gauge, push
from tests.support.filtering import Bench
from tests.support.messages import answer_frame
from tests.support.otlp import attributes

ID = "AAECAwQFBgcICQoLDA0ODw"
OTHER_ID = "BAECAwQFBgcICQoLDA0ODw"
SENT = push(counter("org.apache.kafka.producer.record.send.total", 42))
SHOWN = [ClientMetric("org.apache.kafka.producer.record.send.total", True, False, (), 42.0)]


class Telling(Bench):
    def __init__(self, **options: Any) -> None:
        super().__init__(load_filter("telemetry", options), runtime=Showing())

    def told(self, name: str, **values: Any) -> Any:
        """The answer that kproxy gives."""
        outcome = self.ask(f"{name}Request", 0, **values)
        return message(f"{name}Response").decode(0, outcome.frame[9:]) if isinstance(outcome, Answer) else outcome

    def pushed(self, metrics: bytes, **values: Any) -> str:
        subscription = self.filter.subscriptions.subscription_id(ID)
        given = {"client_instance_id": ID, "subscription_id": subscription, "metrics": metrics}
        return ErrorCode(self.told("PushTelemetry", **(given | values)).error_code).name


def test_what_is_shown_of_a_push_is_an_option() -> None:
    bench = Telling(most_metrics=2, most_labels=1, most_names=3, most_series=4)
    assert bench.pushed(push(*(counter(f"n{number}", 1, a="1", b="2") for number in range(5)))) == "NONE"
    [(_, _, shown, _)] = bench.runtime.shown
    assert [(one.name, one.attributes) for one in shown] == [("n0", (("a", "1"),)), ("n1", (("a", "1"),))]
    assert bench.runtime.most == {"most_names": 3, "most_series": 4}
    assert bench.runtime.counts["data points", "not shown"] == 3


def versions(*keys: int) -> Any:
    return [{"api_key": key, "min_version": 0, "max_version": 1} for key in keys]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_both_apis_are_offered(version: int) -> None:
    frame = answer_frame("ApiVersionsResponse", version, api_keys=versions(0, 18))
    bench = Telling()
    outcome = bench.chain.on_response(bench.at, RequestFacts(18, version, 7), frame)
    assert isinstance(outcome, Send)
    told = message("ApiVersionsResponse").decode(version, outcome.frame[8:])
    offered = [(api.api_key, api.min_version, api.max_version) for api in told.api_keys]
    assert offered == [(0, 0, 1), (18, 0, 1), (71, 0, 0), (72, 0, 0)]


def test_a_broker_that_offers_them_or_answers_with_an_error_is_not_changed() -> None:
    bench = Telling()
    for keys, error in ((versions(18, 71, 72), 0), (versions(18), 35)):
        frame = answer_frame("ApiVersionsResponse", 0, api_keys=keys, error_code=error)
        assert bench.chain.on_response(bench.at, RequestFacts(18, 0, 7), frame) == Send(frame)


def test_a_client_asks_and_pushes() -> None:
    bench = Telling(
        push_interval="10s", compression=["lz4"], temporality="delta", metrics=["org.apache.kafka.producer."]
    )
    told = bench.told("GetTelemetrySubscriptions", client_instance_id=ZERO_UUID)
    assert (told.error_code, told.push_interval_ms, list(told.accepted_compression_types)) == (0, 10_000, [3])
    assert (told.delta_temporality, list(told.requested_metrics)) == (True, ["org.apache.kafka.producer."])
    taken = bench.told(
        "PushTelemetry",
        client_instance_id=told.client_instance_id,
        subscription_id=told.subscription_id,
        compression_type=3,
        metrics=lz4.compress(SENT),
    )
    assert taken.error_code == 0
    assert bench.runtime.shown == [("app", told.client_instance_id, SHOWN, 30.0)]
    assert bench.runtime.counts == {("pushes", "NONE"): 1}


def test_what_is_no_push_is_an_invalid_record_and_a_bomb_too_large() -> None:
    assert Telling().pushed(b"\xff\xff") == "INVALID_RECORD"
    packed = zlib.compressobj(wbits=31)
    bomb = packed.compress(bytes(5_000_000)) + packed.flush()
    bench = Telling()
    assert bench.pushed(bomb, compression_type=1) == "TELEMETRY_TOO_LARGE"
    assert (bench.runtime.shown, bench.runtime.counts) == ([], {("pushes", "TELEMETRY_TOO_LARGE"): 1})


def test_a_large_push_is_read_aside() -> None:
    bench = Telling()
    many = push(*(gauge(f"metric {number}", 1.0) for number in range(LARGE // 20)))
    assert bench.pushed(many) == "NONE"
    assert bench.runtime.aside_calls == 1
    assert len(bench.runtime.shown[0][2]) == LARGE // 20
    assert Telling().pushed(many + b"\xff") == "INVALID_RECORD"


def test_who_has_not_authenticated_itself_is_disconnected_where_that_is_asked_for() -> None:
    bench = Telling(authenticated=True)
    assert isinstance(bench.told("PushTelemetry", client_instance_id=ID), Close)
    bench.at.principal = "alice"
    assert bench.pushed(SENT) == "NONE"


def tapped(error: int = 0, metrics: bytes = SENT, **options: Any) -> Telling:
    bench = Telling(mode="tap", **options)
    outcome = bench.ask("PushTelemetryRequest", 0, client_instance_id=ID, metrics=metrics)
    assert isinstance(outcome, Send)
    assert outcome.frame is bench.frame
    assert outcome.request is not None
    answer = answer_frame("PushTelemetryResponse", 0, error_code=error)
    assert bench.answer(outcome.request, answer) == Send(answer)
    return bench


def test_beside_a_broker_what_it_takes_is_shown() -> None:
    bench = tapped()
    assert bench.runtime.shown == [("app", ID, SHOWN, 900.0)]
    assert tapped(ErrorCode.UNKNOWN_SUBSCRIPTION_ID).runtime.shown == []
    assert tapped(metrics=b"\xff").runtime.counts == {("pushes", "unread"): 1}
    assert bench.chain.wanted(Direction.REQUEST, 0, 9) is Want.PASS
    assert bench.chain.wanted(Direction.RESPONSE, 18, 4) is Want.PASS
    assert bench.chain.wanted(Direction.REQUEST, 71, 0) is Want.PASS


COLLECTOR = {"otlp": "http://collector:4318"}


def forwarded(bench: Telling) -> list[dict[str, Any]]:
    """The attributes of the resources that were offered."""
    messages = map(MetricsData.FromString, bench.runtime.offered)
    return [attributes(each.resource) for message in messages for each in message.resource_metrics]


def test_a_push_is_forwarded_with_whose_it_is() -> None:
    bench = Telling(forward=COLLECTOR)
    assert [(name, endpoint.otlp) for name, endpoint in bench.runtime.exports] == [("telemetry", COLLECTOR["otlp"])]
    assert bench.pushed(lz4.compress(SENT), compression_type=3) == "NONE"
    assert forwarded(bench) == [{"client_id": "app", "client_instance_id": ID}]
    bench.at.software = ("apache-kafka-java", "4.3.1")
    many = push(*(gauge(f"metric {number}", 1.0) for number in range(LARGE // 20)))
    bench.runtime.at += 60
    assert bench.pushed(many) == "NONE"
    software = {"client_software_name": "apache-kafka-java", "client_software_version": "4.3.1"}
    assert forwarded(bench)[1] == {"client_id": "app", "client_instance_id": ID, **software}
    [resource] = MetricsData.FromString(bench.runtime.offered[1]).resource_metrics
    assert resource.scope_metrics == MetricsData.FromString(many).resource_metrics[0].scope_metrics
    bench.chain.stop()
    assert bench.runtime.closed == 1


def test_what_is_refused_or_cannot_be_read_is_not_forwarded() -> None:
    bench = Telling(forward=COLLECTOR)
    assert bench.pushed(b"\xff") == "INVALID_RECORD"
    assert bench.pushed(SENT, subscription_id=1, client_instance_id=OTHER_ID) == "UNKNOWN_SUBSCRIPTION_ID"
    assert bench.runtime.offered == []


def test_beside_a_broker_what_it_takes_is_forwarded() -> None:
    bench = tapped(forward=COLLECTOR)
    assert forwarded(bench) == [{"client_id": "app", "client_instance_id": ID}]
    assert forwarded(tapped(ErrorCode.THROTTLING_QUOTA_EXCEEDED, forward=COLLECTOR)) == []
    assert bench.filter.identifies


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "both"}, "mode: 'both' is not one of tap, terminate"),
        ({"push_interval": "2h"}, "push_interval: 7200.0 is out of range"),
        ({"compression": ["brotli"]}, "compression[0]: 'brotli' is not one of"),
        ({"forward": {"otlp": "collector:4318"}}, "forward.otlp: it is not the URL"),
        ({"forward": {"otlp": "http://c:1", "headers": {"host": "x"}}}, "forward.headers.host: kproxy sets this"),
        ({"forward": {}}, "forward.otlp: it is missing"),
        ({"most_clients": 0}, "most_clients: 0 is out of range"),
        ({"most_metrics": 50_001}, "most_metrics: 50001 is out of range"),
        ({"most_labels": 17}, "most_labels: 17 is out of range"),
        ({"most_names": 501}, "most_names: 501 is out of range"),
        ({"most_series": 1_001}, "most_series: 1001 is out of range"),
        ({"most_bytes": "1GiB"}, "at most 16MiB"),
    ],
)
def test_mistakes_are_said_with_their_place(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_filter("telemetry", options)
    assert said in str(caught.value).replace('"', "'")


def read_push(plain: bytes, most_metrics: int = 100, most_attributes: int = 8) -> Push:
    return read_push_within(plain, most_metrics, most_attributes)


def test_sums_and_gauges_with_their_attributes() -> None:
    plain = push(
        counter("a.total", 7, topic="orders"),
        counter("b.total", 3, DELTA),
        counter("c", -2, DELTA, is_monotonic=False),
        gauge("d", 0.0, node_id="1"),
    )
    assert read_push(plain) == (
        [
            ClientMetric("a.total", True, False, (("topic", "orders"),), 7.0),
            ClientMetric("b.total", True, True, (), 3.0),
            ClientMetric("c", False, True, (), -2.0),
            ClientMetric("d", False, False, (("node_id", "1"),), 0.0),
        ],
        0,
    )


def test_what_is_no_number_is_dropped() -> None:
    histogram = {"name": "h", "histogram": {"dataPoints": [{"count": "1"}, {"count": "2"}]}}
    assert read_push(push(gauge("a", "NaN"), gauge("b", "-Infinity"), gauge("c", 1.5), histogram)) == (
        [ClientMetric("c", False, False, (), 1.5)],
        4,
    )


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(4_001))
    assert len(bomb) < 100
    with pytest.raises(TooLarge):
        unpack(bomb, 1, 1_000)
    assert unpack(gzip.compress(bytes(4_000)), 1, 1_000) == bytes(4_000)
