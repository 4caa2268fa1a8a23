"""Numbers as Prometheus reads them: every metric is as described, names bounded by others, scrapes quick to parse."""

import math
import random
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint  # type: ignore[attr-defined]
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kproxy.output.api_counts import ApiHistograms, ApiTotals
from kproxy.output.histograms import Buckets, Histogram, Shape, encode_protobuf, prefers_protobuf
from kproxy.output.metric_descriptions import BY_NAME, DESCRIPTIONS
from kproxy.output.metrics import DURATIONS, SHAPES, SIZES, Metrics, Scrape
from kproxy.proxy.tap import counters
from kproxy.proxy.tap.counted import GAUGES, Total
from tests.conftest import Require

LATENCY_BUCKETS = 110  # of durations
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

SAID = {
    "at": 5,
    "exchanges": 10,
    "frames": 19,
    "undecoded": [["Fetch", 2]],
    "trailing": [["Metadata", "request", 3], ["Metadata", "response", 1]],
    "cut": [["Produce", "request", 5]],
    "unanswered": 1,
    "errors": [["Metadata", "LEADER_NOT_AVAILABLE", 3], ["__other__", "__other__", 4]],
    "throttled": [["Fetch", 2]],
    "throttle_ms": [["Fetch", 2500]],
    "sasl": [["SCRAM-SHA-256", "failed", 4]],
    "gaps": 1,
    "bad_frames": 0,
    "not_kafka": 0,
    "faults": {"MemoryError": 1},
    "given_up": 0,
    "starved": 2,
    "connections": 3,
    "most_lag_ns": 1_500_000,
    "outputs": {"log": {"written": 10, "dropped": 20, "failures": 30}},
    "spans": {"exported": 5, "dropped": 6, "failed": 7},
}
SERIES = {
    "clients": [(("default", "c"), [1, 2, 3, 4, 5]), (("__other__", "__other__"), [10, 20, 30, 40, 50])],
    "principals": [(("default", "alice"), [3, 4, 5, 1, 0])],
    "software": [(("default", "apache-kafka-java", "3.9.0"), [7, 1])],
    "topics": [(("default", 'odd"topic\n\\', "produce"), [5, 1000])],
    "groups": [(("default", "group"), [8, 1, 2])],
    "lag": [(("default", "group"), [12, 7])],
}


def counted(buckets: int, **counts: int) -> tuple[int, ...]:
    """Counts of some buckets, b<number>, of so many."""
    return tuple(counts.get(f"b{bucket}", 0) for bucket in range(buckets))


class Source:
    def __init__(self, **numbers: Any) -> None:
        given: dict[str, Any] = {"apis": [], "totals": [], "closes": [], "analysis": {}}
        self._scrape = Scrape(**(given | numbers))

    def scrape(self) -> Scrape:
        return self._scrape


def scraped(accept: str = "", **numbers: Any) -> str:
    return Metrics(Source(**numbers)).render(accept)[0].decode()


def samples(text: str) -> dict[str, float]:
    """'name{label=value,...}' -> number, as Prometheus' own parser reads them."""
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))}}}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def everything() -> dict[str, Any]:
    totals: Mapping[str, int] = {
        description.source.format(value): 2
        for description in BY_NAME.values()
        if description.origin == "workers"
        for value in description.values or ("",)
    }
    # one response of 2 ** -10 s, about a millisecond, one of a quarter of a second
    api = ApiTotals(0, 9, 3, 300, 2, 80, 30_000_000, counted(LATENCY_BUCKETS, b40=1, b72=1))
    phases = (counted(LATENCY_BUCKETS, b40=2), counted(LATENCY_BUCKETS, b72=2), counted(LATENCY_BUCKETS, b0=2))
    sizes = (counted(32, b6=2, b7=1), counted(32, b5=1, b31=1))
    histograms = ApiHistograms(0, (2_000_000, 500_000_000, 1_000), phases, sizes)
    return {
        "apis": [[api], [api, ApiTotals(3, None, 1, 0, 0, 0, 0, counted(LATENCY_BUCKETS))]],
        "histograms": [[histograms], [histograms, histograms._replace(api_key=None)]],
        "filter_times": [("orders", "audit", 1_500_000_000, 3)],
        "filter_faults": [("orders", "deny", "on_tail", "unusable", 2)],
        "totals": [totals, totals],
        "closes": [{"idle": 1}, {"idle": 2}],
        "analysis": SAID,
        "series": SERIES,
        "analysis_up": True,
        "open_files_limit": math.inf,
        "hung": {"worker": 1, "analyzer": 2},
        "client_metrics_dropped": {"too many series": 5},
        "filter_counts": [("orders", "faults", "calls", "moved", 4), ("orders", "faults", "fired", "moved", 2)],
    }


