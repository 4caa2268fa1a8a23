"""Rows of the table group_events: who joins, leaves and is assigned what, in all four group protocols.

A function for each API makes dicts of the columns that it knows; group_event_rows puts them in the order of the contract. A
heartbeat that brings no change makes no row, as every member sends one every few seconds.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias

from kproxy.errors import DecodeError
from kproxy.output.tables.contracts import GROUP_EVENTS
from kproxy.output.tables.rows import Body, instant
from kproxy.protocol.embedded import group
from kproxy.protocol.error_codes import error_name
from kproxy.session import Exchange

Row: TypeAlias = tuple[Any, ...]
Facts: TypeAlias = dict[str, Any]

MOST_TEXTS = 100_000  # of a list in one row
MOST_PROTOCOLS = 100  # as in exchanges.protocols
GROUP_KEY = 0  # CoordinatorType
NO_GENERATION = -1
JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
COLUMNS = tuple(column.name for column in GROUP_EVENTS.columns)[3:]  # behind connection_id, broker and exchange
KNOWN = frozenset(COLUMNS)


def group_event_rows(exchange: Exchange, request: Body, response: Body | None) -> Iterator[Row]:
    """Yield rows of the table group_events, from column ``request_at`` on. *request*: a message of READERS."""
    answer = None if response is None else response.struct
    events = [*filter(_is_news, READERS[request.name](request.struct, answer, _Topics(exchange)))]
    if not events:
        return  # of most heartbeats
    frame = exchange.request if exchange.response is None else exchange.response
    at = None if frame is None else instant(frame.ended_at if frame is exchange.response else frame.started_at)
    same = {
        "request_at": None if exchange.request is None else instant(exchange.request.started_at),
        "seen_at": at,
        "client_id": exchange.client_id,
    }
    for event in events:
        code = event.get("error_code")
        facts = event | same | {"error_name": None if code is None else error_name(code)}
        assert facts.keys() <= KNOWN
        yield tuple([facts.get(name) for name in COLUMNS])


class _Topics:
    """Looks up and renders the topics in one exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._names = exchange.topic_names

    def by_id(self, topics: Iterable[Any] | None) -> list[str] | None:
        """Return "topic-partition" for partitions of topics given by id."""
        if topics is None:
            return None
        return _partitions((self._names.get(each.topic_id) or each.topic_id, each.partitions) for each in topics)


def _partitions(topics: Iterable[tuple[str, Iterable[int]]]) -> list[str]:
    texts: list[str] = []
    for topic, partitions in topics:
        for partition in partitions or ():
            if len(texts) == MOST_TEXTS:
                return texts
            texts.append(f"{topic}-{partition}")
    return texts


def _each(values: list[Any] | None) -> list[Any]:
    """Return at most MOST_TEXTS elements of an array; none for null, which hostile bytes may have although Kafka forbids it."""
    return [] if values is None else values[:MOST_TEXTS]


def _texts(values: Iterable[str | None] | None) -> list[str]:
    return [each or "" for each in islice(values or (), MOST_TEXTS)]


def _code(answer: Any) -> int | None:
    return None if answer is None else answer.error_code


def _message(answer: Any) -> str | None:
    """Return the broker's errorMessage; some versions send "NONE" when nothing failed."""
    return answer.error_message or None if answer is not None and answer.error_code else None


def _generation(number: int | None) -> int | None:
    return None if number is None or number == NO_GENERATION else number


# Classic groups


def _join(request: Any, response: Any, _topics: _Topics) -> Iterator[Facts]:
    protocol_type = request.protocol_type
    facts: Facts = {
        "group_type": "classic",
        "group_id": request.group_id or "",
        "event": "join",
        "member_id": request.member_id or (response.member_id if response is not None else ""),
        "group_instance_id": request.group_instance_id,
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": _generation(request.rebalance_timeout_ms),  # version 0 has none
        "protocol_type": protocol_type,
        "protocols": _texts(each.name for each in _each(request.protocols)[:MOST_PROTOCOLS]),
        "error_code": _code(response),
        "reason": request.reason or None,
    }
    if protocol_type == group.CONSUMER and request.protocols:
        facts |= _subscription(request.protocols)
    if response is not None and not response.error_code:
        facts["response_generation"] = _generation(response.generation_id)
        facts["protocol"] = response.protocol_name or None
        facts["leader_id"] = response.leader or None
        facts["is_leader"] = response.leader == response.member_id
        facts["members"] = _texts(each.member_id for each in _each(response.members)) if facts["is_leader"] else None
    yield facts


