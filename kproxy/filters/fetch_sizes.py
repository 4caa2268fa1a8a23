"""The size of Fetch responses: requests ask for no more than can be held, if a filter needs responses completely.

Consumers ask for up to 50 MiB by default (fetch.max.bytes). A response above limits.held_frame_size would be refused, each time
it is asked for again. A broker may send fewer bytes than asked for at any time, and consumers go on from there; only a first
batch that is larger is sent nevertheless (KIP-74). That is refused with an error: see ``Chain.when_too_large_to_hold``.

Before version 3 a request has no limit of its own, and its partitions share what can be held. A message that is larger than its
share is then cut, and the consumer reports that; with the defaults, and 9 partitions in a request, that is a message above
932,067 bytes.
"""

from collections.abc import Collection, Iterable
from typing import Any

from kproxy.filters.contract import Direction, Filter, Forward, Replace, Request, Verdict, Want
from kproxy.protocol import ApiKey
from kproxy.protocol.facts import facts

MAX_BYTES_SINCE = 3  # version of Fetch
PARTS_OF_HELD = 2  # one for records, the other for everything else in a response
FETCHES = (ApiKey.FETCH, ApiKey.SHARE_FETCH)


class LimitFetches(Filter):
    """Limit what Fetch and ShareFetch requests ask for, if a filter needs the complete response.

    Args:
        versions: (API key, version) of the requests.
        held_frame_size: the largest frame that is held.
    """

    name = "limit_fetches"
    keeps_requests = True  # the error in place of a response that is too large is for the topics of the request

    def __init__(self, versions: Collection[tuple[int, int]], held_frame_size: int) -> None:
        self._versions = frozenset(versions)
        self._most_bytes = max(1, held_frame_size // PARTS_OF_HELD)

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """HOLD requests whose responses have to be held completely."""
        is_one = direction == Direction.REQUEST and (api_key, api_version) in self._versions
        return Want.HOLD if is_one else Want.PASS

    def on_request(self, request: Request) -> Verdict:
        """Limit a request that asks for more."""
        if request.api_key == ApiKey.SHARE_FETCH:
            changed = limit_share(request.message, self._most_bytes)
        else:
            changed = limit(request.message, request.api_version, self._most_bytes)
        return Replace(request.message) if changed else Forward()


def limiting(filters: Iterable[Filter], held_frame_size: int) -> tuple[Filter, ...]:
    """Return the LimitFetches that these filters need, alone in a tuple; an empty tuple if they need none.

    Filters that fail open do without responses that are too large.
    """
    listed = tuple(filters)
    every = [(key, version) for key in FETCHES for version in facts().apis[key].versions]
    needed = [each for each in every if any(_needs_whole(filter_, *each) for filter_ in listed)]
    return (LimitFetches(needed, held_frame_size),) if needed else ()


def _needs_whole(filter_: Filter, api_key: int, api_version: int) -> bool:
    if filter_.fails_open or filter_.wants(Direction.RESPONSE, api_key, api_version) is not Want.HOLD:
        return False
    return filter_.wants_of_large(Direction.RESPONSE, api_key, api_version) in (None, Want.HOLD)


def limit_share(message: Any, most_bytes: int) -> bool:
    """Limit the size of a ShareFetch response; return whether that changed the request."""
    if message.max_bytes <= most_bytes:
        return False
    message.max_bytes = most_bytes
    return True


def limit(message: Any, version: int, most_bytes: int) -> bool:
    """Limit the size of a Fetch response; return whether that changed the request."""
    if version >= MAX_BYTES_SINCE:
        if message.max_bytes <= most_bytes:
            return False
        message.max_bytes = most_bytes
        return True
    partitions = [partition for topic in message.topics for partition in topic.partitions]
    if sum(max(0, partition.partition_max_bytes) for partition in partitions) <= most_bytes:
        return False
    share = max(1, most_bytes // len(partitions))
    large = [partition for partition in partitions if partition.partition_max_bytes > share]
    for partition in large:
        partition.partition_max_bytes = share
    return bool(large)
