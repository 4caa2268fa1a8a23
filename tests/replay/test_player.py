"""Replays to a broker that gives the recorded answers, some of them changed; what a real one gives is in tests/interop."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest

from kproxy.protocol import ApiKey, message
from kproxy.replay.plan import make_plan
from kproxy.replay.player import Options, Player
from kproxy.replay.result import Outcome
from tests.support.replayed import RecordedBroker, before, recorded, replayed


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_recorded_answers_are_the_same(number: int) -> None:
    recording = recorded(number)
    broker = RecordedBroker(recording)
    plan, result = replayed(recording, broker)
    answered = sum(1 for one in plan.sent if one.response is not None)
    assert (result.count(Outcome.SAME), result.differs) == (answered, False)
    sent = Counter((one.api_key, one.request.data[one.request.body_start :]) for one in plan.sent)
    asked = Counter(broker.asked)
    assert {key: count for key, count in sent.items() if asked[key] < count} == {}  # every request, byte for byte


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


def test_a_broker_that_closes_at_a_request_gets_the_others() -> None:
    recording = recorded(1)
    plan, result = replayed(recording, RecordedBroker(recording, close_at=ApiKey.PRODUCE))
    assert result.sent == len(plan.sent)
    [(api, why)] = result.troubles
    assert api == "Produce" and why.endswith("closed the connection")
    assert result.count(Outcome.SAME) == result.sent - 1


def test_a_broker_that_never_answers_a_request() -> None:
    recording = recorded(1)
    _, result = replayed(recording, RecordedBroker(recording, silent_at=ApiKey.JOIN_GROUP), Options(timeout=2.0))
    assert ("JoinGroup", "no answer within 2 s") in result.troubles


def test_an_answer_that_is_no_answer() -> None:
    recording = recorded(1)
    _, result = replayed(
        recording, RecordedBroker(recording, change={ApiKey.FETCH: lambda answer: answer[:5]}), Options(timeout=5.0)
    )
    assert any(why.startswith("an answer that cannot be decoded") for _, why in result.troubles)


def test_it_can_be_ended_and_says_what_was_done() -> None:
    recording = recorded(1)
    broker = RecordedBroker(recording, silent_at=ApiKey.SYNC_GROUP)

    async def work() -> Player:
        async with before(broker) as cluster:
            player = Player(make_plan(recording, cluster))
            playing = asyncio.ensure_future(player.play())
            while not any(api == ApiKey.SYNC_GROUP for api, _ in broker.asked):
                await asyncio.sleep(0.01)
            playing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await playing
            return player

    result = asyncio.run(asyncio.wait_for(work(), 60)).result
    place = next(one.number for one in recording.requests if one.api_key == ApiKey.SYNC_GROUP)
    assert result.sent == place
    assert result.count(Outcome.SAME) == place - 1
