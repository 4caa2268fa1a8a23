"""Names and ids of topics."""

import pytest

from kproxy.output.tables.topics import topic_of

ID, NO_ID = "pmO91lHxS7OjVeK-fFGfFA", "AAAAAAAAAAAAAAAAAAAAAA"  # the latter is Kafka's Uuid.ZERO_UUID as text


@pytest.mark.parametrize(
    ("name", "topic_id", "known", "found"),
    [
        ("orders", None, {}, ("orders", None)),
        ("orders", NO_ID, {}, ("orders", None)),
        ("", ID, {ID: "orders"}, ("orders", ID)),
        (None, ID, {}, (None, ID)),
        ("", NO_ID, {}, (None, None)),
        ("a\udcff", None, {}, ("a\ufffd", None)),
    ],
)
def test_topics(
    name: str | None, topic_id: str | None, known: dict[str, str], found: tuple[str | None, str | None]
) -> None:
    assert topic_of(name, topic_id, known) == found
