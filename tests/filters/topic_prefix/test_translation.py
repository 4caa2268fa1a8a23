"""Plans applied to messages."""

import pytest

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.places import plan_of
from kproxy.filters.topic_prefix.translation import NotOurs, Translation
from kproxy.protocol import ApiKey, Direction
from tests.support.filtering import make, part

ID, OTHER = "A" * 21 + "g", "A" * 21 + "w"
NAMES = Names("a.")


def test_a_response_teaches_the_ids_of_the_tenants_topics_alone() -> None:
    ids = BoundedSet()
    topics = [
        part("MetadataResponse", "MetadataResponseTopic", name=name, topic_id=each)
        for name, each in (("a.x", ID), ("b.x", OTHER))
    ]
    message = make("MetadataResponse", topics=topics)
    translation = Translation(NAMES, ids)
    assert translation.response(plan_of(Direction.RESPONSE, ApiKey.METADATA, 12), message)
    assert [topic.name for topic in message.topics] == ["x"]
    assert (ID in ids, OTHER in ids, translation.changed) == (True, False, True)


def test_a_name_that_kafka_refuses_teaches_nothing() -> None:
    ids = BoundedSet()
    message = make(
        "MetadataResponse", topics=[part("MetadataResponse", "MetadataResponseTopic", name="?", topic_id=OTHER)]
    )
    translation = Translation(NAMES, ids)
    translation.response(plan_of(Direction.RESPONSE, ApiKey.METADATA, 12), message)
    assert ([topic.name for topic in message.topics], len(ids), translation.changed) == (["?"], 0, False)


def test_a_struct_that_cannot_be_left_out_is_a_fault() -> None:
    cursor = part("DescribeTopicPartitionsResponse", "Cursor", topic_name="b.x")
    message = make("DescribeTopicPartitionsResponse", next_cursor=cursor)
    with pytest.raises(NotOurs, match="next_cursor"):
        Translation(NAMES, BoundedSet()).response(
            plan_of(Direction.RESPONSE, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0), message
        )


def test_null_names_and_lists_stay_null() -> None:
    message = make("MetadataRequest", topics=None)
    translation = Translation(NAMES, BoundedSet())
    translation.request(plan_of(Direction.REQUEST, ApiKey.METADATA, 12), message)
    assert (message.topics, translation.changed) == (None, False)
