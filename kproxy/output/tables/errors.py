"""Rows of the table errors: every error code of a response, with the topic, group or transactional id that it is about.

Which fields are error codes, their messages, names and partitions is found in the facts, once for each message at a version.
Only responses that have an error are searched.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kproxy.output.escaping import printable
from kproxy.output.tables.body import Body, requested_of
from kproxy.output.tables.rows import instant
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import Field, facts
from kproxy.session import Exchange

Row = tuple[Any, ...]

MOST = 10_000  # rows of one exchange
LONGEST = 500  # characters of a message
NONE = "none"
ENTITIES = {"topicName": "topic", "groupId": "group", "transactionalId": "transactional_id"}
KEY = "key"  # of a coordinator: a group or a transactional id, as the request says
PARTITIONS = ("partition_index", "partition", "partition_id", "index")
CONFIG_RESOURCES = {2: "topic", 4: "broker", 8: "broker", 32: "group"}  # ConfigResource.Type
COORDINATOR_KEYS = {0: "group", 1: "transactional_id"}  # CoordinatorType


class Place(NamedTuple):
    """The resource that an error code is about, as far as the structs around the code tell."""

    kind: str = NONE
    name: str | None = None
    partition: int | None = None


class Plan(NamedTuple):
    """The attributes of a struct, at one version, that are needed to find its errors."""

    codes: tuple[tuple[str, str | None], ...]  # of a code, and of the message that goes with it
    names: tuple[tuple[str, str], ...]  # attribute, kind of resource
    has_topic_id: bool
    is_config: bool  # it has resource_type and resource_name
    partition: str | None
    children: tuple[tuple[str, bool, "Plan"], ...]  # attribute, whether it is an array, what is in its structs


def error_rows(exchange: Exchange, request: Body | None, response: Body) -> Iterator[Row]:
    """Yield rows of the table errors, from column ``at`` on."""
    counted: dict[tuple[int, Place], list[Any]] = {}
    topic_names = exchange.topic_names
    for code, place, message in _walk(_plan(response.name, response.version), response.struct, Place()):
        key = code, _named(place, request, topic_names)
        known = counted.get(key)
        if known is not None:
            known[0] += 1
            known[1] = known[1] or message
        elif len(counted) < MOST:
            counted[key] = [1, message]
    at = None if exchange.response is None else instant(exchange.response.ended_at)
    head = at, exchange.api_key, exchange.api_name, exchange.client_id
    for (code, place), (count, message) in counted.items():
        text = None if not message else printable(message, LONGEST)
        yield *head, code, error_name(code), text, *place, count


def _walk(plan: Plan, struct: Any, place: Place) -> Iterator[tuple[int, Place, str | None]]:
    """Yield (code, what it is about, message) for every code other than 0."""
    place = _place(plan, struct, place)
    for attribute, message in plan.codes:
        code = getattr(struct, attribute)
        if code:
            yield code, place, None if message is None else getattr(struct, message)
    for attribute, is_array, inner in plan.children:
        below = getattr(struct, attribute)
        for each in (below or ()) if is_array else (() if below is None else (below,)):
            yield from _walk(inner, each, place)


def _place(plan: Plan, struct: Any, place: Place) -> Place:
    for attribute, kind in plan.names:
        name = getattr(struct, attribute)
        if name:
            return Place(kind, name if isinstance(name, str) else str(name), _partition(plan, struct))
    if plan.has_topic_id and struct.topic_id not in (None, ZERO_UUID):
        return Place("topic", struct.topic_id, _partition(plan, struct))
    if plan.is_config:
        kind = CONFIG_RESOURCES.get(struct.resource_type, NONE)
        return Place(kind, struct.resource_name) if kind != NONE and struct.resource_name else place
    if plan.partition is not None and place.kind == "topic":
        return place._replace(partition=_partition(plan, struct))
    return place


def _named(place: Place, request: Body | None, topic_names: Mapping[str, str]) -> Place:
    """Complete a place by what else is known: names of topic ids, and what the request is about."""
    if place.kind == "topic" and place.name is not None:
        return place._replace(name=topic_names.get(place.name, place.name))
    if place.kind == KEY:
        kind = NONE if request is None else COORDINATOR_KEYS.get(request.struct.key_type, NONE)
        return Place(kind, place.name)
    return _requested(request) if place.kind == NONE else place


def _partition(plan: Plan, struct: Any) -> int | None:
    number: int | None = None if plan.partition is None else getattr(struct, plan.partition)
    return number


def _requested(request: Body | None) -> Place:
    """Return what a code alone in its response is about: the only transactional id, group or broker in the request."""
    for kind, names in requested_of(request):
        if len(names) == 1:
            return Place(kind, names[0])
    broker: int | None = None if request is None else getattr(request.struct, "broker_id", None)
    return Place() if broker is None or broker < 0 else Place("broker", str(broker))


@functools.cache
def _plan(message: str, version: int) -> Plan:
    layout = next(layout for layout in facts().layouts(message) if version in layout.versions)
    return _planned(layout.fields, version)


def _planned(fields: tuple[Field, ...], version: int) -> Plan:
    present = {f.attribute: f for f in fields if version in f.versions}
    single = [f for f in present.values() if not f.is_array and not f.is_struct]
    children = [(f.attribute, f.is_array, _planned(f.fields, version)) for f in present.values() if f.is_struct]
    codes = []
    for f in single:
        if f.json_name.endswith("rrorCode"):
            message = f.attribute.removesuffix("code") + "message"
            codes.append((f.attribute, message if message in present else None))
    names = [(f.attribute, ENTITIES[f.entity]) for f in single if f.entity in ENTITIES]
    if codes and KEY in present:
        names.append((KEY, KEY))
    return Plan(
        codes=tuple(codes),
        names=tuple(names),
        has_topic_id=any(f.attribute == "topic_id" and f.type == "uuid" for f in single),
        is_config={"resource_type", "resource_name"} <= present.keys(),
        partition=next((name for name in PARTITIONS if name in present and not present[name].is_array), None),
        children=tuple(child for child in children if _matters(child[2])),
    )


def _matters(plan: Plan) -> bool:
    return bool(plan.codes or plan.children)
