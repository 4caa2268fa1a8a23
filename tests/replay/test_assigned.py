"""Heartbeats of KIP-848: what a member has been told of its partitions, at whichever heartbeat."""

from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.structs import struct_types
from kproxy.replay.assigned import Assigned, go_on
from kproxy.replay.recording import Recorded
from tests.support.replayed import recorded

TYPES = struct_types("ConsumerGroupHeartbeatResponse")
NEW_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def first_told() -> tuple[Recorded, dict[str, str]]:
    """The heartbeat of capture 02 whose answer brings the partitions, and the names of recorded topic ids."""
    recording = recorded(2)
    beats = (one for one in recording.requests if one.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT)
    return next(one for one in beats if one.response is not None and decoded(one).assignment), recording.names


def decoded(one: Recorded) -> Any:
    assert one.response is not None
    return one.response.decode()


def answer(*partitions: int, epoch: int = 1) -> Any:
    """None of them: nothing is told."""
    topics = [TYPES["TopicPartitions"](topic_id=NEW_ID, partitions=list(partitions))]
    told = TYPES["Assignment"](topic_partitions=topics) if partitions else None
    return TYPES["ConsumerGroupHeartbeatResponse"](member_epoch=epoch, member_id="m", assignment=told)


def test_what_was_told_before_or_comes_later_is_the_same() -> None:
    beat, names = first_told()
    [topic] = decoded(beat).assignment.topic_partitions
    assigned = Assigned(names.__getitem__, {NEW_ID: "rdtx"}.__getitem__)
    assert names[topic.topic_id] == "rdtx"  # captures/README.md
    assert not assigned.is_as_recorded(beat, answer())
    assert assigned.is_as_recorded(beat, answer(*topic.partitions))
    assert assigned.is_as_recorded(beat, answer()) and assigned.difference(beat, answer()) is None


def test_others_are_told_and_not_waited_for_again() -> None:
    beat, names = first_told()
    assigned = Assigned(names.__getitem__, {NEW_ID: "rdtx"}.__getitem__)
    assert not assigned.is_as_recorded(beat, answer(77))
    found = assigned.difference(beat, answer())
    assert found is not None and found.new == "rdtx-77" and found.recorded.startswith("rdtx-0")
    assert assigned.is_as_recorded(beat, answer(78))


def test_the_next_heartbeat_of_a_member() -> None:
    beat, _ = first_told()
    body = beat.body()
    go_on(body, answer(epoch=9))
    assert (body.member_epoch, body.member_id) == (9, "m")
