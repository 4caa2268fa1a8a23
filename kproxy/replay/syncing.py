"""SyncGroup: brokers hold the answers of a generation until the request of its leader has arrived.

The new cluster chooses a leader itself, which may be a member whose request was recorded after the answers to the others. So the
requests of one generation are sent one after the other, and none waits for the answer to another.
"""

from collections.abc import Iterable
from dataclasses import replace

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey
from kproxy.replay.recording import ConnectionId, Recorded


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
