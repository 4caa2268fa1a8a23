"""What /metrics shows of the analyzer never goes down, however often its process is started again."""

from kproxy.proxy.analyzer import series
from kproxy.proxy.messages import AnalyzerCounts, OutputCounts
from kproxy.proxy.supervisor import analyzer_totals
from kproxy.proxy.supervisor.analyzer_totals import MOST_SERIES, OTHER, AnalyzerTotals


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
