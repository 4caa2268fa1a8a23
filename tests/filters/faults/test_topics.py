"""Topics in messages, by name and by id."""

from typing import Any

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.faults.topics import MOST_NAMES, TopicNames, only, topic_arrays, topics_of
from kproxy.protocol import ApiKey
from kproxy.protocol.ids import ZERO_UUID
from tests.support.filtering import make, part

ORDERS = "AAAAAAAAAAAAAAAAAAAAAQ"


def offsets(*names: str) -> Any:
    topics = [part("OffsetFetchRequest", "OffsetFetchRequestTopics", name=name) for name in names]
    group = part("OffsetFetchRequest", "OffsetFetchRequestGroup", group_id="g", topics=topics)
    return make("OffsetFetchRequest", groups=[group])


def test_topics_are_found_below_other_arrays() -> None:
    assert list(topics_of(offsets("a", "b"), topic_arrays(ApiKey.OFFSET_FETCH, 8))) == [("a", ""), ("b", "")]
    names = make("DeleteTopicsRequest", topic_names=["c"])
    assert list(topics_of(names, topic_arrays(ApiKey.DELETE_TOPICS, 1))) == [("c", "")]


def test_topics_have_an_id_from_some_version_on() -> None:
    by_id = part("ProduceRequest", "TopicProduceData", topic_id=ORDERS)
    asked = make("ProduceRequest", topic_data=[by_id])
    assert list(topics_of(asked, topic_arrays(ApiKey.PRODUCE, 13))) == [("", ORDERS)]
    assert [array.name for array in topic_arrays(ApiKey.PRODUCE, 12)] == ["name"]
    assert topic_arrays(ApiKey.HEARTBEAT, 4) == ()


def test_a_message_keeps_only_some_topics_and_the_one_it_is_made_of_stays() -> None:
    whole = offsets("a", "b")
    kept = only(whole, topic_arrays(ApiKey.OFFSET_FETCH, 8), lambda name, _: name == "b")
    assert kept == offsets("b")
    assert whole == offsets("a", "b")


def test_ids_match_by_the_names_that_metadata_has_told() -> None:
    names: dict[str, str] = {}
    known = TopicNames(names, BoundedSet())
    assert not known.matches(("orders",), "", ORDERS)
    known.learn(ORDERS, "orders")
    known.learn(ZERO_UUID, "nothing")
    assert known.matches(("ord*",), "", ORDERS)
    assert known.matches(("x", "orders"), "orders", "")
    assert not known.matches(("orders",), "", ZERO_UUID)
    assert names == {ORDERS: "orders"}


def test_another_worker_knows_an_id_by_its_whole_name() -> None:
    shared = BoundedSet()
    TopicNames({}, shared).learn(ORDERS, "orders")
    assert TopicNames({}, shared).matches(("orders",), "", ORDERS)
    assert not TopicNames({}, shared).matches(("others",), "", ORDERS)


def test_names_are_forgotten_when_there_are_too_many() -> None:
    names: dict[str, str] = {}
    known = TopicNames(names, BoundedSet())
    for number in range(MOST_NAMES + 5):
        known.learn(str(number), "name")
    assert len(names) == MOST_NAMES
