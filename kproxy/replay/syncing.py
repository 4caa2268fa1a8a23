"""SyncGroup: brokers hold the answers of a generation until its leader's request has come.

The new cluster chooses a leader for itself, which may be a member whose request was recorded after the answers to the others. So
the requests of one generation are sent one after the other, and none waits for the answer to another.
"""

from collections.abc import Iterable
from dataclasses import replace

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey
from kproxy.replay.recording import ConnectionId, Recorded


def sent_together(requests: Iterable[Recorded]) -> list[Recorded]:
    """The requests in their order, with each SyncGroup as early as the first of its generation.

    One whose member had not been answered its JoinGroup by then stays where it is.
    """
    first: dict[str, int] = {}  # generation -> when its first SyncGroup was sent
    joined: dict[ConnectionId, int] = {}  # connection -> when its last JoinGroup was answered
    found = []
    for one in requests:
        if one.api_key == ApiKey.JOIN_GROUP and one.answered_at is not None:
            joined[one.connection] = one.answered_at
        together = held_together(one)
        earliest = first.setdefault(together, one.sent_at) if together else one.sent_at
        found.append(replace(one, sent_at=earliest) if joined.get(one.connection, 0) <= earliest else one)
    return sorted(found, key=lambda one: one.sent_at)  # which keeps the order of those of one time


def held_together(request: Recorded) -> str:
    """What a broker may hold the answer for, until others like it have come; "" of most requests."""
    if request.api_key != ApiKey.SYNC_GROUP:
        return ""
    try:
        body = request.body()
    except DecodeError:
        return ""
    return f"generation {body.generation_id} of {body.group_id}"
