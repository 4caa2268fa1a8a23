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
    with pytest.raises(ValueError, match="201 characters"):
        BoundedSet().add("x" * (LONGEST_VALUE + 1))
