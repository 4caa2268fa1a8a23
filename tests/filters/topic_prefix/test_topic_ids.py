"""Ids of the tenant's topics."""

from kproxy.filters.topic_prefix.places import plan_of
from kproxy.filters.topic_prefix.topic_ids import topic_ids
from kproxy.protocol import ApiKey, Direction
from tests.support.filtering import make, part

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
