"""FindCoordinator: the key is a group, a transactional id, or (KIP-932, between brokers) a group with a topic id."""

from typing import Any

from kproxy.filters.topic_prefix.names import Kind, Names
from kproxy.filters.topic_prefix.refusal import Refusal
from kproxy.protocol.error_codes import ErrorCode

SEVERAL_SINCE = 4  # version with any number of keys
# FindCoordinatorRequest.CoordinatorType. The coordinator of an empty group is found for the APIs that take an empty id
KINDS = {0: Kind.GROUP_OR_NONE, 1: Kind.TRANSACTIONAL_ID}


def request(names: Names, message: Any, version: int) -> None:
    """Translate the keys. Raises Refusal for a type of key that is not a tenant's."""
    kind = KINDS.get(message.key_type)
    if kind is None:
        raise Refusal(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"no coordinator of type {message.key_type} is a tenant's"
        )
    if version >= SEVERAL_SINCE:
        message.coordinator_keys = [names.to_broker(kind, key) for key in message.coordinator_keys]
    else:
        message.key = names.to_broker(kind, message.key)


def response(names: Names, message: Any, key_type: int) -> None:
    """Translate the keys back; entries whose keys are not the tenant's are dropped."""
    kind = KINDS.get(key_type)
    kept = []
    for coordinator in message.coordinators:
        key = names.to_client(kind, coordinator.key) if kind is not None else None
        if key is not None:
            coordinator.key = key
            kept.append(coordinator)
    message.coordinators = kept
