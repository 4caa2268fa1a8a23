"""Members that the recorded cluster knew from before the capture, or from requests that are not sent, join as new members.

    sent with the recorded member id  ─▶ UNKNOWN_MEMBER_ID, where it was known  ─▶ sent without one
    sent without one                  ─▶ MEMBER_ID_REQUIRED (KIP-394, from version 4 on) ─▶ sent with the id of that answer

The id in the last answer stands for the recorded member from then on.
"""

from typing import Any

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.identities import Identities
from kproxy.replay.recording import Recorded


def learns_of_rebalance_later(recorded: Recorded, answer: Any) -> bool:
    """Return whether the recorded answer to a Heartbeat reported a rebalance, and the new one does not yet.

    The JoinGroup that causes the rebalance is on its way then.
    """
    if recorded.api_key != ApiKey.HEARTBEAT or answer.error_code != ErrorCode.NONE:
        return False
    old = recorded.answer()
    return old is not None and old.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def join_anew(recorded: Recorded, sent: Any, answer: Any, identities: Identities) -> bool:
    """Change a JoinGroup that was sent so that its member joins as a new one; return whether to send it again."""
    if recorded.api_key != ApiKey.JOIN_GROUP:
        return False
    old = recorded.answer()
    try:
        member = recorded.body().member_id
    except DecodeError:
        return False
    if old is None or not member or member in identities.members:
        return False
    if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID and old.error_code == ErrorCode.NONE and sent.member_id:
        sent.member_id = ""
        return True
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED and not sent.member_id and answer.member_id:
        sent.member_id = identities.members[member] = answer.member_id
        return True
    return False
