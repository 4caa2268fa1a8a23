"""A set that forgets."""

import pytest

from kproxy.filters.bounded_set import LONGEST_VALUE, BoundedSet


def test_what_was_added_longest_ago_is_forgotten_first() -> None:
    values = BoundedSet(most=2)
    for each in ("a", "b", "a", "c"):
        values.add(each)
    assert (list(values), len(values), "b" in values) == (["a", "c"], 2, False)


def test_only_what_is_new_and_of_this_process_is_told() -> None:
    told: list[str] = []
    values = BoundedSet(on_new=told.append)
    values.receive(["a", "b"])
    for each in ("a", "c", "c"):
        values.add(each)
    assert told == ["c"]
    assert list(values) == ["b", "a", "c"]


def test_a_value_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="301 characters"):
        BoundedSet().add("x" * (LONGEST_VALUE + 1))


def test_what_was_added_since_a_change_also_when_it_is_full() -> None:
    values = BoundedSet(most=3)
    assert values.added_since(0) == (0, [])
    values.receive(["a", "b", "c"])
    assert values.added_since(0) == (3, ["a", "b", "c"])
    values.add("d")
    values.add("b")
    assert values.added_since(3) == (5, ["d", "b"])
    assert values.added_since(5) == (5, [])
    assert values.added_since(0) == (5, ["c", "d", "b"])
