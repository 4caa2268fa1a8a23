"""Where messages carry names, found in the facts by Kafka's entity types; and the translation of a message by that plan.

protocol/api_judgements.txt says which APIs carry names of a tenant (RENAMED), which carry none (UNTOUCHED), and which are
refused. The names of RENAMED are translated by the plans made here; where no entity type says what is a name, by rules.py. A
test holds each field of every message against the facts.

UNTOUCHED: security, features, quotas, SCRAM users, delegation tokens, telemetry. Refused: what is between brokers and
controllers, or not known.

Topic ids (KIP-516) are learned from responses with both name and id of a topic. An id says nothing of its topic's name, so one
that no response has named to this tenant is refused: with UNKNOWN_TOPIC_ID, upon which clients ask for metadata, and so teach it.
What one worker has learned all workers know (Runtime.shared_set), and it outlives a reload of the filter. Not checked are the ids
in a Metadata request, as the response names their topics, and in the heartbeats of KIP-848 groups, where a member only repeats
its assignment.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kproxy.filters.contract import SharedSet
from kproxy.filters.topic_prefix.names import Kind, Names
from kproxy.filters.turns import Steps
from kproxy.protocol import ApiKey, Direction, facts
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.facts import Field
from kproxy.protocol.judgements import apis_for_tenants

KINDS = {"topicName": Kind.TOPIC, "groupId": Kind.GROUP, "transactionalId": Kind.TRANSACTIONAL_ID}
TOPICS = (Kind.TOPIC, Kind.CLUSTER_TOPIC)
TEXTS = ("ErrorMessage", "StatusDetail")  # ends of the names of fields with text for people, in which names may stand
ELEMENTS_IN_A_TURN = 500  # about a millisecond; then other connections have their turn

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
WITH_UNCHECKED_IDS = (ApiKey.METADATA, ApiKey.CONSUMER_GROUP_HEARTBEAT)


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
    has_texts: bool  # in it or below

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to translate, check or learn."""
        return not (self.has_names or self.has_topic_ids or self.has_texts)


@functools.cache
def plan_of(direction: Direction, api_key: int, api_version: int) -> Plan:
    """Return what to translate in a request or response of the facts."""
    name = f"{facts().apis[api_key].name}{'Request' if direction == Direction.REQUEST else 'Response'}"
    layouts = (layout for layout in facts().layouts(name) if api_version in layout.versions)
    # Of all layouts of the version: a decoded struct has the attributes of all
    fields = [field for layout in layouts for field in layout.fields]
    return _plan(fields, direction, api_key, api_version)


def _plan(fields: list[Field], direction: Direction, api_key: int, version: int) -> Plan:
    present = {(field.attribute, field.is_array): field for field in fields if version in field.versions}.values()
    named = [(field, kind) for field in present if (kind := _kind(field, api_key)) is not None]
    below: dict[tuple[str, bool], list[Field]] = {}
    for field in fields:
        if field.is_struct and version in field.versions:
            below.setdefault((field.attribute, field.is_array), []).extend(field.fields)
    plans = [(at, _plan(inner, direction, api_key, version)) for at, inner in below.items()]
    texts = tuple(field.attribute for field in present if direction == Direction.RESPONSE and _is_text(field))
    topic_id = next((field.attribute for field in present if is_topic_id(field)), None)
    return Plan(
        names=tuple((field.attribute, kind) for field, kind in named if not field.is_array),
        lists=tuple((field.attribute, kind) for field, kind in named if field.is_array),
        texts=texts,
        structs=tuple((name, plan) for (name, is_array), plan in plans if not is_array and not plan.is_empty),
        arrays=tuple((name, plan) for (name, is_array), plan in plans if is_array and not plan.is_empty),
        topic_id=topic_id,
        has_names=bool(named) or any(plan.has_names for _, plan in plans),
        has_topic_ids=topic_id is not None or any(plan.has_topic_ids for _, plan in plans),
        has_texts=bool(texts) or any(plan.has_texts for _, plan in plans),
    )


def is_topic_id(field: Field) -> bool:
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


