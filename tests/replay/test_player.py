"""Replays to a broker that gives the recorded answers, some of them changed; what a real one gives is in tests/interop."""

import asyncio
import contextlib
from collections import Counter
from random import Random
from typing import Any, cast

import pytest

from kproxy.errors import UpstreamError
from kproxy.protocol import ApiKey, message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.cluster import Cluster
from kproxy.replay.learned import Learned
from kproxy.replay.plan import Plan, make_plan
from kproxy.replay.player import MOST_SILENT, Options, Order, Player
from kproxy.replay.preparing import first_appended
from kproxy.replay.result import Outcome, Result
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
    _, result = replayed(recording, RecordedBroker(recording, silent_at=ApiKey.JOIN_GROUP), Options(timeout=1.0))
    assert ("JoinGroup", "no answer within 1 s") in result.troubles


def test_a_cluster_that_goes_away_is_not_waited_for_request_by_request() -> None:
    recording = recorded(3)
    plan, result = replayed(recording, RecordedBroker(recording, gone_after=40))
    assert result.ended == f"{MOST_SILENT} requests in a row were not answered"
    assert 40 <= result.sent < 40 + 2 * MOST_SILENT < len(plan.sent)
    assert result.count(Outcome.NO_ANSWER) >= MOST_SILENT and result.differs


