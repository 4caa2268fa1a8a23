"""Topics in messages: where requests and responses have names and ids of topics at each version, found in the facts."""

import copy
import functools
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Self

from kproxy.filters.contract import Runtime, SharedSet
from kproxy.protocol import MessageStruct, request_message, response_message
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.ids import ZERO_UUID

MOST_NAMES = 200_000
LONGEST_SHARED = 160  # characters of a name, with which an id has room in a SharedSet
KEPT = "faults.topic_names"  # in Runtime.kept: id -> name
Matches = Callable[[str, str], bool]  # of a topic's name and its id, of which one may be empty


class TopicArray(NamedTuple):
    """An array of a message whose elements are topics, or contain arrays of topics."""

    attribute: str
    name: str | None  # attribute of the topic's name in an element; "": the element itself is the name
    topic_id: str | None  # attribute of its id in an element
    below: tuple["TopicArray", ...]  # arrays of an element that is no topic


@functools.cache
def topic_arrays(api_key: int, api_version: int, *, of_response: bool = False) -> tuple[TopicArray, ...]:
    """Return the arrays with topics in the requests or responses of an API at a version."""
    message = response_message(api_key) if of_response else request_message(api_key)
    layouts = () if message is None else facts().layouts(message.name)
    fields = next((layout.fields for layout in layouts if api_version in layout.versions), ())
    return tuple(_arrays(fields, api_version))


def _arrays(fields: Iterable[Field], version: int) -> Iterator[TopicArray]:
    for field in fields:
        if not field.is_array or version not in field.versions:
            continue
        if not field.is_struct:
            if field.entity == "topicName":
                yield TopicArray(field.attribute, "", None, ())
            continue
        inner = [each for each in field.fields if version in each.versions and not each.is_array]
        name = next((each.attribute for each in inner if each.entity == "topicName"), None)
        topic_id = next((each.attribute for each in inner if each.name == "TopicId"), None)
        below = () if name or topic_id else tuple(_arrays(field.fields, version))
        if name or topic_id or below:
            yield TopicArray(field.attribute, name, topic_id, below)


def topics_of(struct: Any, arrays: Iterable[TopicArray]) -> Iterator[tuple[str, str]]:
    """Yield name and id of each topic in a message; "" for the one that an element lacks."""
    for array in arrays:
        for element in getattr(struct, array.attribute) or ():
            if array.below:
                yield from topics_of(element, array.below)
            else:
                yield topic_of(element, array)


def topic_of(element: Any, array: TopicArray) -> tuple[str, str]:
    """Return name and id of the topic in an element."""
    name = element if array.name == "" else getattr(element, array.name) if array.name else ""
    topic_id = getattr(element, array.topic_id) if array.topic_id else ZERO_UUID
    return name or "", "" if topic_id == ZERO_UUID else topic_id


def only(struct: MessageStruct, arrays: Iterable[TopicArray], keeps: Matches) -> MessageStruct:
    """Return a copy of a message with only the topics for which *keeps* is true; elements around them stay, even if empty."""
    made = copy.copy(struct)
    for array in arrays:
        elements = getattr(struct, array.attribute)
        if elements is None:
            continue
        if array.below:
            kept = [only(element, array.below, keeps) for element in elements]
        else:
            kept = [element for element in elements if keeps(*topic_of(element, array))]
        setattr(made, array.attribute, kept)
    return made


class TopicNames:
    """The names of topic ids, learned from Metadata responses. They outlive a reload.

    A client's Metadata may have come to another worker. Workers share what they learn, but can only look up an id together with a
    name; so a pattern with a wildcard matches by id only what this worker has seen.
    """

    def __init__(self, names: dict[str, str], shared: SharedSet) -> None:
        self.names = names
        self._shared = shared

    @classmethod
    def of(cls, runtime: Runtime) -> Self:
        """Return the names of a cluster in a worker."""
        return cls(runtime.kept.setdefault(KEPT, {}), runtime.shared_set(KEPT))

    def learn(self, topic_id: str, name: str) -> None:
        """Note the name of an id."""
        if topic_id == ZERO_UUID or not name or self.names.get(topic_id) == name:
            return
        self.names[topic_id] = name
        if len(self.names) > MOST_NAMES:
            del self.names[next(iter(self.names))]
        if len(name) <= LONGEST_SHARED:
            self._shared.add(_pair(topic_id, name))

    def matches(self, patterns: tuple[str, ...], name: str, topic_id: str) -> bool:
        """Return whether a topic, known by its name or its id, matches one of the patterns."""
        name = name or self.names.get(topic_id, "")
        if name:
            return any(fnmatchcase(name, pattern) for pattern in patterns)
        return any(_pair(topic_id, pattern) in self._shared for pattern in patterns)


def _pair(topic_id: str, name: str) -> str:
    return f"{topic_id} {name}"
