"""What messages name, found by the facts: resources of a request, topics of any message, error codes of a response.

Only names are read: no configuration value, credential, token, key or record.

Topics of responses are needed where a request may ask for all existing topics: with no list of topics, with an empty list, with
the pattern of an ACL, or with something else that leads to topics (a group, a transaction).
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kproxy.protocol import ApiKey, MessageStruct, request_message, response_message
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.values import value_sets

Resource = dict[str, Any]  # type, name or id; for ACLs and settings also what the request is about

MOST_RESOURCES = 1_000  # of one request; the rest is counted
MOST_LISTED = 1_000  # errors of a response that are listed with their paths
MOST_ELEMENTS = 100_000  # of a response that are searched for errors
ENTITIES = {"topicName": "topic", "groupId": "group", "transactionalId": "transactional_id"}
CONFIG_TYPES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}  # ConfigResource.Type
ACL_TYPES = {1: "any", 2: "topic", 3: "group", 4: "cluster", 5: "transactional_id", 6: "delegation_token", 7: "user"}
ACLS = {ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.DESCRIBE_ACLS}
QUOTAS = {ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.DESCRIBE_CLIENT_QUOTAS}
DEFAULT = "<default>"  # as kafka-configs.sh says it
OTHERS = {  # (API, field) -> type, of names that have no entity type
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "Name"): "user",
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "Name"): "user",
    (ApiKey.CREATE_DELEGATION_TOKEN, "PrincipalName"): "user",
    (ApiKey.CREATE_DELEGATION_TOKEN, "OwnerPrincipalName"): "user",
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, "PrincipalName"): "user",
    (ApiKey.UPDATE_FEATURES, "Feature"): "feature",
    (ApiKey.UNREGISTER_BROKER, "BrokerId"): "broker",
    (ApiKey.ADD_RAFT_VOTER, "VoterId"): "voter",
    (ApiKey.REMOVE_RAFT_VOTER, "VoterId"): "voter",
}

# APIs whose responses may name topics that their requests do not name; deny.py handles Metadata by itself
TELLING = frozenset(
    (
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    )
)
# APIs whose responses describe groups: brokers describe no group with a topic that the client may not see
GROUPS = frozenset((ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE))
ANY_TYPE, TOPIC_TYPE = 1, 2  # of ResourceType; TOPIC_TYPE of ConfigResource.Type, too
LITERAL = 3  # of PatternType; also used for versions without a pattern type
EVERY_NAME = "*"  # the name in an ACL that is for every topic
SMALLEST = "-"  # of the characters that names of topics may have
NameOf = Callable[[str], str | None]  # of a topic id
Topic = tuple[str, str]  # name and id; one of them may be ""


class Place(NamedTuple):
    """A field whose value names a resource."""

    attribute: str
    kind: str
    is_array: bool
    is_id: bool  # a topic id


class Level(NamedTuple):
    """The names in the structs of one array, and the arrays below."""

    places: tuple[Place, ...]
    special: str  # "config", "acl", "quota", or none
    below: tuple[tuple[str, "Level"], ...]  # attribute of an array or a struct


def resources_of(api_key: int, api_version: int, message: MessageStruct, most: int = MOST_RESOURCES) -> list[Resource]:
    """Return the resources that a request names, each once, in order; if there are more than *most*, *most* + 1 of them."""
    resources: dict[tuple[object, ...], Resource] = {}
    level = _request_level(api_key, api_version)
    for resource in _walk(level, message, api_key) if level else ():
        resources.setdefault(tuple(resource.values()), resource)
        if len(resources) > most:
            break
    return list(resources.values())


def schema_fields(api_key: int, api_version: int, *, of_response: bool = False) -> tuple[Field, ...]:
    """Return the fields of an API's request or response at a version; none if that is not in the facts."""
    message = response_message(api_key) if of_response else request_message(api_key)
    layouts = facts().layouts(message.name) if message is not None else ()
    return next((layout.fields for layout in layouts if api_version in layout.versions), ())


@functools.cache
def names_topics(api_key: int) -> bool:
    """Return whether requests of an API name topics, at any version."""
    message = request_message(api_key)
    versions = message.versions if message is not None else ()
    return any(_has_topics(_request_level(api_key, version)) for version in versions)


def _has_topics(level: Level | None) -> bool:
    if level is None:
        return False
    may_be_of_topics = level.special in ("config", "acl")
    if may_be_of_topics or any(place.kind == "topic" for place in level.places):
        return True
    return any(_has_topics(below) for _, below in level.below)


