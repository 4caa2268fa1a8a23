"""Connections to the new cluster, what is learned of it, offsets, and sending again."""

import asyncio
from typing import Any, cast

import pytest

from kproxy.protocol import ApiKey, message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.cluster import Cluster
from kproxy.replay.learned import Learned
from kproxy.replay.offsets import first_appended
from kproxy.replay.plan import Plan, make_plan
from kproxy.replay.player import Options, Player
from kproxy.replay.result import Outcome
from tests.support.replayed import RecordedBroker, before, recorded, replayed


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
                str(task) for task in asyncio.all_tasks() - own if "replay/link" in str(task) or "answer" in str(task)
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
