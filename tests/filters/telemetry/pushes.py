"""What tests of telemetry need: a push written by OpenTelemetry's own package, and a runtime that keeps what is shown."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kproxy.filters.contract import ClientMetric
from kproxy.options import OtlpEndpoint
from tests.support.filtering import GivenRuntime

CUMULATIVE, DELTA = "AGGREGATION_TEMPORALITY_CUMULATIVE", "AGGREGATION_TEMPORALITY_DELTA"


def counter(name: str, value: int, temporality: str = CUMULATIVE, *, is_monotonic: bool = True, **labels: str) -> Any:
    point = {"asInt": str(value), "attributes": attributes(labels)}
    return {
        "name": name,
        "sum": {"dataPoints": [point], "aggregationTemporality": temporality, "isMonotonic": is_monotonic},
    }


def gauge(name: str, value: Any, **labels: str) -> Any:
    return {"name": name, "gauge": {"dataPoints": [{"asDouble": value, "attributes": attributes(labels)}]}}


def attributes(labels: dict[str, str]) -> Any:
    return [{"key": name, "value": {"stringValue": value}} for name, value in labels.items()]


def push(*metrics: Any) -> bytes:
    """MetricsData, not compressed."""
    data = {"resourceMetrics": [{"scopeMetrics": [{"metrics": list(metrics)}]}]}
    written: bytes = json_format.ParseDict(data, MetricsData()).SerializeToString()
    return written


class Showing(GivenRuntime):
    """A Runtime that keeps what is shown and counted."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[str, str, list[ClientMetric], float]] = []
        self.most: dict[str, int] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        self.aside_calls = 0
        self.exports: list[tuple[str, OtlpEndpoint]] = []
        self.offered: list[bytes] = []
        self.closed = 0

    def show_client_metrics(
        self, client_id: str, instance_id: str, metrics: Sequence[ClientMetric], keep_s: float, **most: int
    ) -> None:
        self.shown.append((client_id, instance_id, list(metrics), keep_s))
        self.most = most

    def shared_count(self, filter_name: str, event: str, name: str) -> Any:
        return Adding(self.counts, (event, name))

    def export_metrics(self, filter_name: str, endpoint: OtlpEndpoint) -> Any:
        self.exports.append((filter_name, endpoint))
        return self

    def offer(self, data: bytes) -> bool:
        self.offered.append(data)
        return True

    def close(self) -> None:
        self.closed += 1

    def in_thread(self, function: Callable[[], Any]) -> Awaitable[Any]:
        async def called() -> Any:
            self.aside_calls += 1
            return function()

        return called()


class Adding:
    """A SharedCount that is only added to."""

    def __init__(self, counts: Counter[tuple[str, str]], key: tuple[str, str]) -> None:
        self._counts, self._key = counts, key

    def add(self, amount: int = 1) -> int:
        self._counts[self._key] += amount
        return self._counts[self._key]
