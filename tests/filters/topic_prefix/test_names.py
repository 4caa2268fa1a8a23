"""Names and regular expressions of a tenant, to the broker and back. Python's engine says what matches where it is as RE2."""

import re

import pytest

from kproxy.filters.topic_prefix.names import Kind, Names, TooLong, is_legal_topic
from kproxy.filters.topic_prefix.patterns import INVALID, LONGEST, Patterns

NAMES = Names("team-a.")


@pytest.mark.parametrize(
    ("kind", "own", "brokers"),
    [
        (Kind.TOPIC, "orders", "team-a.orders"),
        (Kind.TOPIC, "team-a.orders", "team-a.team-a.orders"),
        (Kind.TOPIC, "__consumer_offsets", "team-a.__consumer_offsets"),
        (Kind.TOPIC, "x" * 249, "team-a." + "x" * 249),
        (Kind.TOPIC, "x" * 250, "x" * 250),
        (Kind.TOPIC, "", ""),
        (Kind.TOPIC, ".", "."),
        (Kind.TOPIC, "..", ".."),
        (Kind.TOPIC, "a/b", "a/b"),
        (Kind.TOPIC, "a\n", "a\n"),
        (Kind.CLUSTER_TOPIC, "__cluster_metadata", "__cluster_metadata"),
        (Kind.CLUSTER_TOPIC, "orders", "team-a.orders"),
        (Kind.GROUP, "a/b", "team-a.a/b"),
        (Kind.GROUP, "", ""),
        (Kind.GROUP_OR_NONE, "", "team-a."),
        (Kind.TRANSACTIONAL_ID, "tx", "team-a.tx"),
        (Kind.TRANSACTIONAL_ID, "", ""),
    ],
)
def test_names_go_and_come_back(kind: Kind, own: str, brokers: str) -> None:
    assert NAMES.to_broker(kind, own) == brokers
    assert NAMES.to_client(kind, brokers) == own


@pytest.mark.parametrize(
    "kind", [Kind.TOPIC, Kind.CLUSTER_TOPIC, Kind.GROUP, Kind.GROUP_OR_NONE, Kind.TRANSACTIONAL_ID]
)
@pytest.mark.parametrize("name", ["team-b.orders", "team-a", "__consumer_offsets", "Team-a.orders"])
def test_names_of_others_are_not_the_tenants(kind: Kind, name: str) -> None:
    assert NAMES.to_client(kind, name) is None


def test_a_name_that_no_string_can_hold_is_refused() -> None:
    assert NAMES.to_broker(Kind.GROUP, "g" * 32_760) == "team-a." + "g" * 32_760
    with pytest.raises(TooLong, match="32761 characters"):
        NAMES.to_broker(Kind.GROUP, "g" * 32_761)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("Topic 'team-a.orders' already exists.", "Topic 'orders' already exists."),
        ("team-a.x-0, team-a.y-1", "x-0, y-1"),
        ("of my-team-a.x", "of my-team-a.x"),
        ("nothing", "nothing"),
    ],
)
def test_messages_lose_the_prefix_where_a_name_begins(text: str, own: str) -> None:
    assert NAMES.in_text(text) == own


def test_a_short_prefix_is_not_taken_out_of_words() -> None:
    assert Names("a.").in_text("no metadata. Topic a.b") == "no metadata. Topic b"


@pytest.mark.parametrize("prefix", ["", "a b", "a/", "x" * 101, "_", "__", "__consumer", "a\n"])
def test_what_can_be_no_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        Names(prefix)


def test_legal_topics_are_those_of_kafka() -> None:
    assert is_legal_topic("a.B_c-1")
    assert not any(map(is_legal_topic, ("", ".", "..", "ü", "a b", "x" * 250)))


PATTERNS = Patterns("a.")
OWN_NAMES = ["x", "orders", "orders-1", "b.orders", "ab", "", "x|b.y"]


@pytest.mark.parametrize("pattern", ["^orders.*$", "(^x|^o.*)", r"\Aorders", "(?m)^x", "^^x", "x|^ab"])
def test_the_beginning_is_that_of_the_tenants_name(pattern: str) -> None:
    confined = re.compile(PATTERNS.to_broker(pattern).replace("(?m)", ""))
    for name in OWN_NAMES:
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
