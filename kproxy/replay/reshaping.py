"""Reshape requests and answers that ask for one thing in old versions and for several in new ones.

FindCoordinator   key (to version 3)                  coordinatorKeys (KIP-699)
OffsetFetch       groupId, topics (to version 7)      groups (KIP-709)
LeaveGroup        memberId (to version 2)             members (KIP-345)
DeleteTopics      topicNames (to version 5)           topics, by name or id (KIP-516)
"""

from collections.abc import Callable
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.structs import struct_types

FIRST_OF_SEVERAL: dict[int, int] = {  # API -> the first version of the new form
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.LEAVE_GROUP: 3,
    ApiKey.DELETE_TOPICS: 6,
}
OF_ANSWERS = (ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH)  # whose answers have two forms as well


def in_new_form(api_key: int | None, body: Any, version: int) -> None:
    """Change a request into the new form, for a version that has it, before its topics get names."""
    if api_key in FIRST_OF_SEVERAL and version >= FIRST_OF_SEVERAL[api_key]:
        _TO_NEW[api_key](body)


def in_old_form(api_key: int | None, body: Any, version: int) -> str | None:
    """Change a request into the old form; return why that is impossible, if it asks for several things.

    Its topics must have names. What is left in other fields is nothing that the old version would lose.
    """
    if api_key not in FIRST_OF_SEVERAL or version >= FIRST_OF_SEVERAL[api_key]:
        return None
    return _TO_OLD[api_key](body)


def several(api_key: int, request: Any, answer: Any, version: int) -> None:
    """Give an answer of the old form the fields of the new form as well, for a comparison. *request*: the one it answers."""
    if version >= FIRST_OF_SEVERAL.get(api_key, 0):
        return
    if api_key == ApiKey.FIND_COORDINATOR:
        made = struct_types("FindCoordinatorResponse")["Coordinator"](
            key=request.key or next(iter(request.coordinator_keys), ""),
            **{name: getattr(answer, name) for name in ("node_id", "host", "port", "error_code", "error_message")},
        )
        answer.coordinators = [made]
    elif api_key == ApiKey.OFFSET_FETCH:
        types = struct_types("OffsetFetchResponse")
        group = next((one.group_id for one in request.groups), request.group_id)
        topics = [
            types["OffsetFetchResponseTopics"](
                name=topic.name,
                partitions=[_as(types["OffsetFetchResponsePartitions"], one) for one in topic.partitions],
            )
            for topic in answer.topics
        ]
        answer.groups = [types["OffsetFetchResponseGroup"](group_id=group, topics=topics, error_code=answer.error_code)]


def _as(kind: Any, struct: Any) -> Any:
    """Return a struct of another type with the same fields."""
    return kind(**{name: getattr(struct, name) for name in kind.by_attribute if name in struct.by_attribute})


def _find_several(body: Any) -> None:
    if body.key:
        body.key, body.coordinator_keys = "", [body.key]


def _find_one(body: Any) -> str | None:
    if len(body.coordinator_keys) > 1:
        return _too_many(len(body.coordinator_keys), "coordinators")
    if body.coordinator_keys:
        body.key, body.coordinator_keys = body.coordinator_keys[0], []
    return None


def _offsets_of_several(body: Any) -> None:
    if not body.group_id:
        return
    types = struct_types("OffsetFetchRequest")
    topics = body.topics and [_as(types["OffsetFetchRequestTopics"], one) for one in body.topics]
    body.groups = [types["OffsetFetchRequestGroup"](group_id=body.group_id, topics=topics)]
    body.group_id, body.topics = "", []


def _offsets_of_one(body: Any) -> str | None:
    if len(body.groups) > 1:
        return _too_many(len(body.groups), "groups")
    if body.groups:
        [group] = body.groups
        kind = struct_types("OffsetFetchRequest")["OffsetFetchRequestTopic"]
        body.group_id, body.groups = group.group_id, []
        body.topics = group.topics and [_as(kind, one) for one in group.topics]
    return None


def _several_leave(body: Any) -> None:
    if body.member_id:
        made = struct_types("LeaveGroupRequest")["MemberIdentity"](member_id=body.member_id)
        body.member_id, body.members = "", [made]


def _one_leaves(body: Any) -> str | None:
    if len(body.members) > 1:
        return _too_many(len(body.members), "members")
    if body.members and body.members[0].member_id:
        body.member_id, body.members = body.members[0].member_id, []
    return None


def _delete_by_id(body: Any) -> None:
    if body.topic_names:
        kind = struct_types("DeleteTopicsRequest")["DeleteTopicState"]
        body.topics, body.topic_names = [kind(name=one) for one in body.topic_names], []


def _delete_by_name(body: Any) -> str | None:
    names = [one.name for one in body.topics]
    if None in names:
        return "this version names topics, and the name of a topic id is not known"
    if names:
        body.topics, body.topic_names = [], names
    return None


def _too_many(count: int, what: str) -> str:
    return f"it names {count:,} {what}, and this version can only name one"


_TO_NEW: dict[int, Callable[[Any], None]] = {
    ApiKey.FIND_COORDINATOR: _find_several,
    ApiKey.OFFSET_FETCH: _offsets_of_several,
    ApiKey.LEAVE_GROUP: _several_leave,
    ApiKey.DELETE_TOPICS: _delete_by_id,
}
_TO_OLD: dict[int, Callable[[Any], str | None]] = {
    ApiKey.FIND_COORDINATOR: _find_one,
    ApiKey.OFFSET_FETCH: _offsets_of_one,
    ApiKey.LEAVE_GROUP: _one_leaves,
    ApiKey.DELETE_TOPICS: _delete_by_name,
}
