"""The topics, groups, users ... that a request names, and the error codes in its response, found by the facts.

Only names are read: no configuration value, credential, token, key or record.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from kproxy.protocol import ApiKey, MessageStruct, request_message, response_message
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.values import value_sets

Resource = dict[str, Any]  # type, name or id; for ACLs and settings also what the request is about

MOST_RESOURCES = 1_000  # of one request; the rest is counted
MOST_LISTED = 1_000  # errors of a response that are listed with their paths
MOST_ELEMENTS = 100_000  # of a response that are searched for errors
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
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
            if name is not None and name != (ZERO_ID if place.is_id else ""):
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
    message = request_message(api_key)
    layouts = facts().layouts(message.name) if message is not None else ()
    fields = next((layout.fields for layout in layouts if version in layout.versions), ())
    return _level(api_key, fields, version)


def _level(api_key: int, fields: tuple[Field, ...], version: int) -> Level | None:
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
    message = response_message(api_key)
    layouts = facts().layouts(message.name) if message is not None else ()
    fields = next((layout.fields for layout in layouts if version in layout.versions), ())
    return _errors(fields, version)


def _errors(fields: tuple[Field, ...], version: int) -> ErrorLevel | None:
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
