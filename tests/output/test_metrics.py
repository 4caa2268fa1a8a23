"""Numbers as Prometheus reads them: every metric is as described, names bounded by others, scrapes quick to parse."""

import math
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kproxy.output.metric_descriptions import BY_NAME
from kproxy.output.metrics import Metrics, Scrape
from tests.conftest import Require

BUCKETS = 110  # of durations
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
    "lost_bytes": 77,
    "connections": 3,
    "most_lag_ns": 1_500_000,
    "outputs": {"log": {"written": 10, "dropped": 20, "failures": 30}},
    "spans": {"exported": 5, "dropped": 6, "failed": 7},
}
SERIES = {
    "clients": [(("default", "c"), [1, 2, 3, 4, 5]), (("__other__", "__other__"), [10, 20, 30, 40, 50])],
    "software": [(("default", "apache-kafka-java", "3.9.0"), [7, 1])],
    "topics": [(("default", 'odd"topic\n\\', "produce"), [5, 1000])],
    "groups": [(("default", "group"), [8, 1, 2])],
    "lag": [(("default", "group"), [12, 7])],
}


class Api(NamedTuple):
    api_key: int | None
    api_version: int | None
    requests: int = 0
    request_bytes: int = 0
    responses: int = 0
    response_bytes: int = 0
    latency_ns: int = 0
    histogram: tuple[int, ...] = (0,) * BUCKETS


class Histograms(NamedTuple):
    api_key: int | None
    phase_ns: tuple[int, ...]
    phases: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]


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
        (description.total.format(value)): 2
        for description in BY_NAME.values()
        if description.total
        for value in description.of or ("",)
    }
    # one response of 2 ** -10 s, about a millisecond, one of a quarter of a second
    api = Api(0, 9, 3, 300, 2, 80, 30_000_000, counted(BUCKETS, b40=1, b72=1))
    phases = (counted(BUCKETS, b40=2), counted(BUCKETS, b72=2), counted(BUCKETS, b0=2))
    sizes = (counted(32, b6=2, b7=1), counted(32, b5=1, b31=1))
    histograms = Histograms(0, (2_000_000, 500_000_000, 1_000), phases, sizes)
    return {
        "apis": [[api], [api, Api(3, None, 1)]],
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
    hostile = [((name,), [1, 2, 3, 4]) for name in ('"', "\\", "\n", "\u202e", "{}", "# HELP x", "\U0001f9ea", "")]
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