def errors_of(api_key: int, api_version: int, message: MessageStruct) -> Counter[str]:
    """Count the error codes of a response by their names; empty: there are none."""
    return Counter(error_name(code) for _, code in _errors_in(api_key, api_version, message))


def error_objects(api_key: int, api_version: int, message: MessageStruct) -> list[dict[str, Any]]:
    """Return the error codes of a response as objects of path, code and name, as the decoded log has them.

    After MOST_LISTED of them, only codes that are not listed yet are added.
    """
    listed: list[dict[str, Any]] = []
    codes: set[int] = set()
    for path, code in _errors_in(api_key, api_version, message):
        if len(listed) < MOST_LISTED or code not in codes:
            listed.append({"path": path, "code": code, "name": error_name(code)})
            codes.add(code)
    return listed


def _errors_in(api_key: int, api_version: int, message: MessageStruct) -> Iterator[tuple[str, int]]:
    level = _error_level(api_key, api_version)
    return iter(()) if level is None else _codes(level, message, iter(range(MOST_ELEMENTS)))


def _walk(level: Level, struct: Any, api_key: int) -> Iterator[Resource]:
    if level.special:
        yield from _special(level.special, struct)
    for place in level.places:
        value = getattr(struct, place.attribute)
        for name in value or () if place.is_array else (value,):
            if name is not None and name != (ZERO_UUID if place.is_id else ""):
                yield {"type": place.kind, "id" if place.is_id else "name": name}
    for attribute, below in level.below:
        value = getattr(struct, attribute)
        for child in value if isinstance(value, list) else () if value is None else (value,):
            yield from _walk(below, child, api_key)


def _special(kind: str, struct: Any) -> Iterator[Resource]:
    """Yield the resources that settings, an ACL or a quota are for, with the names of what is changed, never values."""
    if kind == "quota":
        yield from _quotas(struct)
        return
    if kind == "config":
        configs = getattr(struct, "configs", None) or getattr(struct, "configuration_keys", None) or ()
        names = [getattr(config, "name", config) for config in configs][:MOST_RESOURCES]
        type_ = CONFIG_TYPES.get(struct.resource_type, str(struct.resource_type))
        yield {"type": type_, "name": struct.resource_name, "settings": Names(names)}
        return
    suffix = "" if hasattr(struct, "resource_type") else "_filter"
    values = {name: getattr(struct, f"{name}{suffix}", None) for name in ("resource_name", "principal", "host")}
    type_ = getattr(struct, f"resource_type{suffix}")
    pattern = getattr(struct, f"resource_pattern_type{suffix}", getattr(struct, f"pattern_type{suffix}", None))
    yield {
        "type": ACL_TYPES.get(type_, str(type_)),
        "name": values["resource_name"],
        "pattern": named_value("pattern-type", pattern),  # without one, in version 0: all are literal
        "principal": values["principal"],
        "host": values["host"],
        "operation": named_value("acl-operation", struct.operation),
        "permission": named_value("acl-permission-type", struct.permission_type),
    }


def _quotas(struct: Any) -> Iterator[Resource]:
    """Yield each part of the entity that a quota is for, such as a user and a client id. A null name: the default of its type."""
    if not hasattr(struct, "ops"):  # DescribeClientQuotas: a filter of entities
        match = named_value("quota-match-type", struct.match_type)
        yield {"type": "quota", "entity": struct.entity_type, "name": struct.match, "match": match}
        return
    whole = Names(
        f"{part.entity_type}={DEFAULT if part.entity_name is None else part.entity_name}" for part in struct.entity
    )
    settings = Names([op.key for op in struct.ops][:MOST_RESOURCES])
    for part in struct.entity:
        about = {"type": "quota", "entity": part.entity_type, "name": part.entity_name}
        yield {**about, "quotaOf": whole, "settings": settings}


@functools.cache
def named_value(values: str, value: int | None) -> str | None:
    """Return Kafka's name of an enum's value (special_values.txt); the number if it has none."""
    return None if value is None else value_sets()[values].texts.get(str(value), str(value))


class Names(tuple[str, ...]):
    """Names as one hashable value."""


@functools.cache
def _request_level(api_key: int, version: int) -> Level | None:
    return _level(api_key, schema_fields(api_key, version), version)


