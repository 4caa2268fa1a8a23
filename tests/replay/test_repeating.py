"""Requests that are sent again while the new cluster is not ready, until it is; and none that would be appended twice."""

from typing import Any

import pytest

from kproxy.protocol import ApiKey, message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.player import Options
from kproxy.replay.result import Outcome
from tests.support.replayed import RecordedBroker, recorded, replayed


def refusing(name: str, version: int, times: int, error: int, *, partitions: int | None = None) -> Any:
    """Make of the first answers ones with that error, in so many of their partitions; all: None."""
    left = [times]

    def change(answer: bytes) -> bytes:
        if not left[0]:
            return answer
        left[0] -= 1
        decoded: Any = message(name).decode(version, answer)
        every = [one for topic in decoded.responses for one in topic.partition_responses]
        for one in every[:partitions]:
            one.error_code = error
        return message(name).encode(version, decoded)

    return change


@pytest.mark.parametrize("times", [1, 3])
def test_a_produce_that_was_not_appended_is_sent_again(times: int) -> None:
    recording = recorded(1)
    [version] = {one.api_version for one in recording.requests if one.api_key == ApiKey.PRODUCE}
    change = refusing("ProduceResponse", version, times, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    plan, result = replayed(recording, RecordedBroker(recording, change={ApiKey.PRODUCE: change}))
    assert (result.repeated, result.differs, result.count(Outcome.SAME)) == (times, False, len(plan.sent))


def test_an_error_that_says_something_else_is_told_at_once() -> None:
    recording = recorded(1)
    [version] = {one.api_version for one in recording.requests if one.api_key == ApiKey.PRODUCE}
    change = refusing("ProduceResponse", version, 1, ErrorCode.INVALID_RECORD)
    _, result = replayed(recording, RecordedBroker(recording, change={ApiKey.PRODUCE: change}))
    assert (result.repeated, result.count(Outcome.DIFFERENT)) == (0, 1)


def test_one_that_is_never_ready_is_not_asked_for_ever() -> None:
    recording = recorded(1)
    [version] = {one.api_version for one in recording.requests if one.api_key == ApiKey.PRODUCE}
    change = refusing("ProduceResponse", version, 1_000_000, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    _, result = replayed(recording, RecordedBroker(recording, change={ApiKey.PRODUCE: change}), Options(timeout=0.5))
    assert 0 < result.repeated < 100 and result.differs
    assert {(api, new) for api, _, _, new in result.differences} >= {("Produce", "NOT_LEADER_OR_FOLLOWER")}