def _subscription(protocols: list[Any]) -> Facts:
    """Return the member's topics, the newest generation and the longest list of owned partitions in its protocols."""
    facts: Facts = {}
    for protocol in protocols[:MOST_PROTOCOLS]:
        try:
            subscription: Any = group.read_subscription(protocol.metadata or b"")
        except DecodeError:
            continue
        generation = subscription.generation_id
        facts.setdefault("subscribed_topics", _texts(subscription.topics))
        facts["generation"] = max(facts.get("generation") or generation, generation)
        owned = _partitions((each.topic, each.partitions) for each in _each(subscription.owned_partitions))
        if len(owned) >= len(facts.get("owned") or ()):
            facts["owned"] = owned
    facts["generation"] = _generation(facts.get("generation"))
    return facts


def _sync(request: Any, response: Any, _topics: _Topics) -> Iterator[Facts]:
    assigns = bool(request.assignments)
    answered = response is not None and not response.error_code
    protocol_type = request.protocol_type or (response.protocol_type if answered else None)
    same: Facts = {
        "group_type": "classic",
        "group_id": request.group_id or "",
        "generation": _generation(request.generation_id),
        "protocol_type": protocol_type,
        "protocol": request.protocol_name or (response.protocol_name if answered else None) or None,
        "error_code": _code(response),
    }
    # Only the leader of a new generation sends assignments.
    yield same | {
        "event": "sync",
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "response_generation": _generation(request.generation_id) if answered else None,
        "is_leader": assigns,
        "members": _texts(each.member_id for each in request.assignments) if assigns else None,
        "assignment": _assignment(response.assignment, protocol_type) if answered else None,
    }
    for assigned in _each(request.assignments):
        yield same | {
            "event": "assign",
            "member_id": assigned.member_id,
            "leader_id": request.member_id,
            "assignment": _assignment(assigned.assignment, protocol_type),
        }


def _assignment(data: bytes | None, protocol_type: str | None) -> list[str] | None:
    """Read an assignment; no bytes mean an empty one. An unknown protocol type (SyncGroup before v5) is tried as a consumer's."""
    if not data:
        return []
    if protocol_type not in (None, group.CONSUMER):
        return None
    try:
        assigned: Any = group.read_assignment(data, whole=protocol_type is None)
    except DecodeError:
        return None
    return _partitions((each.topic, each.partitions) for each in _each(assigned.assigned_partitions))


def _heartbeat(request: Any, response: Any, _topics: _Topics) -> Iterator[Facts]:
    yield {
        "group_type": "classic",
        "group_id": request.group_id or "",
        "event": "heartbeat",
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "generation": _generation(request.generation_id),
        "error_code": _code(response),
    }


def _leave(request: Any, response: Any, _topics: _Topics) -> Iterator[Facts]:
    left = [(each.member_id, each.group_instance_id, each.reason) for each in _each(request.members)]
    if not left:  # before version 3
        left = [(request.member_id, None, None)]
    answers = (
        {} if response is None else {(e.member_id, e.group_instance_id): e.error_code for e in _each(response.members)}
    )
    for member_id, instance_id, reason in left:
        code = _code(response)
        yield {
            "group_type": "classic",
            "group_id": request.group_id or "",
            "event": "leave",
            "member_id": member_id,
            "group_instance_id": instance_id,
            "members": _texts(each for each, _, _ in left),
            "error_code": code if code or code is None else answers.get((member_id, instance_id), code),
            "reason": reason or None,
        }


# Groups whose members only send heartbeats


def _member_heartbeat(request: Any, response: Any, group_type: str) -> Facts:
    """Read what the heartbeats of KIP-848, KIP-932 and KIP-1071 have in common."""
    epoch = request.member_epoch
    joins, leaves = epoch == JOIN_EPOCH, epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)
    return {
        "group_type": group_type,
        "group_id": request.group_id or "",
        "event": "join" if joins else "leave" if leaves else "heartbeat",
        "member_id": request.member_id or (response.member_id if response is not None else None) or "",
        "generation": epoch,
        "response_generation": None if response is None or response.error_code else response.member_epoch,
        "heartbeat_interval_ms": (response.heartbeat_interval_ms or None) if response is not None else None,
        "members": [request.member_id or ""] if leaves else None,
        "error_code": _code(response),
        "reason": _message(response),
    }


def _is_news(facts: Facts) -> bool:
    """Return whether an event is worth a row: it is no heartbeat, or one that failed, or that requests or brings a change."""
    if facts["event"] != "heartbeat" or facts["error_code"]:
        return True
    changed = facts.get("response_generation") not in (None, facts["generation"])
    changes = ("subscribed_topics", "subscribed_regex", "owned", "assignment", "rebalance_timeout_ms")
    return changed or any(facts.get(name) is not None for name in changes)