def test_workers_are_summed_and_buckets_cumulated() -> None:
    found = samples(scraped(**everything()))
    produce = "api=Produce,api_version=9"
    assert found[f"kproxy_requests_total{{{produce}}}"] == 6
    assert found[f"kproxy_response_bytes_total{{{produce}}}"] == 160
    for le, height in {"0.00048828125": 0, "0.0009765625": 2, "0.125": 2, "0.25": 4, "64.0": 4, "+Inf": 4}.items():
        assert found[f"kproxy_latency_seconds_bucket{{{produce},le={le}}}"] == height
    assert found[f"kproxy_latency_seconds_sum{{{produce}}}"] == 0.06
    assert found["kproxy_phase_seconds_sum{api=Produce,phase=request_in_proxy}"] == 0.004
    assert found["kproxy_phase_seconds_bucket{api=Produce,le=0.25,phase=broker}"] == 4
    assert found["kproxy_phase_seconds_bucket{api=Produce,le=0.0625,phase=broker}"] == 0
    assert found["kproxy_phase_seconds_count{api=other,phase=response_in_proxy}"] == 2
    assert found["kproxy_request_size_bytes_bucket{api=Produce,le=64.0}"] == 4
    assert found["kproxy_request_size_bytes_sum{api=Produce}"] == 600
    assert found["kproxy_response_size_bytes_bucket{api=Produce,le=67108864.0}"] == 2
    assert found["kproxy_response_size_bytes_count{api=Produce}"] == 4
    assert found["kproxy_requests_total{api=Metadata,api_version=other}"] == 1
    assert found["kproxy_filter_seconds_total{cluster=orders,filter=audit}"] == 1.5
    assert found["kproxy_filter_calls_total{cluster=orders,filter=audit}"] == 3
    assert found["kproxy_filter_faults_total{cluster=orders,filter=deny,hook=on_tail,kind=unusable}"] == 2
    assert found["kproxy_connections_closed_total{cause=idle}"] == 3
    assert found["kproxy_bytes_total{direction=request}"] == 4
    assert found["kproxy_analysis_lost_bytes_total{}"] == 4  # what the taps dropped
    assert found["kproxy_tls_handshake_failures_total{leg=broker}"] == 4
    assert found["kproxy_loop_lag_seconds{}"] == 2e-9  # the largest, not the sum
    assert found["kproxy_workers{}"] == 2
    assert found["kproxy_open_files_limit{}"] == math.inf
    assert found["kproxy_hung_processes_total{process=analyzer}"] == 2


def test_what_the_analyzer_says_is_there() -> None:
    found = samples(scraped(**everything()))
    assert found["kproxy_response_errors_total{api=Metadata,error=LEADER_NOT_AVAILABLE}"] == 3
    assert found["kproxy_response_errors_total{api=__other__,error=__other__}"] == 4
    assert found['kproxy_topic_bytes_total{cluster=default,operation=produce,topic=odd"topic\n\\}'] == 1000
    assert found["kproxy_client_errors_total{client_id=__other__,cluster=__other__}"] == 40
    assert (
        found[
            "kproxy_software_connections_total{cluster=default,software_name=apache-kafka-java,software_version=3.9.0}"
        ]
        == 1
    )
    assert found["kproxy_undecoded_exchanges_total{api=Fetch}"] == 2
    assert found["kproxy_throttled_responses_total{api=Fetch}"] == 2
    assert found["kproxy_throttle_seconds_total{api=Fetch}"] == 2.5
    assert found["kproxy_client_throttle_seconds_total{client_id=__other__,cluster=__other__}"] == 0.05
    assert found["kproxy_sasl_logins_total{mechanism=SCRAM-SHA-256,result=failed}"] == 4
    assert found["kproxy_group_lag_records{cluster=default,group=group}"] == 12
    assert found["kproxy_group_lag_max_records{cluster=default,group=group}"] == 7
    assert found["kproxy_trailing_bytes_frames_total{api=Metadata,direction=request}"] == 3
    assert found["kproxy_trailing_bytes_frames_total{api=Metadata,direction=response}"] == 1
    assert found["kproxy_cut_frames_total{api=Produce,direction=request}"] == 5
    assert found["kproxy_analysis_lag_seconds{}"] == 0.0015
    assert found["kproxy_output_dropped_bytes_total{output=log}"] == 20
    assert found["kproxy_analysis_faults_total{exception=MemoryError}"] == 1


def test_one_line_a_sample_whatever_the_names_are() -> None:
    lines = scraped(series={"groups": [(("one", 'a"\n\\\u2028b'), [1, 0, 1])]}).split("\n")
    assert [line for line in lines if line.startswith("kproxy_rebal")] == [
        'kproxy_rebalances_total{cluster="one",group="a\\"\\n\\\\\u2028b"} 1.0'
    ]


@pytest.mark.parametrize(("accept", "parse"), [("", text_string_to_metric_families), (OPENMETRICS, parse_openmetrics)])
def test_every_described_metric_appears_as_described(accept: str, parse: Any) -> None:
    families = {family.name: family for family in parse(scraped(accept, **everything()))}
    seen = {}
    for name, description in BY_NAME.items():
        family = families.get(name) or families.get(f"{name}_total") or families[f"{name}_info"]
        seen[family.name] = description
        assert family.documentation == description.help
        labels = {label for sample in family.samples for label in sample.labels} - {"le", "version"}
        assert labels == set(description.labels)
    assert set(families) == set(seen)


