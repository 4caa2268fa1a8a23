"""Exporters: a worker's exporters for the metrics that its filters forward; filters with the same endpoint share one."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from kproxy.filters.otlp_endpoint import OtlpEndpoint

if TYPE_CHECKING:
    from kproxy.proxy.otlp.exporter import Exporter

FLUSH_S = 3.0  # longest time for which an exporter that is not used any more sends what is queued
Key = tuple[str, bytes]


class Exporters:
    """Exporters by virtual cluster and endpoint, each for as long as a filter uses it."""

    def __init__(self) -> None:
        self._open: dict[Key, Exporter] = {}
        self._users: dict[Key, int] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def use(
        self,
        cluster: str,
        endpoint: OtlpEndpoint,
        *,
        report: Callable[[str], None],
        count: Callable[[str, int], object],
    ) -> "MetricsExport":
        """Return a handle on the exporter of an endpoint; *report* and *count* (outcome, items) are those it was opened with.

        Raises UsageError if the endpoint cannot be used.
        """
        key = cluster, msgspec.json.encode(endpoint)
        if key not in self._open:
            self._open[key] = _new_exporter(endpoint, report, count)
        self._users[key] = self._users.get(key, 0) + 1
        return MetricsExport(self._open[key], lambda: self._release(key))

    async def close(self, seconds: float) -> None:
        """Send what is queued anywhere, for at most *seconds*, and close all."""
        opened, self._open = self._open, {}
        self._users.clear()
        tasks = [*self._ending, *(asyncio.ensure_future(exporter.close(seconds)) for exporter in opened.values())]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds + 1)

    def _release(self, key: Key) -> None:
        """Note that a filter is done with an exporter; close it after the last one."""
        if key not in self._open:
            return
        self._users[key] -= 1
        if self._users[key] == 0:
            del self._users[key]
            exporter = self._open.pop(key)
            exporter.end()
            ending = asyncio.get_running_loop().create_task(exporter.close(FLUSH_S), name="end of export")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


class MetricsExport:
    """See kproxy.filters.contract.MetricsExport."""

    def __init__(self, exporter: "Exporter", release: Callable[[], None]) -> None:
        self._exporter = exporter
        self._release: Callable[[], None] | None = release

    def offer(self, data: bytes) -> bool:
        return self._exporter.offer(data)

    def close(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


def _new_exporter(
    endpoint: OtlpEndpoint, report: Callable[[str], None], count: Callable[[str, int], object]
) -> "Exporter":
    from kproxy.proxy.otlp.exporter import Exporter  # noqa: PLC0415 - few workers need them
    from kproxy.proxy.otlp.transport import transport_to  # noqa: PLC0415

    # MetricsData messages, one after the other, are one ExportMetricsServiceRequest: both have resource_metrics as field 1
    return Exporter(transport_to(endpoint, "metrics"), b"".join, report, count)
