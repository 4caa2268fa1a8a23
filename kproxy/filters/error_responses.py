"""The response to a request with an error in each place that has one: for each topic, partition or group in the request.

Made from the facts, for every API at every version. The referee of the tests is AbstractRequest.getErrorResponse of Kafka's own
classes:

    ErrorCode of the response itself     is set, with its ErrorMessage; arrays stay empty, except for the APIs in FILLED
    ErrorCode in the structs of arrays   an element for each thing that the request asks for, from the array of the request that
                                         names the same entities (topics, partitions, groups ...)
    neither                              there is no such response, and ``error_response`` returns None: the error can only be
                                         reported by closing the connection

It returns a message for ``Reply``. To a Produce with acks=0 the chain sends nothing, as the client expects nothing.

Of a Produce request, refuse_partitions refuses some partitions and forwards the others; add_refused adds them to the response.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kproxy.filters.contract import Forward, Replace, Reply, Request, Response, Verdict
from kproxy.protocol import ApiKey, Direction, MessageStruct, Versions, known_message, request_message, response_message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.facts import Field, Layout, facts
from kproxy.protocol.structs import struct_types

ERRORS, MESSAGE = ("ErrorCode", "PartitionErrorCode"), "ErrorMessage"
LONGEST_MESSAGE = 1_000  # characters
# Responses with an error of their own whose elements clients read for errors nevertheless, with the versions of that
FILLED: dict[int, Versions] = {
    ApiKey.METADATA: Versions(((0, 32_767),)),
    ApiKey.FETCH: Versions(((0, 12),)),
    ApiKey.ELECT_LEADERS: Versions(((0, 32_767),)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Versions(((0, 32_767),)),
}
# Responses with errors in arrays whose elements the request does not name: arrays stay empty, as when a client lacks permission
EMPTY = {ApiKey.DESCRIBE_LOG_DIRS}
# Names of fields that identify elements, in addition to map keys and to the entities below
IDENTITIES = {
    *("PartitionIndex", "Partition", "PartitionId", "Index", "PartitionIndexes", "PartitionIndices", "Partitions"),
    *("TopicId", "ResourceType", "ResourceName", "Key", "CoordinatorKeys", "EntityType", "EntityName", "User"),
}
SAME_NAMES = {("User", "Name")}  # of the response and of the request (AlterUserScramCredentials)
ENTITIES = {"topicName", "groupId", "transactionalId", "producerId"}
PARTITIONS = {
    "PartitionIndex",
    "Partition",
    "PartitionId",
    "Index",
    "PartitionIndexes",
    "PartitionIndices",
    "Partitions",
}


# Values that mean "nothing" where the default in the facts is another one, as in Kafka's own classes
NOTHING: dict[int, dict[str, Any]] = {
    ApiKey.PRODUCE: {"base_offset": -1},
    ApiKey.FETCH: {"high_watermark": -1, "records": b""},
    ApiKey.SHARE_FETCH: {"records": b""},
    ApiKey.OFFSET_FETCH: {"committed_offset": -1},
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
    ApiKey.JOIN_GROUP: {"protocol_name": None},
    ApiKey.DELETE_RECORDS: {"low_watermark": -1},
    ApiKey.INIT_PRODUCER_ID: {"producer_epoch": -1},
    ApiKey.CREATE_DELEGATION_TOKEN: {
        **dict.fromkeys(("principal_type", "token_requester_principal_type"), "User"),
        **dict.fromkeys(("principal_name", "token_requester_principal_name"), "ANONYMOUS"),
        **dict.fromkeys(("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"), -1),
    },
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
}


class Source(NamedTuple):
    """An array of the request for whose elements the response has elements too."""

    # Attributes from the request, or from its element, down to the array; several if the response has fewer levels
    path: tuple[str, ...]
    # Attribute of the new element, and of the request's element; "": the request's element itself
    names: tuple[tuple[str, str], ...]
    arrays: tuple["Filled", ...]  # of the new element


class Filled(NamedTuple):
    """An array of the response that has to be filled."""

    target: str  # its attribute
    struct: str  # name of its elements
    sources: tuple[Source, ...]
    error: str | None  # attribute of its elements
    has_message: bool
    nothing: tuple[tuple[str, Any], ...]  # attributes of its elements, and their values


class Places(NamedTuple):
    error: str | None  # attribute of the response
    has_message: bool
    arrays: tuple[Filled, ...]
    nothing: tuple[tuple[str, Any], ...]


def error_response(
    request: Request, error_code: int, message: str | None = None, *, in_elements: bool = False
) -> MessageStruct | None:
    """Make the response in which everything that *request* asks for fails; None if the API has no place for an error.

    Args:
        request: the request; its message is read.
        error_code: one of kproxy.protocol.error_codes.ErrorCode.
        message: for people, in the versions that have a field for it.
        in_elements: put the error only into the elements for the things that the request names, if the response has such elements
            besides an error of its own: so answers a broker that refuses some topics.
    """
    places = error_places(request.api_key, request.api_version, in_elements)
    if places is None:
        return None
    error = _Error(request, error_code, None if message is None else message[:LONGEST_MESSAGE])
    response = request.new_response(**dict(places.nothing))
    error.put(response, places.error, places.has_message)
    for filled in places.arrays:
        setattr(response, filled.target, error.elements(filled, request.message))
    if request.api_key == ApiKey.FETCH:
        response.session_id = getattr(request.message, "session_id", 0)
    return response  # type: ignore[no-any-return]


@functools.cache
def error_places(api_key: int, api_version: int, in_elements: bool = False) -> Places | None:
    """Return where an error goes in the response of an API at a version; None if there is no place, or it is not in the facts."""
    request, response = _layout(request_message(api_key), api_version), _layout(response_message(api_key), api_version)
    if request is None or response is None:
        return None
    walk = _Walk(api_version, NOTHING.get(api_key, {}))
    error = walk.error(response.fields)
    arrays: tuple[Filled, ...] = ()
    if in_elements or (error is None and api_key not in EMPTY) or api_version in FILLED.get(api_key, ()):
        arrays = tuple(walk.filled(response.fields, request.fields))
    if in_elements and arrays and api_key not in EMPTY:
        error = None
    if error is None and not arrays and api_key not in EMPTY:
        return None
    return Places(error, walk.has(response.fields, MESSAGE), arrays, walk.nothing(response.fields))


class _Error:
    """An error that is put into the structs of one response."""

    def __init__(self, request: Request, error_code: int, message: str | None) -> None:
        response = known_message(Direction.RESPONSE, request.api_key)
        self._types = struct_types(response.name)
        self._code = error_code
        self._message = message

    def put(self, struct: Any, error: str | None, has_message: bool) -> None:
        if error is not None:
            setattr(struct, error, self._code)
        if has_message:
            struct.error_message = self._message

    def elements(self, filled: Filled, request: Any) -> list[Any]:
        """Return the elements of an array of the response, one for each thing that *request* names, without duplicates."""
        made: dict[object, Any] = {}
        for source in filled.sources:
            for element in _elements(request, source.path):
                known = {name: getattr(element, of) if of else element for name, of in source.names}
                named = {name: value for name, value in known.items() if value is not None}
                struct = self._types[filled.struct](**{**dict(filled.nothing), **named})
                self.put(struct, filled.error, filled.has_message)
                for array in source.arrays:
                    setattr(struct, array.target, self.elements(array, element))
                made[tuple(known.values()) or len(made)] = struct
        return list(made.values())


def _elements(struct: Any, path: tuple[str, ...]) -> Iterator[Any]:
    for element in getattr(struct, path[0]) or ():
        if len(path) == 1:
            yield element
        else:
            yield from _elements(element, path[1:])


def _layout(message: Any, version: int) -> Layout | None:
    if message is None:
        return None
    return next((layout for layout in facts().layouts(message.name) if version in layout.versions), None)


class _Walk:
    """Walks the fields of a response and of its request at one version."""

    def __init__(self, version: int, nothing: dict[str, Any]) -> None:
        self._version = version
        self._nothing = nothing

    def has(self, fields: Iterable[Field], name: str) -> bool:
        """Return whether a field exists at the version."""
        return any(field.name == name and self._version in field.versions for field in fields)

    def error(self, fields: Iterable[Field]) -> str | None:
        """Return the attribute with the error code among the fields."""
        here = (field.attribute for field in fields if field.name in ERRORS and self._version in field.versions)
        return next(here, None)

    def nothing(self, fields: Iterable[Field]) -> tuple[tuple[str, Any], ...]:
        """Return the fields whose empty value is not the default, with that value; null only where this version allows it."""
        here = (field for field in fields if self._version in field.versions and field.attribute in self._nothing)
        values = ((field, self._nothing[field.attribute]) for field in here)
        return tuple((field.attribute, it) for field, it in values if it is not None or self._version in field.nullable)

    def filled(self, fields: Iterable[Field], of_request: Iterable[Field]) -> Iterator[Filled]:
        """Yield the arrays among *fields* that have errors, with the arrays of the request that their elements come from."""
        for field in fields:
            if self._carries_errors(field):
                yield from self._from(field, tuple(self._sources(field, of_request)))

    def _from(self, field: Field, sources: tuple[Source, ...]) -> Iterator[Filled]:
        if sources:
            error, has_message = self.error(field.fields), self.has(field.fields, MESSAGE)
            yield Filled(field.attribute, field.type, sources, error, has_message, self.nothing(field.fields))

    def _carries_errors(self, field: Field) -> bool:
        """Return whether the elements of an array have errors, directly or below."""
        if not (field.is_array and field.is_struct and self._version in field.versions):
            return False
        return self.error(field.fields) is not None or any(map(self._carries_errors, field.fields))

    def _sources(self, target: Field, of_request: Iterable[Field]) -> Iterator[Source]:
        """Yield the array of the request that names the elements of *target*.

        It is the one that shares most fields with it, and is nearest; for AlterUserScramCredentials, which
        deletes and upserts, both such arrays.
        """
        sources = [
            source
            for field in of_request
            if self._version in field.versions
            for source in self._from_array(target, field)
        ]
        most = max(map(_shared, sources), default=0)
        nearest = min((len(source.path) for source in sources if _shared(source) == most), default=0)
        best = [source for source in sources if _shared(source) == most and len(source.path) == nearest]
        has_more = any(field.name == here for field in target.fields for here, _ in SAME_NAMES)
        yield from best if has_more else best[:1]

    def _from_array(self, target: Field, field: Field) -> Iterator[Source]:
        if not field.is_array:
            return
        if not field.is_struct:
            same = next((each for each in target.fields if self._is_same(each, field)), None)
            if same is not None:
                yield Source((field.attribute,), ((same.attribute, ""),), ())
            return
        names = tuple(
            (here.attribute, there.attribute)
            for here in target.fields
            for there in field.fields
            if not there.is_array and self._version in there.versions and self._is_same(here, there)
        )
        arrays = (*self._below(target, field), *self._copied(target, field))
        if names or arrays or not any(_identifies(each) for each in target.fields if self._version in each.versions):
            yield Source((field.attribute,), names, arrays)
        for below in field.fields:
            if below.is_array and self._version in below.versions and not names:
                for source in self._from_array(target, below):
                    yield source._replace(path=(field.attribute, *source.path))

    def _below(self, target: Field, field: Field) -> Iterator[Filled]:
        """Yield the arrays with errors inside an element that has none itself."""
        if self.error(target.fields) is None:
            yield from self.filled(target.fields, field.fields)

    def _copied(self, target: Field, field: Field) -> Iterator[Filled]:
        """Yield arrays that only repeat what an element is about, such as Entity of AlterClientQuotas."""
        for here in target.fields:
            there = next((each for each in field.fields if each.name == here.name), None)
            if there is not None and here.is_array and here.is_struct and all(map(_identifies, here.fields)):
                yield from self._from(here, tuple(self._from_array(here, there)))

    def _is_same(self, here: Field, there: Field) -> bool:
        if here.is_array or self._version not in here.versions or here.type != there.type:
            return False
        if (here.name, there.name) in SAME_NAMES:
            return True
        if here.entity in ENTITIES or there.entity in ENTITIES:
            return here.entity == there.entity
        if here.name in PARTITIONS or there.name in PARTITIONS:
            return here.name in PARTITIONS and there.name in PARTITIONS
        return _identifies(here) and there.name in (here.name, f"{here.name}s", f"Coordinator{here.name}s")


def _identifies(field: Field) -> bool:
    return not field.is_array and (field.is_key or field.name in IDENTITIES or field.entity in ENTITIES)


def _shared(source: Source) -> int:
    return len(source.names) + sum(_shared(below) for array in source.arrays for below in array.sources[:1])


class RefusedPartition(NamedTuple):
    """A partition of a Produce request that is not sent to the broker."""

    topic: Any
    partition: Any
    error: int
    message: str | None = None
    records: Mapping[int, str | None] = {}  # what is wrong with which of its records, by number (KIP-467)


def refuse_partitions(request: Request, refused: Sequence[RefusedPartition], name: str) -> Verdict:
    """Return the verdict on a Produce request without some of its partitions, which is changed.

    The filter *name* has to want the response, and to return ``add_refused`` for it.
    """
    message: Any = request.message
    answer = _refusal(request, refused)
    out = {id(one.partition) for one in refused}
    for topic in message.topic_data:
        topic.partition_data = [one for one in topic.partition_data if id(one) not in out]
    message.topic_data = [topic for topic in message.topic_data if topic.partition_data]
    if not message.topic_data:
        return Reply(answer)
    request.kept[name] = answer
    return Replace(message)


def add_refused(response: Response, name: str) -> Verdict:
    """Return the verdict on the response to such a request: with the partitions that were refused."""
    refused = response.request.kept.pop(name, None)
    if refused is None:
        return Forward()
    message: Any = response.message
    topics = {_topic(topic): topic for topic in message.responses}
    for topic in refused.responses:
        if (known := topics.get(_topic(topic))) is not None:
            known.partition_responses.extend(topic.partition_responses)
        else:
            message.responses.append(topic)
    return Replace(message)


def _refusal(request: Request, refused: Sequence[RefusedPartition]) -> Any:
    """Return the response with an error for each refused partition."""
    types = struct_types("ProduceRequest")
    topics = []
    for topic in {id(one.topic): one.topic for one in refused}.values():
        partitions = [types["PartitionProduceData"](index=one.partition.index) for one in refused if one.topic is topic]
        named = {name: getattr(topic, name) for name in ("name", "topic_id")}
        topics.append(types["TopicProduceData"](**named, partition_data=partitions))
    message: Any = types["ProduceRequest"](topic_data=topics)
    answer: Any = error_response(replace(request, message=message), ErrorCode.UNKNOWN_SERVER_ERROR)
    by_place = {(_topic(one.topic), one.partition.index): one for one in refused}
    record_error = struct_types("ProduceResponse")["BatchIndexAndErrorMessage"]
    for topic in answer.responses:
        for partition in topic.partition_responses:
            one = by_place[_topic(topic), partition.index]
            partition.error_code, partition.error_message = one.error, one.message
            partition.record_errors = [
                record_error(batch_index=number, batch_index_error_message=problem)
                for number, problem in one.records.items()
            ]
    return answer


def _topic(topic: Any) -> tuple[Any, Any]:
    return topic.name, topic.topic_id
