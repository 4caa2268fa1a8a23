"""Plan and result as text and JSON; what a replay leaves open, against a real broker's view in tests/interop/test_replay.py."""

import json
from pathlib import Path
from typing import Any

import pytest

from kproxy.protocol import ApiKey, message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.comparing import Difference, LeftOut
from kproxy.replay.effects import Verb
from kproxy.replay.explaining import SPOKEN
from kproxy.replay.plan import Plan, make_plan
from kproxy.replay.recording import read_recording
from kproxy.replay.report import left_open_lines, left_open_object, plan_lines, plan_object, result_lines, result_object
from kproxy.replay.result import MOST_EXAMPLES, LeftOpen, Outcome, Result, which
from tests.replay.test_plan import cluster
from tests.support.messages import make
from tests.support.replayed import RecordedBroker, capture, recorded, replayed
from tests.support.secrets_block import without_secrets


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
        make("AddOffsetsToTxnRequest", transactional_id="tx"),
        make("AddOffsetsToTxnResponse"),
    )
    assert opened(found) == (["tx"], [])
    return found


def partitions(error: int) -> Any:
    """The answer to AddPartitionsToTxn of a client: one partition, with that error."""
    topic = {"results_by_partition": [{"partition_error_code": error}]}
    return make("AddPartitionsToTxnResponse", results_by_topic_v3_and_below=[topic])


@pytest.mark.parametrize(
    ("error", "expected"), [(ErrorCode.NONE, ["tx"]), (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, [])]
)
def test_a_transaction_is_open_where_a_partition_was_added(error: int, expected: list[str]) -> None:
    found = LeftOpen()
    body = make("AddPartitionsToTxnRequest", v3_and_below_transactional_id="tx")
    answered(found, ApiKey.ADD_PARTITIONS_TO_TXN, body, partitions(error))
    assert opened(found) == (expected, [])


def test_a_request_that_was_not_answered_may_have_begun_one() -> None:
    found = LeftOpen()
    found.note_sent(1, ApiKey.PRODUCE, make("ProduceRequest", transactional_id="tx"))
    found.note_sent(2, ApiKey.PRODUCE, make("ProduceRequest"))  # in no transaction
    found.note_sent(3, ApiKey.JOIN_GROUP, make("JoinGroupRequest", group_id="g"))
    assert [(name, one.certain) for name, one in found.transactions()] == [("tx", False)]
    assert [(member, one.certain) for member, one in found.members()] == [(("g", ""), False)]


@pytest.mark.parametrize(("error", "expected"), [(ErrorCode.NONE, []), (ErrorCode.CONCURRENT_TRANSACTIONS, ["tx"])])
def test_a_transaction_ends_where_the_coordinator_says_so(error: int, expected: list[str]) -> None:
    found = begun()
    answered(
        found, ApiKey.END_TXN, make("EndTxnRequest", transactional_id="tx"), make("EndTxnResponse", error_code=error)
    )
    assert opened(found)[0] == expected
    found = begun()
    init = make("InitProducerIdRequest", transactional_id="tx")  # aborts what is open
    answered(found, ApiKey.INIT_PRODUCER_ID, init, make("InitProducerIdResponse", error_code=error))
    assert opened(found)[0] == expected


def joined(**fields: Any) -> LeftOpen:
    """With a member "m" of group "g"."""
    found = LeftOpen()
    body = make("JoinGroupRequest", group_id="g", session_timeout_ms=45_000, **fields)
    answered(found, ApiKey.JOIN_GROUP, body, make("JoinGroupResponse", member_id="m"))
    assert opened(found) == ([], [("g", "m")])
    return found


def test_members_leave() -> None:
    for left in (
        make("LeaveGroupRequest", group_id="g", member_id="m"),
        make("LeaveGroupRequest", group_id="g", members=[{"member_id": "m"}]),
        make("LeaveGroupRequest", group_id="g", members=[{"group_instance_id": "static"}]),
    ):
        found = joined(group_instance_id="static")
        answered(found, ApiKey.LEAVE_GROUP, left, make("LeaveGroupResponse"))
        assert opened(found) == ([], [])
    found = joined()
    for nobody in (make("LeaveGroupRequest", group_id="g"), make("LeaveGroupRequest", group_id="h", member_id="m")):
        answered(found, ApiKey.LEAVE_GROUP, nobody, make("LeaveGroupResponse"))
    assert opened(found) == ([], [("g", "m")])


