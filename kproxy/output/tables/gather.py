"""What a body holds anywhere in it: error codes, topics, groups, transactional ids, partitions.

The facts say which fields these are (names of error codes, entity types), so that no API is forgotten. What leads nowhere is
not visited.
"""

import functools
from dataclasses import dataclass, field

from kproxy.protocol.facts import Field, facts
from kproxy.protocol.structs import Struct

NO_TOPIC_ID = "A" * 22  # sixteen zero bytes in Kafka's text form
MOST = 100_000  # of each kind that are kept; a frame of 100 MiB could name tens of millions


@dataclass(slots=True)
class Found:
    """Different values in the order in which they occur."""

    error_codes: dict[int, None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)
    topic_ids: dict[str, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)
    transactional_ids: dict[str, None] = field(default_factory=dict)
    partitions: int = 0


@dataclass(slots=True)
class Plan:
    """Which fields of a struct at a version are looked at."""

    error_codes: tuple[str, ...] = ()
    names: tuple[tuple[str, str, bool], ...] = ()  # attribute, field of Found, whether it is an array
    topic_id: str | None = None
    partitions: str | None = None
    children: tuple[tuple[str, bool, "Plan"], ...] = ()

    @property
    def leads_somewhere(self) -> bool:
        """Whether there is anything to find."""
        return bool(self.error_codes or self.names or self.topic_id or self.partitions or self.children)


ENTITIES = {"topicName": "topics", "groupId": "groups", "transactionalId": "transactional_ids"}
GROUPS_WITHOUT_ENTITY = ("group_id",)  # of the requests about the state of share groups


@functools.cache  # as many as there are versions of messages: a body is read as one that is known
def plan_of(message: str, version: int) -> Plan:
    """The plan for a message at a version."""
    layout = next(layout for layout in facts().layouts(message) if version in layout.versions)
    return _plan(layout.fields, version)


def _plan(fields: tuple[Field, ...], version: int) -> Plan:
    present = [f for f in fields if version in f.versions]
    is_topic = any(f.entity == "topicName" or f.attribute == "topic_id" for f in present)
    names = tuple((f.attribute, _kind(f), f.is_array) for f in present if _kind(f))
    children = ((f.attribute, f.is_array, _plan(f.fields, version)) for f in present if f.is_struct)
    partitions = (f.attribute for f in present if is_topic and f.is_array and f.attribute.startswith("partition"))
    return Plan(
        error_codes=tuple(f.attribute for f in present if f.json_name.endswith("rrorCode") and not f.is_array),
        names=names,
        topic_id=next((f.attribute for f in present if f.attribute == "topic_id" and f.type == "uuid"), None),
        partitions=next(partitions, None),
        children=tuple(child for child in children if child[2].leads_somewhere),
    )


def _kind(f: Field) -> str:
    if f.type == "string" and f.attribute in GROUPS_WITHOUT_ENTITY:
        return "groups"
    return ENTITIES.get(f.entity or "", "") if f.type == "string" else ""


def gather(plan: Plan, struct: Struct, found: Found) -> None:
    """Add what *struct*, decoded at the plan's version, holds."""
    for name in plan.error_codes:
        code = getattr(struct, name)
        if code:
            found.error_codes[code] = None
    named = bool(plan.names) and _names(plan, struct, found)
    if plan.topic_id is not None and not named:  # a topic with both is known by its name
        topic_id = getattr(struct, plan.topic_id)
        if topic_id != NO_TOPIC_ID and topic_id is not None and len(found.topic_ids) < MOST:
            found.topic_ids[topic_id] = None
    if plan.partitions is not None:
        found.partitions += len(getattr(struct, plan.partitions) or ())
    for name, is_array, inner in plan.children:
        below = getattr(struct, name)
        if not is_array:
            if below is not None:
                gather(inner, below, found)
            continue
        for each in below or ():
            gather(inner, each, found)


def _names(plan: Plan, struct: Struct, found: Found) -> bool:
    """Add the names in a struct; whether there is a topic's among them."""
    is_topic = False
    for name, kind, is_array in plan.names:
        value = getattr(struct, name)
        into: dict[str, None] = getattr(found, kind)
        if not value or len(into) >= MOST:
            continue
        if is_array:
            into.update(dict.fromkeys(value[:MOST]))
        else:
            into[value] = None
            is_topic |= kind == "topics"
    return is_topic
