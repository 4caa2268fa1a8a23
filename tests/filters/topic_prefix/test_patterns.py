"""Regular expressions confined to a tenant: Python's engine, where it agrees with RE2, says what they match."""

import re

import pytest

from kproxy.filters.topic_prefix.patterns import INVALID, LONGEST, Patterns

PATTERNS = Patterns("a.")
NAMES = ["x", "orders", "orders-1", "b.orders", "ab", "", "x|b.y"]


@pytest.mark.parametrize(
    "pattern", ["orders-.*", ".*", "x|.*", "(?:x)|(y|b.*)", "[a-z|)(]+", r"\w+", "o{1,2}r.*", "a?b?"]
)
def test_it_matches_the_tenants_names_that_it_matched_and_no_others(pattern: str) -> None:
    confined = re.compile(PATTERNS.to_broker(pattern))
    for name in NAMES:
        assert bool(confined.fullmatch(f"a.{name}")) == bool(re.fullmatch(pattern, name)), name
        assert not confined.fullmatch(name) or name.startswith("a.")


@pytest.mark.parametrize("pattern", ["^orders.*$", "(^x|^o.*)", r"\Aorders", "(?m)^x", "^^x", "x|^ab"])
def test_the_beginning_is_that_of_the_tenants_name(pattern: str) -> None:
    confined = re.compile(PATTERNS.to_broker(pattern).replace("(?m)", ""))
    for name in NAMES:
        assert bool(confined.fullmatch(f"a.{name}")) == bool(re.fullmatch(pattern, name)), name


@pytest.mark.parametrize(
    "pattern",
    [
        "x)|(.*",
        "x)(?:",
        ")(",
        "(",
        "[",
        "[)",
        "x\\",
        r"\Qx\E)|(.*",
        "(?=x)",
        "(?<!a)b",
        "(?i",
        "a^b",
        "x*^b",
        "x" * (LONGEST + 1),
    ],
)
def test_what_could_leave_its_group_is_made_invalid(pattern: str) -> None:
    assert PATTERNS.to_broker(pattern) == INVALID
    with pytest.raises(re.error):
        re.compile(INVALID)


@pytest.mark.parametrize(
    ("pattern", "confined"),
    [
        (r"\Qx)|(.*", r"a\.(?:\Qx)|(.*\E)"),
        (r"\Qx)\E|y", r"a\.(?:\Qx)\E|y)"),
        ("[]x)|(.*]", "a\\.(?:[]x)|(.*])"),
        ("[^])|(]x", "a\\.(?:[^])|(]x)"),
        ("[[:alpha:])]+", "a\\.(?:[[:alpha:])]+)"),
        (r"\)|\(", r"a\.(?:\)|\()"),
        (r"\p{Greek}", r"a\.(?:\p{Greek})"),
        ("(?P<n>x)(?i:y)(?s-i)", "a\\.(?:(?P<n>x)(?i:y)(?s-i))"),
    ],
)
def test_parentheses_that_are_none_are_passed_over(pattern: str, confined: str) -> None:
    assert PATTERNS.to_broker(pattern) == confined


def test_an_expression_comes_back_as_it_was_given() -> None:
    for pattern in ("orders-.*", "^x$", r"(\Ax|^y)", ""):
        assert PATTERNS.to_client(PATTERNS.to_broker(pattern)) == pattern
    for foreign in (".*", r"b\.(?:.*)", r"a\.(?:"):
        assert PATTERNS.to_client(foreign) is None


def test_word_boundaries_need_a_prefix_that_does_not_change_them() -> None:
    assert PATTERNS.to_broker(r"\bx") == r"a\.(?:\bx)"
    assert Patterns("a_").to_broker(r"\bx") == INVALID
    assert Patterns("a_").to_broker("x") == "a_(?:x)"
