"""Members of one recorded generation are brought into one generation again; its leader brings what the recorded one brought."""

import asyncio
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.structs import struct_types
from kproxy.replay.generations import Generations
from kproxy.replay.recording import Recorded
from tests.support.replayed import recorded

PATIENCE_S = 20.0


def answer(generation: int, member: str = "new", leader: str = "new", error: int = 0) -> Any:
    types = struct_types("JoinGroupResponse")
    return types["JoinGroupResponse"](generation_id=generation, member_id=member, leader=leader, error_code=error)


def joins(generation: int) -> list[Recorded]:
    """The JoinGroup requests of capture 03 that were answered with that generation."""
    found = (one for one in recorded(3).requests if one.api_key == ApiKey.JOIN_GROUP and one.response is not None)
    return [one for one in found if one.response is not None and decoded(one).generation_id == generation]


def decoded(one: Recorded) -> Any:
    assert one.response is not None
    return one.response.decode()


def test_one_that_was_answered_alone_joins_again_when_another_is_held() -> None:
    """Two members were answered together; the new coordinator answers the first at once, alone."""
    first, second = joins(2)
    generations = Generations([first, second])

    async def work() -> list[bool]:
        generations.note_sent(first)
        alone = asyncio.ensure_future(generations.is_settled(first, answer(1), PATIENCE_S))
        await asyncio.sleep(0)
        assert not alone.done()  # the second has not been sent
        generations.note_sent(second)
        again = await alone
        both = [generations.is_settled(one, answer(2), PATIENCE_S) for one in (first, second)]
        return [again, *await asyncio.gather(*both)]

    assert asyncio.run(work()) == [False, True, True]


def test_nothing_is_waited_for_that_does_not_come() -> None:
    first, second = joins(2)

    async def work(generations: Generations) -> bool:
        generations.note_sent(first)
        generations.note_end(second)  # refused, or its connection broke
        return await generations.is_settled(first, answer(1), PATIENCE_S)

    assert asyncio.run(work(Generations([first, second])))


def test_members_that_were_alone_and_refusals_are_settled() -> None:
    [only] = joins(1)
    first, second = joins(2)
    generations = Generations([only, first, second])
    assert asyncio.run(generations.is_settled(only, answer(7), PATIENCE_S))
    assert asyncio.run(generations.is_settled(first, answer(-1, error=79), PATIENCE_S))


def test_the_new_leader_brings_the_recorded_assignments() -> None:
    requests = recorded(3).requests
    syncs = [one.body() for one in requests if one.api_key == ApiKey.SYNC_GROUP and one.body().generation_id == 2]
    [of_leader] = [body for body in syncs if body.assignments]
    [of_follower] = [body for body in syncs if not body.assignments]
    generations = Generations(requests)
    assert not generations.assign(of_follower)  # as long as it does not lead
    follower = next(one for one in joins(2) if decoded(one).member_id == of_follower.member_id)
    generations.note_leader(follower, decoded(follower), answer(5))
    assert generations.assign(of_follower) and of_follower.assignments == of_leader.assignments
    assert len(of_leader.assignments) == 2
