"""Findings are counted by their state."""

from kproxy.doctor.findings import State, count, good, note, problem, warning


def test_states_are_counted() -> None:
    found = [good("a", "b"), note("a", "b"), warning("a", "b", "c"), problem("a", "b", "c"), problem("d", "e")]
    assert [count(found, state) for state in State] == [1, 1, 1, 2]
    assert found[2].advice == "c"
