"""Overview: what the admin pages show: counters, open connections, the analysis, readiness."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from kproxy.config.redaction import redacted
from kproxy.filters.loading import BUILT_IN
from kproxy.output.client_metrics import ClientSeries
from kproxy.proxy import messages
from kproxy.proxy.logs import log
from kproxy.proxy.shared_counts import CALLS, FAULTS, OF_EVERY_FILTER, SPENT_NS, FilterCount
from kproxy.proxy.supervisor.analyzer_totals import AnalyzerTotals, Row, SeriesTotals
from kproxy.proxy.supervisor.child import Child
from kproxy.proxy.supervisor.fleet import Fleet
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters

ASK_SECONDS = 2.0
MOST_CONNECTIONS = 100_000  # in one answer


class Overview:
    """What the admin pages show of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._totals = AnalyzerTotals()
        self._series: dict[str, SeriesTotals] = {}  # by kind of name
        fleet.on_counts = self._totals.note
        fleet.on_series = self._note_series
        fleet.on_analyzer_ended = self._end_analysis
        fleet.on_reach = self._note_reach
        fleet.on_journal = self._note_journal
        fleet.on_worker_ended = self._forget_worker
        self._on_worker_ended: Callable[[int], None] = lambda worker: None
        fleet.on_client_metrics = self._note_client_metrics
        self._client_series = ClientSeries()
        self._reach: dict[str, ClusterReach] = {}
        self._journals: dict[tuple[int, str], str] = {}  # worker, path -> why it cannot be written

    def counters(self) -> list[Counters]:
        """Return the counters of all workers."""
        return self._fleet.counters()

    def clients(self) -> int:
        """Return how many clients are connected."""
        return sum(counters.totals()[Total.CONNECTIONS_OPEN] for counters in self.counters())

    def analysis(self) -> messages.AnalyzerCounts | None:
        """Return the analyzer's counts, including those of processes that have ended; None before the first."""
        return self._totals.total

    def series(self) -> dict[str, list[Row]]:
        """Return the analyzer's numbers by names from traffic, by kind of name."""
        limits, now = self._fleet.config.metrics, time.monotonic()
        return {kind: totals.rows(limits.series, limits.idle, now) for kind, totals in self._series.items()}

    def _note_series(self, message: messages.AnalyzerSeries) -> None:
        if message.kind not in self._series:
            self._series[message.kind] = SeriesTotals(is_gauge=message.is_gauge)
        self._series[message.kind].note(message.rows)

    def _end_analysis(self) -> None:
        self._totals.end()
        for totals in self._series.values():
            totals.end(time.monotonic())

    def hung(self) -> dict[str, int]:
        """Return how many processes were killed as they hung, by kind: worker or analyzer."""
        return self._fleet.hung()

    def filter_counts(self) -> list[FilterCount]:
        """Return what filters have counted, over all workers."""
        return [one for one in self._fleet.counts.rows() if one.event not in OF_EVERY_FILTER]

    def filter_times(self) -> list[tuple[str, str, int, int]]:
        """Return cluster, name, nanoseconds and calls of each filter, over all workers."""
        by_filter: dict[tuple[str, str], dict[str, int]] = {}
        for one in self._fleet.counts.rows():
            if one.event in (SPENT_NS, CALLS):
                by_filter.setdefault((one.cluster, one.filter), {})[one.event] = one.count
        return [(*names, times.get(SPENT_NS, 0), times.get(CALLS, 0)) for names, times in by_filter.items()]

    def filter_faults(self) -> list[tuple[str, str, str, str, int]]:
        """Return cluster, filter, method, kind and number of filters' faults, over all workers."""
        rows = (one for one in self._fleet.counts.rows() if one.event == FAULTS)
        faults = []
        for one in rows:
            hook, _, kind = one.name.partition(" ")
            faults.append((one.cluster, one.filter, hook, kind, one.count))
        return faults

    def client_series(self) -> ClientSeries:
        """Return the metrics that clients have pushed, without those that are too old."""
        self._client_series.expire(time.monotonic())
        return self._client_series

    def config(self) -> dict[str, Any]:
        """Return the configuration in use, without secrets."""
        return redacted(self._fleet.config, BUILT_IN)

    def ready(self) -> tuple[bool, str]:
        """Return whether clients are served, and if not, why.

        They are while every worker serves and can write its required journals and, in each cluster whose brokers were tried,
        one was reached.
        """
        if self._fleet.draining:
            return False, "draining"
        waiting = [slot.child.name for slot in self._fleet.slots if not slot.child.ready]
        reasons = [f"not ready: {', '.join(waiting)}"] if waiting else []
        for state in self.clusters():
            if state.broker_reached is False:
                reasons.append(f"no broker of {state.name} has been reached: {state.reason}")
        reasons += [
            f"worker {worker} cannot write {path!r}, and refuses what is audited: {why}"
            for (worker, path), why in sorted(self._journals.items())
        ]
        return not reasons, "; ".join(reasons)

    def clusters(self) -> list[messages.ClusterState]:
        """Return for each cluster whether a broker has been reached."""
        states = []
        for cluster in self._fleet.config.clusters:
            reach = self._reach.get(cluster.name)
            known = reach is not None and reach.bootstrap == cluster.bootstrap
            states.append(reach.state(cluster.name) if reach and known else messages.ClusterState(cluster.name))
        return states

    async def connections(self) -> list[messages.Connection]:
        """Return the open connections of the workers that answer in time."""
        answers = [self._ask(slot.child) for slot in self._fleet.slots if slot.child.ready]
        return [connection for part in await asyncio.gather(*answers) for connection in part][:MOST_CONNECTIONS]

    async def _ask(self, child: Child) -> list[messages.Connection]:
        assert child.number is not None
        with self._fleet.questions.ask([child.number], messages.Connections) as (number, (question,)):
            try:
                await child.send(messages.ListConnections(number))
                await question.is_answered(ASK_SECONDS)
            except TimeoutError:
                log("warning", "a worker does not list its connections", worker=child.number, seconds=ASK_SECONDS)
            return [connection for part in question.parts for connection in part.connections]

    def on_ended_workers(self, function: Callable[[int], None]) -> None:
        """Call *function* with the number of each worker whose process ends from now on."""
        self._on_worker_ended = function

    def _note_journal(self, worker: int, message: messages.JournalState) -> None:
        self._journals.pop((worker, message.path), None)
        if message.reason:
            self._journals[worker, message.path] = message.reason

    def _forget_worker(self, worker: int) -> None:
        self._on_worker_ended(worker)
        self._journals = {key: why for key, why in self._journals.items() if key[0] != worker}

    def _note_client_metrics(self, message: messages.ClientMetrics) -> None:
        names = message.cluster, message.client_id, message.instance_id
        most = {"most_names": message.most_names, "most_series": message.most_series}
        self._client_series.add(time.monotonic(), names, message.metrics, message.keep_s, **most)

    def _note_reach(self, message: messages.BrokerReach) -> None:
        clusters = (cluster for cluster in self._fleet.config.clusters if cluster.name == message.cluster)
        bootstrap = next((cluster.bootstrap for cluster in clusters), [])
        reach = self._reach.get(message.cluster)
        if reach is None or reach.bootstrap != bootstrap:
            reach = self._reach[message.cluster] = ClusterReach(bootstrap)
        reach.note(message)


class ClusterReach:
    """Whether workers have reached a broker of one cluster, under one list of bootstrap brokers."""

    def __init__(self, bootstrap: list[str]) -> None:
        self.bootstrap = bootstrap
        self._reached = False
        self._reason = ""

    def note(self, message: messages.BrokerReach) -> None:
        """Note what a worker reports; one worker that has reached a broker is enough."""
        self._reached |= message.reached
        self._reason = message.reason or self._reason

    def state(self, name: str) -> messages.ClusterState:
        """Return the state to show."""
        return messages.ClusterState(name, self._reached, None if self._reached else self._reason)
