"""Replays to a broker that gives the recorded answers, some of them changed; what a real one gives is in tests/interop."""

import asyncio
import contextlib
from collections import Counter
from random import Random

import pytest

from kproxy.errors import UpstreamError
from kproxy.protocol import ApiKey
from kproxy.replay.plan import make_plan
from kproxy.replay.player import MOST_SILENT, Options, Player
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


def test_a_broker_that_never_answers_a_request() -> None:
    recording = recorded(1)
    _, result = replayed(recording, RecordedBroker(recording, silent_at=ApiKey.JOIN_GROUP), Options(timeout=2.0))
    assert ("JoinGroup", "no answer within 2 s") in result.troubles


def test_a_cluster_that_goes_away_is_not_waited_for_request_by_request() -> None:
    recording = recorded(3)
    plan, result = replayed(recording, RecordedBroker(recording, gone_after=40))
    assert result.ended == f"{MOST_SILENT} requests in a row were not answered"
    assert 40 <= result.sent < 40 + 2 * MOST_SILENT < len(plan.sent)
    assert result.count(Outcome.NO_ANSWER) >= MOST_SILENT and result.differs


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


@pytest.mark.parametrize("seed", range(8))
def test_answers_with_flipped_bytes(seed: int) -> None:
    """Whatever the answers hold: every request has an outcome, and nothing is raised."""
    chance = Random(seed)

    def flip(answer: bytes) -> bytes:
        changed = bytearray(answer)
        for _ in range(chance.randrange(4) if changed else 0):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)

    recording = recorded((1, 4)[seed % 2])
    own = {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.LIST_OFFSETS,
    }  # what replay itself asks before the first request
    every = dict.fromkeys({one.api_key for one in recording.requests} - own, flip)
    plan, result = replayed(recording, RecordedBroker(recording, change=every, always=True), Options(timeout=20.0))
    assert sum(result.count(outcome) for outcome in Outcome) + sum(result.unsent.values()) == len(plan.sent)


@pytest.mark.parametrize("seed", range(8))
def test_requests_with_flipped_bytes(seed: int) -> None:
    """A capture may hold anything: what can be decoded is sent, the rest is said not to be."""
    chance = Random(seed)
    recording = recorded((1, 2, 4, 5)[seed % 4])
    for one in recording.requests:
        data = bytearray(one.request.data)
        if len(data) > one.request.body_start and chance.random() < 0.5:
            data[chance.randrange(one.request.body_start, len(data))] ^= 1 << chance.randrange(8)
            one.request = one.request.copy(data=bytes(data))
    try:
        plan, result = replayed(recording, RecordedBroker(recording, always=True), Options(timeout=20.0))
    except UpstreamError as error:  # a producer id that nothing gave, and the broker gives no other
        assert str(error).startswith("before the first request: ")
        return
    assert len(plan.sent) + sum(plan.unsent.values()) == len(recording.requests)
    assert sum(result.count(outcome) for outcome in Outcome) + sum(result.unsent.values()) == len(plan.sent)
