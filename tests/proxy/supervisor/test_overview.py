"""What the admin server is told, by stand-in workers that say it in parts, late or not at all."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kproxy.filters.contract import ClientMetric
from kproxy.proxy.analyzer import series
from kproxy.proxy.filter_runtime import FilterRuntime, Journals
from kproxy.proxy.messages import AnalyzerCounts, BrokerReach, ClientMetrics, ClusterState, JournalState, OutputCounts
from kproxy.proxy.shared_state import CALLS, SPENT_NS
from kproxy.proxy.supervisor import overview as overview_module
from kproxy.proxy.supervisor.fleet import Fleet
from kproxy.proxy.supervisor.overview import MOST_SERIES, OTHER, AnalyzerTotals, Overview, SeriesTotals
from kproxy.proxy.tap.counted import Total
from tests.proxy.supervisor.test_fleet import config, with_fleet
from tests.support.stand_in_worker import connection


def test_connections_of_all_workers_in_parts() -> None:
    async def test(fleet: Fleet, _: str) -> Any:
        overview = Overview(fleet)
        return await asyncio.gather(overview.connections(), overview.connections())

    expected = [connection(worker, number) for worker in (0, 1) for number in (0, 1, 2)]
    assert with_fleet(config(workers=2), test) == [expected, expected]


def test_a_worker_that_hangs_does_not_keep_the_others_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview_module, "ASK_SECONDS", 0.2)

    async def test(fleet: Fleet, _: str) -> Any:
        pid = fleet.slots[0].child.pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        return await Overview(fleet).connections()

    assert {found.worker for found in with_fleet(config(workers=2), test)} == {1}


def test_ready_while_every_worker_is() -> None:
    async def test(fleet: Fleet, _: str) -> Any:
        overview = Overview(fleet)
        ready = overview.ready()
        fleet.slots[1].child.ready = False
        waiting = overview.ready()
        fleet.draining = True
        return ready, waiting, overview.ready()

    expected = ((True, ""), (False, "not ready: worker 1"), (False, "draining"))
    assert with_fleet(config(workers=2), test) == expected


def test_a_cluster_whose_brokers_were_never_reached_is_not_ready() -> None:
    """Until one worker has reached one; what happens to brokers later does not count."""

    async def test(fleet: Fleet, _: str) -> Any:
        overview = Overview(fleet)
        (cluster,) = fleet.config.clusters
        said = []
        for message in (
            BrokerReach(cluster.name, False, "b:1: Connection refused"),
            BrokerReach("another", False, "is not in the configuration any more"),
            BrokerReach(cluster.name, True),
            BrokerReach(cluster.name, False, "of a worker that was started again"),
        ):
            fleet.tell(0, message)
            said.append((overview.ready(), overview.clusters()))
        return cluster.name, said

    name, (refused, same, reached, later) = with_fleet(config(workers=2), test)
    reason = "b:1: Connection refused"
    assert refused == ((False, f"no broker of {name} has been reached: {reason}"), [ClusterState(name, False, reason)])
    assert same == refused
    assert reached == later == ((True, ""), [ClusterState(name, True)])


def unstarted(test: Callable[[Fleet, Overview], Any]) -> Any:
    """What *test* returns of a fleet that has no process."""

    async def main() -> Any:
        fleet = Fleet(config())
        return test(fleet, Overview(fleet))

    return asyncio.run(main())


def test_clients_and_the_analysis() -> None:
    async def clients(fleet: Fleet, _: str) -> int:
        overview = Overview(fleet)
        for counters in overview.counters():
            counters.put(Total.CONNECTIONS_OPEN, 2)
        return overview.clients()

    def analysis(fleet: Fleet, overview: Overview) -> list[AnalyzerCounts | None]:
        fleet.tell(None, AnalyzerCounts(frames=7))
        before = overview.analysis()
        fleet.tell(None, None)
        fleet.tell(None, AnalyzerCounts(frames=1))
        return [before, overview.analysis()]

    assert with_fleet(config(workers=2), clients) == 4
    assert unstarted(analysis) == [AnalyzerCounts(frames=7), AnalyzerCounts(frames=8)]


def test_the_time_and_the_faults_of_filters_are_apart_from_what_they_count() -> None:
    def test(fleet: Fleet, overview: Overview) -> Any:
        for name, count in ((SPENT_NS, 5_000), (CALLS, 7), ("fired", 2)):
            fleet.counts.count("orders", "faults", name, "").add(count)
        runtime = FilterRuntime("orders", Journals(), counts=fleet.counts)
        for _ in range(3):
            runtime.count_fault("deny", "on_request", "timed_out")
        counts = [(one.event, one.count) for one in overview.filter_counts()]
        return overview.filter_times(), overview.filter_faults(), counts

    faults = [("orders", "deny", "on_request", "timed_out", 3)]
    assert unstarted(test) == ([("orders", "faults", 5_000, 7)], faults, [("fired", 2)])


def test_what_clients_measure_is_shown_until_it_is_too_old() -> None:
    def test(fleet: Fleet, overview: Overview) -> Any:
        for name, keep_s in (("kept", 3_600.0), ("old", -1.0)):
            metrics = [ClientMetric(name, False, False, (), 2.5)]
            fleet.tell(0, ClientMetrics("orders", "app", "AAECAwQFBgcICQoLDA0ODw", metrics, keep_s, 5, 7))
        families = overview.client_series().families()
        return [(one.name, sample.labels["client_id"], sample.value) for one in families for sample in one.samples]

    assert unstarted(test) == [("kafka_client_kept", "app", 2.5)]


def test_a_journal_that_cannot_be_written_is_why_clients_are_not_served() -> None:
    """By worker, until it can, or that worker is gone."""

    async def test(fleet: Fleet, _: str) -> Any:
        overview = Overview(fleet)
        said = []
        fleet.tell(1, JournalState("/var/audit.jsonl", "No space left on device"))
        said.append(overview.ready())
        fleet.tell(1, JournalState("/var/audit.jsonl", ""))
        said.append(overview.ready())
        fleet.tell(0, JournalState("/var/audit.jsonl", "Permission denied"))
        fleet.tell(0, None)
        return [*said, overview.ready()]

    why = "worker 1 cannot write '/var/audit.jsonl', and refuses what is audited: No space left on device"
    assert with_fleet(config(workers=2), test) == [(False, why), (True, ""), (True, "")]


def test_what_one_process_counted_stays_when_another_begins_at_0() -> None:
    totals = AnalyzerTotals()
    assert totals.total is None
    first = AnalyzerCounts(
        at=1,
        exchanges=10,
        left_out={"fault": 3, "analyzer_limits": 1},
        errors=[("Fetch", "NONE", 2)],
        outputs={"log": OutputCounts(100, 1, 0)},
        connections=4,
        most_lag_ns=9,
    )
    totals.note(AnalyzerCounts(at=0, exchanges=5))  # it counts on
    totals.note(first)
    assert totals.total == first
    totals.end()
    assert totals.total is not None
    assert (totals.total.exchanges, totals.total.left_out) == (10, {"fault": 3, "analyzer_limits": 1})
    assert (totals.total.at, totals.total.connections) == (1, 0)  # nothing is open in a process that is gone
    totals.end()  # one that could not be started
    totals.note(
        AnalyzerCounts(
            at=2,
            exchanges=1,
            left_out={"fault": 1, "other": 5},
            errors=[("Fetch", "NONE", 1), ("Produce", "NONE", 7)],
            outputs={"log": OutputCounts(50, 0, 2), "capture": OutputCounts(1, 0, 0)},
            connections=2,
        )
    )
    assert totals.total == AnalyzerCounts(
        at=2,
        exchanges=11,
        left_out={"fault": 4, "analyzer_limits": 1, "other": 5},
        errors=[("Fetch", "NONE", 3), ("Produce", "NONE", 7)],
        outputs={"log": OutputCounts(150, 1, 2), "capture": OutputCounts(1, 0, 0)},
        connections=2,
    )


def test_names_stay_bounded_over_any_number_of_processes() -> None:
    assert (MOST_SERIES, OTHER) == (series.MOST_SERIES, series.OTHER)
    totals = AnalyzerTotals()
    for process in range(3):
        totals.note(AnalyzerCounts(errors=[(f"{process}-{n}", "NONE", 1) for n in range(MOST_SERIES)]))
        totals.end()
    assert totals.total is not None
    assert len(totals.total.errors) == MOST_SERIES
    assert totals.total.errors[-1] == (OTHER, OTHER, 2 * MOST_SERIES + 1)


def shown(totals: SeriesTotals, now: float = 0.0, most: int = 1_000) -> dict[str, int]:
    return {labels[0]: numbers[0] for labels, numbers in totals.rows(most, 100.0, now)}


def test_what_one_process_counted_of_names_stays_when_another_begins_at_0() -> None:
    totals = SeriesTotals()
    totals.note([(("a",), [3]), (("b",), [4]), ((OTHER,), [50])])
    totals.end(10.0)
    assert shown(totals, 10.0) == {"a": 3, "b": 4, OTHER: 50}
    totals.note([(("a",), [1]), (("c",), [2])])
    assert shown(totals, 11.0) == {"a": 4, "c": 2, "b": 4, OTHER: 50}
    totals.end(12.0)
    totals.end(13.0)  # one that could not be started
    totals.note([(("a",), [1])])
    assert shown(totals, 13.0)["a"] == 5


def test_what_has_ended_in_the_present_process_begins_at_0() -> None:
    totals = SeriesTotals()
    totals.note([(("a",), [3])])
    totals.end(0.0)
    totals.note([(("a",), [1])])
    totals.note([])  # it ended
    assert shown(totals) == {}
    totals.note([(("a",), [1])])
    assert shown(totals) == {"a": 1}


def test_names_of_an_earlier_process_end_when_they_were_idle() -> None:
    totals = SeriesTotals()
    totals.note([(("a",), [3]), ((OTHER,), [50])])
    totals.end(10.0)
    assert shown(totals, 109.0) == {"a": 3, OTHER: 50}
    assert shown(totals, 110.0) == {OTHER: 50}


def test_names_stay_bounded_over_processes() -> None:
    totals = SeriesTotals()
    totals.note([((f"a{n}",), [1]) for n in range(9)] + [((OTHER,), [5])])
    totals.end(0.0)
    totals.note([((f"b{n}",), [1]) for n in range(9)])
    found = shown(totals, most=10)
    assert len(found) == 10 and found[OTHER] == 5


def test_gauges_are_those_of_the_present_process_once_it_has_some() -> None:
    totals = SeriesTotals(is_gauge=True)
    totals.note([(("a",), [3]), ((OTHER,), [50])])
    totals.end(10.0)
    totals.note([])
    assert shown(totals, 11.0) == {"a": 3, OTHER: 50}
    totals.note([(("a",), [1])])
    assert shown(totals, 12.0) == {"a": 1}
