"""Which topic ids are the tenant's: learned from responses with both name and id of a topic; checked in requests (KIP-516).

A topic id says nothing of its topic's name, so one that no response has named to this tenant is refused: with
UNKNOWN_TOPIC_ID, upon which clients ask for metadata, and so teach it. What is known all workers know (Runtime.shared_set), and
it outlives a reload of the filter.
Not checked are the ids in a Metadata request, as the response names their topics, and in the heartbeats of KIP-848 groups, where
a member only repeats its assignment.
"""

from collections.abc import Iterator
from typing import Any

from kproxy.filters.topic_prefix.places import Plan
from kproxy.protocol import ApiKey
from kproxy.protocol.ids import ZERO_UUID

UNCHECKED = (ApiKey.METADATA, ApiKey.CONSUMER_GROUP_HEARTBEAT)


def topic_ids(plan: Plan, struct: Any) -> Iterator[str]:
    """Yield every topic id in a message, except ids that stand for no topic."""
    if plan.topic_id is not None and getattr(struct, plan.topic_id) != ZERO_UUID:
        yield getattr(struct, plan.topic_id)
    if not plan.has_topic_ids:
        return
    for attribute, below in plan.structs:
        if (child := getattr(struct, attribute)) is not None:
            yield from topic_ids(below, child)
    for attribute, below in plan.arrays:
        for child in getattr(struct, attribute) or ():
            yield from topic_ids(below, child)
