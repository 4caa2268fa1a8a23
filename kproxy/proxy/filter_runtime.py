"""FilterRuntime: the clock, timer, journals, sets and counts that a virtual cluster's filters get (filters/contract.py)."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from kproxy.errors import UsageError
from kproxy.filters.contract import ClientMetric, Journal, MetricsExport, SharedCount, SharedSet, SharedTimes
from kproxy.filters.passage import Hook, Kind
from kproxy.options import OtlpEndpoint, Rotated
from kproxy.proxy.codec_thread import in_codec_thread
from kproxy.proxy.logs import log
from kproxy.proxy.messages import ClientMetrics, JournalState, KnownKeys, Message
from kproxy.proxy.otlp.exporter import Exporters
from kproxy.proxy.shared_state import CALLS, FAULTS, SPENT_NS, SharedCounts, SharedSets
from kproxy.schemas.settings import SchemaSources

if TYPE_CHECKING:
    from kproxy.proxy.journal import FileJournal
    from kproxy.schemas.store import Schemas


class Journals:
    """All journals of a worker process, opened when they are first asked for.

    Args:
        worker: its number.
        counts: where the counts of journals are kept while a disk cannot.
    """

    def __init__(self, worker: int = 0, counts: SharedCounts | None = None) -> None:
        self.worker = worker
        self._counts = counts
        self._opened: dict[str, FileJournal] = {}
        self._required: Counter[str] = Counter()  # path -> how many filters refuse requests while it cannot be written
        self._reasons: dict[str, str] = {}  # path -> why it cannot be written, as last reported

    def open(self, file: Rotated, report: Callable[[str], None]) -> "FileJournal":
        """Return the journal at a path, opened with the first *file* given. Raises UsageError if another process has it."""
        from kproxy.proxy.journal import FileJournal  # noqa: PLC0415 - a megabyte that few workers need

        if file.path not in self._opened:
            memory = self._counts.memory if self._counts is not None else None
            self._opened[file.path] = FileJournal(file, self.worker, report, memory=memory)
        return self._opened[file.path]

    def require(self, path: str, is_required: bool) -> None:
        """Note that one filter more (or less) refuses requests while the journal at a path cannot be written."""
        self._required[path] += 1 if is_required else -1

    def changes(self) -> list[JournalState]:
        """Look at the required journals; return the states that have changed since the last call."""
        required = {path for path, filters in self._required.items() if filters > 0 and path in self._opened}
        states = {path: self._opened[path].look() if path in required else "" for path in {*required, *self._reasons}}
        changed = [JournalState(path, why) for path, why in states.items() if why != self._reasons.get(path, "")]
        self._reasons = {path: why for path, why in states.items() if why}
        return changed

    def close(self) -> None:
        for journal in self._opened.values():
            journal.close()
        self._opened.clear()


Result = TypeVar("Result")
METRICS_A_MESSAGE = 20  # of the longest names and attributes, so many fit a line of the channel


class FilterRuntime:
    """What filters get from kproxy; kproxy.filters.contract.Runtime describes each method.

    Args:
        cluster: name of the virtual cluster.
        journals: of the worker.
        sets: of the virtual cluster.
        counts: of all workers.
        send: sends a message to the supervisor.
        exporters: of the worker.
    """

    def __init__(
        self,
        cluster: str,
        journals: Journals,
        sets: SharedSets | None = None,
        counts: SharedCounts | None = None,
        send: Callable[[Message], None] = lambda message: None,
        exporters: Exporters | None = None,
    ) -> None:
        self.cluster = cluster
        self.worker = journals.worker
        self.kept: dict[str, Any] = {}
        self._journals = journals
        self._exporters = exporters or Exporters()
        self._counts = counts
        self._send = send
        self._sources = SchemaSources()
        self._schemas: Schemas | None = None
        self._sets = sets or SharedSets(cluster, lambda message: None)

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> Awaitable[None]:
        return asyncio.sleep(seconds)

    def journal(self, file: Rotated) -> Journal:
        """See Runtime. Raises UsageError if another process has it."""
        return self._journals.open(file, lambda reason: self.warn(f"{file.path!r} cannot be written", reason))

    def require_journal(self, file: Rotated, is_required: bool) -> None:
        self._journals.require(file.path, is_required)

    def shared_set(self, name: str) -> SharedSet:
        return self._sets.named(name)

    def shared_count(self, filter_name: str, event: str, name: str) -> SharedCount:
        return self._shared().count(self.cluster, filter_name, event, name)

    def shared_times(self, name: str) -> SharedTimes:
        return self._shared().times(f"{self.cluster}\0{name}")

    def _shared(self) -> SharedCounts:
        if self._counts is None:
            self._counts = SharedCounts.create()
        return self._counts

    def count_time(self, filter_name: str, spent_ns: int, calls: int) -> None:
        """Add the time that a filter took to the counts of all workers, if they have room."""
        if self._counts is not None:
            with suppress(UsageError):
                self._counts.count(self.cluster, filter_name, SPENT_NS, "").add(spent_ns)
                self._counts.count(self.cluster, filter_name, CALLS, "").add(calls)

    def count_fault(self, filter_name: str, hook: Hook, kind: Kind) -> None:
        """Add a fault of a filter to the counts of all workers, if they have room."""
        if self._counts is not None:
            with suppress(UsageError):
                self._counts.count(self.cluster, filter_name, FAULTS, f"{hook} {kind}").add()

    def show_client_metrics(
        self,
        client_id: str,
        instance_id: str,
        metrics: Sequence[ClientMetric],
        keep_s: float,
        *,
        most_names: int,
        most_series: int,
    ) -> None:
        for start in range(0, len(metrics), METRICS_A_MESSAGE):
            part = list(metrics[start : start + METRICS_A_MESSAGE])
            self._send(ClientMetrics(self.cluster, client_id, instance_id, part, keep_s, most_names, most_series))

    def share_keys(self, url: str, keys: bytes) -> None:
        """Tell the other workers the keys of an identity provider, a JWKS; also those that start later."""
        self._send(KnownKeys(self.cluster, url, keys.decode()))

    def export_metrics(self, filter_name: str, endpoint: OtlpEndpoint) -> MetricsExport:

        def report(reason: str) -> None:
            self.warn("metrics of clients cannot be exported", reason)

        def count(outcome: str, messages: int) -> None:
            self.shared_count(filter_name, "forwarded", outcome).add(messages)

        return self._exporters.use(self.cluster, endpoint, report=report, count=count)

    def schemas(self) -> "Schemas":
        if self._schemas is None:
            self._schemas = self._sources.open(wait_s=0.0)
        return self._schemas

    def use_schemas(self, sources: SchemaSources) -> None:
        """Use these sources from now on; what is known of the same ones is kept."""
        if sources != self._sources:
            self._sources, self._schemas = sources, None

    def in_thread(self, function: Callable[[], Result]) -> Awaitable[Result]:
        return in_codec_thread(function)

    def warn(self, event: str, reason: str) -> None:
        log("warning", event, cluster=self.cluster, reason=reason)
