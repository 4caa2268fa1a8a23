"""The demo's last screen: Prometheus' text format read, quantiles, and what is shown of them."""

import io
import math

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from rich.console import Console

from kproxy.cli.demo_summary import Api, Files, read_metrics, show_summary
from kproxy.cli.demo_workload import Counts

FILES = Files("/somewhere/decoded.jsonl", "/somewhere/trace.pcapng")


def exposed() -> str:
    """What prometheus_client makes of known numbers."""
    registry = CollectorRegistry()
    labels = ("api", "api_version")
    requests = Counter("kproxy_requests", "", labels, registry=registry)
    sizes = Counter("kproxy_response_bytes", "", labels, registry=registry)
    latency = Histogram("kproxy_latency_seconds", "", labels, buckets=(0.001, 0.01, 0.1), registry=registry)
    Counter("kproxy_other", "", ("cause",), registry=registry).labels("idle").inc()
    for version, count in (("9", 3), ("10", 4)):
        requests.labels("Produce", version).inc(count)
        sizes.labels("Produce", version).inc(1_000)
    for seconds in [0.0005] * 98 + [0.05] * 2:
        latency.labels("Produce", "10").observe(seconds)
    return generate_latest(registry).decode()


def test_versions_are_added_up_and_quantiles_are_the_bucket_they_fall_in() -> None:
    apis = read_metrics(exposed())
    assert list(apis) == ["Produce"]
    produce = apis["Produce"]
    assert (produce.requests, produce.response_bytes, produce.answered) == (7, 2_000, 100)
    assert [produce.quantile(share) for share in (0.5, 0.98, 0.99, 1.0)] == [0.001, 0.001, 0.1, 0.1]
    assert produce.buckets[math.inf] == 100


def test_no_metrics_are_no_apis() -> None:
    assert read_metrics("") == {}
    assert read_metrics('# TYPE nonsense\nkproxy_requests_total{api="\n\x00') == {}
    assert Api().quantile(0.5) == 0.0


def shown(apis: dict[str, Api], width: int = 80) -> list[str]:
    out = io.StringIO()
    show_summary(Console(file=out, width=width), Counts(12, 11, 1, 2), apis, 9.6, FILES)
    return out.getvalue().splitlines()


def test_it_is_one_screen_however_many_apis_there_are() -> None:
    apis = {f"AVeryLongNameOfAnApi{number:02d}": Api(number, number, 10**9, 10**9) for number in range(40)}
    lines = shown(apis)
    assert len(lines) <= 24
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert lines[1] == "12 records produced, 11 consumed by a group of 2, 1 failed in 10 s"
    assert "AVeryLongNameOfAnApi39" in lines[5]
    assert any(line.startswith("and 30 more") for line in lines)


def test_paths_can_be_copied_at_any_width() -> None:
    assert any(line.endswith("kproxy decode -v --records /somewhere/trace.pcapng") for line in shown({}, 40))
