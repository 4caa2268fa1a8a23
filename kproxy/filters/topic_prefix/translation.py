"""Translates a decoded message in place, as its plan says: prefixes in requests, no prefixes in responses."""

from typing import Any

from kproxy.filters.contract import SharedSet
from kproxy.filters.topic_prefix.names import Kind, Names
from kproxy.filters.topic_prefix.places import Plan
from kproxy.protocol.ids import ZERO_UUID

TOPICS = (Kind.TOPIC, Kind.CLUSTER_TOPIC)


class NotOurs(ValueError):
    """A response that is about another tenant as a whole."""


class Translation:
    """Translates one message. ``changed``: whether it has changed anything."""

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

    def response(self, plan: Plan, struct: Any) -> bool:
        """Take the prefix off every name in a response, drop what is not the tenant's, learn the ids of topics.

        False: the struct itself is about another tenant, and is to be dropped. Raises NotOurs where it cannot be.
        """
        if not self._own_names(plan, struct):
            return False
        for attribute, kind in plan.lists:
            listed = getattr(struct, attribute)
            if listed:
                own = (self._names.to_client(kind, name) for name in listed)
                self._set(struct, attribute, listed, [name for name in own if name is not None])
        for attribute in plan.texts:
            text = getattr(struct, attribute)
            if text:
                self._set(struct, attribute, text, self._names.in_text(text))
        for attribute, below in plan.structs:
            child = getattr(struct, attribute)
            if child is not None and not self.response(below, child):
                raise NotOurs(f"{attribute} names what is not the tenant's")
        for attribute, below in plan.arrays:
            children = getattr(struct, attribute)
            if children:
                self.keep(struct, attribute, children, [child for child in children if self.response(below, child)])
        return True

    def keep(self, struct: Any, attribute: str, before: list[Any], kept: list[Any]) -> None:
        """Put *kept* in place of all the elements of an array, if some were dropped."""
        if len(kept) < len(before):
            setattr(struct, attribute, kept)
            self.changed = True

    def _own_names(self, plan: Plan, struct: Any) -> bool:
        """Translate the names in the struct itself; False: one of them is not the tenant's."""
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
        return True

    def _learn(self, topic_id: str) -> None:
        if topic_id != ZERO_UUID and topic_id not in self._ids:
            self._ids.add(topic_id)

    def _set(self, struct: Any, attribute: str, before: object, after: object) -> None:
        if after != before:
            setattr(struct, attribute, after)
            self.changed = True
