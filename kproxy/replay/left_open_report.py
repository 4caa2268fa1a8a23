"""Report what a replay leaves open: as lines of text, and as an object for JSON."""

from collections.abc import Iterator
from typing import Any

from kproxy.replay.left_open import LeftOpen, Open

UNANSWERED = "perhaps, as a request was not answered: "


def left_open_lines(left_open: LeftOpen) -> Iterator[str]:
    """Yield a line for each transaction, and for each group with members that have not left."""
    for name, one in left_open.transactions():
        after = _after("the producer's transaction.timeout.ms", [one])
        yield f"{_perhaps(one)}the transaction of {name}, which its coordinator aborts after {after}"
    for group, members in _groups(left_open).items():
        what = f"{len(members):,} member{'' if len(members) == 1 else 's'} of group {group}"
        after = _after("the session timeout", members)
        whom = "it" if len(members) == 1 else "them"
        certain = any(one.certain for one in members)
        yield f"{'' if certain else UNANSWERED}{what}: its coordinator removes {whom} after {after}"


def left_open_object(left_open: LeftOpen) -> dict[str, Any]:
    """Return the same as an object for JSON."""
    return {
        "transactions": [
            {"transactionalId": name, "timeoutMs": one.timeout_ms, "certain": one.certain}
            for name, one in left_open.transactions()
        ],
        "members": [
            {"groupId": group, "memberId": member, "sessionTimeoutMs": one.timeout_ms, "certain": one.certain}
            for (group, member), one in left_open.members()
        ],
    }


def _groups(left_open: LeftOpen) -> dict[str, list[Open]]:
    groups: dict[str, list[Open]] = {}
    for (group, _), one in left_open.members():
        groups.setdefault(group, []).append(one)
    return groups


def _perhaps(one: Open) -> str:
    return "" if one.certain else UNANSWERED


def _after(setting: str, opened: list[Open]) -> str:
    """Return the name of a timeout, with its length if that is known; of several, the longest."""
    known = [one.timeout_ms for one in opened if one.timeout_ms is not None]
    return f"{setting} ({max(known) / 1000:g} s)" if known else setting
