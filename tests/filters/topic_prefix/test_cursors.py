"""Pages of DescribeTopicPartitions."""

from kproxy.filters.topic_prefix import cursors
from kproxy.filters.topic_prefix.names import Names
from tests.support.filtering import make, part

NAMES = Names("a.")


def test_a_listing_of_all_begins_with_the_least_name() -> None:
    message = make("DescribeTopicPartitionsRequest", topics=[], cursor=None)
    assert cursors.request(message)
    assert (message.cursor.topic_name, message.cursor.partition_index) == ("-", 0)
    legal = "-._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert min(legal) == "-"  # Java's strings compare as Python's


def test_named_topics_and_given_cursors_stay() -> None:
    named = make("DescribeTopicPartitionsRequest", topics=[part("DescribeTopicPartitionsRequest", "TopicRequest")])
    assert not cursors.request(named)
    assert named.cursor is None
    cursor = part("DescribeTopicPartitionsRequest", "Cursor", topic_name="x")
    assert not cursors.request(make("DescribeTopicPartitionsRequest", topics=[], cursor=cursor))
    assert cursor.topic_name == "x"


def test_a_cursor_behind_the_tenants_topics_is_the_end() -> None:
    for name, is_kept in (("a.x", True), ("b.x", False)):
        cursor = part("DescribeTopicPartitionsResponse", "Cursor", topic_name=name)
        message = make("DescribeTopicPartitionsResponse", next_cursor=cursor)
        cursors.response(NAMES, message)
        assert (message.next_cursor is not None) == is_kept
