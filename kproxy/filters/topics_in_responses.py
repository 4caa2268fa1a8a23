"""Topics that responses name: list them, and remove some. Found in the facts, by names, ids and resource types.

They are needed where a request may ask for all existing topics: with no list of topics, with an empty list, with the pattern of
an ACL, or with something else that leads to topics (a group, a transaction).
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kproxy.protocol import ApiKey, MessageStruct, response_message
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.ids import ZERO_UUID

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
ANY, TOPIC = 1, 2  # of ResourceType; TOPIC of ConfigResource.Type, too
LITERAL = 3  # of PatternType; also used for versions without a pattern type
EVERY = "*"  # the name in an ACL that is for every topic
SMALLEST = "-"  # of the characters that names of topics may have
Name = Callable[[str], str | None]  # of a topic id


class Place(NamedTuple):
    """An array of topics, or an array or a struct with topics in it."""

    attribute: str
    is_array: bool
    name: str | None  # attribute of an element; "": the element itself is a name
    topic_id: str | None
    resource_type: str | None  # the name is that of a topic if this is TOPIC
    below: tuple["Place", ...]


def acts_on_all_topics(api_key: int, message: Any) -> bool:
    """Return whether a request does something with topics that it does not name."""
    if api_key == ApiKey.ELECT_LEADERS:
        return message.topic_partitions is None
    if api_key == ApiKey.CREATE_ACLS:
        return any(
            each.resource_type == TOPIC and _is_pattern(each.resource_name, each.resource_pattern_type)
            for each in message.creations
        )
    return api_key == ApiKey.DELETE_ACLS and any(
        each.resource_type_filter == ANY
        or (each.resource_type_filter == TOPIC and _is_pattern(each.resource_name_filter, each.pattern_type_filter))
        for each in message.filters
    )


def _is_pattern(name: str | None, pattern_type: int) -> bool:
    """Return whether the name in an ACL, or in a filter of ACLs, stands for more than the topic of that name."""
    return name is None or name == EVERY or pattern_type != LITERAL


def topics_in(api_key: int, api_version: int, message: MessageStruct, name_of: Name) -> list[str | None]:
    """Return the names of the topics in a response, each once; None for those whose name is not known."""
    names = dict.fromkeys(_names(places(api_key, api_version), message, name_of))
    cursor = getattr(message, "next_cursor", None)
    if cursor is not None:
        names[cursor.topic_name] = None
    return list(names)


def without(api_key: int, api_version: int, message: Any, hidden: set[str | None], name_of: Name) -> None:
    """Take the topics that are *hidden* out of a response. The page after it goes on behind a topic that is not named."""
    cursor = getattr(message, "next_cursor", None)
    if cursor is not None and cursor.topic_name in hidden:
        last = message.topics[-1].name if message.topics else ""
        cursor.topic_name, cursor.partition_index = _beginning_of_next(last or "", cursor.topic_name), 0
    _take_out(places(api_key, api_version), message, hidden, name_of)


def refuse_groups(
    api_key: int, api_version: int, message: Any, codes: Mapping[str | None, int | None], name_of: Name
) -> None:
    """Reduce each group that has a topic with an error code to its id and that code, as brokers do."""
    (place,) = places(api_key, api_version)

    def reduced(group: Any) -> Any:
        group_codes = (codes.get(name) for name in _names(place.below, group, name_of))
        code = next((code for code in group_codes if code is not None), None)
        return group if code is None else type(group)(group_id=group.group_id, error_code=code)

    message.groups = [reduced(group) for group in message.groups]


@functools.cache
def places(api_key: int, api_version: int) -> tuple[Place, ...]:
    """Return where the response of an API names topics."""
    message = response_message(api_key)
    layouts = facts().layouts(message.name) if message is not None else ()
    fields = next((layout.fields for layout in layouts if api_version in layout.versions), ())
    return tuple(_places(fields, api_version))


def _places(fields: Iterable[Field], version: int) -> Iterator[Place]:
    for field in fields:
        if version not in field.versions:
            continue
        if not field.is_struct:
            if field.is_array and field.entity == "topicName":
                yield Place(field.attribute, True, "", None, None, ())
            continue
        here = [each for each in field.fields if version in each.versions and not each.is_array]
        name = next((each.attribute for each in here if each.entity == "topicName"), None)
        topic_id = next((each.attribute for each in here if each.type == "uuid" and each.name == "TopicId"), None)
        type_ = next((each.attribute for each in here if each.name == "ResourceType"), None)
        if type_ is not None:
            name = next(each.attribute for each in here if each.name == "ResourceName")
        below = tuple(_places(field.fields, version))
        if field.is_array and (name or topic_id):
            yield Place(field.attribute, True, name, topic_id, type_, below)
        elif below:
            yield Place(field.attribute, field.is_array, None, None, None, below)


def _names(where: Iterable[Place], struct: Any, name_of: Name) -> Iterator[str | None]:
    for place in where:
        for element in _elements(place, struct):
            if _is_topic(place, element):
                yield _name(place, element, name_of)
            yield from _names(place.below, element, name_of)


def _take_out(where: Iterable[Place], struct: Any, hidden: set[str | None], name_of: Name) -> None:
    for place in where:
        elements = _elements(place, struct)
        if place.is_array and elements:
            kept = [each for each in elements if not (_is_topic(place, each) and _name(place, each, name_of) in hidden)]
            setattr(struct, place.attribute, kept)
            elements = kept
        for element in elements if place.below else ():
            _take_out(place.below, element, hidden, name_of)


def _elements(place: Place, struct: Any) -> list[Any]:
    value = getattr(struct, place.attribute)
    if place.is_array:
        return value or []
    return [] if value is None else [value]


def _is_topic(place: Place, element: Any) -> bool:
    if place.resource_type is not None:
        return bool(getattr(element, place.resource_type) == TOPIC)
    return place.name is not None or place.topic_id is not None


def _name(place: Place, element: Any, name_of: Name) -> str | None:
    if place.name == "":
        return str(element)
    name: str | None = getattr(element, place.name) if place.name else None
    topic_id = getattr(element, place.topic_id) if place.topic_id else ZERO_UUID
    return name or (name_of(topic_id) if topic_id != ZERO_UUID else name)


def _beginning_of_next(last: str, name: str) -> str:
    """The shortest beginning of *name*, which is listed after *last*, that is after *last*; if it is that, what is after it."""
    if last == name:
        return f"{name}{SMALLEST}"
    return next((name[:end] for end in range(1, len(name)) if name[:end] > last), name)
