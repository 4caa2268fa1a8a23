# cython: language_level=3
"""Rows of the table group_events: who joins, leaves and is assigned what, in all four group protocols.

A function for each API makes dicts of the columns that it knows; the other columns are null. A heartbeat that brings no change
makes no row, as every member sends one every few seconds. Compiled because most exchanges of an idle group come here.
"""

from collections.abc import Mapping  # no-cython-lint
from typing import Any  # no-cython-lint

from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.body cimport Body
from kproxy.output.tables.rows cimport Head, put_instant
from kproxy.session.exchanges cimport Exchange, Frame

from kproxy.errors import DecodeError
from kproxy.output.tables.contracts import GROUP_EVENTS
from kproxy.protocol.embedded import group
from kproxy.protocol.error_codes import error_name

MOST_TEXTS = 100_000  # of a list in one row
MOST_PROTOCOLS = 100  # as in exchanges.protocols
GROUP_KEY = 0  # CoordinatorType
NO_GENERATION = -1
JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
cdef list _columns = [column.name for column in GROUP_EVENTS.columns]
cdef Py_ssize_t REQUEST_AT = _columns.index("request_at")
cdef Py_ssize_t CLIENT_ID = _columns.index("client_id")
cdef Py_ssize_t SEEN_AT = _columns.index("seen_at")
CHANGES = ("subscribed_topics", "subscribed_regex", "owned", "assignment", "rebalance_timeout_ms")


cdef int write_group_events(Rows rows, Head head, Exchange exchange, list events) except -1:
    """Write what group_events found in an exchange."""
    cdef Frame asked = exchange.request
    cdef Frame answered = exchange.response
    cdef list event
    for event in events:
        head.put(rows)
        if asked is not None:
            put_instant(rows, REQUEST_AT, asked.started_at)
            if answered is None:
                put_instant(rows, SEEN_AT, asked.started_at)
        if answered is not None:
            put_instant(rows, SEEN_AT, answered.ended_at)
        rows.put(CLIENT_ID, exchange.client_id)
        for at, value in event:
            rows.put(at, value)
        rows.end()
    return 0


cpdef list group_events(
    Body request, Body response: Body | None, names: Mapping[str, str],
):  # type: (...) -> list[list[tuple[int, Any]]]
    """Return rows of group_events behind the column ``seen_at``, without ``client_id``: number and value of each column.

    *request*: a message of READERS; *names*: of topic ids.
    """
    cdef dict event
    cdef list events = READERS[request.name](request.struct, None if response is None else response.struct, names)
    for event in events:
        code = event.get("error_code")
        event["error_name"] = None if code is None else error_name(code)
    return [[(_columns.index(name), value) for name, value in event.items() if value is not None] for event in events]


cdef object _by_id(topics, names):
    """Return "topic-partition" for partitions of topics given by id."""
    if topics is None:
        return None
    return _partitions([(names.get(each.topic_id) or each.topic_id, each.partitions) for each in topics])


cdef list _partitions(topics):
    cdef list texts = []
    for topic, partitions in topics:
        for partition in partitions or ():
            if len(texts) == MOST_TEXTS:
                return texts
            texts.append(f"{topic}-{partition}")
    return texts


cdef list _each(values):
    """Return at most MOST_TEXTS elements of an array; none for null, which hostile bytes may have although Kafka forbids it."""
    return [] if values is None else values[:MOST_TEXTS]


cdef list _texts(values):
    return [each or "" for each in (values or ())[:MOST_TEXTS]]


cdef object _code(answer):
    return None if answer is None else answer.error_code


cdef object _message(answer):
    """Return the broker's errorMessage; some versions send "NONE" when nothing failed."""
    return answer.error_message or None if answer is not None and answer.error_code else None


cdef object _generation(number):
    return None if number is None or number == NO_GENERATION else number


# Classic groups


