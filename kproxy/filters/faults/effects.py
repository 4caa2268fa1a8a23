"""Errors of faults in responses: in a response made here, for selected topics only, or in the broker's own response.

    whole       nothing of the request goes to the broker; the error is wherever the response has a place (error_responses.py)
    split       the selected topics are removed from the request, the broker answers the rest, and their errors are put into its
                response: a Produce to these topics is not appended, to the others it is
    in place    the error replaces what the broker's response says about the selected topics. Fetch and Metadata always:
                they change nothing at the broker, and clients need the rest of the response (brokers, the fetch session)

ApiVersions with UNSUPPORTED_VERSION is answered in version 0, as brokers do (KIP-511).
"""

import copy
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from kproxy.filters.contract import Reply, Request
from kproxy.filters.error_responses import ERRORS, NOTHING, Filled, error_places, error_response
from kproxy.filters.named_resources import Topic, TopicPlace, elements_at, is_topic, keep_topics, topic_of, topic_places
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.structs import struct_types

ALWAYS_IN_PLACE = frozenset({ApiKey.FETCH, ApiKey.METADATA})
OF_WHOLE_RESPONSE: dict[int, frozenset[int]] = {  # errors of these responses that are not of a topic
    ApiKey.FETCH: frozenset(
        {
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        }
    ),
    ApiKey.METADATA: frozenset({ErrorCode.REBOOTSTRAP_REQUIRED}),
}
OF_PARTITIONS = {ApiKey.METADATA: frozenset({ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND})}
FIRST_VERSION_WITH_ERROR = {ApiKey.FETCH: 7, ApiKey.METADATA: 13}  # of the response itself
Selects = Callable[[str, str], bool]  # whether a fault is for a topic: its name and its id; one of them may be ""


def error_reply(request: Request, code: int) -> Reply | None:
    """Return the reply with the error; None if the API has no place for one."""
    message: Any = error_response(request, code)
    if message is None:
        return None
    if request.api_key == ApiKey.JOIN_GROUP:  # brokers repeat the member id (GroupMetadataManager), or assign one
        join: Any = request.message
        is_new = code == ErrorCode.MEMBER_ID_REQUIRED and not join.member_id
        message.member_id = f"{request.client_id or ''}-{uuid.uuid4()}" if is_new else join.member_id
    if request.api_key == ApiKey.API_VERSIONS and code == ErrorCode.UNSUPPORTED_VERSION:
        offered = struct_types("ApiVersionsResponse")["ApiVersion"]
        message.api_keys = [offered(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=request.api_version)]
        return Reply(message, version=0)
    return Reply(message)


def is_of_whole_response(request: Request, code: int) -> bool:
    """Return whether an error, put into an existing response, belongs to the response itself and not to a topic."""
    first = FIRST_VERSION_WITH_ERROR.get(ApiKey(request.api_key), 0)
    return code in OF_WHOLE_RESPONSE.get(request.api_key, ()) and request.api_version >= first


def can_split(request: Request) -> bool:
    """Return whether some topics of a request can be answered separately: all errors of its response belong to topics."""
    places = error_places(request.api_key, request.api_version)
    return places is not None and places.error is None and bool(places.arrays)


def answers_topics(request: Request) -> bool:
    """Return whether the response has topics with errors."""
    return bool(topic_places(request.api_key, request.api_version, of_response=True))


def part_of(request: Request, keeps: Selects) -> Request:
    """Return a copy of the request with only the topics for which *keeps* is true."""
    message = copy.deepcopy(request.message)
    keep_topics(message, topic_places(request.api_key, request.api_version), keeps)
    return replace(request, message=message)


def merge(response: Any, part: Request, code: int) -> None:
    """Put the error for the topics in *part* into the broker's response to the other topics."""
    places = error_places(part.api_key, part.api_version)
    made = error_response(part, code)
    if places is not None and made is not None:
        _merge(response, made, places.arrays)


def _merge(there: Any, made: Any, arrays: Iterable[Filled]) -> None:
    for array in arrays:
        present = getattr(there, array.target)
        names = [name for name, _ in array.sources[0].names]
        below = array.sources[0].arrays
        for element in getattr(made, array.target):
            same = (each for each in present if all(getattr(each, name) == getattr(element, name) for name in names))
            existing = next(same, None) if below else None
            if existing is None:
                present.append(element)
            else:
                _merge(existing, element, below)


def add_missing_partitions(request: Request, response: Any, topics: dict[Topic, set[int]], selects: Selects) -> None:
    """Add the partitions of selected topics that the response to a Fetch leaves out, without records.

    In a fetch session a response has only partitions with news, so an error for another one has to be added.
    """
    (place,) = topic_places(request.api_key, request.api_version, of_response=True)
    types = struct_types("FetchResponse")
    there = {topic_of(element, place): element for element in response.responses}
    for topic, partitions in topics.items():
        if not selects(*topic):
            continue
        element: Any = there.get(topic)
        if element is None:
            name, topic_id = topic
            known_as = {place.name: name} if place.name else {"topic_id": topic_id or ZERO_UUID}
            element = types["FetchableTopicResponse"](**known_as)
            response.responses.append(element)
        present = {each.partition_index for each in element.partitions}
        for index in sorted(partitions - present):
            element.partitions.append(types["PartitionData"](partition_index=index, **NOTHING[ApiKey.FETCH]))


def put_in_place(request: Request, response: Any, code: int, selects: Selects) -> None:
    """Put the error into the selected topics of a response, in place of what the broker says about them."""
    if is_of_whole_response(request, code):
        response.error_code = code
        for array in ("responses", "topics"):
            if hasattr(response, array):
                setattr(response, array, [])
        return
    failing = _Failing(request, code)
    places = topic_places(request.api_key, request.api_version, of_response=True)
    for element in list(_selected(response, places, selects)):
        failing.fail(element)


def _selected(struct: Any, places: Iterable[TopicPlace], selects: Selects) -> Iterator[Any]:
    """Yield the elements of a response that are selected topics."""
    for place in places:
        for element in elements_at(place, struct):
            if not is_topic(place, element):
                yield from _selected(element, place.below, selects)
            elif selects(*topic_of(element, place)):
                yield element


class _Failing:
    """An error that is put into structs of the response to a request."""

    def __init__(self, request: Request, code: int) -> None:
        self._version = request.api_version
        self._code = code
        self._nothing = NOTHING.get(ApiKey(request.api_key), {})
        self._is_of_partitions = code in OF_PARTITIONS.get(ApiKey(request.api_key), ())

    def fail(self, struct: Any) -> None:
        """Put the error into a struct, or into the structs of its arrays if it has no place itself."""
        fields = [field for field in struct.fields if self._version in field.versions]
        error = next((field.attribute for field in fields if field.name in ERRORS), None)
        arrays = [field.attribute for field in fields if field.is_array and field.is_struct]
        if error is None or (self._is_of_partitions and arrays):
            for element in (each for attribute in arrays for each in getattr(struct, attribute) or ()):
                self.fail(element)
            return
        setattr(struct, error, self._code)
        for field in fields:
            if field.attribute in self._nothing:
                setattr(struct, field.attribute, self._nothing[field.attribute])
            elif field.name == "ErrorMessage":
                setattr(struct, field.attribute, None)
        if self._code == ErrorCode.LISTENER_NOT_FOUND and hasattr(struct, "leader_id"):
            struct.leader_id = -1
        for attribute in arrays:
            setattr(struct, attribute, [])