def _level(api_key: int, fields: tuple[Field, ...], version: int) -> Level | None:
    """Return where the fields of a struct, and the structs in them, name resources; None if nowhere."""
    names = {field.name for field in fields if version in field.versions}
    special = ""
    if api_key in ACLS and names & {"ResourceType", "ResourceTypeFilter"}:
        special = "acl"
    elif {"ResourceType", "ResourceName"} <= names:
        special = "config"
    elif api_key in QUOTAS and names & {"Entity", "MatchType"}:
        special = "quota"
    places, below = [], []
    for field in fields:
        if version not in field.versions:
            continue
        if field.is_struct:
            inner = None if special else _level(api_key, field.fields, version)
            if inner is not None:
                below.append((field.attribute, inner))
        elif kind := _kind(api_key, field):
            places.append(Place(field.attribute, kind, field.is_array, field.type == "uuid"))
    return Level(tuple(places), special, tuple(below)) if places or special or below else None


def _kind(api_key: int, field: Field) -> str | None:
    if field.entity in ENTITIES:
        return ENTITIES[field.entity]
    if field.type == "uuid" and field.name == "TopicId":
        return "topic"
    return next((kind for (key, name), kind in OTHERS.items() if key == api_key and name == field.name), None)


class ErrorLevel(NamedTuple):
    """The error codes in the structs of one array, and the arrays below: attributes with their names in Kafka's JSON."""

    codes: tuple[tuple[str, str], ...]
    below: tuple[tuple[str, str, "ErrorLevel"], ...]


@functools.cache
def _error_level(api_key: int, version: int) -> ErrorLevel | None:
    return _errors(schema_fields(api_key, version, of_response=True), version)


def _errors(fields: tuple[Field, ...], version: int) -> ErrorLevel | None:
    """Return where these fields, and the structs in them, have error codes; None if nowhere."""
    here = [field for field in fields if version in field.versions]
    codes = tuple((f.attribute, f.json_name) for f in here if f.type == "int16" and f.name.endswith("ErrorCode"))
    inner = ((f.attribute, f.json_name, _errors(f.fields, version)) for f in here if f.is_struct)
    below = tuple((attribute, name, level) for attribute, name, level in inner if level is not None)
    return ErrorLevel(codes, below) if codes or below else None


def _codes(level: ErrorLevel, struct: Any, budget: Iterator[int]) -> Iterator[tuple[str, int]]:
    """Yield the path and the code of each error, until the budget is used up."""
    for attribute, name in level.codes:
        code = getattr(struct, attribute)
        if code:
            yield name, code
    for attribute, name, below in level.below:
        value = getattr(struct, attribute)
        for index, child in enumerate(value if isinstance(value, list) else () if value is None else (value,)):
            if next(budget, None) is None:
                return
            for path, code in _codes(below, child, budget):
                yield f"{name}[{index}].{path}" if isinstance(value, list) else f"{name}.{path}", code


class TopicPlace(NamedTuple):
    """An array of topics, or an array or a struct with topics in it."""

    attribute: str
    is_array: bool
    name: str | None  # attribute of an element; "": the element itself is a name
    topic_id: str | None
    resource_type: str | None  # the name is that of a topic if this is TOPIC_TYPE
    below: tuple["TopicPlace", ...]


@functools.cache
def topic_places(api_key: int, api_version: int, *, of_response: bool = False) -> tuple[TopicPlace, ...]:
    return tuple(_topic_places(schema_fields(api_key, api_version, of_response=of_response), api_version))


def _topic_places(fields: Iterable[Field], version: int) -> Iterator[TopicPlace]:
    for field in fields:
        if version not in field.versions:
            continue
        if not field.is_struct:
            if field.is_array and field.entity == "topicName":
                yield TopicPlace(field.attribute, True, "", None, None, ())
            continue
        here = [each for each in field.fields if version in each.versions and not each.is_array]
        name = next((each.attribute for each in here if each.entity == "topicName"), None)
        topic_id = next((each.attribute for each in here if each.type == "uuid" and each.name == "TopicId"), None)
        type_ = next((each.attribute for each in here if each.name == "ResourceType"), None)
        if type_ is not None:
            name = next(each.attribute for each in here if each.name == "ResourceName")
        below = tuple(_topic_places(field.fields, version))
        if field.is_array and (name or topic_id):
            yield TopicPlace(field.attribute, True, name, topic_id, type_, below)
        elif below:
            yield TopicPlace(field.attribute, field.is_array, None, None, None, below)


def topics_of(struct: Any, places: Iterable[TopicPlace]) -> Iterator[Topic]:
    """Yield the name and id of each topic in a message. Either is "" if the message does not have it."""
    for place in places:
        for element in elements_at(place, struct):
            if is_topic(place, element):
                yield topic_of(element, place)
            yield from topics_of(element, place.below)