def topic_ids(plan: Plan, struct: Any) -> Iterator[str]:
    """Yield every topic id in a message, except ids that stand for no topic."""
    if plan.topic_id is not None and getattr(struct, plan.topic_id) != ZERO_UUID:
        yield getattr(struct, plan.topic_id)
    if not plan.has_topic_ids:
        return
    for attribute, below in plan.structs:
        if (child := getattr(struct, attribute)) is not None:
            yield from topic_ids(below, child)
    for attribute, below in plan.arrays:
        for child in getattr(struct, attribute) or ():
            yield from topic_ids(below, child)


class NotOurs(ValueError):
    """A response that is about another tenant as a whole."""


class Translation:
    """Translates one message in place. ``changed``: whether it has changed anything."""

    def __init__(self, names: Names, ids: SharedSet, changed: bool = False) -> None:
        self.changed = changed
        self._names = names
        self._ids = ids

    def request(self, plan: Plan, struct: Any) -> None:
        """Prefix every name in a request. Raises TooLong."""
        to_broker = self._names.to_broker
        for attribute, kind in plan.names:
            name = getattr(struct, attribute)
            if name is not None:
                self._set(struct, attribute, name, to_broker(kind, name))
        for attribute, kind in plan.lists:
            listed = getattr(struct, attribute)
            if listed:
                self._set(struct, attribute, listed, [to_broker(kind, name) for name in listed])
        for attribute, below in plan.structs:
            child = getattr(struct, attribute)
            if child is not None:
                self.request(below, child)
        for attribute, below in plan.arrays:
            for child in getattr(struct, attribute) or ():
                self.request(below, child)

    def response(self, plan: Plan, message: Any) -> Steps[None]:
        """Take the prefix off every name in a response, drop what is not the tenant's, learn the ids of topics.

        Raises NotOurs if the response as a whole is about another tenant.
        """
        if not self._translate_own(plan, message):
            raise NotOurs("the response is not about the tenant")
        for attribute, below in plan.arrays:
            children = getattr(message, attribute) or ()
            kept = []
            for number, child in enumerate(children, 1):
                if self._translate_below(below, child):
                    kept.append(child)
                if number % ELEMENTS_IN_A_TURN == 0:
                    yield
            self._keep(message, attribute, children, kept)

    def _translate_below(self, plan: Plan, struct: Any) -> bool:
        """Translate a struct of a response; return False if it is about another tenant, and is to be dropped."""
        if not self._translate_own(plan, struct):
            return False
        for attribute, below in plan.arrays:
            children = getattr(struct, attribute)
            if children:
                kept = [child for child in children if self._translate_below(below, child)]
                self._keep(struct, attribute, children, kept)
        return True

    def _translate_own(self, plan: Plan, struct: Any) -> bool:
        """Translate what is in a struct but not in its arrays of structs; return False if it is about another tenant."""
        for attribute, kind in plan.names:
            name = getattr(struct, attribute)
            if name is None:
                continue
            own = self._names.to_client(kind, name)
            if own is None:
                return False
            if plan.topic_id is not None and kind in TOPICS and own != name:
                self._learn(getattr(struct, plan.topic_id))
            self._set(struct, attribute, name, own)
        for attribute, kind in plan.lists:
            listed = getattr(struct, attribute)
            if listed:
                owns = (self._names.to_client(kind, name) for name in listed)
                self._set(struct, attribute, listed, [name for name in owns if name is not None])
        for attribute in plan.texts:
            text = getattr(struct, attribute)
            if text:
                self._set(struct, attribute, text, self._names.in_text(text))
        for attribute, below in plan.structs:
            child = getattr(struct, attribute)
            if child is not None and not self._translate_below(below, child):
                raise NotOurs(f"{attribute} names what is not the tenant's")
        return True

    def _keep(self, struct: Any, attribute: str, before: Any, kept: list[Any]) -> None:
        """Put *kept* in place of all the elements of an array, if some were dropped."""
        if len(kept) < len(before):
            setattr(struct, attribute, kept)
            self.changed = True

    def _learn(self, topic_id: str) -> None:
        if topic_id != ZERO_UUID and topic_id not in self._ids:
            self._ids.add(topic_id)

    def _set(self, struct: Any, attribute: str, before: object, after: object) -> None:
        if after != before:
            setattr(struct, attribute, after)
            self.changed = True
