"""Where messages carry names: found in the facts by Kafka's entity types, and listed here where no entity type says it.

protocol/api_judgements.txt says which APIs carry names of a tenant (RENAMED), which carry none (UNTOUCHED), and which are
refused. The names of RENAMED are translated by the plans made here; where no entity type says what is a name, by the rules in
request_rules.py and response_rules.py. A test holds each field of every message against the facts.

UNTOUCHED: security, features, quotas, SCRAM users, delegation tokens, telemetry. Refused: what is between brokers and
controllers, or not known.
"""

import functools
from dataclasses import dataclass, replace

from kproxy.filters.topic_prefix.names import Kind
from kproxy.protocol import ApiKey, Direction, facts
from kproxy.protocol.facts import Field, Layout
from kproxy.protocol.judgements import apis_for_tenants

KINDS = {"topicName": Kind.TOPIC, "groupId": Kind.GROUP, "transactionalId": Kind.TRANSACTIONAL_ID}
TEXTS = ("ErrorMessage", "StatusDetail")  # ends of the names of fields with text for people, in which names may stand

# GroupCoordinatorService takes an empty group id in these, "for backwards compatibility"; in all others it refuses it
EMPTY_GROUPS = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)

RENAMED = apis_for_tenants("renamed")
# Changes or shows what belongs to all tenants: refused if options.cluster_administration is false
ADMINISTRATION = apis_for_tenants("administration")
UNTOUCHED = apis_for_tenants("untouched") | ADMINISTRATION


@dataclass(frozen=True, slots=True)
class Plan:
    """What to translate in one struct at one version."""

    names: tuple[tuple[str, Kind], ...]  # attribute of one name
    lists: tuple[tuple[str, Kind], ...]  # attribute of an array of names
    texts: tuple[str, ...]  # attributes with text for people
    structs: tuple[tuple[str, "Plan"], ...]  # attribute of one struct
    arrays: tuple[tuple[str, "Plan"], ...]  # attribute of an array of structs
    topic_id: str | None  # attribute of the id of the topic

    has_names: bool  # in it or below
    has_topic_ids: bool  # in it or below

    @property
    def has_texts(self) -> bool:
        """Whether it, or a struct below, has text for people."""
        return bool(self.texts) or any(plan.has_texts for _, plan in (*self.structs, *self.arrays))

    def without_arrays(self) -> "Plan":
        """Return the same plan for a struct whose arrays of structs are translated already."""
        return replace(self, arrays=())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to translate, check or learn."""
        return not (self.names or self.lists or self.texts or self.structs or self.arrays or self.topic_id)


@functools.cache
def plan_of(direction: Direction, api_key: int, api_version: int) -> Plan:
    """Return what to translate in a request or response of the facts."""
    name = f"{facts().apis[api_key].name}{'Request' if direction == Direction.REQUEST else 'Response'}"
    layouts = [layout for layout in facts().layouts(name) if api_version in layout.versions]
    return _plan(_fields(layouts), direction, api_key, api_version)


def _fields(layouts: list[Layout]) -> tuple[Field, ...]:
    """Return the fields of all layouts of a version: a decoded struct has the attributes of all."""
    return tuple(field for layout in layouts for field in layout.fields)


def _plan(fields: tuple[Field, ...], direction: Direction, api_key: int, version: int) -> Plan:
    present = {(field.attribute, field.is_array): field for field in fields if version in field.versions}.values()
    named = [(field, kind) for field in present if (kind := _kind(field, api_key)) is not None]
    below: dict[tuple[str, bool], list[Field]] = {}
    for field in fields:
        if field.is_struct and version in field.versions:
            below.setdefault((field.attribute, field.is_array), []).extend(field.fields)
    plans = [(at, _plan(tuple(inner), direction, api_key, version)) for at, inner in below.items()]
    is_response = direction == Direction.RESPONSE
    topic_id = next((field.attribute for field in present if is_topic_id(field)), None)
    return Plan(
        names=tuple((field.attribute, kind) for field, kind in named if not field.is_array),
        lists=tuple((field.attribute, kind) for field, kind in named if field.is_array),
        texts=tuple(field.attribute for field in present if is_response and _is_text(field)),
        structs=tuple((name, plan) for (name, is_array), plan in plans if not is_array and not plan.is_empty),
        arrays=tuple((name, plan) for (name, is_array), plan in plans if is_array and not plan.is_empty),
        topic_id=topic_id,
        has_names=bool(named) or any(plan.has_names for _, plan in plans),
        has_topic_ids=topic_id is not None or any(plan.has_topic_ids for _, plan in plans),
    )


def is_topic_id(field: Field) -> bool:
    """Return whether a field is the id of a topic."""
    return field.type == "uuid" and field.name == "TopicId"


def _kind(field: Field, api_key: int) -> Kind | None:
    kind = KINDS.get(field.entity or "") if field.type == "string" else None
    if kind is Kind.GROUP and api_key in EMPTY_GROUPS:
        return Kind.GROUP_OR_NONE
    if kind is Kind.TOPIC and api_key == ApiKey.DESCRIBE_QUORUM:
        return Kind.CLUSTER_TOPIC
    return kind


def _is_text(field: Field) -> bool:
    return field.type == "string" and field.name.endswith(TEXTS)
