"""Members of before the capture join anew: the exchange of KIP-394, with answers built by hand."""

from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.structs import struct_types
from kproxy.replay.identities import Identities
from kproxy.replay.joining import join_anew, learns_of_rebalance_later
from kproxy.replay.recording import Recorded
from tests.support.replayed import recorded


def answer(error: int, member: str = "") -> Any:
    return struct_types("JoinGroupResponse")["JoinGroupResponse"](error_code=error, member_id=member)


def second_join() -> Recorded:
    """The JoinGroup of capture 01 that carries a member id, and was answered without an error."""
    return next(one for one in recorded(1).requests if one.api_key == ApiKey.JOIN_GROUP and one.body().member_id)


def test_it_joins_as_a_client_would() -> None:
    one, identities = second_join(), Identities()
    member, sent = one.body().member_id, one.body()
    assert join_anew(one, sent, answer(ErrorCode.UNKNOWN_MEMBER_ID), identities) and sent.member_id == ""
    assert join_anew(one, sent, answer(ErrorCode.MEMBER_ID_REQUIRED, "new"), identities) and sent.member_id == "new"
    assert identities.members == {member: "new"}
    assert not join_anew(one, sent, answer(ErrorCode.UNKNOWN_MEMBER_ID), identities)  # once is enough


def test_a_member_that_the_new_cluster_knows_was_put_out_of_its_group() -> None:
    one = second_join()
    identities = Identities(members={one.body().member_id: "new"})
    assert not join_anew(one, one.body(), answer(ErrorCode.UNKNOWN_MEMBER_ID), identities)


def test_the_first_join_and_other_requests() -> None:
    first = next(one for one in recorded(1).requests if one.api_key == ApiKey.JOIN_GROUP)
    assert not join_anew(first, first.body(), answer(ErrorCode.MEMBER_ID_REQUIRED, "new"), Identities())
    other = recorded(1).requests[0]
    assert not join_anew(other, other.body(), answer(ErrorCode.UNKNOWN_MEMBER_ID), Identities())


def test_a_heartbeat_that_is_not_told_of_a_rebalance_as_yet() -> None:
    """Of capture 03, whose members are told three times that others join or leave."""

    def told(error: int) -> Any:
        return struct_types("HeartbeatResponse")["HeartbeatResponse"](error_code=error)

    beats = [one for one in recorded(3).requests if one.api_key == ApiKey.HEARTBEAT]
    late = [one for one in beats if learns_of_rebalance_later(one, told(ErrorCode.NONE))]
    codes = {one.response.decode().error_code for one in late if one.response is not None}  # type: ignore[attr-defined]
    assert 0 < len(late) < len(beats) and codes == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert not any(learns_of_rebalance_later(one, told(ErrorCode.REBALANCE_IN_PROGRESS)) for one in beats)
    assert not learns_of_rebalance_later(recorded(1).requests[0], told(ErrorCode.NONE))
