"""Identities: maps ids that the recorded cluster assigned to those of the new cluster."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kproxy.protocol.constants import METADATA_TOPIC_ID, ZERO_UUID
from kproxy.protocol.structs import Struct
from kproxy.replay.identifiers import Kind, Spot, spots
from kproxy.replay.producer_ids import Producer, replace_producers

MOST = 1_000_000  # ids of a kind; more of them, from a hostile capture, are not mapped
NODE_RESOURCES = (4, 8)  # BROKER, BROKER_LOGGER (ConfigResource.Type); resources of ACLs have node ids in no name
SAME_UUIDS = (ZERO_UUID, METADATA_TOPIC_ID)  # of every cluster


@dataclass(slots=True, frozen=True)
class Place:
    """What a field belongs to (topic, partition, group …), by the recorded cluster's names."""

    group: str = ""
    member: str = ""
    producer: int = -1
    topic: str = ""
    partition: int = -1


@dataclass
class Identities:
    """Recorded ids and the new cluster's ids that stand for them."""

    names: Mapping[str, str] = field(default_factory=dict)  # recorded topic id -> topic
    uuids: dict[str, str] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    generations: dict[tuple[str, str, int], int] = field(default_factory=dict)
    producers: dict[tuple[int, int], Producer] = field(default_factory=dict)
    last_epochs: dict[int, tuple[int, Producer]] = field(default_factory=dict)  # producer id -> the latest pair known
    leader_epochs: dict[tuple[str, int, int], int] = field(default_factory=dict)
    # topic, partition -> what to add to offsets; see offsets.py
    shifts: dict[tuple[str, int], int] = field(default_factory=dict)
    tokens: dict[tuple[str, object], object] = field(default_factory=dict)

    # Requests

    def translate(self, message: str, struct: Any, place: Place = Place()) -> bool:
        """Replace the ids in a decoded message, in place; return whether any was replaced."""
        place = self.place(struct, place)
        changed = False
        for spot in spots(message, type(struct).__name__):
            name = spot.field.attribute
            value = getattr(struct, name)
            if spot.kind is None:
                inner = (value or ()) if spot.field.is_array else (value,)
                for one in inner:
                    changed |= one is not None and self.translate(message, one, place)
                continue
            new = self._replaced(spot, value, place)
            if new != value:
                setattr(struct, name, new)
                changed = True
        return self._translate_records(struct, changed) | self._translate_resource(struct)

    def new_id(self, kind: Kind, value: Any, place: Place, name: str = "") -> Any:
        """Return the new cluster's id for a recorded one; the same id if none is known, or if it is a special value."""
        return _REPLACE[kind](self, value, place, name)

    def producer(self, producer_id: int, epoch: int) -> Producer:
        """Return the new cluster's producer id and epoch; the same ones if none are known."""
        known = self.producers.get((producer_id, epoch))
        if known is not None:
            return known
        last = self.last_epochs.get(producer_id)
        if last is None:
            return Producer(producer_id, epoch)
        recorded, new = last
        return Producer(new.producer_id, epoch if epoch < 0 else max(0, new.epoch + epoch - recorded))

    def offset(self, recorded: int, topic: str, partition: int) -> int:
        """Return the new offset of the record that had a recorded offset; special values (below 0) stay."""
        return recorded if recorded < 0 else max(0, recorded + self.shifts.get((topic, partition), 0))

    def place(self, struct: Any, place: Place) -> Place:
        """Return *place* with what the fields of a struct add to it."""
        kind: type[Struct] = type(struct)
        parts = _parts_of(kind)  # type: ignore[arg-type]  # structs cannot be hashed, but their types can
        if not parts and "topic_id" not in struct.by_attribute:
            return place
        added = {part: value for attribute, part in parts if (value := getattr(struct, attribute)) not in (None, "")}
        topic = getattr(struct, "topic_id", "") if "topic_id" in struct.by_attribute else ""
        if topic and "topic" not in added and topic in self.names:
            added["topic"] = self.names[topic]
        return replace(place, **added) if added else place

    def _replaced(self, spot: Spot, value: Any, place: Place) -> Any:
        kind, name = spot.kind, spot.field.name
        assert kind is not None
        if not spot.field.is_array:
            return self.new_id(kind, value, place, name)
        new = [self.new_id(kind, one, place, name) for one in value or ()]
        # replicas on recorded nodes that stand for the same new node
        return value if value is None else list(dict.fromkeys(new)) if kind is Kind.NODE and new != value else new

    def _translate_records(self, struct: Any, changed: bool) -> bool:
        records = getattr(struct, "records", None) if "records" in struct.by_attribute else None
        if not records:
            return changed
        new = replace_producers(records, self.producer)
        if new is records:
            return changed
        struct.records = new
        return True

    def _translate_resource(self, struct: Any) -> bool:
        """Replace a node id that is the name of a resource whose settings are read or changed."""
        if "resource_name" not in struct.by_attribute or getattr(struct, "resource_type", 0) not in NODE_RESOURCES:
            return False
        name = struct.resource_name
        new = str(self.nodes.get(int(name), name)) if name and name.isascii() and name.isdigit() else name
        struct.resource_name, changed = new, new != name
        return bool(changed)

    def note_producer(self, recorded: Producer, new: Producer) -> None:
        """Note the producer id and epoch that the new cluster assigned where the recorded one assigned others."""
        put(self.producers, tuple(recorded), new)
        put(self.last_epochs, recorded.producer_id, (recorded.epoch, new))

    # One kind each: recorded value -> new value

    def _uuid(self, value: Any, place: Place, name: str) -> Any:
        return self.uuids.get(value, value)

    def _producer_id(self, value: Any, place: Place, name: str) -> Any:
        last = self.last_epochs.get(value)
        return value if last is None else last[1].producer_id

    def _producer_epoch(self, value: Any, place: Place, name: str) -> Any:
        return self.producer(place.producer, value).epoch

    def _node(self, value: Any, place: Place, name: str) -> Any:
        return self.nodes.get(value, value)

    def _member(self, value: Any, place: Place, name: str) -> Any:
        return self.members.get(value, value)

    def _generation(self, value: Any, place: Place, name: str) -> Any:
        of_member = self.generations.get((place.group, place.member, value))
        return self.generations.get((place.group, "", value), value) if of_member is None else of_member

    def _leader_epoch(self, value: Any, place: Place, name: str) -> Any:
        """Leave out an epoch that is not known to be the new cluster's: a broker then checks none (KIP-320)."""
        if value < 0:
            return value
        known = self.leader_epochs.get((place.topic, place.partition, value))
        # LeaderEpoch (OffsetForLeaderEpoch) is what the request asks about, not an epoch for the broker to check: it stays
        return known if known is not None else value if name == "LeaderEpoch" else -1

    def _token(self, value: Any, place: Place, name: str) -> Any:
        return self.tokens.get((name, value), value)

    def _offset(self, value: Any, place: Place, name: str) -> Any:
        return self.offset(value, place.topic, place.partition)

    def _session(self, value: Any, place: Place, name: str) -> Any:
        return value  # fetch_sessions.py


