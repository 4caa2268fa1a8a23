"""ClientSeries: the metrics that clients measured and sent (KIP-714), as metric families of /metrics.

    org.apache.kafka.producer.record.send.total {topic: orders}
    -> kafka_client_producer_record_send_total{cluster="...",client_id="...",client_instance_id="...",topic="orders"}

Names, attributes and values come from clients: characters that Prometheus does not allow become ``_``, those that a terminal
would interpret are escaped, and all sizes are limited. New series beyond a cap are dropped and counted by reason; existing ones
are still updated. A series that is no longer updated is forgotten.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from kproxy.output.escaping import label_of

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

MOST_SERIES = 20_000
MOST_SERIES_A_FAMILY = 1_000
MOST_FAMILIES = 500
MOST_ATTRIBUTES = 16
LONGEST_NAME, LONGEST_LABEL = 150, 64
PREFIX = "kafka_client_"
OWN = ("cluster", "client_id", "client_instance_id")  # labels that attributes cannot replace
KAFKAS = "org.apache.kafka."
ENDINGS = ("total", "created", "info", "bucket")  # endings of names that have a meaning in OpenMetrics
RESERVED = ("le", "quantile")  # labels of histograms and summaries
HELP = "Measured by clients and sent by them (KIP-714)."

Labels = tuple[tuple[str, str], ...]


class Measured(Protocol):
    """One measurement that a client sent, named as in OpenTelemetry; kproxy.filters.contract.ClientMetric is one."""

    @property
    def name(self) -> str: ...
    @property
    def is_counter(self) -> bool: ...
    @property
    def is_delta(self) -> bool: ...  # whether the value is to be added to the one before
    @property
    def attributes(self) -> Sequence[tuple[str, str]]: ...
    @property
    def value(self) -> float: ...  # finite


@dataclass(slots=True)
class Series:
    """The value of one series, and the time at which it expires."""

    value: float
    until: float


@dataclass(slots=True)
class Family:
    """All series of one name."""

    is_counter: bool
    series: dict[Labels, Series]


class ClientSeries:
    """The series of all clients; their number is bounded."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self._families: dict[str, Family] = {}
        self._count = 0

    def add(
        self,
        now: float,
        client: tuple[str, str, str],
        metrics: Iterable[Measured],
        keep_s: float,
        *,
        most_names: int = MOST_FAMILIES,
        most_series: int = MOST_SERIES_A_FAMILY,
    ) -> None:
        """Store the metrics that a client has sent.

        Args:
            now: the time of any clock, in seconds.
            client: the values of OWN.
            metrics: the metrics.
            keep_s: seconds until series without an update are removed.
            most_names, most_series: the most names, and series of one name; not more than the constants of this module.
        """
        most_names, most_series = min(most_names, MOST_FAMILIES), min(most_series, MOST_SERIES_A_FAMILY)
        if self._count >= MOST_SERIES or len(self._families) >= most_names:
            self.expire(now)
        own = tuple((name, label_of(value)) for name, value in zip(OWN, client, strict=True))
        for metric in metrics:
            why = self._put(metric, own, now + keep_s, most_names, most_series)
            if why:
                self.dropped[why] += 1

    def _put(self, metric: Measured, own: Labels, until: float, most_names: int, most_series: int) -> str:
        """Store one measurement. Return why it was dropped, or "" if it was not."""
        name = family_name(metric.name)
        family = self._families.get(name)
        if family is None:
            if len(self._families) >= most_names:
                return "too many names"
            family = self._families[name] = Family(metric.is_counter, {})
        if family.is_counter != metric.is_counter:
            return "another type"
        labels = own + attribute_labels(metric.attributes)
        series = family.series.get(labels)
        if series is None:
            if self._count >= MOST_SERIES or len(family.series) >= most_series:
                return "too many series"
            family.series[labels] = Series(metric.value, until)
            self._count += 1
        else:
            series.value = series.value + metric.value if metric.is_delta else metric.value
            series.until = until
        return ""

    def expire(self, now: float) -> None:
        """Remove the series that were not updated in time."""
        for name, family in list(self._families.items()):
            family.series = {labels: one for labels, one in family.series.items() if one.until > now}
            if not family.series:
                del self._families[name]
        self._count = sum(len(family.series) for family in self._families.values())

    def families(self) -> Iterator["Metric"]:
        """Yield the metric families, sorted by name."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - 0.1 s

        for name, family in sorted(self._families.items()):
            shown: Metric = (CounterMetricFamily if family.is_counter else GaugeMetricFamily)(name, HELP)
            ending = "_total" if family.is_counter else ""
            for labels, series in family.series.items():
                shown.add_sample(name + ending, dict(labels), series.value)
            yield shown


@lru_cache(4_096)
def family_name(name: str) -> str:
    """Return the name of the Prometheus family for a client's metric, without ``_total``.

    Names with the same result share one family. No result ends in a way that OpenMetrics reserves for samples.
    """
    word = re.sub("[^a-z0-9]+", "_", name.removeprefix(KAFKAS)[:LONGEST_NAME].lower()).strip("_")
    parts = word.split("_")
    while parts and parts[-1] in ENDINGS:
        parts.pop()
    return PREFIX + ("_".join(parts) or "unnamed")


def attribute_labels(attributes: Sequence[tuple[str, str]]) -> Labels:
    """Return the labels for the attributes of a data point. If two attributes give the same label, the first one is kept."""
    labels: dict[str, str] = {}
    for name, value in attributes[:MOST_ATTRIBUTES]:
        label = label_name(name)
        if value and label not in OWN:
            labels.setdefault(label, label_of(value))
    return tuple(sorted(labels.items()))


@lru_cache(4_096)
def label_name(name: str) -> str:
    """Return the label for an attribute: it begins with a letter, and is not one that Prometheus reserves."""
    label = re.sub("[^a-z0-9]+", "_", name[:LONGEST_LABEL].lower()).strip("_")
    return label if label and not label[0].isdigit() and label not in RESERVED else f"attribute_{label}".rstrip("_")
