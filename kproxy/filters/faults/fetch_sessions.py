"""The partitions that a Fetch asks for: in a session, a request names only what has changed since the last one (KIP-227).

An incremental response leaves out partitions without news, so an error for such a partition has to be added to it.
"""

from collections.abc import Iterator
from typing import Any

from kproxy.filters.contract import Request
from kproxy.filters.error_responses import NOTHING
from kproxy.filters.faults.topics import Matches, TopicArray, topic_arrays, topic_of
from kproxy.protocol import ApiKey
from kproxy.protocol.ids import ZERO_UUID
from kproxy.protocol.structs import struct_types

NO_SESSION = (0, -1)  # epochs with which a request names all it asks for
RESPONSE = "FetchResponse"
Topic = tuple[str, str]  # name and id, of which one is empty


class FetchSession:
    """The partitions in the fetch session of one connection; a client has one session with a broker, on one connection."""

    def __init__(self) -> None:
        self.topics: dict[Topic, set[int]] = {}

    def note(self, request: Request) -> None:
        """Note what a request adds and removes."""
        message: Any = request.message
        named, *forgotten = topic_arrays(request.api_key, request.api_version)
        if request.api_version < 7 or message.session_epoch in NO_SESSION:
            self.topics = {}
        for array in forgotten:
            for element in getattr(message, array.attribute):
                self.topics.get(topic_of(element, array), set()).difference_update(element.partitions)
        for element in message.topics:
            partitions = self.topics.setdefault(topic_of(element, named), set())
            partitions.update(each.partition for each in element.partitions)
        self.topics = {topic: partitions for topic, partitions in self.topics.items() if partitions}


def add_missing(request: Request, response: Any, topics: dict[Topic, set[int]], selects: Matches) -> None:
    """Add the partitions of selected topics that a response leaves out, without records."""
    (array,) = topic_arrays(request.api_key, request.api_version, of_response=True)
    types = struct_types(RESPONSE)
    there = {topic_of(element, array): element for element in response.responses}
    for topic, partitions in _selected(topics, selects):
        element: Any = there.get(topic)
        if element is None:
            element = types["FetchableTopicResponse"](**_known_as(array, topic))
            response.responses.append(element)
        present = {each.partition_index for each in element.partitions}
        for index in sorted(partitions - present):
            element.partitions.append(types["PartitionData"](partition_index=index, **NOTHING[ApiKey.FETCH]))


def _selected(topics: dict[Topic, set[int]], selects: Matches) -> Iterator[tuple[Topic, set[int]]]:
    return ((topic, partitions) for topic, partitions in topics.items() if selects(*topic))


def _known_as(array: TopicArray, topic: Topic) -> dict[str, str]:
    name, topic_id = topic
    return {array.name: name} if array.name else {"topic_id": topic_id or ZERO_UUID}
