"""Numbers by name over several processes of the analyzer."""

from kproxy.proxy.supervisor.series_totals import SeriesTotals

OTHER = "__other__"


def shown(totals: SeriesTotals, now: float = 0.0, most: int = 1_000) -> dict[str, int]:
    return {labels[0]: numbers[0] for labels, numbers in totals.rows(most, 100.0, now)}


def test_what_one_process_counted_stays_when_another_begins_at_0() -> None:
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
