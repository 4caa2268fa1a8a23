"""Transactions and members that requests begin and end; against a real broker's view in tests/interop/test_replay.py."""

from typing import Any

import pytest

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.structs import struct_types
from kproxy.replay.left_open import LeftOpen
from kproxy.replay.result import Outcome
from tests.support.replayed import RecordedBroker, recorded, replayed


def made(message: str, **fields: Any) -> Any:
    """A message with these fields."""
    return struct_types(message)[message](**fields)


def answered(found: LeftOpen, api_key: int, body: Any, answer: Any) -> None:
    """A request that is sent and answered."""
    found.note_sent(1, api_key, body)
    found.note_answer(1, api_key, body, answer)


def opened(found: LeftOpen) -> tuple[list[str], list[tuple[str, str]]]:
    """Transactional ids, and group with member id."""
    return [name for name, _ in found.transactions()], [member for member, _ in found.members()]


def begun() -> LeftOpen:
    """With a transaction of "tx"."""
    found = LeftOpen()
    answered(
        found,
        ApiKey.ADD_OFFSETS_TO_TXN,
        made("AddOffsetsToTxnRequest", transactional_id="tx"),
        made("AddOffsetsToTxnResponse"),
    )
    assert opened(found) == (["tx"], [])
    return found


def partitions(error: int) -> Any:
    """The answer to AddPartitionsToTxn of a client: one partition, with that error."""
    types = struct_types("AddPartitionsToTxnResponse")
    one = types["AddPartitionsToTxnPartitionResult"](partition_error_code=error)
    topic = types["AddPartitionsToTxnTopicResult"](results_by_partition=[one])
    return made("AddPartitionsToTxnResponse", results_by_topic_v3_and_below=[topic])


@pytest.mark.parametrize(
    ("error", "expected"), [(ErrorCode.NONE, ["tx"]), (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, [])]
)
def test_a_transaction_is_open_where_a_partition_was_added(error: int, expected: list[str]) -> None:
    found = LeftOpen()
    body = made("AddPartitionsToTxnRequest", v3_and_below_transactional_id="tx")
    answered(found, ApiKey.ADD_PARTITIONS_TO_TXN, body, partitions(error))
    assert opened(found) == (expected, [])


def test_a_request_that_was_not_answered_may_have_begun_one() -> None:
    found = LeftOpen()
    found.note_sent(1, ApiKey.PRODUCE, made("ProduceRequest", transactional_id="tx"))
    found.note_sent(2, ApiKey.PRODUCE, made("ProduceRequest"))  # in no transaction
    found.note_sent(3, ApiKey.JOIN_GROUP, made("JoinGroupRequest", group_id="g"))
    assert [(name, one.certain) for name, one in found.transactions()] == [("tx", False)]
    assert [(member, one.certain) for member, one in found.members()] == [(("g", ""), False)]


@pytest.mark.parametrize(("error", "expected"), [(ErrorCode.NONE, []), (ErrorCode.CONCURRENT_TRANSACTIONS, ["tx"])])
def test_a_transaction_ends_where_the_coordinator_says_so(error: int, expected: list[str]) -> None:
    found = begun()
    answered(
        found, ApiKey.END_TXN, made("EndTxnRequest", transactional_id="tx"), made("EndTxnResponse", error_code=error)
    )
    assert opened(found)[0] == expected
    found = begun()
    init = made("InitProducerIdRequest", transactional_id="tx")  # aborts what is open
    answered(found, ApiKey.INIT_PRODUCER_ID, init, made("InitProducerIdResponse", error_code=error))
    assert opened(found)[0] == expected


def joined(**fields: Any) -> LeftOpen:
    """With a member "m" of group "g"."""
    found = LeftOpen()
    body = made("JoinGroupRequest", group_id="g", session_timeout_ms=45_000, **fields)
    answered(found, ApiKey.JOIN_GROUP, body, made("JoinGroupResponse", member_id="m"))
    assert opened(found) == ([], [("g", "m")])
    return found


def test_members_leave() -> None:
    identity = struct_types("LeaveGroupRequest")["MemberIdentity"]
    for left in (
        made("LeaveGroupRequest", group_id="g", member_id="m"),
        made("LeaveGroupRequest", group_id="g", members=[identity(member_id="m")]),
        made("LeaveGroupRequest", group_id="g", members=[identity(group_instance_id="static")]),
    ):
        found = joined(group_instance_id="static")
        answered(found, ApiKey.LEAVE_GROUP, left, made("LeaveGroupResponse"))
        assert opened(found) == ([], [])
    found = joined()
    for nobody in (made("LeaveGroupRequest", group_id="g"), made("LeaveGroupRequest", group_id="h", member_id="m")):
        answered(found, ApiKey.LEAVE_GROUP, nobody, made("LeaveGroupResponse"))
    assert opened(found) == ([], [("g", "m")])


def test_members_that_the_coordinator_has_removed() -> None:
    found = joined()
    body = made("HeartbeatRequest", group_id="g", member_id="m")
    answered(found, ApiKey.HEARTBEAT, body, made("HeartbeatResponse"))
    assert opened(found) == ([], [("g", "m")])
    answered(found, ApiKey.HEARTBEAT, body, made("HeartbeatResponse", error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert opened(found) == ([], [])


def test_a_static_member_takes_the_place_of_the_one_before() -> None:
    found = joined(group_instance_id="static")
    body = made("JoinGroupRequest", group_id="g", group_instance_id="static")
    answered(found, ApiKey.JOIN_GROUP, body, made("JoinGroupResponse", member_id="n"))
    assert opened(found) == ([], [("g", "n")])


@pytest.mark.parametrize("name", ["ConsumerGroup", "ShareGroup", "StreamsGroup"])
def test_members_by_heartbeats(name: str) -> None:
    api_key = {"C": ApiKey.CONSUMER_GROUP_HEARTBEAT, "S": ApiKey.SHARE_GROUP_HEARTBEAT}[name[0]]
    api_key = ApiKey.STREAMS_GROUP_HEARTBEAT if name == "StreamsGroup" else api_key
    found = LeftOpen()
    for epoch, expected in ((0, [("g", "m")]), (1, [("g", "m")]), (-1, [])):
        body = made(f"{name}HeartbeatRequest", group_id="g", member_id="m", member_epoch=epoch)
        answered(found, api_key, body, made(f"{name}HeartbeatResponse", member_id="m", member_epoch=max(epoch, -1)))
        assert opened(found) == ([], expected)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_workloads_that_end_what_they_begin_leave_nothing_open(number: int) -> None:
    recording = recorded(number)
    _, result = replayed(recording, RecordedBroker(recording))
    assert opened(result.left_open) == ([], []) and not result.awaited and not result.not_reached
    assert result.planned == result.sent == sum(map(result.count, Outcome))