def test_members_that_the_coordinator_has_removed() -> None:
    found = joined()
    body = make("HeartbeatRequest", group_id="g", member_id="m")
    answered(found, ApiKey.HEARTBEAT, body, make("HeartbeatResponse"))
    assert opened(found) == ([], [("g", "m")])
    answered(found, ApiKey.HEARTBEAT, body, make("HeartbeatResponse", error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert opened(found) == ([], [])


def test_a_static_member_takes_the_place_of_the_one_before() -> None:
    found = joined(group_instance_id="static")
    body = make("JoinGroupRequest", group_id="g", group_instance_id="static")
    answered(found, ApiKey.JOIN_GROUP, body, make("JoinGroupResponse", member_id="n"))
    assert opened(found) == ([], [("g", "n")])


@pytest.mark.parametrize("name", ["ConsumerGroup", "ShareGroup", "StreamsGroup"])
def test_members_by_heartbeats(name: str) -> None:
    api_key = {"C": ApiKey.CONSUMER_GROUP_HEARTBEAT, "S": ApiKey.SHARE_GROUP_HEARTBEAT}[name[0]]
    api_key = ApiKey.STREAMS_GROUP_HEARTBEAT if name == "StreamsGroup" else api_key
    found = LeftOpen()
    for epoch, expected in ((0, [("g", "m")]), (1, [("g", "m")]), (-1, [])):
        body = make(f"{name}HeartbeatRequest", group_id="g", member_id="m", member_epoch=epoch)
        answered(found, api_key, body, make(f"{name}HeartbeatResponse", member_id="m", member_epoch=max(epoch, -1)))
        assert opened(found) == ([], expected)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_workloads_that_end_what_they_begin_leave_nothing_open(number: int) -> None:
    recording = recorded(number)
    _, result = replayed(recording, RecordedBroker(recording))
    assert opened(result.left_open) == ([], []) and not result.awaited and not result.not_reached
    assert result.planned == result.sent == sum(map(result.count, Outcome))


def test_nothing() -> None:
    assert list(left_open_lines(LeftOpen())) == []
    assert left_open_object(LeftOpen()) == {"transactions": [], "members": []}


def test_lines_and_object() -> None:
    found = LeftOpen()
    init = make("InitProducerIdRequest", transactional_id="tx-1", transaction_timeout_ms=60_000)
    answered(found, ApiKey.INIT_PRODUCER_ID, init, make("InitProducerIdResponse"))
    offsets = make("AddOffsetsToTxnRequest", transactional_id="tx-1")
    answered(found, ApiKey.ADD_OFFSETS_TO_TXN, offsets, make("AddOffsetsToTxnResponse"))
    for member in ("a", "b"):
        join = make("JoinGroupRequest", group_id="g", session_timeout_ms=45_000)
        answered(found, ApiKey.JOIN_GROUP, join, make("JoinGroupResponse", member_id=member))
    found.note_sent(
        9,
        ApiKey.ADD_OFFSETS_TO_TXN,
        make("AddOffsetsToTxnRequest", transactional_id="tx-2"),
    )
    assert list(left_open_lines(found)) == [
        "the transaction of tx-1, which its coordinator aborts after the producer's transaction.timeout.ms (60 s)",
        "perhaps, as a request was not answered: the transaction of tx-2, which its coordinator aborts after the producer's"
        " transaction.timeout.ms",
        "2 members of group g: its coordinator removes them after the session timeout (45 s)",
    ]
    assert left_open_object(found) == {
        "transactions": [
            {"transactionalId": "tx-1", "timeoutMs": 60_000, "certain": True},
            {"transactionalId": "tx-2", "timeoutMs": None, "certain": False},
        ],
        "members": [
            {"groupId": "g", "memberId": member, "sessionTimeoutMs": 45_000, "certain": True} for member in ("a", "b")
        ],
    }


def planned(number: int) -> Plan:
    return make_plan(recorded(number), cluster())


def test_a_plan() -> None:
    lines = list(plan_lines(planned(1), dry=True))
    assert lines[0] == "23 requests on 5 connections, recorded over 3.15 s"
    assert "  would write  topic orders: 200 records, 36,778 bytes" in lines
    assert any("--create-topics creates them first" in line for line in lines)


def test_a_plan_that_is_carried_out() -> None:
    plan = planned(4)
    plan.create_topics = True
    lines = list(plan_lines(plan, dry=False))
    assert "  first create topic tx: 2 partitions, 1 replica" in lines
    assert any(line.startswith("  will write") for line in lines)
    assert (
        "  not sent     12 AddPartitionsToTxn, 2 ApiVersions, 5 WriteTxnMarkers: what brokers and controllers say to each other"
        in lines
    )


def test_why_there_is_nothing_to_send(tmp_path: Path) -> None:
    """TLS connections that lack the same are one line, whatever was sent on each."""
    bare = tmp_path / "bare.pcapng"
    bare.write_bytes(without_secrets(capture(7).read_bytes())[0])
    lines = "\n".join(plan_lines(make_plan(read_recording([bare]), cluster()), dry=True))
    assert "  nothing      no request was recorded" in lines
    assert lines.count("connection without Kafka") == 1
    assert "5 × connection without Kafka: tls: not decrypted" in lines and "--keylog FILE" in lines


def test_names_that_a_terminal_would_obey() -> None:
    plan = planned(1)
    plan.effects.note(Verb.WRITE, "topic \x1b[2J\u202e", records=1)
    assert all(line.isprintable() for line in plan_lines(plan, dry=True))


def result() -> Result:
    found = Result(sent=3, sent_bytes=1_500, connections=1, repeated=2)
    one = recorded(1).requests[0]
    found.note_difference(one, Difference("errorCode", "errorCode", "NONE", "NOT_COORDINATOR"))
    found.note_trouble(one, "no answer within 30 s")
    found.left_out[LeftOut.TIMES] = 7
    return found


def test_a_result() -> None:
    lines = list(result_lines(result(), 1.25))
    assert lines[0] == "sent 3 requests (1.5 KB) on 1 connection in 1.2 s"
    assert [line.strip() for line in lines[2:5]] == [
        f"differs      {SPOKEN}:",
        "ApiVersions errorCode: NONE recorded, NOT_COORDINATOR now (once)",
        "errorCode, request 1 (correlation id 0 of 127.0.0.1:59808)",
    ]
    assert "  no answer    ApiVersions: no answer within 30 s (once)" in lines
    assert "  not compared 7: times" in lines


def test_objects() -> None:
    plan, done = plan_object(planned(1)), result_object(result(), 1.25)
    json.dumps([plan, done])
    assert plan["requests"] == 23 and plan["missingTopics"] == {"orders": 3}
    assert {"verb": "write", "subject": "topic orders", "counts": {"records": 200, "bytes": 36_778}} in plan["effects"]
    [difference] = done["differences"]
    assert (difference["apiName"], difference["path"], difference["count"]) == ("ApiVersions", "errorCode", 1)
    assert done["notCompared"] == {"TIMES": {"why": "times", "fields": 7}}


def test_differences_of_a_kind_are_counted_together() -> None:
    result = Result()
    one = recorded(1).requests[0]
    for offset in range(10):
        result.note_difference(one, Difference("a.b", f"a[{offset}].b", "1", "2"))
    [kind] = result.differences.values()
    assert kind.count == 10 and len(kind.examples) == MOST_EXAMPLES
    assert kind.examples[0] == f"a[0].b, {which(one)}"
    assert result.differs


def test_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.replay.result.MOST_KINDS", 5)
    result = Result()
    one = recorded(1).requests[0]
    for number in range(20):
        result.note_difference(one, Difference("a", "a", str(number), "x"))
        result.note_trouble(one, f"why {number}")
    assert len(result.differences) == len(result.troubles) == 6
    assert sum(kind.count for kind in result.differences.values()) == 20
    assert result.count(Outcome.NO_ANSWER) == 20


def test_a_request_is_named_as_it_is_found_in_the_capture() -> None:
    assert which(recorded(1).requests[0]) == "request 1 (correlation id 0 of 127.0.0.1:59808)"


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
