"""Conditions of filters: CEL over what is known of a request that passes, of its connection and of the names in it.

The fields are those of kproxy.protocol.vocabulary in the scopes REQUEST and RESPONSE; MAKERS has the value of each.

A field that no version of the request has makes a condition false. A condition cannot be answered where a value is null or of a
wrong type, or where this version of the request lacks the field; the caller says what happens then. Messages contain no value of
the request, as it may be a password.
"""

import functools
from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from kproxy.filters.contract import Request
from kproxy.filters.named_resources import resources_of, schema_fields
from kproxy.options import CONDITION
from kproxy.protocol import MessageStruct, request_message
from kproxy.protocol.addresses import address_of
from kproxy.protocol.embedded.viewers import Content, Viewers, datum
from kproxy.protocol.expressions import Expression, check_types
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.records import Record, read_batches
from kproxy.protocol.records.limits import DEFAULT_LIMITS
from kproxy.protocol.records.objects import read_objects
from kproxy.protocol.records.reading import open_batches
from kproxy.protocol.vocabulary import ALIASES, Scope, fields_in

NAMED = {"topics", "resources", "request"}  # fields made from the names in a request, or from its body
MOST_NAMED = 100_000  # resources of one request that are asked about
TYPES_OF_LISTS = {"topics": "topic", "groups": "group", "transactionalIds": "transactional_id"}  # of resources
# The type of an option that is a condition
ConditionText = Annotated[str, Meta(extra_json_schema={CONDITION: Scope.REQUEST.value})]


class Condition:
    """A compiled condition; ``holds`` says whether it holds for a request.

    Raises ValueError, one sentence, for a text that is not CEL, uses unknown names, or compares values of different types.
    """

    def __init__(self, text: str, about: str = "when", *scopes: Scope) -> None:
        self.expression = Expression(text, fields_in(*(scopes or [Scope.REQUEST])), about, ALIASES)
        check_types(text, about)
        self.text = text
        self.needs_records = "record" in self.expression.names
        self.is_for_each_topic = self.needs_records or "topic" in self.expression.names
        self.needs_topics = self.is_for_each_topic or not NAMED.isdisjoint(self.expression.names)
        self.needs_login = not {"principal", "mechanism", "principalGroups", "claims"}.isdisjoint(self.expression.names)

    def holds(
        self,
        subject: "Subject",
        topic: str | None = None,
        record: dict[str, Any] | None = None,
        *,
        unclear: bool | None = None,
    ) -> bool:
        """Return whether it holds for a request, or for one topic of it.

        Args:
            subject: the request.
            topic: name of the topic, for a condition with ``topic``.
            record: one of Subject.records, for a condition with ``record``.
            unclear: what to return if the condition cannot be answered; None: raise ValueError.
        """
        try:
            return self._answer(subject, topic, record)
        except ValueError:
            if unclear is None:
                raise
            return unclear

    def may_hold(self, subject: "Subject") -> bool:
        """Return whether it may hold for some topic, whatever its name; False if the rest of the condition rules that out."""
        if not NAMED.isdisjoint(self.expression.names):
            return True  # what is named is not all that the request is about
        values = {name: subject[name] for name in self.expression.names if name != "topic"}
        try:
            return self.expression.evaluate(values) is not False  # it raises where it depends on topic
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError):
            return True

    def _answer(self, subject: "Subject", topic: str | None, record: dict[str, Any] | None) -> bool:
        own = {"topic": topic, "record": record}
        values = {name: own[name] if name in own else subject[name] for name in self.expression.names}
        try:
            result = self.expression.evaluate(values)
        except LookupError as error:
            missing = error.args[0] if error.args else None
            if isinstance(error, KeyError) and missing in subject.absent_fields:
                raise ValueError(f"{self.text!r}: this version of the request has no {missing}") from None
            return False
        except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
            reason = f"cannot be answered ({type(error).__name__}): a value is null, or of a wrong type"
            raise ValueError(f"{self.text!r} {reason}") from None
        if not isinstance(result, bool):
            raise ValueError(f"{self.text!r} must give true or false, not {type(result).__name__}")
        return result


class Subject(dict[str, Any]):
    """The values of the fields of a request, each made when it is first used.

    Raises ValueError for the names in a request that has more than MOST_NAMED.
    """

    def __init__(self, request: Request, topic_names: Any, records: "Records | None" = None) -> None:
        super().__init__()
        self.records = records or {}
        self._request = request
        self._topic_names = topic_names

    def __missing__(self, name: str) -> Any:
        made = MAKERS[name](self, self._request)
        self[name] = made
        return made

    @functools.cached_property
    def named(self) -> list[dict[str, Any]]:
        """The resources that the request names; a topic id has the name that Metadata gave for it, or None."""
        request = self._request
        resources = resources_of(request.api_key, request.api_version, request.message, MOST_NAMED)
        if len(resources) > MOST_NAMED:
            raise ValueError(f"the request names more than {MOST_NAMED:,} resources")
        for resource in resources:
            if "name" not in resource:
                resource["name"] = self._topic_names.get(resource["id"])
        return resources

    @property
    def body(self) -> dict[str, Any]:
        """The body of the request; topics by id have a name as well, where Metadata gave it."""
        return fields_of(self._request.api_key, self._request.api_version, self._request.message, self._topic_names)

    @property
    def absent_fields(self) -> frozenset[str]:
        """The fields that other versions of the request have, and this one has not."""
        return _absent_fields(self._request.api_key, self._request.api_version)

    def names(self, kind: str) -> list[str | None]:
        """Return the names of the resources of one type, each once."""
        return list(dict.fromkeys(resource["name"] for resource in self.named if resource["type"] == kind))


