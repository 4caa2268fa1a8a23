"""What a Fetch asks for over a session (KIP-227): the partitions are those of the requests before, as the KIP has it."""

from typing import Any

from kproxy.filters.contract import Request
from kproxy.filters.faults.fetch_sessions import FetchSession, add_missing
from tests.support.filtering import connection, make, part


def fetch(epoch: int, version: int = 12, forgotten: dict[str, list[int]] | None = None, **topics: list[int]) -> Request:
    key = "topic" if version < 13 else "topic_id"
    asked = [
        part(
            "FetchRequest",
            "FetchTopic",
            **{key: name},
            partitions=[part("FetchRequest", "FetchPartition", partition=index) for index in indexes],
        )
        for name, indexes in topics.items()
    ]
    gone = [
        part("FetchRequest", "ForgottenTopic", **{key: name}, partitions=indexes)
        for name, indexes in (forgotten or {}).items()
    ]
    message = make("FetchRequest", session_epoch=epoch, topics=asked, forgotten_topics_data=gone)
    return Request(connection(), 1, version, 7, "c", message)


def test_a_session_grows_and_shrinks_and_begins_anew() -> None:
    session = FetchSession()
    session.note(fetch(0, a=[0, 1], b=[0]))
    assert session.topics == {("a", ""): {0, 1}, ("b", ""): {0}}
    session.note(fetch(1, c=[3]))
    session.note(fetch(2, forgotten={"a": [0], "b": [0]}))
    assert session.topics == {("a", ""): {1}, ("c", ""): {3}}
    session.note(fetch(-1, d=[0]))
    assert session.topics == {("d", ""): {0}}
    session.note(fetch(0, version=4, e=[0]))
    assert session.topics == {("e", ""): {0}}


def test_partitions_that_an_incremental_response_leaves_out_are_added() -> None:
    there: Any = part("FetchResponse", "PartitionData", partition_index=1, high_watermark=9, records=b"x")
    response = make(
        "FetchResponse", responses=[part("FetchResponse", "FetchableTopicResponse", topic="a", partitions=[there])]
    )
    topics = {("a", ""): {0, 1}, ("b", ""): {2}, ("c", ""): {0}}
    add_missing(fetch(5), response, topics, lambda name, _: name != "c")
    found = [
        (topic.topic, [(p.partition_index, p.high_watermark, p.records) for p in topic.partitions])
        for topic in response.responses
    ]
    assert found == [("a", [(1, 9, b"x"), (0, -1, b"")]), ("b", [(2, -1, b"")])]


def test_topics_that_are_known_by_id_are_added_by_id() -> None:
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    response = make("FetchResponse")
    add_missing(fetch(5, version=13), response, {("", topic_id): {0}}, lambda *_: True)
    assert [(topic.topic, topic.topic_id) for topic in response.responses] == [("", topic_id)]
