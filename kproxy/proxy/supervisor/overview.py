"""Overview: what the admin pages show: counters, open connections, the analysis, readiness.

AnalyzerTotals and SeriesTotals add up the counts of all analyzer processes of a run, as each process counts from 0 and /metrics
must never go down. Values of the moment (lag, open connections, waiting bytes) are those of the present process. As many names
from traffic are kept as one process keeps; the names of earlier processes beyond that are counted as OTHER.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from kproxy.config.showing import redacted
from kproxy.filters.loading import BUILT_IN
from kproxy.output.client_metrics import ClientSeries
from kproxy.proxy import messages
from kproxy.proxy.logs import log
from kproxy.proxy.messages import AnalyzerCounts
from kproxy.proxy.shared_state import CALLS, FAULTS, OF_EVERY_FILTER, SPENT_NS, FilterCount
from kproxy.proxy.supervisor.child import Child
from kproxy.proxy.supervisor.fleet import Fleet
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters

Labels: TypeAlias = tuple[str, ...]
Row: TypeAlias = tuple[Labels, list[int]]

ASK_SECONDS = 2.0
MOST_CONNECTIONS = 100_000  # in one answer


class Overview:
    """What the admin pages show of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._totals = AnalyzerTotals()
        self._series: dict[str, SeriesTotals] = {}  # by kind of name
        fleet.listeners.append(self._note)
        self._client_series = ClientSeries()
        self._reach: dict[str, ClusterReach] = {}
        self._journals: dict[tuple[int, str], str] = {}  # worker, path -> why it cannot be written

    def counters(self) -> list[Counters]:
        return self._fleet.counters()

    def clients(self) -> int:
        return sum(counters.totals()[Total.CONNECTIONS_OPEN] for counters in self.counters())

    def analysis(self) -> messages.AnalyzerCounts | None:
        """Return the analyzer's counts, including those of processes that have ended; None before the first."""
        return self._totals.total

    def series(self) -> dict[str, list[Row]]:
        """Return the analyzer's numbers by names from traffic, by kind of name."""
        limits, now = self._fleet.config.metrics, time.monotonic()
        return {kind: totals.rows(limits.series, limits.idle, now) for kind, totals in self._series.items()}

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
        faults = [(one, *one.name.partition(" ")) for one in self._fleet.counts.rows() if one.event == FAULTS]
        return [(one.cluster, one.filter, hook, kind, one.count) for one, hook, _, kind in faults]

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

    def _note(self, worker: int | None, message: messages.News | None) -> None:
        match message:
            case None if worker is None:
                self._totals.end()
                for totals in self._series.values():
                    totals.end(time.monotonic())
            case None:
                self._journals = {key: why for key, why in self._journals.items() if key[0] != worker}
            case messages.AnalyzerCounts():
                self._totals.note(message)
            case messages.AnalyzerSeries(kind, rows, is_gauge):
                self._series.setdefault(kind, SeriesTotals(is_gauge=is_gauge)).note(rows)
            case messages.JournalState(path, reason) if worker is not None:
                self._journals.pop((worker, path), None)
                if reason:
                    self._journals[worker, path] = reason
            case messages.ClientMetrics():
                names = message.cluster, message.client_id, message.instance_id
                most = {"most_names": message.most_names, "most_series": message.most_series}
                self._client_series.add(time.monotonic(), names, message.metrics, message.keep_s, **most)
            case messages.BrokerReach():
                self._note_reach(message)

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


MOST_SERIES, OTHER = 1_000, "__other__"  # as in analyzer/series.pyx, whose imports the supervisor does not need
_OF_THE_MOMENT = ("at", "connections", "waiting_bytes", "most_lag_ns")