def _join(request, response, names):
    protocol_type = request.protocol_type
    cdef dict facts = {
        "group_type": "classic",
        "group_id": request.group_id or "",
        "event": "join",
        "member_id": request.member_id or (response.member_id if response is not None else ""),
        "group_instance_id": request.group_instance_id,
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": _generation(request.rebalance_timeout_ms),  # version 0 has none
        "protocol_type": protocol_type,
        "protocols": _texts([each.name for each in _each(request.protocols)[:MOST_PROTOCOLS]]),
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
        facts["members"] = _texts([each.member_id for each in _each(response.members)]) if facts["is_leader"] else None
    return [facts]


cdef dict _subscription(list protocols):
    """Return the member's topics, the newest generation and the longest list of owned partitions in its protocols."""
    cdef dict facts = {}
    for protocol in protocols[:MOST_PROTOCOLS]:
        try:
            subscription = group.read_subscription(protocol.metadata or b"")
        except DecodeError:
            continue
        generation = subscription.generation_id
        facts.setdefault("subscribed_topics", _texts(subscription.topics))
        facts["generation"] = max(facts.get("generation") or generation, generation)
        owned = _partitions([(each.topic, each.partitions) for each in _each(subscription.owned_partitions)])
        if len(owned) >= len(facts.get("owned") or ()):
            facts["owned"] = owned
    facts["generation"] = _generation(facts.get("generation"))
    return facts


def _sync(request, response, names):
    assigns = bool(request.assignments)
    answered = response is not None and not response.error_code
    protocol_type = request.protocol_type or (response.protocol_type if answered else None)
    cdef dict same = {
        "group_type": "classic",
        "group_id": request.group_id or "",
        "generation": _generation(request.generation_id),
        "protocol_type": protocol_type,
        "protocol": request.protocol_name or (response.protocol_name if answered else None) or None,
        "error_code": _code(response),
    }
    # Only the leader of a new generation sends assignments.
    events = [same | {
        "event": "sync",
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "response_generation": _generation(request.generation_id) if answered else None,
        "is_leader": assigns,
        "members": _texts([each.member_id for each in request.assignments]) if assigns else None,
        "assignment": _assignment(response.assignment, protocol_type) if answered else None,
    }]
    for assigned in _each(request.assignments):
        events.append(same | {
            "event": "assign",
            "member_id": assigned.member_id,
            "leader_id": request.member_id,
            "assignment": _assignment(assigned.assignment, protocol_type),
        })
    return events


cdef object _assignment(data, protocol_type):
    """Read an assignment; no bytes mean an empty one. An unknown protocol type (SyncGroup before v5) is tried as a consumer's."""
    if not data:
        return []
    if protocol_type not in (None, group.CONSUMER):
        return None
    try:
        assigned = group.read_assignment(data, whole=protocol_type is None)
    except DecodeError:
        return None
    return _partitions([(each.topic, each.partitions) for each in _each(assigned.assigned_partitions)])


def _heartbeat(request, response, names):
    code = _code(response)
    return [] if not code else [{
        "group_type": "classic",
        "group_id": request.group_id or "",
        "event": "heartbeat",
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "generation": _generation(request.generation_id),
        "error_code": code,
    }]


def _leave(request, response, names):
    left = [(each.member_id, each.group_instance_id, each.reason) for each in _each(request.members)]
    if not left:  # before version 3
        left = [(request.member_id, None, None)]
    answers = (
        {} if response is None else {(e.member_id, e.group_instance_id): e.error_code for e in _each(response.members)}
    )
    code = _code(response)
    events = []
    for member_id, instance_id, reason in left:
        events.append({
            "group_type": "classic",
            "group_id": request.group_id or "",
            "event": "leave",
            "member_id": member_id,
            "group_instance_id": instance_id,
            "members": _texts([each for each, _, _ in left]),
            "error_code": code if code or code is None else answers.get((member_id, instance_id), code),
            "reason": reason or None,
        })
    return events


# Groups whose members only send heartbeats


cdef dict _member_heartbeat(request, response, group_type):
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


cdef list _news(dict facts):
    """Return the event, unless it is a heartbeat that succeeds, and neither requests nor brings a change."""
    if facts["event"] != "heartbeat" or facts["error_code"]:
        return [facts]
    if facts["response_generation"] not in (None, facts["generation"]):
        return [facts]
    for name in CHANGES:
        if facts.get(name) is not None:
            return [facts]
    return []


def _consumer_heartbeat(request, response, names):
    facts = _member_heartbeat(request, response, "consumer")
    facts |= {
        "group_instance_id": request.instance_id,
        "rebalance_timeout_ms": _generation(request.rebalance_timeout_ms),
        "protocol": request.server_assignor,
        "subscribed_topics": _texts_or_none(request.subscribed_topic_names),
        "subscribed_regex": request.subscribed_topic_regex or None,
        "owned": _by_id(request.topic_partitions, names),
        "assignment": _assigned(response, names),
    }
    return _news(facts)


def _share_heartbeat(request, response, names):
    facts = _member_heartbeat(request, response, "share")
    facts["subscribed_topics"] = _texts_or_none(request.subscribed_topic_names)
    facts["assignment"] = _assigned(response, names)
    return _news(facts)


def _streams_heartbeat(request, response, names):
    facts = _member_heartbeat(request, response, "streams")
    facts |= {
        "group_instance_id": request.instance_id,
        "rebalance_timeout_ms": _generation(request.rebalance_timeout_ms),
        "subscribed_topics": _source_topics(request.topology),
        "owned": _tasks(request.active_tasks),
        "assignment": None if response is None else _tasks(response.active_tasks),
    }
    if response is not None and response.status and not facts["reason"]:
        facts["reason"] = "; ".join(_texts([each.status_detail for each in response.status[:MOST_PROTOCOLS]]))
    return _news(facts)


cdef object _assigned(response, names):
    if response is None or response.assignment is None:
        return None
    return _by_id(response.assignment.topic_partitions, names)


cdef object _tasks(tasks):
    return None if tasks is None else _partitions([(each.subtopology_id, each.partitions) for each in tasks])


cdef object _source_topics(topology):
    if topology is None or topology.subtopologies is None:
        return None
    sources = [(*_each(each.source_topics), *_each(each.source_topic_regex)) for each in topology.subtopologies]
    return list(dict.fromkeys(_texts([topic for topics in sources for topic in topics])))


cdef object _texts_or_none(values):
    return None if values is None else _texts(values)


# What is not about one membership


def _commit(request, response, names):
    code = 0 if response is None else _first_error(response)
    if not code:
        return []
    generation = getattr(request, "generation_id_or_member_epoch", None)
    return [{
        "group_id": request.group_id or "",
        "event": "commit",
        "member_id": request.member_id,
        "group_instance_id": request.group_instance_id,
        "generation": _generation(request.generation_id if generation is None else generation),
        "error_code": code,
    }]


cdef object _first_error(response):
    for topic in _each(response.topics):
        for each in _each(topic.partitions):
            if each.error_code:
                return each.error_code
    return 0


def _coordinator(request, response, names):
    events = []
    if response is None or request.key_type != GROUP_KEY:
        return events
    answers = _each(response.coordinators) or [response]
    for each in answers:
        known = not each.error_code
        events.append({
            "group_id": getattr(each, "key", None) or request.key or "",
            "event": "coordinator",
            "coordinator": f"{each.host}:{each.port}" if known else None,
            "coordinator_id": each.node_id if known else None,
            "error_code": each.error_code,
            "reason": _message(each),
        })
    return events


def _delete(request, response, names):
    answers = {} if response is None else {each.group_id: each.error_code for each in _each(response.results)}
    return [
        {"group_id": group_id, "event": "delete", "error_code": answers.get(group_id)}
        for group_id in _texts(request.groups_names)
    ]


READERS = {
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
ONLY_FAILED = frozenset({"HeartbeatRequest", "OffsetCommitRequest", "TxnOffsetCommitRequest"})  # no row without an error code