def _consumer_heartbeat(request: Any, response: Any, topics: _Topics) -> Iterator[Facts]:
    facts = _member_heartbeat(request, response, "consumer")
    facts |= {
        "group_instance_id": request.instance_id,
        "rebalance_timeout_ms": _generation(request.rebalance_timeout_ms),
        "protocol": request.server_assignor,
        "subscribed_topics": _texts_or_none(request.subscribed_topic_names),
        "subscribed_regex": request.subscribed_topic_regex or None,
        "owned": topics.by_id(request.topic_partitions),
        "assignment": _assigned(response, topics),
    }
    yield facts


def _share_heartbeat(request: Any, response: Any, topics: _Topics) -> Iterator[Facts]:
    facts = _member_heartbeat(request, response, "share")
    facts["subscribed_topics"] = _texts_or_none(request.subscribed_topic_names)
    facts["assignment"] = _assigned(response, topics)
    yield facts


def _streams_heartbeat(request: Any, response: Any, _topics: _Topics) -> Iterator[Facts]:
    facts = _member_heartbeat(request, response, "streams")
    facts |= {
        "group_instance_id": request.instance_id,
        "rebalance_timeout_ms": _generation(request.rebalance_timeout_ms),
        "subscribed_topics": _source_topics(request.topology),
        "owned": _tasks(request.active_tasks),
        "assignment": None if response is None else _tasks(response.active_tasks),
    }
    if response is not None and response.status and not facts["reason"]:
        facts["reason"] = "; ".join(_texts(each.status_detail for each in response.status[:MOST_PROTOCOLS]))
    yield facts


def _assigned(response: Any, topics: _Topics) -> list[str] | None:
    if response is None or response.assignment is None:
        return None
    return topics.by_id(response.assignment.topic_partitions)


def _tasks(tasks: list[Any] | None) -> list[str] | None:
    return None if tasks is None else _partitions((each.subtopology_id, each.partitions) for each in tasks)


def _source_topics(topology: Any) -> list[str] | None:
    if topology is None or topology.subtopologies is None:
        return None
    sources = [(*_each(each.source_topics), *_each(each.source_topic_regex)) for each in topology.subtopologies]
    return list(dict.fromkeys(_texts(topic for topics in sources for topic in topics)))


def _texts_or_none(values: list[str] | None) -> list[str] | None:
    return None if values is None else _texts(values)


# What is not about one membership


def _commit(request: Any, response: Any, _topics: _Topics) -> Iterator[Facts]:
    if response is None:
        return
    codes = (each.error_code for topic in _each(response.topics) for each in _each(topic.partitions))
    code = next((code for code in codes if code), 0)
    if not code:
        return
    generation = getattr(request, "generation_id_or_member_epoch", None)
    yield {
        "group_id": request.group_id or "",
        "event": "commit",
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "generation": _generation(request.generation_id if generation is None else generation),
        "error_code": code,
    }


def _coordinator(request: Any, response: Any, _topics: _Topics) -> Iterator[Facts]:
    if response is None or request.key_type != GROUP_KEY:
        return
    answers = _each(response.coordinators) or [response]
    for each in answers:
        known = not each.error_code
        yield {
            "group_id": getattr(each, "key", None) or request.key or "",
            "event": "coordinator",
            "coordinator": f"{each.host}:{each.port}" if known else None,
            "coordinator_id": each.node_id if known else None,
            "error_code": each.error_code,
            "reason": _message(each),
        }


def _delete(request: Any, response: Any, _topics: _Topics) -> Iterator[Facts]:
    answers = {} if response is None else {each.group_id: each.error_code for each in _each(response.results)}
    for group_id in _texts(request.groups_names):
        yield {"group_id": group_id, "event": "delete", "error_code": answers.get(group_id)}


READERS: dict[str, Callable[[Any, Any, _Topics], Iterator[Facts]]] = {
    "JoinGroupRequest": _join,
    "SyncGroupRequest": _sync,
    "HeartbeatRequest": _heartbeat,
    "LeaveGroupRequest": _leave,
    "ConsumerGroupHeartbeatRequest": _consumer_heartbeat,
    "ShareGroupHeartbeatRequest": _share_heartbeat,
    "StreamsGroupHeartbeatRequest": _streams_heartbeat,
    "OffsetCommitRequest": _commit,
    "TxnOffsetCommitRequest": _commit,
    "FindCoordinatorRequest": _coordinator,
    "DeleteGroupsRequest": _delete,
}