def test_an_answer_that_is_no_answer() -> None:
    recording = recorded(1)
    _, result = replayed(
        recording, RecordedBroker(recording, change={ApiKey.FETCH: lambda answer: answer[:5]}), Options(timeout=1.0)
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


def test_a_broker_that_closes_at_a_request_gets_the_others() -> None:
    recording = recorded(1)
    plan, result = replayed(recording, RecordedBroker(recording, close_at=ApiKey.PRODUCE))
    assert result.sent == len(plan.sent)
    [(api, why)] = result.troubles
    assert api == "Produce" and why.endswith("closed the connection")
    assert result.count(Outcome.SAME) == result.sent - 1


def test_each_recorded_connection_is_one() -> None:
    recording = recorded(1)
    plan, result = replayed(recording, RecordedBroker(recording))
    assert result.connections == len({one.connection for one in plan.sent})


def test_no_task_and_no_link_is_left() -> None:
    recording = recorded(1)

    async def work() -> set[str]:
        async with before(RecordedBroker(recording)) as cluster:
            own = asyncio.all_tasks()
            await Player(make_plan(recording, cluster)).play()
            await asyncio.sleep(0)  # until what was cancelled has ended
            # the broker's side of each connection ends by itself
            return {
                str(task)
                for task in asyncio.all_tasks() - own
                if "replay/cluster" in str(task) or "answer" in str(task)
            }

    assert asyncio.run(asyncio.wait_for(work(), 60)) == set()


NEW = "1f1b6a51-5ac5-4a3e-8f3b-1d7f6a1f2c3d"


def test_topics_by_the_new_cluster_s_ids() -> None:
    recording = recorded(1)
    [old] = [topic_id for topic_id, name in recording.names.items() if name == "orders"]
    learned = Learned(Plan(recording, cast(Cluster, None)))
    assert (learned.names(), learned.name(NEW)) == ({}, NEW)
    learned.identities.uuids[old] = NEW
    assert (learned.names(), learned.ids(), learned.name(NEW)) == ({NEW: "orders"}, {"orders": NEW}, "orders")


def test_sessions_are_those_of_the_recorded_connection() -> None:
    recording = recorded(1)
    learned = Learned(Plan(recording, cast(Cluster, None)))
    first = recording.requests[0]
    other: Any = next(one for one in recording.requests if one.connection != first.connection)
    assert learned.fetch_sessions(first) is learned.fetch_sessions(first) is not learned.fetch_sessions(other)
    assert learned.share_sessions(first) is learned.share_sessions(first) is not learned.share_sessions(other)


MORE = 1_000


def test_the_first_offset_of_each_partition() -> None:
    """Capture 01 begins with an empty topic of three partitions; capture 10 with one that has records (captures/README.md)."""
    assert first_appended(recorded(1), recorded(1).requests) == {("orders", number): 0 for number in range(3)}
    assert min(first_appended(recorded(10), recorded(10).requests).values()) > 0


def test_requests_and_answers_move_with_the_log() -> None:
    """Every offset is more by as much as there is already; the consumer asks for, and commits, what the producer wrote."""

    def appended(answer: bytes) -> bytes:
        decoded: Any = message("ProduceResponse").decode(13, answer)
        for partition in decoded.responses[0].partition_responses:
            partition.base_offset += MORE
        return message("ProduceResponse").encode(13, decoded)

    recording = recorded(1)
    broker = RecordedBroker(recording, change={ApiKey.PRODUCE: appended}, more=MORE, always=True)
    _, result = replayed(recording, broker)
    assert not [api for api, *_ in result.differences if api == "Produce"]
    commits = [
        message("OffsetCommitRequest").decode(9, body) for api, body in broker.asked if api == ApiKey.OFFSET_COMMIT
    ]
    offsets = [p.committed_offset for one in commits for topic in one.topics for p in topic.partitions]  # type: ignore[attr-defined]
    written = [one for one in recording.requests if one.api_key == ApiKey.OFFSET_COMMIT]
    before = [p.committed_offset for one in written for topic in one.body().topics for p in topic.partitions]
    assert offsets == [offset + MORE for offset in before] and sum(before) == 200  # captures/README.md


def refused(times: int, error: int, options: Options = Options()) -> tuple[Plan, Result]:  # noqa: B008 - frozen
    """Replay capture 01 to a broker that answers the first Produce requests with that error."""
    left = [times]

    def change(answer: bytes) -> bytes:
        if left[0]:
            left[0] -= 1
            decoded: Any = message("ProduceResponse").decode(13, answer)
            for one in (one for topic in decoded.responses for one in topic.partition_responses):
                one.error_code = error
            answer = message("ProduceResponse").encode(13, decoded)
        return answer

    recording = recorded(1)
    return replayed(recording, RecordedBroker(recording, change={ApiKey.PRODUCE: change}), options)


@pytest.mark.parametrize("times", [1, 3])
def test_a_produce_that_was_not_appended_is_sent_again(times: int) -> None:
    plan, result = refused(times, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (result.repeated, result.differs, result.count(Outcome.SAME)) == (times, False, len(plan.sent))


def test_an_error_that_says_something_else_is_told_at_once() -> None:
    _, result = refused(1, ErrorCode.INVALID_RECORD)
    assert (result.repeated, result.count(Outcome.DIFFERENT)) == (0, 1)


def test_one_that_is_never_ready_is_not_asked_for_ever() -> None:
    _, result = refused(1_000_000, ErrorCode.NOT_LEADER_OR_FOLLOWER, Options(timeout=0.5))
    assert 0 < result.repeated < 100 and result.differs
    assert {(api, new) for api, _, _, new in result.differences} >= {("Produce", "NOT_LEADER_OR_FOLLOWER")}


MS = 1_000_000


def test_at_the_times_they_had() -> None:
    now = [100.0]
    order = Order(1.0, 50 * MS, lambda: now[0])
    assert order.due_in(50 * MS) == 0
    assert abs(order.due_in(550 * MS) - 0.5) < 1e-9
    now[0] = 100.6
    assert order.due_in(550 * MS) == 0


def test_by_a_factor_and_without_waiting() -> None:
    assert abs(Order(10.0, 0, lambda: 0.0).due_in(500 * MS) - 0.05) < 1e-9
    assert Order(None, 0, lambda: 0.0).due_in(500_000 * MS) == 0


def test_what_brokers_hold_together_does_not_wait_for_each_other() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        order, answered = Order(None, 0, loop.time), loop.create_future()
        order.add(10, answered, "generation 1 of g")
        await order.wait(20, "generation 1 of g")
        waiting = asyncio.ensure_future(order.wait(20, "generation 1 of h"))
        await asyncio.sleep(0)
        assert not waiting.done()
        answered.set_result(None)
        await waiting

    asyncio.run(work())


def test_after_the_answers_that_came_before_it() -> None:
    async def work() -> None:
        order = Order(None, 0, asyncio.get_running_loop().time)
        loop = asyncio.get_running_loop()
        early, late = loop.create_future(), loop.create_future()
        order.add(30, late)
        order.add(10, early)
        await order.wait(9)  # sent before either was answered
        waiting = asyncio.ensure_future(order.wait(20))
        await asyncio.sleep(0)
        assert not waiting.done()
        early.set_result(None)
        await waiting
        everything = asyncio.ensure_future(order.wait_for_all())
        await asyncio.sleep(0)
        assert not everything.done()
        late.set_result(None)
        await everything

    asyncio.run(work())
