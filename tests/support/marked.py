"""Messages of every API at every version: in ``Marked`` every name is marked, in samples every field has a value of its own.

What is a name is taken from Kafka's entity types in the facts, and from SPECIAL where no entity type says it. Values are the
same each time; a marked message's field that is no name has a value that is not its default.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from struct import pack
from typing import Any

from kproxy.protocol import Message, message, request_message, response_message
from kproxy.protocol.facts import Field, Layout, facts
from kproxy.protocol.structs import struct_types
from tests.support.wire import newest_layout

TOPIC, GROUP, TRANSACTIONAL_ID = "topicName", "groupId", "transactionalId"
REGEX = "a regular expression of names"
ENTITIES = (TOPIC, GROUP, TRANSACTIONAL_ID)
TOPIC_ID = base64.urlsafe_b64encode(bytes(range(16))).decode()[:22]
Name = Callable[[str], str]  # entity type -> the name


def subscription(name: Name) -> bytes:
    """ConsumerProtocolSubscription version 1: a topic, user data, an owned partition."""
    topic = name(TOPIC).encode()
    sized = pack(">h", len(topic)) + topic
    return pack(">hi", 1, 1) + sized + pack(">i", 2) + b"ud" + pack(">i", 1) + sized + pack(">ii", 1, 7)


def assignment(name: Name) -> bytes:
    """ConsumerProtocolAssignment version 0: a topic with a partition, no user data."""
    topic = name(TOPIC).encode()
    return pack(">hi", 0, 1) + pack(">h", len(topic)) + topic + pack(">ii", 1, 7) + pack(">i", -1)


# What no entity type marks, by message and JSON path: values that depend on names, and the values that choose them
SPECIAL: dict[tuple[str, str], Callable[[Name], Any]] = {
    ("FindCoordinatorRequest", "key"): lambda name: name(GROUP),
    ("FindCoordinatorRequest", "keyType"): lambda name: 0,
    ("FindCoordinatorRequest", "coordinatorKeys"): lambda name: [name(GROUP)],
    ("FindCoordinatorResponse", "coordinators.key"): lambda name: name(GROUP),
    ("ConsumerGroupHeartbeatRequest", "subscribedTopicRegex"): lambda name: name(REGEX),
    ("ConsumerGroupDescribeResponse", "groups.members.subscribedTopicRegex"): lambda name: name(REGEX),
    ("StreamsGroupHeartbeatRequest", "topology.subtopologies.sourceTopicRegex"): lambda name: [name(REGEX)],
    ("ListTransactionsRequest", "transactionalIdPattern"): lambda name: name(REGEX),
    ("JoinGroupRequest", "protocolType"): lambda name: "consumer",
    ("JoinGroupRequest", "protocols.metadata"): subscription,
    ("JoinGroupResponse", "protocolType"): lambda name: "consumer",
    ("JoinGroupResponse", "members.metadata"): subscription,
    ("SyncGroupRequest", "protocolType"): lambda name: "consumer",
    ("SyncGroupRequest", "assignments.assignment"): assignment,
    ("SyncGroupResponse", "protocolType"): lambda name: "consumer",
    ("SyncGroupResponse", "assignment"): assignment,
    ("DescribeGroupsResponse", "groups.protocolType"): lambda name: "consumer",
    ("DescribeGroupsResponse", "groups.members.memberMetadata"): subscription,
    ("DescribeGroupsResponse", "groups.members.memberAssignment"): assignment,
}
for _api, _array in (("CreateAcls", "creations."), ("DescribeAcls", ""), ("DeleteAcls", "filters.")):
    _end = "" if _api == "CreateAcls" else "Filter"
    SPECIAL |= {
        (f"{_api}Request", f"{_array}resourceType{_end}"): lambda name: 2,
        (f"{_api}Request", f"{_array}resourceName{_end}"): lambda name: name(TOPIC),
        (f"{_api}Request", f"{_array}patternType{_end}"): lambda name: 3,
        (f"{_api}Request", f"{_array}resourcePatternType"): lambda name: 3,
    }
for _api, _array in (("DescribeAcls", "resources."), ("DeleteAcls", "filterResults.matchingAcls.")):
    SPECIAL |= {
        (f"{_api}Response", f"{_array}resourceType"): lambda name: 2,
        (f"{_api}Response", f"{_array}resourceName"): lambda name: name(TOPIC),
        (f"{_api}Response", f"{_array}patternType"): lambda name: 3,
    }
for _message, _array in (
    ("DescribeConfigsRequest", "resources."),
    ("DescribeConfigsResponse", "results."),
    ("AlterConfigsRequest", "resources."),
    ("AlterConfigsResponse", "responses."),
    ("IncrementalAlterConfigsRequest", "resources."),
    ("IncrementalAlterConfigsResponse", "responses."),
    ("ListConfigResourcesResponse", "configResources."),
):
    SPECIAL |= {
        (_message, f"{_array}resourceType"): lambda name: 2,
        (_message, f"{_array}resourceName"): lambda name: name(TOPIC),
    }
PLAIN: dict[str, Any] = {
    "bool": True,
    "float64": 1.5,
    "string": "plain",
    "bytes": b"plain",
    "records": b"",
    "uuid": TOPIC_ID,
}


@dataclass(frozen=True)
class Marked:
    """A message with its version, and how to make it."""

    name: str
    version: int
    layout: Layout

    def make(self, *named: Name) -> Any:
        """The message; arrays of structs with names in them have an element for each of *named*, the others one."""
        made = struct_types(self.name)[self.name](**self._values(self.layout.fields, "", named[0], named))
        if self.layout is not facts().layouts(self.name)[0]:
            made.layout = self.layout.release
        return made

    def encoded(self, *named: Name) -> bytes:
        """Its bytes."""
        return message(self.name).encode(self.version, self.make(*named))

    def has_names(self) -> bool:
        """Whether it carries a name at this version."""
        return any(self._is_name(path, field) for path, field in self.fields())

    def fields(self) -> Iterator[tuple[str, Field]]:
        """Every field of this version with its JSON path."""
        return self._walk(self.layout.fields, "")

    def _walk(self, fields: tuple[Field, ...], above: str) -> Iterator[tuple[str, Field]]:
        for field in fields:
            if self.version in field.versions:
                yield above + field.json_name, field
                yield from self._walk(field.fields, f"{above}{field.json_name}.")

    def _is_name(self, path: str, field: Field) -> bool:
        special = SPECIAL.get((self.name, path))
        return field.entity in ENTITIES or (
            special is not None and special(lambda kind: "1") != special(lambda kind: "2")
        )

    def _values(self, fields: tuple[Field, ...], above: str, name: Name, named: tuple[Name, ...]) -> dict[str, Any]:
        present = [field for field in fields if self.version in field.versions]
        return {field.attribute: self._value(field, above + field.json_name, name, named) for field in present}

    def _value(self, field: Field, path: str, name: Name, named: tuple[Name, ...]) -> Any:
        special = SPECIAL.get((self.name, path))
        if special is not None:
            return special(name)
        if field.is_struct:
            return self._structs(field, path, name, named)
        if field.entity in ENTITIES:
            return [each(field.entity) for each in self._each(name, named)] if field.is_array else name(field.entity)
        value = PLAIN.get(field.type, 5)
        return [value] if field.is_array else value

    def _structs(self, field: Field, path: str, name: Name, named: tuple[Name, ...]) -> Any:
        """One struct or an array of them; where a struct itself is of a name, an element for each of *named*."""
        make = struct_types(self.name)[field.type]
        if not field.is_array:
            return make(**self._values(field.fields, f"{path}.", name, named))
        if not any(self._names_its_struct(f"{path}.{each.json_name}", each) for each in field.fields):
            return [make(**self._values(field.fields, f"{path}.", name, named))]
        return [make(**self._values(field.fields, f"{path}.", one, (one,))) for one in self._each(name, named)]

    def _names_its_struct(self, path: str, field: Field) -> bool:
        is_text = field.type == "string" and not field.is_array and self.version in field.versions
        return is_text and not field.name.endswith("Regex") and self._is_name(path, field)

    def _each(self, name: Name, named: tuple[Name, ...]) -> tuple[Name, ...]:
        return named if name is named[0] else (name,)


def newest(name: str, version: int) -> Marked:
    """A message at a version, in its newest layout."""
    return Marked(name, version, next(each for each in facts().layouts(name) if version in each.versions))


def messages(kind: str) -> list[Marked]:
    """Every request or response at every version and layout: *kind* is "request" or "response"."""
    found = []
    for name in facts().messages():
        for layout in facts().layouts(name):
            if layout.type == kind:
                found += [Marked(name, version, layout) for version in layout.versions]
    return found


VERSIONS = [
    (key, version)
    for key in sorted(facts().apis)
    if (known := request_message(key)) is not None
    for version in known.versions
]


def sample_request(api_key: int, version: int) -> Any:
    """The request; the same at every call."""
    return _sample(request_message(api_key), version)


def sample_response(api_key: int, version: int) -> Any:
    """The response; the same at every call."""
    return _sample(response_message(api_key), version)


def _sample(message: Message | None, version: int) -> Any:
    assert message is not None
    layout = newest_layout(message.name, version)
    return _struct(layout.name, message.name, layout.fields, version, count(1))


def _struct(message: str, name: str, fields: tuple[Field, ...], version: int, numbers: Any) -> Any:
    values = {
        field.attribute: _value(message, field, version, numbers) for field in fields if version in field.versions
    }
    return struct_types(message)[name](**values)


def _value(message: str, field: Field, version: int, numbers: Any) -> Any:
    if field.is_array:
        return [_single(message, field, version, numbers) for _ in range(2)]
    return _single(message, field, version, numbers)


def _single(message: str, field: Field, version: int, numbers: Any) -> Any:
    number = next(numbers)
    if field.is_struct:
        return _struct(message, field.type, field.fields, version, numbers)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode()[:22]
    others = {"string": f"{field.attribute[:10]}{number}", "bytes": b"", "records": b"", "bool": False}
    return others.get(field.type, float(number) if field.type == "float64" else number % 100)
