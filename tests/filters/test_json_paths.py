"""Paths into JSON."""

import pytest

from kproxy.filters.json_paths import EVERY, LEAF, State, parse_path, parse_paths


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a", ("a",)),
        ("$.a_b-c.$d", ("a_b-c", "$d")),
        ("$['a b']", ("a b",)),
        ('$["it\'s"][0].x', ("it's", 0, "x")),
        ("$[*].*", (EVERY, EVERY)),
        ("$['0'][0]", ("0", 0)),
        ("$['']", ("",)),
    ],
)
def test_steps(path: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize("path", ["", "$", "a.b", "$.", "$..a", "$[a]", "$.a[", "$.a b", "$[-1]", "$[0:1]"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="is no JSON path"):
        parse_path(path)


def test_a_whole_value_is_hidden_with_all_that_is_in_it() -> None:
    for paths in (["$.a", "$.a.b"], ["$.a.b", "$.a"]):
        assert parse_paths(paths) == [State({"a": LEAF}, {}, None)]


def test_a_name_leads_where_wildcards_lead_as_well() -> None:
    assert parse_paths(["$.*.c", "$.a.b"]) == [
        State({"a": 2}, {}, 1),
        State({"c": LEAF}, {}, None),
        State({"b": LEAF, "c": LEAF}, {}, None),
    ]


def test_the_states_are_bounded() -> None:
    paths = ["$" + ".*" * at + ".a" + ".*" * (15 - at) + f".x{at}" for at in range(16)]  # 2 ** 16 sets of them
    with pytest.raises(ValueError, match="write fewer wildcards"):
        parse_paths(paths)
