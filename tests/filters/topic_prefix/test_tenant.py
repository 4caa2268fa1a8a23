"""The state of a tenant: its filters' shared ids and their translation."""

import pytest

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.places import plan_of
from kproxy.filters.topic_prefix.tenant import MOST_KEPT, STATE, keep, kept_for
from kproxy.filters.topic_prefix.topic_ids import topic_ids
from kproxy.filters.topic_prefix.translation import NotOurs, Translation
from kproxy.protocol import ApiKey, Direction
from tests.support.filtering import connection, make, part


def test_what_is_kept_is_given_once() -> None:
    at = connection()
    keep(at, 7, "what")
    assert (kept_for(at, 8), kept_for(at, 7), kept_for(at, 7)) == (None, "what", None)
    assert kept_for(connection(), 7) is None


def test_a_client_cannot_fill_the_memory() -> None:
    at = connection()
    for number in range(MOST_KEPT + 50):
        keep(at, number, number)
    assert len(at.state[STATE]) == MOST_KEPT
    assert (kept_for(at, 0), kept_for(at, MOST_KEPT + 49)) == (None, MOST_KEPT + 49)


ONE, TWO = ("A" * 21 + letter for letter in "gh")


def test_every_id_of_a_fetch_is_found() -> None:
    topic, forgotten = (
        part("FetchRequest", name, topic_id=each) for name, each in (("FetchTopic", ONE), ("ForgottenTopic", TWO))
    )
    message = make("FetchRequest", topics=[topic], forgotten_topics_data=[forgotten])
    assert list(topic_ids(plan_of(Direction.REQUEST, ApiKey.FETCH, 13), message)) == [ONE, TWO]
    assert list(topic_ids(plan_of(Direction.REQUEST, ApiKey.FETCH, 12), message)) == []


def test_a_topic_that_is_deleted_by_name_has_no_id() -> None:
    message = make("DeleteTopicsRequest", topics=[part("DeleteTopicsRequest", "DeleteTopicState", name="x")])
    assert list(topic_ids(plan_of(Direction.REQUEST, ApiKey.DELETE_TOPICS, 6), message)) == []


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
