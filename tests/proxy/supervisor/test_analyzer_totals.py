"""What /metrics shows of the analyzer never goes down, however often its process is started again."""

from kproxy.proxy.analyzer import series
from kproxy.proxy.messages import AnalyzerCounts, OutputCounts
from kproxy.proxy.supervisor import analyzer_totals
from kproxy.proxy.supervisor.analyzer_totals import MOST_SERIES, OTHER, AnalyzerTotals, SeriesTotals


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
    assert (MOST_SERIES, OTHER) == (series.MOST_SERIES, series.OTHER) and analyzer_totals.__doc__
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
