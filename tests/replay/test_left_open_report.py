"""What is said of transactions and members that a replay leaves open."""

from kproxy.protocol import ApiKey
from kproxy.protocol.structs import struct_types
from kproxy.replay.left_open import LeftOpen
from kproxy.replay.left_open_report import left_open_lines, left_open_object
from tests.replay.test_left_open import answered, made


def test_nothing() -> None:
    assert list(left_open_lines(LeftOpen())) == []
    assert left_open_object(LeftOpen()) == {"transactions": [], "members": []}


def test_lines_and_object() -> None:
    found = LeftOpen()
    init = made("InitProducerIdRequest", transactional_id="tx-1", transaction_timeout_ms=60_000)
    answered(found, ApiKey.INIT_PRODUCER_ID, init, made("InitProducerIdResponse"))
    offsets = made("AddOffsetsToTxnRequest", transactional_id="tx-1")
    answered(found, ApiKey.ADD_OFFSETS_TO_TXN, offsets, made("AddOffsetsToTxnResponse"))
    for member in ("a", "b"):
        join = made("JoinGroupRequest", group_id="g", session_timeout_ms=45_000)
        answered(found, ApiKey.JOIN_GROUP, join, made("JoinGroupResponse", member_id=member))
    found.note_sent(
        9,
        ApiKey.ADD_OFFSETS_TO_TXN,
        struct_types("AddOffsetsToTxnRequest")["AddOffsetsToTxnRequest"](transactional_id="tx-2"),
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