def keep_topics(struct: Any, places: Iterable[TopicPlace], keeps: Callable[[str, str], bool]) -> None:
    """Remove the topics for which *keeps* is false from a message; elements around them stay, even if empty."""
    for place in places:
        elements = elements_at(place, struct)
        if place.is_array and elements:
            elements = [each for each in elements if not is_topic(place, each) or keeps(*topic_of(each, place))]
            setattr(struct, place.attribute, elements)
        for element in elements if place.below else ():
            keep_topics(element, place.below, keeps)


def elements_at(place: TopicPlace, struct: Any) -> list[Any]:
    """Return the elements of an array, or a struct as the only one."""
    value = getattr(struct, place.attribute)
    if place.is_array:
        return value or []
    return [] if value is None else [value]


def is_topic(place: TopicPlace, element: Any) -> bool:
    """Return whether an element at a place is a topic, and not what has topics in it or a resource of another type."""
    if place.resource_type is not None:
        return bool(getattr(element, place.resource_type) == TOPIC_TYPE)
    return place.name is not None or place.topic_id is not None


def topic_of(element: Any, place: TopicPlace) -> Topic:
    """Return the name and id of the topic in an element. Either is "" if the element does not have it."""
    name = element if place.name == "" else getattr(element, place.name) if place.name else ""
    topic_id = getattr(element, place.topic_id) if place.topic_id else ZERO_UUID
    return name or "", "" if topic_id == ZERO_UUID else topic_id


def acts_on_all_topics(api_key: int, message: Any) -> bool:
    """Return whether a request does something with topics that it does not name."""
    if api_key == ApiKey.ELECT_LEADERS:
        return message.topic_partitions is None
    if api_key == ApiKey.CREATE_ACLS:
        return any(
            each.resource_type == TOPIC_TYPE and _is_pattern(each.resource_name, each.resource_pattern_type)
            for each in message.creations
        )
    return api_key == ApiKey.DELETE_ACLS and any(
        each.resource_type_filter == ANY_TYPE
        or (
            each.resource_type_filter == TOPIC_TYPE and _is_pattern(each.resource_name_filter, each.pattern_type_filter)
        )
        for each in message.filters
    )


def _is_pattern(name: str | None, pattern_type: int) -> bool:
    """Return whether the name in an ACL, or in a filter of ACLs, stands for more than the topic of that name."""
    return name is None or name == EVERY_NAME or pattern_type != LITERAL


def topics_in(api_key: int, api_version: int, message: MessageStruct, name_of: NameOf) -> list[str | None]:
    """Return the names of the topics in a response, each once; None for those whose name is not known."""
    places = topic_places(api_key, api_version, of_response=True)
    names = dict.fromkeys(_named(topic, name_of) for topic in topics_of(message, places))
    cursor = getattr(message, "next_cursor", None)
    if cursor is not None:
        names[cursor.topic_name] = None
    return list(names)


def without(api_key: int, api_version: int, message: Any, hidden: set[str | None], name_of: NameOf) -> None:
    """Remove the *hidden* topics from a response; a cursor for the next page then has as little of a hidden name as possible."""
    cursor = getattr(message, "next_cursor", None)
    if cursor is not None and cursor.topic_name in hidden:
        last = message.topics[-1].name if message.topics else ""
        cursor.topic_name, cursor.partition_index = _beginning_of_next(last or "", cursor.topic_name), 0
    places = topic_places(api_key, api_version, of_response=True)
    keep_topics(message, places, lambda name, topic_id: _named((name, topic_id), name_of) not in hidden)


def refuse_groups(
    api_key: int, api_version: int, message: Any, codes: Mapping[str | None, int | None], name_of: NameOf
) -> None:
    """Reduce each group that has a topic with an error code to its id and that code, as brokers do."""
    (place,) = topic_places(api_key, api_version, of_response=True)

    def reduced(group: Any) -> Any:
        group_codes = (codes.get(_named(topic, name_of)) for topic in topics_of(group, place.below))
        code = next((code for code in group_codes if code is not None), None)
        return group if code is None else type(group)(group_id=group.group_id, error_code=code)

    message.groups = [reduced(group) for group in message.groups]


def _named(topic: Topic, name_of: NameOf) -> str | None:
    name, topic_id = topic
    return name or (name_of(topic_id) if topic_id else name)


def _beginning_of_next(last: str, name: str) -> str:
    """Return the shortest beginning of *name* that sorts after *last*; if both are equal, the first name after them."""
    if last == name:
        return f"{name}{SMALLEST}"
    return next((name[:end] for end in range(1, len(name)) if name[:end] > last), name)
