"""Names of a tenant, to the broker and back."""

import pytest

from kproxy.filters.topic_prefix.names import Kind, Names, TooLong, is_legal_topic

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
