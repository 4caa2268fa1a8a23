"""Rare exchanges, which analyses need one and all: those of groups and transactions.

One fetch in a thousand shows as much as all of them, while each step of a rebalance or a transaction matters.
"""

import time
from collections.abc import Callable

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, MessageStruct
from kproxy.session import Exchange

PER_SECOND = 500.0  # sent beyond the share; in a storm the rest is sampled, as all other exchanges are
AT_ONCE = 2_000.0  # after a quiet time: the members of a large group join at once
ALWAYS = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
HEARTBEATS = frozenset(
    {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT}
)  # of KIP-848, KIP-932, KIP-1071: most say only that a member is there
CHANGES_OF_REQUEST = ("topic_partitions", "active_tasks")  # what the member has now; null if unchanged
CHANGES_OF_RESPONSE = ("assignment", "active_tasks")  # what the member is to have; null if unchanged


def is_rare(exchange: Exchange) -> bool:
    """Return whether analyses need this exchange, whatever else is left out."""
    key = exchange.api_key
    return key in ALWAYS or (key in HEARTBEATS and _changes_group(exchange))


def _changes_group(exchange: Exchange) -> bool:
    """Return whether a heartbeat joins, leaves, or brings another assignment."""
    try:
        request, response = exchange.request_body(), exchange.response_body()
    except DecodeError:
        return False
    if request is None or response is None:
        return True  # not answered, or not read
    return (
        request.member_epoch <= 0
        or request.member_epoch != response.member_epoch
        or _has_any(request, CHANGES_OF_REQUEST)
        or _has_any(response, CHANGES_OF_RESPONSE)
    )


def _has_any(body: MessageStruct, names: tuple[str, ...]) -> bool:
    return any(getattr(body, name, None) is not None for name in names)


class RareExchanges:
    """Limits the rate of rare exchanges that are sent beyond the share.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = AT_ONCE
        self._at = clock()

    def may_go(self) -> bool:
        """Return whether another one may be sent now, and count it."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * PER_SECOND, AT_ONCE)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