_REPLACE: dict[Kind, Callable[[Identities, Any, Place, str], Any]] = {
    Kind.UUID: Identities._uuid,
    Kind.PRODUCER_ID: Identities._producer_id,
    Kind.PRODUCER_EPOCH: Identities._producer_epoch,
    Kind.NODE: Identities._node,
    Kind.MEMBER: Identities._member,
    Kind.GENERATION: Identities._generation,
    Kind.LEADER_EPOCH: Identities._leader_epoch,
    Kind.TOKEN: Identities._token,
    Kind.SESSION: Identities._session,
    Kind.OFFSET: Identities._offset,
}
_PARTS = (  # attribute -> part of Place
    ("group_id", "group"),
    ("member_id", "member"),
    ("producer_id", "producer"),
    ("v3_and_below_producer_id", "producer"),
    ("topic", "topic"),
    ("name", "topic"),
    ("topic_name", "topic"),
    ("partition", "partition"),
    ("partition_index", "partition"),
    ("index", "partition"),
)


@functools.cache
def _parts_of(kind: type[Struct]) -> tuple[tuple[str, str], ...]:
    """Return the attributes of a type of structs that say what its fields belong to, with the part of Place that each sets."""
    fields = ((kind.by_attribute.get(attribute), part) for attribute, part in _PARTS)
    return tuple(
        (one.attribute, part)
        for one, part in fields
        if one is not None and not one.is_array and (part != "topic" or one.entity == "topicName")
    )


def put(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Note an id, unless there are too many already."""
    if len(table) < MOST or key in table:
        table[key] = value
