"""Version ranges, as Kafka's schema files write them (kafka generator, Versions.java: "none", "3", "0-12", "9+")."""

import hypothesis
import hypothesis.strategies as st
import pytest

from kproxy.protocol.versions import OPEN, Versions

SETS = st.sets(st.integers(0, 30))


def versions_of(numbers: set[int]) -> Versions:
    return Versions.union(Versions(((n, n),)) for n in numbers)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("none", ()),
        ("4", ((4, 4),)),
        ("0-12", ((0, 12),)),
        ("9+", ((9, 32767),)),
        ("0-3,5", ((0, 3), (5, 5))),
        ("0,2-3,7+", ((0, 0), (2, 3), (7, 32767))),
    ],
)
def test_ranges_are_read_and_written_alike(text: str, ranges: tuple[tuple[int, int], ...]) -> None:
    assert Versions.parse(text).ranges == ranges
    assert str(Versions.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", "3-", "-3", "-1+", "3-2", "a", "1-b", "5,1", "0-3,3", "9+,12", "32768", "40000+", "1_0", "1+5"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Versions.parse(text)


@hypothesis.given(a=SETS, b=SETS)
def test_versions_are_sets_of_numbers(a: set[int], b: set[int]) -> None:
    first, second = versions_of(a), versions_of(b)
    assert set(first) == a
    assert {n for n in range(40) if n in first} == a
    assert set(first.intersect(second)) == a & b
    assert set(Versions.union([first, second])) == a | b
    assert (first.lowest, first.highest) == ((min(a), max(a)) if a else (-1, -1))
    assert bool(first) == bool(a)
    assert Versions.parse(str(first)) == first


def test_neighbours_become_one_range() -> None:
    assert str(versions_of({0, 1, 2, 4})) == "0-2,4"


def test_an_open_range_ends_where_int16_does() -> None:
    assert OPEN == 2**15 - 1
    assert 32767 in Versions.parse("9+")
    assert 8 not in Versions.parse("9+")
