"""Tenant: what all rules of one filter share."""

from dataclasses import dataclass
from typing import Any

from kproxy.filters.contract import ConnectionFacts, SharedSet
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.patterns import Patterns

STATE = "topic_prefix"  # in ConnectionFacts.state
MOST_KEPT = 1_000  # requests of a connection whose responses have not come


@dataclass(frozen=True, slots=True)
class Tenant:
    """The names and the ids of one tenant, and what it may do."""

    names: Names
    patterns: Patterns
    ids: SharedSet  # of its topics
    cluster_administration: bool
    most_fetch_bytes: int


def keep(connection: ConnectionFacts, correlation_id: int, value: object) -> None:
    """Keep what the response to a request will need."""
    kept: dict[int, Any] = connection.state.setdefault(STATE, {})
    kept.pop(correlation_id, None)
    kept[correlation_id] = value
    if len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]


def kept_for(connection: ConnectionFacts, correlation_id: int) -> Any:
    """Return what was kept for a response, and forget it; None: nothing was."""
    return connection.state.get(STATE, {}).pop(correlation_id, None)
