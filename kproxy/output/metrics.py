"""Metrics: write /metrics, the metrics of metric_descriptions.py with their current numbers.

Prometheus text format 0.0.4; OpenMetrics 1.0, or protobuf with native histograms, if the scraper requests it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kproxy import __version__
from kproxy.output import protobuf_exposition
from kproxy.output.histograms import Buckets, Histogram, Shape
from kproxy.output.metric_descriptions import BY_NAME, DESCRIPTIONS, NANOSECONDS, Description
from kproxy.protocol.facts import facts

OTHER = "other"
LEFT_OUT = "kproxy_exchanges_left_out"

Sample = tuple[tuple[str, ...], float]  # values of the labels, number
Row = tuple[tuple[str, ...], Sequence[int], float]  # values of the labels, counts by bucket, sum


class Counted(Protocol):
    """What a worker has counted for one version of an API. None: the API or version is not known."""

    @property
    def api_key(self) -> int | None: ...
    @property
    def api_version(self) -> int | None: ...
    @property
    def requests(self) -> int: ...
    @property
    def request_bytes(self) -> int: ...
    @property
    def responses(self) -> int: ...
    @property
    def response_bytes(self) -> int: ...
    @property
    def latency_ns(self) -> int:
        """Sum of the latencies of all responses."""

    @property
    def histogram(self) -> Sequence[int]:
        """Number of responses by latency, in the buckets DURATIONS."""


class CountedHistograms(Protocol):
    """Histograms that a worker has counted for one API. None: the API is not known."""

    @property
    def api_key(self) -> int | None: ...
    @property
    def phase_ns(self) -> Sequence[int]:
        """Sum of the durations of each phase, in the order of PHASES."""

    @property
    def phases(self) -> Sequence[Sequence[int]]:
        """Number of exchanges by duration, in the buckets DURATIONS, for each phase."""

    @property
    def sizes(self) -> Sequence[Sequence[int]]:
        """Number of requests, and of responses, by size, in the buckets SIZES."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """The numbers of one scrape; lists have one entry for each worker.

    Totals and causes have the names of the enums in kproxy.proxy.tap.counted, in lower case. *analysis* is the analyzer's last
    report (kproxy.proxy.analyzer.counts); empty before the first one.
    """

    apis: Sequence[Sequence[Counted]]
    totals: Sequence[Mapping[str, int]]
    closes: Sequence[Mapping[str, int]]
    analysis: Mapping[str, Any]
    histograms: Sequence[Sequence[CountedHistograms]] = ()
    analysis_up: bool = False
    open_files_limit: float | None = None  # of each process; infinity: any number
    hung: Mapping[str, int] = field(default_factory=dict)  # processes by kind
    series: Mapping[str, Sequence[tuple[tuple[str, ...], Sequence[int]]]] = field(default_factory=dict)  # see SERIES
    filter_counts: Sequence[tuple[str, str, str, str, int]] = ()  # cluster, filter, event, name, count
    filter_times: Sequence[tuple[str, str, int, int]] = ()  # cluster, filter, ns, calls
    filter_faults: Sequence[tuple[str, str, str, str, int]] = ()  # cluster, filter, hook, kind, count
    client_metrics: Iterable[Metric] = ()  # what clients have measured and sent (client_metrics.py)
    client_metrics_dropped: Mapping[str, int] = field(default_factory=dict)  # by reason


class Source(Protocol):
    """Gives the numbers of all workers and of the analyzer."""

    def scrape(self) -> Scrape:
        """Return the current numbers."""


# Key of the analyzer's report -> metric
_NUMBERS = {
    "frames": "kproxy_analyzed_frames",
    "exchanges": "kproxy_analyzed_exchanges",
    "unanswered": "kproxy_unanswered_requests",
    "gaps": "kproxy_analysis_gaps",
    "lost_bytes": "kproxy_analysis_lost_bytes",
    "bad_frames": "kproxy_analysis_bad_frames",
    "not_kafka": "kproxy_analysis_not_kafka",
    "given_up": "kproxy_analysis_given_up",
    "starved": "kproxy_analysis_starved",
    "connections": "kproxy_analysis_connections",
}
_ROWS = {
    "undecoded": "kproxy_undecoded_exchanges",
    "trailing": "kproxy_trailing_bytes_frames",
    "cut": "kproxy_cut_frames",
    "errors": "kproxy_response_errors",
    "throttled": "kproxy_throttled_responses",
    "throttle_ms": "kproxy_throttle_seconds",
    "sasl": "kproxy_sasl_logins",
}
# Kind of name (AnalyzerSeries) -> the metric of each of its numbers
SERIES = {
    "clients": (
        "kproxy_client_requests",
        "kproxy_client_request_bytes",
        "kproxy_client_response_bytes",
        "kproxy_client_errors",
        "kproxy_client_throttle_seconds",
    ),
    "software": ("kproxy_software_requests", "kproxy_software_connections"),
    "topics": ("kproxy_topic_requests", "kproxy_topic_bytes"),
    "groups": ("kproxy_group_requests", "kproxy_group_errors", "kproxy_rebalances"),
    "lag": ("kproxy_group_lag_records", "kproxy_group_lag_max_records"),
}
PHASES = ("request_in_proxy", "broker", "response_in_proxy")  # Phase in kproxy/proxy/tap/counted.py, in small letters
DURATIONS = Buckets(-20, 4, 110)  # seconds; as in kproxy/proxy/tap/counters.pxd
SIZES = Buckets(0, 1, 32)  # bytes; likewise
SHAPES = {
    "kproxy_latency_seconds": Shape(DURATIONS, DURATIONS.classic(-16, 6, 1), NANOSECONDS),
    "kproxy_phase_seconds": Shape(DURATIONS, DURATIONS.classic(-20, 6, 2), NANOSECONDS),
    "kproxy_request_size_bytes": Shape(SIZES, SIZES.classic(6, 26, 2)),
    "kproxy_response_size_bytes": Shape(SIZES, SIZES.classic(6, 26, 2)),
}
_OUTPUTS = {
    "written": "kproxy_output_bytes",
    "dropped": "kproxy_output_dropped_bytes",
    "failures": "kproxy_output_failures",
}


class Metrics(Collector):
    """Collect from *source* at every scrape; ``render`` returns the text for the scraper."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._names = {key: api.name for key, api in facts().apis.items()}

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the text of a scrape and its content type; *accept* is the scraper's Accept header."""
        if protobuf_exposition.is_accepted(accept):
            return protobuf_exposition.encode(self.collect()), protobuf_exposition.CONTENT_TYPE
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def describe(self) -> Iterator[Metric]:
        """Return the families without numbers."""
        return (_family(description) for description in DESCRIPTIONS)

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have numbers."""
        scrape = self._source.scrape()
        values: dict[str, list[Sample]] = {
            "kproxy_workers": [((), len(scrape.totals))],
            "kproxy_analysis_up": [((), scrape.analysis_up)],
            "kproxy_open_files_limit": [] if scrape.open_files_limit is None else [((), scrape.open_files_limit)],
            "kproxy_hung_processes": [((kind,), n) for kind, n in scrape.hung.items()],
            "kproxy_filter_events": [(row[:4], row[4]) for row in scrape.filter_counts],
            "kproxy_filter_seconds": _scaled(
                "kproxy_filter_seconds", [(row[:2], row[2]) for row in scrape.filter_times]
            ),
            "kproxy_filter_calls": [(row[:2], row[3]) for row in scrape.filter_times],
            "kproxy_filter_faults": [(row[:4], row[4]) for row in scrape.filter_faults],
            "kproxy_client_metrics_dropped": [((why,), n) for why, n in scrape.client_metrics_dropped.items()],
            "kproxy_connections_closed": _summed(((cause,), n) for one in scrape.closes for cause, n in one.items()),
        }
        apis = self._apis(scrape)
        for position, name in enumerate(_COUNTS):
            values[name] = [(labels, counts[position]) for labels, counts in apis.items()]
        for description in DESCRIPTIONS:
            if description.total:
                values[description.name] = list(_totals(description, scrape.totals))
        values |= _of_analysis(scrape.analysis)
        for kind, metrics in SERIES.items():
            rows = scrape.series.get(kind, ())
            values |= {
                name: _scaled(name, [(labels, n[i]) for labels, n in rows if i < len(n)])
                for i, name in enumerate(metrics)
            }
        values[LEFT_OUT] = _summed(chain(values[LEFT_OUT], _left_out_by_analyzer(scrape.analysis)))
        histograms = self._histograms(scrape) | {
            "kproxy_latency_seconds": [(labels, n[len(_COUNTS) + 1 :], n[len(_COUNTS)]) for labels, n in apis.items()]
        }
        for description in DESCRIPTIONS:
            if description.kind == "histogram":
                histogram = Histogram(description.name, description.help, description.labels, SHAPES[description.name])
                for labels, counts, total in histograms[description.name]:
                    histogram.add(labels, counts, total)
                yield histogram
            elif description.kind == "info":
                yield InfoMetricFamily(description.name, description.help, value={"version": __version__})
            elif samples := values.get(description.name):
                yield _filled(description, samples)
        yield from scrape.client_metrics

    def _histograms(self, scrape: Scrape) -> dict[str, list[Row]]:
        """Return the rows of the histograms by API, summed over all workers."""
        phases: dict[tuple[str, ...], list[int]] = {}
        sizes: tuple[dict[tuple[str, ...], list[int]], ...] = ({}, {})
        for one in (one for worker in scrape.histograms for one in worker):
            name = self._name(one.api_key)
            for phase, total, counts in zip(PHASES, one.phase_ns, one.phases, strict=True):
                _add_to(phases, (name, phase), [total, *counts])
            for by_api, counts in zip(sizes, one.sizes, strict=True):
                _add_to(by_api, (name,), counts)
        bytes_of = [
            _summed(((self._name(one.api_key),), getattr(one, which)) for worker in scrape.apis for one in worker)
            for which in ("request_bytes", "response_bytes")
        ]
        return {
            "kproxy_phase_seconds": [(labels, n[1:], n[0]) for labels, n in phases.items()],
            **{
                f"kproxy_{side}_size_bytes": [(labels, n, dict(total).get(labels, 0)) for labels, n in by_api.items()]
                for side, by_api, total in zip(("request", "response"), sizes, bytes_of, strict=True)
            },
        }

    def _name(self, api_key: int | None) -> str:
        return OTHER if api_key is None else self._names.get(api_key, OTHER)

    def _apis(self, scrape: Scrape) -> dict[tuple[str, ...], list[int]]:
        """Map the labels of each version of an API to its four counts, latency and histogram, summed over all workers."""
        by_labels: dict[tuple[str, ...], list[int]] = {}
        for one in (one for worker in scrape.apis for one in worker):
            labels = self._name(one.api_key), OTHER if one.api_version is None else str(one.api_version)
            counts = [getattr(one, attribute) for attribute in _COUNTS.values()] + [one.latency_ns, *one.histogram]
            _add_to(by_labels, labels, counts)
        return by_labels


_COUNTS = {
    "kproxy_requests": "requests",
    "kproxy_request_bytes": "request_bytes",
    "kproxy_responses": "responses",
    "kproxy_response_bytes": "response_bytes",
}
_FAMILIES: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}


def _family(description: Description) -> Metric:
    if description.kind == "info":
        return InfoMetricFamily(description.name, description.help)
    if description.kind == "histogram":
        return Histogram(description.name, description.help, description.labels, SHAPES[description.name])
    family: Metric = _FAMILIES[description.kind](description.name, description.help, labels=description.labels)
    return family


def _filled(description: Description, samples: Iterable[Sample]) -> Metric:
    family = _FAMILIES[description.kind](description.name, description.help, labels=description.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    filled: Metric = family
    return filled


def _add_to(sums: dict[tuple[str, ...], list[int]], labels: tuple[str, ...], counts: Sequence[int]) -> None:
    before = sums.get(labels)
    sums[labels] = list(counts) if before is None else [a + b for a, b in zip(before, counts, strict=True)]


def _scaled(metric: str, samples: list[Sample]) -> list[Sample]:
    scale = BY_NAME[metric].scale
    return samples if scale == 1 else [(labels, value * scale) for labels, value in samples]


def _totals(description: Description, totals: Sequence[Mapping[str, int]]) -> Iterator[Sample]:
    merge = sum if description.merge == "sum" else max
    for value in description.of or ("",):
        name = description.total.format(value)
        numbers = [worker.get(name, 0) for worker in totals]
        if numbers:
            yield (value,) if description.labels else (), merge(numbers) * description.scale


def _summed(samples: Iterable[Sample]) -> list[Sample]:
    sums: dict[tuple[str, ...], float] = {}
    for labels, value in samples:
        sums[labels] = sums.get(labels, 0) + value
    return list(sums.items())


def _left_out_by_analyzer(report: Mapping[str, Any]) -> Iterator[Sample]:
    return (((reason,), count) for reason, count in report.get("left_out", {}).items())


def _of_analysis(report: Mapping[str, Any]) -> dict[str, list[Sample]]:
    values: dict[str, list[Sample]] = {
        metric: [((), report[name])] for name, metric in _NUMBERS.items() if name in report
    }
    for name, metric in _ROWS.items():
        width = len(BY_NAME[metric].labels)
        values[metric] = _scaled(metric, [(tuple(row[:width]), row[width]) for row in report.get(name, ())])
    for name, metric in _OUTPUTS.items():
        values[metric] = [((output,), counts[name]) for output, counts in report.get("outputs", {}).items()]
    values["kproxy_spans"] = [((outcome,), count) for outcome, count in report.get("spans", {}).items()]
    values["kproxy_analysis_faults"] = [((name,), count) for name, count in report.get("faults", {}).items()]
    if "most_lag_ns" in report:
        values["kproxy_analysis_lag_seconds"] = [((), report["most_lag_ns"] / NANOSECONDS)]
    return values
