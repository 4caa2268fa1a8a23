"""Facts about embedded payloads for one line of text: record counts, assignors, assignments, who authenticates how."""

from collections.abc import Iterable
from typing import Any

from kproxy.output.escaping import word
from kproxy.protocol.embedded import Embedded

SHOWN_TOPICS = 2
SHOWN_PARTITIONS = 6


def record_count(embedded: Iterable[Embedded]) -> str:
    """Return how many records Produce or Fetch carry, ``57 records``; "" if none."""
    fields = [one.json for one in embedded if one.kind == "records" and one.error is None]
    count = sum(field["count"] for field in fields)
    return f"{count:,} record{'' if count == 1 else 's'}" if fields else ""


def assignors(embedded: Iterable[Embedded]) -> str:
    """Return the assignors or Connect protocols that a member offers, in its order of preference."""
    offered = [
        word(one.json.get("assignor") or one.json.get("protocol") or "")
        for one in embedded
        if one.where == "request" and one.error is None and isinstance(one.json, dict)
    ]
    return ", ".join(offered)


def assigned(embedded: Iterable[Embedded]) -> str:
    """Return the assignment in a SyncGroup response, ``orders-0,1,2``; "" if it is not known."""
    for one in embedded:
        if one.where == "response" and one.error is None:
            return _connect(one) if one.kind == "connect-assignment" else _topics(one)
    return ""


def sasl_words(embedded: Iterable[Embedded], mechanism: str | None) -> list[str]:
    """Return mechanism, user and outcome of one step of an authentication."""
    words = [] if mechanism is None else [word(mechanism)]
    for one in embedded:
        words += token_words(one.json if one.error is None else {"size": 0}, from_client=one.where == "request")
    return words


def token_words(parts: dict[str, Any], *, from_client: bool) -> list[str]:
    """Return the user or the outcome that the parts of a token tell."""
    if not from_client:
        return [_outcome(parts)]
    return [f"user {word(parts['username'])}"] if parts.get("username") else []


def _outcome(parts: dict[str, Any]) -> str:
    refusal = parts.get("error") or parts.get("status")
    if refusal or parts.get("success") is False:
        return f"→ refused {word(refusal)}" if refusal else "→ refused"
    if "iterations" in parts:
        return "→ challenge"
    return "→ token" if "size" in parts else "→ authenticated"


def _topics(one: Embedded) -> str:
    topics = one.value()["value"]["assignedPartitions"]
    shown = [f"{word(topic['topic'], 48)}-{_numbers(topic['partitions'])}" for topic in topics[:SHOWN_TOPICS]]
    return _with_rest(shown, len(topics)) or "nothing"


def _connect(one: Embedded) -> str:
    plan = one.value()["value"]["assigned"]
    return f"{len(plan['connectors'])} connectors, {len(plan['tasks'])} tasks"


def _numbers(partitions: list[int]) -> str:
    more = ",…" if len(partitions) > SHOWN_PARTITIONS else ""
    return ",".join(map(str, partitions[:SHOWN_PARTITIONS])) + more


def _with_rest(shown: list[str], count: int) -> str:
    return ", ".join(shown) + (f" +{count - len(shown)}" if count > len(shown) else "")
