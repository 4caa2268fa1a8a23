"""Conditions of filters: CEL over what is known of a request, its connection and what it names.

    api, apiKey, apiVersion, clientId            of the request
    principal, mechanism, software               who asks: see ConnectionFacts; null where it is not known
    softwareVersion
    client, address, listener, cluster           "host:port" and host of the client; where it came to
    topics, groups, transactionalIds             lists of the names in the request
    resources                                    list of {type, name}: all that it names
    topic                                        a rule with this is asked for each topic of the request by itself
    request                                      the body with Kafka's names, without bytes and records: request.topics[0].name

A field that no version of the request has makes a condition false. Whether one holds that cannot be answered, as a value is null
or of a wrong type, or as this version of the request lacks the field, is for the caller to say. Messages have no value of the
request: it may be a password.
"""

import functools
from collections.abc import Iterator
from typing import Any

from kproxy.filters.contract import Request
from kproxy.filters.named_resources import resources_of
from kproxy.protocol import MessageStruct, request_message, response_message
from kproxy.protocol.addresses import split_address
from kproxy.protocol.expressions import Expression
from kproxy.protocol.facts import Field, facts

NAMES = (
    *(
        "api",
        "apiKey",
        "apiVersion",
        "clientId",
        "principal",
        "mechanism",
        "software",
        "softwareVersion",
        "client",
        "address",
    ),
    *("listener", "cluster", "topics", "groups", "transactionalIds", "resources", "topic", "request"),
)
NAMED = {"topics", "resources", "request"}  # what a request names, or has in its body
MOST_NAMED = 100_000  # resources of one request that are asked about
LISTS = {"topics": "topic", "groups": "group", "transactionalIds": "transactional_id"}


class Condition:
    """A compiled condition; ``holds`` says whether it holds for a request. Raises ValueError for one that is no CEL."""

    def __init__(self, text: str, about: str = "when", names: tuple[str, ...] = NAMES) -> None:
        self._expression = Expression(text, names, about)
        self.text = text
        self.is_for_each_topic = "topic" in self._expression.names
        self.needs_topics = not {"topic", *NAMED}.isdisjoint(self._expression.names)
        self.needs_login = not {"principal", "mechanism"}.isdisjoint(self._expression.names)

    def holds(self, subject: "Subject", topic: str | None = None, *, unclear: bool | None = None) -> bool:
        """Whether it holds. *unclear* is the answer where there is none; if that is None, ValueError is raised."""
        try:
            return self._answer(subject, topic)
        except ValueError:
            if unclear is None:
                raise
            return unclear

    def may_hold(self, subject: "Subject") -> bool:
        """Whether it may hold for a topic whose name is not known; False: the rest of it says that it holds for none."""
        if not NAMED.isdisjoint(self._expression.names):
            return True  # what is named is not all that the request is about
        values = {name: subject[name] for name in self._expression.names if name != "topic"}
        try:
            return self._expression.evaluate(values) is not False  # it raises where it depends on topic
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError):
            return True

    def _answer(self, subject: "Subject", topic: str | None) -> bool:
        values = {name: topic if name == "topic" else subject[name] for name in self._expression.names}
        try:
            result = self._expression.evaluate(values)
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
    """What conditions may name of a request, made when it is asked for. Raises ValueError where it names more than MOST_NAMED."""

    def __init__(self, request: Request, topic_names: Any) -> None:
        super().__init__()
        self._request = request
        self._topic_names = topic_names

    def __missing__(self, name: str) -> Any:
        made = MAKERS[name](self, self._request)
        self[name] = made
        return made

    @functools.cached_property
    def named(self) -> list[dict[str, Any]]:
        """What the request names; topics by id have the name that Metadata gave, if any."""
        request = self._request
        found = resources_of(request.api_key, request.api_version, request.message, MOST_NAMED)
        if len(found) > MOST_NAMED:
            raise ValueError(f"the request names more than {MOST_NAMED:,} resources")
        for resource in found:
            if "name" not in resource:
                resource["name"] = self._topic_names.get(resource["id"])
        return found

    @property
    def body(self) -> dict[str, Any]:
        """The body of the request; topics by id have a name as well, where Metadata gave it."""
        return fields_of(self._request.api_key, self._request.api_version, self._request.message, self._topic_names)

    @property
    def absent_fields(self) -> frozenset[str]:
        """The fields that other versions of the request have, and this one has not."""
        return _absent_fields(self._request.api_key, self._request.api_version)

    def names(self, kind: str) -> list[str | None]:
        """The names of one kind."""
        return list(dict.fromkeys(resource["name"] for resource in self.named if resource["type"] == kind))


class TooManyStructs(ValueError):
    """A body has more structs than the caller wants."""


class Room:
    """For structs of a body; None: without a bound."""

    def __init__(self, most: int | None) -> None:
        self._left = most

    def take(self, structs: list[Any]) -> list[Any]:
        """They, where there is room. Raises TooManyStructs."""
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
    """The body of a request, or a response, as Kafka's JSON names it, without bytes and records.

    Raises TooManyStructs for one that has more than *most* in its lists.
    """
    return dict(_members(_fields(api_key, api_version, of_response), message, api_version, topic_names, Room(most)))


def _fields(api_key: int, api_version: int, of_response: bool = False) -> tuple[Field, ...]:
    found = response_message(api_key) if of_response else request_message(api_key)
    layouts = facts().layouts(found.name) if found is not None else ()
    return next((layout.fields for layout in layouts if api_version in layout.versions), ())


def _members(
    fields: tuple[Field, ...], struct: Any, version: int, topic_names: Any, room: Room
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
            children = room.take(value) if field.is_array else [value]
            below = [dict(_members(field.fields, child, version, topic_names, room)) for child in children]
            value = below if field.is_array else below[0]
        yield field.json_name, value


@functools.cache
def _absent_fields(api_key: int, api_version: int) -> frozenset[str]:
    found = request_message(api_key)
    layouts = facts().layouts(found.name) if found is not None else ()
    every = [each for layout in layouts for each in _names_of(layout.fields, None)]
    return frozenset(every).difference(_names_of(_fields(api_key, api_version), api_version))


def _names_of(fields: tuple[Field, ...], version: int | None) -> Iterator[str]:
    """The names of the fields at a version, and of those below; None: at any."""
    for field in fields:
        if version is None or version in field.versions:
            yield field.json_name
            yield from _names_of(field.fields, version)


MAKERS: dict[str, Any] = {
    "api": lambda subject, request: facts().apis[request.api_key].name,
    "apiKey": lambda subject, request: request.api_key,
    "apiVersion": lambda subject, request: request.api_version,
    "clientId": lambda subject, request: request.client_id,
    "principal": lambda subject, request: request.connection.principal,
    "mechanism": lambda subject, request: request.connection.mechanism,
    "software": lambda subject, request: (request.connection.software or (None,))[0],
    "softwareVersion": lambda subject, request: (request.connection.software or (None, None))[1],
    "client": lambda subject, request: request.connection.client,
    "address": lambda subject, request: split_address(request.connection.client)[0],
    "listener": lambda subject, request: request.connection.listener,
    "cluster": lambda subject, request: request.connection.cluster,
    **{
        name: functools.partial(lambda subject, request, kind: subject.names(kind), kind=kind)
        for name, kind in LISTS.items()
    },
    "resources": lambda subject, request: [{"type": each["type"], "name": each["name"]} for each in subject.named],
    "request": lambda subject, request: subject.body,
}
