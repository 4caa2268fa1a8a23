"""Answers of the new cluster beside the recorded ones: what differs is told with its place, what was not recorded is counted."""

from typing import Any

from kproxy.protocol import ApiKey, message
from kproxy.replay.result import Outcome
from tests.support.replayed import RecordedBroker, recorded, replayed


def test_a_difference_is_told_with_its_place() -> None:
    def later(answer: bytes) -> bytes:
        decoded: Any = message("ProduceResponse").decode(13, answer)
        decoded.responses[0].partition_responses[0].base_offset = 99
        return message("ProduceResponse").encode(13, decoded)

    recording = recorded(1)
    _, result = replayed(recording, RecordedBroker(recording, change={ApiKey.PRODUCE: later}))
    assert result.count(Outcome.DIFFERENT) == 1
    [(api, path, old, new)] = result.differences
    assert (api, path, old, new) == ("Produce", "responses.partitionResponses.baseOffset", "0", "99")


def test_an_answer_that_was_not_recorded_is_compared_with_nothing() -> None:
    recording = recorded(1)
    broker = RecordedBroker(recording)
    produce = next(one for one in recording.requests if one.api_key == ApiKey.PRODUCE)
    produce.response = produce.answered_at = None
    plan, result = replayed(recording, broker)
    assert (result.count(Outcome.NOT_RECORDED), result.differs) == (1, False)
    assert result.count(Outcome.SAME) == len(plan.sent) - 1