class AnalyzerTotals:
    """Adds the last counts of processes that have ended to those of the present one."""

    def __init__(self) -> None:
        self._before = AnalyzerCounts()
        self._counts: AnalyzerCounts | None = None
        self._total: AnalyzerCounts | None = None  # None: not added up yet

    def note(self, counts: AnalyzerCounts) -> None:
        """Note what the present process has counted."""
        self._counts, self._total = counts, None

    def end(self) -> None:
        """Note that the process has ended: the next one counts from 0."""
        if self._counts is not None:
            self._before = _added(self._before, self._counts)
            self._counts = AnalyzerCounts(at=self._counts.at)
            self._total = None

    @property
    def total(self) -> AnalyzerCounts | None:
        """The sum of all processes; None before the first counts."""
        if self._total is None and self._counts is not None:
            self._total = _added(self._before, self._counts)
        return self._total


def _added(before: AnalyzerCounts, counts: AnalyzerCounts) -> AnalyzerCounts:
    return msgspec.structs.replace(
        counts,
        **{
            name: _sum(getattr(before, name), getattr(counts, name))
            for name in counts.__struct_fields__
            if name not in _OF_THE_MOMENT
        },
    )


def _sum(before: Any, value: Any) -> Any:
    """Add two values of the same field: numbers, rows, dicts or structs of them."""
    if isinstance(value, int):
        return before + value
    if isinstance(value, list):
        return _sum_of_rows(before, value)
    if isinstance(value, dict):
        both = {name: _sum(before[name], value[name]) for name in before.keys() & value.keys()}
        return before | value | both
    return type(value)(*map(_sum, msgspec.structs.astuple(before), msgspec.structs.astuple(value)))


def _sum_of_rows(before: Sequence[Sequence[Any]], rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Add rows of names and a count."""
    counts: dict[tuple[str, ...], int] = {tuple(row[:-1]): row[-1] for row in before}
    for *name, count in rows:
        key = tuple(name)
        if key not in counts and len(counts) >= MOST_SERIES - 1:
            key = (OTHER,) * len(key)
        counts[key] = counts.get(key, 0) + count
    return [(*key, count) for key, count in counts.items()]


class SeriesTotals:
    """The rows of one kind of name. With *is_gauge* their numbers are values of the moment, which are not added up.

    A name that the present process drops, as it was idle or others sent more, has ended: its earlier counts are dropped too.
    A new process knows no names; those of earlier processes are shown until it has them too, or until they were idle for long.
    """

    def __init__(self, *, is_gauge: bool = False) -> None:
        self._is_gauge = is_gauge
        self._before: dict[Labels, list[int]] = {}  # of processes that have ended
        self._rows: dict[Labels, list[int]] = {}
        self._ended_at = 0.0  # seconds: when the last process did

    def note(self, rows: Iterable[Row]) -> None:
        """Note what the present process has counted."""
        found = dict(rows)
        for labels in self._rows.keys() - found.keys():
            self._before.pop(labels, None)
        self._rows = found
        if self._is_gauge and found:
            self._before = {}

    def end(self, now: float) -> None:
        """Note that the process has ended: the next one counts from 0."""
        if self._rows:
            self._before |= {labels: self._sum(labels, numbers) for labels, numbers in self._rows.items()}
            self._rows = {}
        self._ended_at = now

    def rows(self, most: int, idle: float, now: float) -> list[Row]:
        """Return at most *most* sums. Names that only earlier processes had are left out after *idle* seconds."""
        if now - self._ended_at >= idle:
            self._before = {
                labels: numbers for labels, numbers in self._before.items() if labels in self._rows or OTHER in labels
            }
        present = [(labels, self._sum(labels, numbers)) for labels, numbers in self._rows.items()]
        rest = [(labels, numbers) for labels, numbers in self._before.items() if labels not in self._rows]
        rest.sort(key=lambda row: OTHER not in row[0])
        return present + rest[: max(0, most - len(present))]

    def _sum(self, labels: Labels, numbers: list[int]) -> list[int]:
        """Return a name's numbers plus those of earlier processes; a gauge's numbers as they are."""
        before = self._before.get(labels)
        if self._is_gauge or before is None or len(before) != len(numbers):
            return numbers
        return [a + b for a, b in zip(before, numbers, strict=True)]
