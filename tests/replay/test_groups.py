"""Members of one recorded generation are brought into one generation again, and join anew as clients do (KIP-394)."""

import asyncio
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.groups import Generations, held_generation, join_anew, learns_of_rebalance_later, sent_together
from kproxy.replay.identities import Identities
from kproxy.replay.recording import Recorded
from tests.support.messages import make
from tests.support.replayed import recorded

PATIENCE_S = 20.0


def joined(generation: int, member: str = "new", leader: str = "new", error: int = 0) -> Any:
    return make("JoinGroupResponse", generation_id=generation, member_id=member, leader=leader, error_code=error)


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
        alone = asyncio.ensure_future(generations.is_settled(first, joined(1), PATIENCE_S))
        await asyncio.sleep(0)
        assert not alone.done()  # the second has not been sent
        generations.note_sent(second)
        again = await alone
        both = [generations.is_settled(one, joined(2), PATIENCE_S) for one in (first, second)]
        return [again, *await asyncio.gather(*both)]

    assert asyncio.run(work()) == [False, True, True]


def test_nothing_is_waited_for_that_does_not_come() -> None:
    first, second = joins(2)

    async def work(generations: Generations) -> bool:
        generations.note_sent(first)
        generations.note_end(second)  # refused, or its connection broke
        return await generations.is_settled(first, joined(1), PATIENCE_S)

    assert asyncio.run(work(Generations([first, second])))


def test_members_that_were_alone_and_refusals_are_settled() -> None:
    [only] = joins(1)
    first, second = joins(2)
    generations = Generations([only, first, second])
    assert asyncio.run(generations.is_settled(only, joined(7), PATIENCE_S))
    assert asyncio.run(generations.is_settled(first, joined(-1, error=79), PATIENCE_S))


def test_the_new_leader_brings_the_recorded_assignments() -> None:
    requests = recorded(3).requests
    syncs = [one.body() for one in requests if one.api_key == ApiKey.SYNC_GROUP and one.body().generation_id == 2]
    [of_leader] = [body for body in syncs if body.assignments]
    [of_follower] = [body for body in syncs if not body.assignments]
    generations = Generations(requests)
    assert not generations.assign(of_follower)  # as long as it does not lead
    follower = next(one for one in joins(2) if decoded(one).member_id == of_follower.member_id)
    generations.note_leader(follower, decoded(follower), joined(5))
    assert generations.assign(of_follower) and of_follower.assignments == of_leader.assignments
    assert len(of_leader.assignments) == 2


def refused(error: int, member: str = "") -> Any:
    return make("JoinGroupResponse", error_code=error, member_id=member)


def second_join() -> Recorded:
    """The JoinGroup of capture 01 that carries a member id, and was answered without an error."""
    return next(one for one in recorded(1).requests if one.api_key == ApiKey.JOIN_GROUP and one.body().member_id)


def test_it_joins_as_a_client_would() -> None:
    one, identities = second_join(), Identities()
    member, sent = one.body().member_id, one.body()
    assert join_anew(one, sent, refused(ErrorCode.UNKNOWN_MEMBER_ID), identities) and sent.member_id == ""
    assert join_anew(one, sent, refused(ErrorCode.MEMBER_ID_REQUIRED, "new"), identities) and sent.member_id == "new"
    assert identities.members == {member: "new"}
    assert not join_anew(one, sent, refused(ErrorCode.UNKNOWN_MEMBER_ID), identities)  # once is enough


def test_a_member_that_the_new_cluster_knows_was_put_out_of_its_group() -> None:
    one = second_join()
    identities = Identities(members={one.body().member_id: "new"})
    assert not join_anew(one, one.body(), refused(ErrorCode.UNKNOWN_MEMBER_ID), identities)


def test_the_first_join_and_other_requests() -> None:
    first = next(one for one in recorded(1).requests if one.api_key == ApiKey.JOIN_GROUP)
    assert not join_anew(first, first.body(), refused(ErrorCode.MEMBER_ID_REQUIRED, "new"), Identities())
    other = recorded(1).requests[0]
    assert not join_anew(other, other.body(), refused(ErrorCode.UNKNOWN_MEMBER_ID), Identities())


def test_a_heartbeat_that_is_not_told_of_a_rebalance_as_yet() -> None:
    """Of capture 03, whose members are told three times that others join or leave."""

    def told(error: int) -> Any:
        return make("HeartbeatResponse", error_code=error)

    beats = [one for one in recorded(3).requests if one.api_key == ApiKey.HEARTBEAT]
    late = [one for one in beats if learns_of_rebalance_later(one, told(ErrorCode.NONE))]
    codes = {one.response.decode().error_code for one in late if one.response is not None}  # type: ignore[attr-defined]
    assert 0 < len(late) < len(beats) and codes == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert not any(learns_of_rebalance_later(one, told(ErrorCode.REBALANCE_IN_PROGRESS)) for one in beats)
    assert not learns_of_rebalance_later(recorded(1).requests[0], told(ErrorCode.NONE))


def test_those_of_a_generation_stand_beside_each_other() -> None:
    """In the capture a member is answered before another one asks, and goes on."""
    before = recorded(3).requests
    after = sent_together(before)
    assert sorted(one.number for one in after) == sorted(one.number for one in before)
    asked = [one for one in after if one.api_key == ApiKey.SYNC_GROUP]
    assert len(asked) == 8
    for one in asked:
        same = [place for place, other in enumerate(after) if held_generation(other) == held_generation(one)]
        assert same == list(range(same[0], same[-1] + 1))
    for connection in {one.connection for one in before}:
        order = [[one.number for one in some if one.connection == connection] for some in (before, after)]
        assert order[0] == order[1]  # of a connection, what was sent first is sent first


def test_of_other_requests_nothing_is_held() -> None:
    assert {held_generation(one) for one in recorded(1).requests if one.api_key != ApiKey.SYNC_GROUP} == {""}
