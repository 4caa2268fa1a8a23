"""Metrics: write /metrics, the metrics of metric_descriptions.py with their current numbers.

Prometheus text format 0.0.4; OpenMetrics 1.0, or protobuf with native histograms, if the scraper requests it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kproxy import __version__
from kproxy.output.api_counts import ApiHistograms, ApiTotals
from kproxy.output.histograms import PROTOBUF, Buckets, Histogram, Shape, encode_protobuf, prefers_protobuf
from kproxy.output.metric_descriptions import DESCRIPTIONS, NANOSECONDS, Description
from kproxy.protocol.facts import facts

OTHER = "other"
LEFT_OUT = "kproxy_exchanges_left_out"

Sample = tuple[tuple[str, ...], float]  # values of the labels, number
Row = tuple[tuple[str, ...], Sequence[int], float]  # values of the labels, counts by bucket, sum


@dataclass(frozen=True, slots=True)
class Scrape:
    """The numbers of one scrape; lists have one entry for each worker.

    Totals and causes have the names of the enums in kproxy.proxy.tap.counted, in lower case. *analysis* is the analyzer's last
    report (kproxy.proxy.analyzer.counts); empty before the first one.
    """

    apis: Sequence[Sequence[ApiTotals]]
    totals: Sequence[Mapping[str, int]]
    closes: Sequence[Mapping[str, int]]
    analysis: Mapping[str, Any]
    histograms: Sequence[Sequence[ApiHistograms]] = ()
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


# Kind of name (AnalyzerSeries) -> the metric of each of its numbers
SERIES = {
    kind: tuple(one.name for one in DESCRIPTIONS if (one.origin, one.source) == ("series", kind))
    for kind in dict.fromkeys(one.source for one in DESCRIPTIONS if one.origin == "series")
}
PHASES = ("request_in_proxy", "broker", "response_in_proxy")  # Phase in kproxy/proxy/tap/counted.py, in small letters
DURATIONS = Buckets(-20, 4, 110)  # seconds; as in kproxy/proxy/tap/counters.pxd
SIZES = Buckets(0, 1, 32)  # bytes; as in kproxy/proxy/tap/counters.pxd
SHAPES = {
    "kproxy_latency_seconds": Shape(DURATIONS, DURATIONS.classic(-16, 6, 1), NANOSECONDS),
    "kproxy_phase_seconds": Shape(DURATIONS, DURATIONS.classic(-20, 6, 2), NANOSECONDS),
    "kproxy_request_size_bytes": Shape(SIZES, SIZES.classic(6, 26, 2)),
    "kproxy_response_size_bytes": Shape(SIZES, SIZES.classic(6, 26, 2)),
}


class Metrics(Collector):
    """Collect from *source* at every scrape; ``render`` returns the text for the scraper."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._names = {key: api.name for key, api in facts().apis.items()}

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the text of a scrape and its content type; *accept* is the scraper's Accept header."""
        if prefers_protobuf(accept):
            return encode_protobuf(self.collect()), PROTOBUF
        encode, content_type = choose_encoder(accept)
        return encode(self), content_type

    def collect(self) -> Iterator[Metric]:
        scrape = self._source.scrape()
        values: dict[str, list[Sample]] = {
            "kproxy_workers": [((), len(scrape.totals))],
            "kproxy_analysis_up": [((), scrape.analysis_up)],
            "kproxy_open_files_limit": [] if scrape.open_files_limit is None else [((), scrape.open_files_limit)],
            "kproxy_hung_processes": [((kind,), n) for kind, n in scrape.hung.items()],
            "kproxy_filter_events": [(row[:4], row[4]) for row in scrape.filter_counts],
            "kproxy_filter_seconds": [(row[:2], row[2]) for row in scrape.filter_times],
            "kproxy_filter_calls": [(row[:2], row[3]) for row in scrape.filter_times],
            "kproxy_filter_faults": [(row[:4], row[4]) for row in scrape.filter_faults],
            "kproxy_client_metrics_dropped": [((why,), n) for why, n in scrape.client_metrics_dropped.items()],
            "kproxy_connections_closed": _summed(((cause,), n) for one in scrape.closes for cause, n in one.items()),
        }
        apis = self._apis(scrape)
        for description in DESCRIPTIONS:
            if description.origin == "apis":
                position = _COUNTS.index(description.source)
                values[description.name] = [(labels, counts[position]) for labels, counts in apis.items()]
            elif description.origin == "workers":
                values[description.name] = list(_totals(description, scrape.totals))
            elif description.origin == "analysis":
                values[description.name] = _reported(scrape.analysis.get(description.source), len(description.labels))
            elif description.origin == "outputs":
                outputs = scrape.analysis.get("outputs", {})
                values[description.name] = [((name,), counts[description.source]) for name, counts in outputs.items()]
        for kind, metrics in SERIES.items():
            rows = scrape.series.get(kind, ())
            values |= {name: [(labels, n[i]) for labels, n in rows if i < len(n)] for i, name in enumerate(metrics)}
        values[LEFT_OUT] = _summed(chain(values[LEFT_OUT], _reported(scrape.analysis.get("left_out"), 1)))
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
            counts = [getattr(one, attribute) for attribute in _COUNTS] + [one.latency_ns, *one.histogram]
            _add_to(by_labels, labels, counts)
        return by_labels


_COUNTS = ("requests", "request_bytes", "responses", "response_bytes")  # attributes of Counted
_FAMILIES: dict[str, Any] = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}


def _filled(description: Description, samples: Iterable[Sample]) -> Metric:
    family = _FAMILIES[description.kind](description.name, description.help, labels=description.labels)
    for labels, value in samples:
        family.add_metric(labels, value if description.parts == 1 else value / description.parts)
    filled: Metric = family
    return filled


def _add_to(sums: dict[tuple[str, ...], list[int]], labels: tuple[str, ...], counts: Sequence[int]) -> None:
    before = sums.get(labels)
    sums[labels] = list(counts) if before is None else [a + b for a, b in zip(before, counts, strict=True)]


def _totals(description: Description, totals: Sequence[Mapping[str, int]]) -> Iterator[Sample]:
    merge = max if description.merges_by_maximum else sum
    for value in description.values or ("",):
        numbers = [worker.get(description.source.format(value), 0) for worker in totals]
        if numbers:
            yield (value,) if description.labels else (), merge(numbers)


def _summed(samples: Iterable[Sample]) -> list[Sample]:
    sums: dict[tuple[str, ...], float] = {}
    for labels, value in samples:
        sums[labels] = sums.get(labels, 0) + value
    return list(sums.items())


def _reported(counted: Any, labels: int) -> list[Sample]:
    """Return the samples in a part of the analyzer's report: a number, a count for each name, or rows of labels and a count."""
    if counted is None:
        return []
    if isinstance(counted, Mapping):
        return [((name,), count) for name, count in counted.items()]
    return [(tuple(row[:labels]), row[labels]) for row in counted] if labels else [((), counted)]
