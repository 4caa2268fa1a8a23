"""The partitions that coordinators assign to members in answers to heartbeats (KIP-848, KIP-932), recorded and new.

A coordinator computes assignments in the background and reports each to the member once, in its next heartbeat; which heartbeat
that is depends on milliseconds. So where the recorded coordinator reported an assignment, everything that the member has been
assigned by then is compared. Until it is the same, the heartbeat is sent again, as the client would go on doing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kproxy.output.escaping import printable
from kproxy.protocol import ApiKey
from kproxy.replay.comparing import LONGEST, Difference
from kproxy.replay.recording import Recorded

HEARTBEATS = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT})
MOST = 100_000  # members
JOINING = 0  # member epoch
Member = tuple[str, str]  # group, recorded member id
Partitions = frozenset[tuple[str, int]]  # topic, number


@dataclass
class Assigned:
    """The assignments of one replay. *recorded_name* and *new_name*: topic id -> topic."""

    recorded_name: Callable[[str], str]
    new_name: Callable[[str], str]
    _told: dict[Member, Partitions] = field(default_factory=dict)  # by the new coordinator, at last
    _given_up: set[str] = field(default_factory=set)  # groups whose members get others than recorded

    def is_as_recorded(self, recorded: Recorded, answer: Any) -> bool:
        """Note the answer to a heartbeat.

        Returns whether its member has the recorded assignment by now, if the recorded answer reported one.
        """
        old, key = recorded.answer(), _member(recorded)
        if old is None or key is None or answer.error_code or old.error_code:
            return True
        assigned = _partitions(answer, self.new_name)
        if assigned is not None and (len(self._told) < MOST or key in self._told):
            self._told[key] = assigned
        wanted = _partitions(old, self.recorded_name)
        return wanted is None or key[0] in self._given_up or self._told.get(key, frozenset()) == wanted

    def difference(self, recorded: Recorded, answer: Any) -> Difference | None:
        """Return how the member's assignment differs from the recorded one, if it does; its group is not waited for again."""
        old, key = recorded.answer(), _member(recorded)
        if old is None or key is None or answer.error_code or old.error_code:
            return None
        wanted, has = _partitions(old, self.recorded_name), self._told.get(key, frozenset())
        if wanted is None or wanted == has:
            return None
        self._given_up.add(key[0])
        return Difference("assignment", f"assignment of {printable(key[1], LONGEST)}", _shown(wanted), _shown(has))


def go_on(body: Any, answer: Any) -> None:
    """Turn a heartbeat that was answered into the next heartbeat of its member."""
    body.member_epoch = answer.member_epoch
    body.member_id = answer.member_id or body.member_id


def _member(recorded: Recorded) -> Member | None:
    """Return group and member id. The first heartbeat of version 0 has no member id: its answer assigns one."""
    body, answer = recorded.body(), recorded.answer()
    member = body.member_id or (answer.member_id if answer is not None else "")
    return (body.group_id, member) if member else None


def _partitions(answer: Any, name: Callable[[str], str]) -> Partitions | None:
    if answer.assignment is None:
        return None
    return frozenset(
        (name(one.topic_id), number) for one in answer.assignment.topic_partitions for number in one.partitions
    )


def _shown(partitions: Partitions) -> str:
    text = ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions))
    return printable(text or "no partitions", LONGEST)