def test_promtool_finds_nothing_to_complain_of(require: Require) -> None:
    """Of all metrics, with hostile names; promtool checks names, types, help and what a counter may be called."""
    promtool = shutil.which("promtool")
    require("promtool", promtool, "there is no promtool")
    assert promtool is not None
    hostile = [
        (("default", name), [1, 2, 3, 4]) for name in ('"', "\\", "\n", "\u202e", "{}", "# HELP x", "\U0001f9ea", "")
    ]
    text = scraped(**(everything() | {"series": SERIES | {"clients": hostile}}))
    done = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_descriptions_keep_to_prometheus_naming() -> None:
    for name, description in BY_NAME.items():
        assert name.startswith("kproxy_")
        assert not name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
        assert description.help.endswith(".")


def test_nothing_counted_yet_is_no_error() -> None:
    found = samples(scraped())
    assert found["kproxy_workers{}"] == 0
    assert found["kproxy_analysis_up{}"] == 0


BY_ANALYZER = {"left_out_analyzer_limits", "left_out_output"}  # values of a label that only AnalyzerCounts has


def totals() -> dict[str, str]:
    """Total -> kind of the metric that it is."""
    workers = [one for one in DESCRIPTIONS if one.origin == "workers"]
    found = {one.source.format(value): one.kind for one in workers for value in one.values or ("",)}
    return {name: kind for name, kind in found.items() if name not in BY_ANALYZER}


def test_every_total_of_the_workers_is_a_metric_and_what_can_go_down_is_a_gauge() -> None:
    assert len(BY_NAME) == len(DESCRIPTIONS)
    assert set(totals()) == {total.name.lower() for total in Total}
    assert {name for name, kind in totals().items() if kind == "gauge"} == {gauge.name.lower() for gauge in GAUGES}


BUCKETS = Buckets(-3, 4, 14)  # 1/8 to 1.19, and all the rest


def native_buckets(native: dict[str, object]) -> dict[int, int]:
    """Index -> count, as the specification reads spans and deltas."""
    found, index, count = {}, 0, 0
    deltas = iter(native["deltas"])  # type: ignore[call-overload]
    for offset, length in native["spans"]:  # type: ignore[attr-defined]
        index += offset
        for _ in range(length):
            count += next(deltas)
            found[index] = count
            index += 1
    assert next(deltas, None) is None
    return found


def test_the_buckets_are_those_that_workers_count_in() -> None:
    assert (DURATIONS.count, DURATIONS.lowest, SIZES.count) == (
        counters.DURATION_BUCKETS,
        counters.LOWEST_DURATION,
        counters.SIZE_BUCKETS,
    )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_classic_bounds_are_bounds_that_are_counted(shape: Shape) -> None:
    bounds = [shape.buckets.bound(bucket) for bucket in range(shape.buckets.count)]
    assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
    shown = [bounds[bucket] for bucket in shape.shown]
    assert shown == sorted(set(shown)) and shown[-1] == float("inf")
    assert len(shown) <= 24  # lines of a scrape for each series


@pytest.mark.parametrize(("buckets", "schema"), [(DURATIONS, 2), (SIZES, 0), (BUCKETS, 2)])
def test_a_native_histogram_has_every_value_in_the_bucket_of_its_schema(buckets: Buckets, schema: int) -> None:
    rng = random.Random(3)
    bounds = [buckets.bound(bucket) for bucket in range(buckets.count)]
    values = [2 ** rng.uniform(buckets.lowest - 2, buckets.lowest + 10) for _ in range(2_000)]
    counts = [0] * buckets.count
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    family = Histogram("h", "A test.", ("api",), Shape(buckets, tuple(range(buckets.count))))
    family.add(("x",), counts, sum(values))
    native = family.native(family.counted[0])
    assert native["schema"] == schema and native["zero_threshold"] == 2.0**buckets.lowest
    base = 2 ** (2**-schema)
    expected: dict[int, int] = {}
    for value in values:
        if value > native["zero_threshold"]:
            index = next(i for i in range(-200, 200) if base ** (i - 1) < value <= base**i)
            index = min(index, buckets.lowest * buckets.per_octave + buckets.count - 1)  # the rest
            expected[index] = expected.get(index, 0) + 1
    assert native_buckets(native) == expected
    assert native["zero_count"] + sum(expected.values()) == len(values)
    heights = [height for _, height in family.classic(family.counted[0])]
    assert heights == list(accumulate(counts)) == [sum(value <= bound for value in values) for bound in bounds]


def test_a_series_without_values_is_left_out() -> None:
    family = Histogram("h", "A test.", ("api",), SHAPES["kproxy_phase_seconds"])
    family.add(("x",), [0] * DURATIONS.count, 0)
    assert family.samples == [] and family.counted == []


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
        *("1 label LabelPair*", "2 gauge Gauge", "3 counter Counter", "5 untyped Untyped", "7 histogram Histogram")
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
    found = families(
        encode_protobuf([counter, gauge, InfoMetricFamily("build", "The version.", value={"version": "1.2"})])
    )
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
    metric = families(encode_protobuf([family]))["phase_seconds"].metric[0]
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
    assert prefers_protobuf(accept) is expected
