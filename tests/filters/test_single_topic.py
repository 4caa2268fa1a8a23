"""The only topic of a frame by its first bytes, for each version; what is cut, has two topics or is no such frame has none."""

import random
from typing import Any

import pytest

from kproxy.filters.contract import Direction
from kproxy.filters.single_topic import BEGINNING, RecentTopics, SingleTopic, single_topic
from kproxy.protocol import message
from tests.support.messages import answer_frame, request_frame

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
EXPECTED = SingleTopic("orders", ""), SingleTopic(None, TOPIC_ID)
PRODUCE = [(Direction.REQUEST, version) for version in message("ProduceRequest").versions]
FETCH = [(Direction.RESPONSE, version) for version in message("FetchResponse").versions]


def frame_of(direction: Direction, version: int, topics: int) -> bytes:
    """Each topic has one partition with 5,000 bytes of records."""
    records = b"r" * 5_000
    has_name = version < 13
    if direction == Direction.REQUEST:
        data = [{"index": 3, "records": records}]
        name: dict[str, Any] = {"name": "orders"} if has_name else {"topic_id": TOPIC_ID}
        each = [{"partition_data": data, **name}] * topics
        return request_frame("ProduceRequest", version, acks=-1, topic_data=each)
    parts = [{"partition_index": 3, "records": records}]
    name = {"topic": "orders"} if has_name else {"topic_id": TOPIC_ID}
    told = [{"partitions": parts, **name}] * topics
    return answer_frame("FetchResponse", version, responses=told)


@pytest.mark.parametrize(("direction", "version"), PRODUCE + FETCH)
def test_each_version_cut_anywhere(direction: Direction, version: int) -> None:
    api_key = 0 if direction == Direction.REQUEST else 1
    frame, two = frame_of(direction, version, 1), frame_of(direction, version, 2)
    expected = EXPECTED[version >= 13]
    assert single_topic(direction, api_key, version, frame) == expected
    found = [single_topic(direction, api_key, version, frame[:size]) for size in range(8, 200)]
    assert set(found) == {None, expected}
    assert not any(single_topic(direction, api_key, version, two[:size]) for size in (*range(8, 200), len(two)))
    none = frame_of(direction, version, 0)
    assert single_topic(direction, api_key, version, none) is None
    topics = RecentTopics()
    for _ in range(2):
        for each in (frame, two, none, *(frame[:size] for size in range(8, 200))):
            assert topics.find(direction, api_key, version, each) == single_topic(direction, api_key, version, each)


def test_damaged_beginnings_and_other_messages() -> None:
    chance = random.Random(7)
    for direction, version in PRODUCE + FETCH:
        topics = RecentTopics()
        frame = bytearray(frame_of(direction, version, 1)[:BEGINNING])
        for _ in range(300):
            damaged = bytearray(frame)
            for _ in range(3):
                damaged[chance.randrange(4, 120)] = chance.randrange(256)
            about = direction, 0 if direction == Direction.REQUEST else 1, version, bytes(damaged)
            assert single_topic(*about) in (
                topics.find(*about),
                None,
            )  # None: by bytes behind the topic. It raises nothing
    assert single_topic(Direction.REQUEST, 12, 0, bytes(40)) is None


def test_a_name_that_is_no_utf8_is_not_looked_for() -> None:
    frame = frame_of(Direction.REQUEST, 3, 1).replace(b"\0\6orders", b"\0\1\xff")
    assert RecentTopics().find(Direction.REQUEST, 0, 3, frame) == SingleTopic("\ufffd", "")
