"""Hostile YAML (25 of the hostile inputs): the only result is a mistake with its place."""

import tracemalloc

import pytest

from kproxy.config.reading import parse_config
from kproxy.config.yaml_tree import MOST_ALIASES, MOST_DEPTH, MOST_EVENTS, MOST_TEXT, read_tree
from kproxy.errors import ConfigError, Mistake


def mistakes(text: str) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "kproxy.yaml")
    return caught.value.mistakes


def only(text: str) -> Mistake:
    (mistake,) = mistakes(text)
    return mistake


def test_the_root_has_its_place() -> None:
    root = read_tree("\n\n  a: 1\n", "x")
    assert (root.start_mark.line, root.start_mark.column) == (2, 2)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", (1, 1), "empty"),
        ("# nothing\n", (1, 1), "empty"),
        ("a: [1, 2", (2, 1), "invalid YAML"),
        ("a: 1\n\tb: 2\n", (2, 1), "; indent with spaces"),
        ("a: 1\n---\nb: 2\n", (2, 1), "invalid YAML"),
        ("a: *nobody\n", (1, 4), "undefined alias"),
        ("a: \x00\n", (1, 1), "invalid YAML"),
        ("a: 'x", (1, 6), "invalid YAML"),
        ("%YAML 9.9\n---\na", (1, 1), "invalid YAML"),
    ],
)
def test_invalid_yaml_is_reported_with_its_place(text: str, place: tuple[int, int], words: str) -> None:
    mistake = only(text)
    assert (mistake.line, mistake.column) == place
    assert words in mistake.message
    assert "\n" not in mistake.message


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system",
        "!!python/name:os.system",
        "!!python/object/new:type",
        "!local",
        "!!binary",
        "!!set",
    ],
)
def test_25_tags_are_refused(tag: str) -> None:
    found = mistakes(f"clusters: {tag} [id]\n")
    assert ("clusters", 1, 11) in [(mistake.path, mistake.line, mistake.column) for mistake in found]
    assert any("is not allowed" in mistake.message for mistake in found)


def alias_bomb(part: str) -> str:
    levels = [f"a0: &a0 [{', '.join(['x'] * 9)}]"]
    levels += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
    return "\n".join(f"{part}{level}" for level in levels)


def test_25_an_alias_bomb_is_not_blown_up() -> None:
    filters = "  - listen: a:1\n    bootstrap: [b:1]\n    filters:\n      - use: a:b\n        with:\n"
    text = f"clusters:\n{filters}{alias_bomb('          ')}\n"
    tracemalloc.start()
    try:
        found = mistakes(text)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert any("too large" in mistake.message for mistake in found)


def test_25_a_value_that_contains_itself_ends() -> None:
    text = "clusters:\n  - listen: a:1\n    bootstrap: [b:1]\n    filters: [{use: a, with: &w {again: *w}}]\n"
    assert any("too large" in mistake.message for mistake in mistakes(text))
    assert mistakes("clusters: &c [*c]\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: " + "[" * (MOST_DEPTH + 1), f"deeper than {MOST_DEPTH}"),
        ("a: " + "[" * 100_000, f"deeper than {MOST_DEPTH}"),
        ("[" + "1," * (MOST_EVENTS + 1) + "]", "values"),
        ("a: &a 1\nb: [" + "*a," * (MOST_ALIASES + 1) + "]", "aliases"),
        ("#" * (MOST_TEXT + 1), "larger than"),
    ],
    ids=["deep", "very deep", "many", "aliases", "big"],
)
def test_25_too_much_is_refused(text: str, words: str) -> None:
    assert words in only(text).message


def test_25_a_million_wrong_names_are_a_hundred_mistakes() -> None:
    found = mistakes("\n".join(f"n{number}: 1" for number in range(20_000)))
    assert len(found) == 100
