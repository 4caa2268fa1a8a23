"""The protobuf format, read by Google's runtime with the message types of prometheus/client_model."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint  # type: ignore[attr-defined]
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from kproxy.output.histograms import Histogram
from kproxy.output.metrics import SHAPES
from kproxy.output.protobuf_exposition import encode, is_accepted

PROMETHEUS_2 = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
# message -> number, name, type, * for repeated; as metrics.proto has them
MODEL = {
    "LabelPair": ["1 name string", "2 value string"],
    "Gauge": ["1 value double"],
    "Counter": ["1 value double"],
    "Untyped": ["1 value double"],
    "Bucket": ["1 cumulative_count uint64", "2 upper_bound double"],
    "BucketSpan": ["1 offset sint32", "2 length uint32"],
    "Histogram": [
        *("1 sample_count uint64", "2 sample_sum double", "3 bucket Bucket*", "5 schema sint32"),
        *(
            "6 zero_threshold double",
            "7 zero_count uint64",
            "12 positive_span BucketSpan*",
            "13 positive_delta sint64*",
        ),
    ],
    "Metric": [
        *("1 label LabelPair*", "2 gauge Gauge", "3 counter Counter", "5 untyped Untyped", "7 histogram Histogram"),
    ],
    "MetricFamily": ["1 name string", "2 help string", "3 type int32", "4 metric Metric*"],
}


def metric_family() -> Any:
    """The class of io.prometheus.client.MetricFamily."""
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="t", syntax="proto2")
    for name, fields in MODEL.items():
        message = file.message_type.add(name=name)
        for field in fields:
            number, label, kind = field.split()
            added = message.field.add(name=label, number=int(number), label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            if kind in MODEL:
                added.type, added.type_name = 11, f".t.{kind}"
            else:
                added.type = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind.upper()}")
            if label == "positive_delta":
                added.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.MetricFamily"))


def families(data: bytes) -> dict[str, Any]:
    kind, found, at = metric_family(), {}, 0
    while at < len(data):
        size, at = _DecodeVarint(data, at)
        family = kind.FromString(data[at : at + size])
        assert family.SerializeToString() == data[at : at + size]  # nothing is unknown, and all is as Google writes it
        found[family.name], at = family, at + size
    return found


def test_counters_gauges_and_information() -> None:
    counter = CounterMetricFamily("requests", "Requests.", labels=["api"])
    counter.add_metric(["Fetch"], 3)
    counter.add_metric(['odd"\n\u202e'], 2**53)
    gauge = GaugeMetricFamily("open", "Open ones.", value=-1.5)
    found = families(encode([counter, gauge, InfoMetricFamily("build", "The version.", value={"version": "1.2"})]))
    requests = found["requests_total"]
    assert (requests.help, requests.type) == ("Requests.", 0)
    assert [({x.name: x.value for x in one.label}, one.counter.value) for one in requests.metric] == [
        ({"api": "Fetch"}, 3),
        ({"api": 'odd"\n\u202e'}, 2**53),
    ]
    assert (found["open"].type, found["open"].metric[0].gauge.value) == (1, -1.5)
    assert {x.name: x.value for x in found["build_info"].metric[0].label} == {"version": "1.2"}


def test_a_histogram_is_classic_and_native() -> None:
    shape = SHAPES["kproxy_phase_seconds"]
    family = Histogram("phase_seconds", "A phase.", ("api", "phase"), shape)
    counts = [0] * shape.buckets.count
    counts[0], counts[4], counts[5], counts[60], counts[-1] = 7, 3, 1, 2, 1
    family.add(("Fetch", "broker"), counts, 5_000_000_000)
    metric = families(encode([family]))["phase_seconds"].metric[0]
    histogram = metric.histogram
    assert {x.name: x.value for x in metric.label} == {"api": "Fetch", "phase": "broker"}
    assert (histogram.sample_count, histogram.sample_sum) == (14, 5.0)
    assert (histogram.schema, histogram.zero_threshold, histogram.zero_count) == (2, 2.0**-20, 7)
    assert [(one.offset, one.length) for one in histogram.positive_span] == [(-76, 2), (54, 1), (48, 1)]
    assert list(histogram.positive_delta) == [3, -2, 1, -1]
    assert [(one.upper_bound, one.cumulative_count) for one in histogram.bucket][:2] == [(2.0**-20, 7), (2.0**-18, 11)]
    assert (histogram.bucket[-1].upper_bound, histogram.bucket[-1].cumulative_count) == (float("inf"), 14)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (PROMETHEUS_2, True),
        (PROMETHEUS_2.replace(";proto", "; proto"), True),
        (PROMETHEUS_2.replace("encoding=delimited", "encoding=text"), False),
        (PROMETHEUS_2.replace("MetricFamily;encoding=delimited", "MetricFamily;encoding=delimited;q=0.7"), False),
        (PROMETHEUS_2.replace("MetricFamily;encoding=delimited", "MetricFamily;encoding=delimited;q=x"), False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", False),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.Other;encoding=delimited", False),
        ("text/html,*/*;q=0.8", False),
        ("", False),
        (",;,q=;", False),
    ],
)
def test_it_is_sent_to_scrapers_that_want_it_most(accept: str, expected: bool) -> None:
    assert is_accepted(accept) is expected