Records: TypeAlias = dict[str | None, list[dict[str, Any]]]


def read_records(message: Any, topic_names: Any, viewers: Viewers) -> Records:
    """Return the records of a Produce request as conditions see them, by topic. Raises ValueError if one cannot be read."""
    records: Records = {}
    for topic in message.topic_data:
        name = getattr(topic, "name", None) or topic_names.get(getattr(topic, "topic_id", ""))
        rows = records.setdefault(name, [])
        for partition in topic.partition_data:
            batches = read_batches(partition.records or b"")
            if batches.tail is not None:
                raise ValueError("a batch cannot be read")
            for opened in open_batches(batches, DEFAULT_LIMITS):
                read, error = read_objects(opened)
                if error is not None or opened.skipped is not None:
                    raise ValueError("a batch cannot be read to its end")
                rows += (_fields_of(record, name, partition.index, viewers) for record in read)
    return records


def _fields_of(record: Record, topic: str | None, partition: int, viewers: Viewers) -> dict[str, Any]:
    named = ((key if isinstance(key, str) else str(key), value) for key, value in record.headers)
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": datum(viewers.view(record.key, Content(topic, "key", record.headers))),
        "value": datum(viewers.view(record.value, Content(topic, "value", record.headers, record.key))),
        "headers": {
            name: datum(viewers.view(value, Content(topic, name, key=record.key, is_header=True)))
            for name, value in named
        },
    }


class TooManyStructs(ValueError):
    """A body has more structs than the caller allows."""


class StructLimit:
    """Counts the structs of a body against a limit; None: there is no limit."""

    def __init__(self, most: int | None) -> None:
        self._left = most

    def counted(self, structs: list[Any]) -> list[Any]:
        """Return the structs, counted against the limit. Raises TooManyStructs if they exceed it."""
        if self._left is not None:
            self._left -= len(structs)
            if self._left < 0:
                raise TooManyStructs
        return structs


def fields_of(
    api_key: int,
    api_version: int,
    message: MessageStruct,
    topic_names: Any,
    *,
    of_response: bool = False,
    most: int | None = None,
) -> dict[str, Any]:
    """Return the body of a request, or of a response, as Kafka's JSON without the fields of bytes and records.

    Raises TooManyStructs if its lists have more than *most* structs.
    """
    return dict(
        _members(
            schema_fields(api_key, api_version, of_response=of_response),
            message,
            api_version,
            topic_names,
            StructLimit(most),
        )
    )


def _members(
    fields: tuple[Field, ...], struct: Any, version: int, topic_names: Any, limit: StructLimit
) -> Iterator[tuple[str, Any]]:
    for field in fields:
        if version not in field.versions:
            if field.entity == "topicName" and (name := topic_names.get(getattr(struct, "topic_id", ""))) is not None:
                yield field.json_name, name
            continue
        if field.type in ("bytes", "records"):
            continue
        value = getattr(struct, field.attribute)
        if field.is_struct and value is not None:
            children = limit.counted(value) if field.is_array else [value]
            below = [dict(_members(field.fields, child, version, topic_names, limit)) for child in children]
            value = below if field.is_array else below[0]
        yield field.json_name, value


@functools.cache
def _absent_fields(api_key: int, api_version: int) -> frozenset[str]:
    message = request_message(api_key)
    layouts = facts().layouts(message.name) if message is not None else ()
    every = [each for layout in layouts for each in _names_of(layout.fields, None)]
    return frozenset(every).difference(_names_of(schema_fields(api_key, api_version), api_version))


def _names_of(fields: tuple[Field, ...], version: int | None) -> Iterator[str]:
    """Yield the names of the fields at a version (None: at any version), and of the fields of their structs."""
    for field in fields:
        if version is None or version in field.versions:
            yield field.json_name
            yield from _names_of(field.fields, version)


MAKERS: dict[str, Any] = {  # field -> its value
    "apiName": lambda subject, request: facts().apis[request.api_key].name,
    "apiKey": lambda subject, request: request.api_key,
    "apiVersion": lambda subject, request: request.api_version,
    "correlationId": lambda subject, request: request.correlation_id,
    "clientId": lambda subject, request: request.client_id,
    "expectsResponse": lambda subject, request: request.expects_response,
    "principal": lambda subject, request: request.connection.principal,
    "principalGroups": lambda subject, request: sorted(request.connection.groups),
    "claims": lambda subject, request: request.connection.claims,
    "mechanism": lambda subject, request: request.connection.mechanism,
    "software": lambda subject, request: (request.connection.software or (None,))[0],
    "softwareVersion": lambda subject, request: (request.connection.software or (None, None))[1],
    "client": lambda subject, request: request.connection.client,
    "address": lambda subject, request: address_of(request.connection.client),
    "broker": lambda subject, request: request.connection.broker,
    "listener": lambda subject, request: request.connection.listener,
    "cluster": lambda subject, request: request.connection.cluster,
    **{
        name: functools.partial(lambda subject, request, kind: subject.names(kind), kind=kind)
        for name, kind in TYPES_OF_LISTS.items()
    },
    "resources": lambda subject, request: [{"type": each["type"], "name": each["name"]} for each in subject.named],
    "request": lambda subject, request: subject.body,
}
