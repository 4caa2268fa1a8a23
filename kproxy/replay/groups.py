"""Replay consumer groups: keep the members that shared a recorded generation in one generation on the new cluster.

Members that joined before the capture, or by requests that are not sent, join as new members:

    sent with the recorded member id  ─▶ UNKNOWN_MEMBER_ID, where it was known  ─▶ sent without one
    sent without one                  ─▶ MEMBER_ID_REQUIRED (KIP-394, from version 4 on) ─▶ sent with the id of that answer

The id in the last answer stands for the recorded member from then on.

Which JoinGroup requests a coordinator answers together depends on its group.initial.rebalance.delay.ms and on timing: it may
answer the first member alone, and then hold the second member's request until the first has joined again, which a client does
when a heartbeat tells it to. The recording has no such request, as both were answered together there. So it is made here:

    answered, and the others too, same generation     ─▶ done
    answered, another one in a later generation       ─▶ sent again
    answered, another one is held                     ─▶ sent again

The leader of a generation sends the assignments of all members, and each coordinator chooses a leader for itself. So the recorded
assignments go out with the SyncGroup of the member that is the leader now; and as brokers hold the answers of a generation until
the leader's SyncGroup has arrived, all SyncGroup requests of a generation are sent together, none after the answer to another.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.replay.identities import Identities
from kproxy.replay.recording import ConnectionId, Recorded

PATIENCE_S = 0.2  # after which a request is taken to be held; to join again without need does nothing
MOST = 100_000  # generations
Generation = tuple[str, int]  # group, generation of the recorded cluster


@dataclass(slots=True)
class _Together:
    """The JoinGroup requests of one generation, by number."""

    unsent: set[int]
    held: set[int] = field(default_factory=set)  # sent and not answered
    answered: dict[int, int] = field(default_factory=dict)  # the generation of the new cluster
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Generations:
    def __init__(self, requests: Iterable[Recorded]) -> None:
        """Args:
        requests: all that will be sent.
        """
        self._of: dict[int, _Together] = {}
        self._assignments: dict[Generation, list[Any]] = {}  # SyncGroupRequestAssignment of the recorded leader
        self._leading: set[tuple[Generation, str]] = set()  # with the recorded id of the member that leads now
        joins: dict[Generation, list[Recorded]] = {}
        for one in requests:
            if one.api_key == ApiKey.JOIN_GROUP and (generation := _joined(one)) is not None:
                joins.setdefault(generation, []).append(one)
            elif one.api_key == ApiKey.SYNC_GROUP:
                self._keep_assignments(one)
        for members in joins.values():
            numbers = _answered_together(members)
            if len(numbers) > 1:
                self._of.update(dict.fromkeys(numbers, _Together(numbers)))

    def note_sent(self, recorded: Recorded) -> None:
        together = self._of.get(recorded.number)
        if together is not None:
            together.unsent.discard(recorded.number)
            together.held.add(recorded.number)

    def note_end(self, recorded: Recorded) -> None:
        """Note that a request is finished in any way, so that the other members do not wait for it."""
        together = self._of.get(recorded.number)
        if together is not None:
            together.unsent.discard(recorded.number)
            together.held.discard(recorded.number)
            together.notify()

    async def is_settled(self, recorded: Recorded, answer: Any, patience: float) -> bool:
        """Wait until all members of the request's generation are in one generation again; False: send the request again.

        Gives up after *patience* seconds, and then counts as settled.
        """
        together = self._of.get(recorded.number)
        if together is None or answer.error_code:
            return True
        together.held.discard(recorded.number)
        together.answered[recorded.number] = answer.generation_id
        together.notify()
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        while loop.time() < until:
            is_latest = max(together.answered.values()) == answer.generation_id
            if is_latest and not together.unsent and not together.held:
                return True
            came = (is_latest or bool(together.unsent)) and await _is_set_within(together.changed, PATIENCE_S)
            if not came and not together.unsent:
                together.held.add(recorded.number)
                return False
        return True

    def note_leader(self, recorded: Recorded, old: Any, new: Any) -> None:
        """Learn from both answers to a JoinGroup which member leads now."""
        if not old.error_code and not new.error_code and new.leader == new.member_id and len(self._leading) < MOST:
            self._leading.add(((recorded.body().group_id, old.generation_id), old.member_id))

    def assign(self, body: Any) -> bool:
        """Put the recorded assignments into a SyncGroup if its member leads now; return whether that changed it.

        Its ids must still be the recorded ones.
        """
        generation = (body.group_id, body.generation_id)
        if body.assignments or (generation, body.member_id) not in self._leading:
            return False
        body.assignments = list(self._assignments.get(generation, ()))
        return bool(body.assignments)

    def _keep_assignments(self, recorded: Recorded) -> None:
        try:
            body = recorded.body()
        except DecodeError:
            return
        if body.assignments and len(self._assignments) < MOST:
            self._assignments[body.group_id, body.generation_id] = body.assignments


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _joined(recorded: Recorded) -> Generation | None:
    """Return the generation that a recorded JoinGroup got; None if it was refused or its answer cannot be read."""
    answer = recorded.answer()
    try:
        group = recorded.body().group_id
    except DecodeError:
        return None
    return None if answer is None or answer.error_code else (group, answer.generation_id)


def _answered_together(requests: list[Recorded]) -> set[int]:
    """Return the numbers of the requests that were all sent before the first was answered, one for each connection.

    There may be others, as a member that asks again gets the same generation.
    """
    first = min(one.answered_at or one.sent_at for one in requests)
    numbers: dict[ConnectionId, int] = {one.connection: one.number for one in requests if one.sent_at < first}
    return set(numbers.values())


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


def sent_together(requests: Iterable[Recorded]) -> list[Recorded]:
    """Return the requests in their order, with each SyncGroup as early as the first one of its generation.

    A SyncGroup whose member had not got its JoinGroup answer by then stays where it is.
    """
    first: dict[str, int] = {}  # generation -> when its first SyncGroup was sent
    joined: dict[ConnectionId, int] = {}  # connection -> when its last JoinGroup was answered
    moved = []
    for one in requests:
        if one.api_key == ApiKey.JOIN_GROUP and one.answered_at is not None:
            joined[one.connection] = one.answered_at
        together = held_generation(one)
        earliest = first.setdefault(together, one.sent_at) if together else one.sent_at
        moved.append(replace(one, sent_at=earliest) if joined.get(one.connection, 0) <= earliest else one)
    return sorted(moved, key=lambda one: one.sent_at)  # stable: requests of the same time keep their order


def held_generation(request: Recorded) -> str:
    """Name the generation of a SyncGroup, whose answer a broker holds until the leader's request arrives; "" for others."""
    if request.api_key != ApiKey.SYNC_GROUP:
        return ""
    try:
        body = request.body()
    except DecodeError:
        return ""
    return f"generation {body.generation_id} of {body.group_id}"
