"""Ids that a cluster assigns: which fields hold them, what the new cluster's are, and their replacement in requests.

kind_of, spots      which fields hold ids, by the types and names in the facts
Identities          recorded id -> the new cluster's
replace_producers   producer ids and epochs in the headers of record batches, with the checksums that cover them. Only batches of
                    magic 2 have them. A batch whose CRC is wrong stays as it is: its damage must not get a valid checksum
align               which element of a recorded array belongs to which of the new answer: by the fields that identify it
learn_ids           an id in a recorded answer stands for the id in the same field of the new cluster's answer
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from struct import pack_into
from typing import Any, NamedTuple, TypeAlias

from kproxy.protocol.constants import METADATA_TOPIC_ID, ZERO_UUID
from kproxy.protocol.facts import Field
from kproxy.protocol.records import read_batches
from kproxy.protocol.records.checksum import crc32c
from kproxy.protocol.structs import Struct, struct_types

# Fields that identify an element of an array, in addition to keys and fields with an entity type in the facts
IDENTIFYING = frozenset(
    {
        *("Name", "Key", "Partition", "PartitionIndex", "Index", "ResourceName", "ResourceType", "ApiKey", "MemberId"),
        *("TopicId", "GroupId", "User", "Mechanism", "EntityType", "EntityName", "ConfigName", "Feature", "LogDir"),
    }
)
MAGIC_OF_BATCHES = 2
CRC_AT, COVERED_AT, PRODUCER_ID_AT = 17, 21, 43  # in a batch (DefaultRecordBatch)
MOST = 1_000_000  # ids of a kind; more of them, from a hostile capture, are not mapped
NODE_RESOURCES = (4, 8)  # BROKER, BROKER_LOGGER (ConfigResource.Type); resources of ACLs have node ids in no name
SAME_UUIDS = (ZERO_UUID, METADATA_TOPIC_ID)  # of every cluster
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
Pair: TypeAlias = tuple[Any | None, Any | None]  # recorded, new; None: there is none
APPENDED = "BaseOffset"  # of Produce
CHOSEN = "Leader"  # of JoinGroup: each broker chooses one of the members, and they need not choose the same


class Kind(Enum):
    """The kind of an id. The comment says within what its values are unique."""

    UUID = "uuid"  # topics, client instances, log directories; unique by themselves
    PRODUCER_ID = "producer id"
    PRODUCER_EPOCH = "producer epoch"  # of a producer id
    NODE = "node id"
    MEMBER = "member id"
    GENERATION = "generation"  # of a group and a member; member epochs too
    LEADER_EPOCH = "leader epoch"  # of a partition
    SESSION = "fetch session"  # of a connection
    OFFSET = "offset"  # of a partition
    TOKEN = "token"  # a field's own values: telemetry subscriptions, delegation tokens


ENTITIES = {"producerId": Kind.PRODUCER_ID, "brokerId": Kind.NODE}
NAMES = {
    "MemberId": Kind.MEMBER,
    "GenerationId": Kind.GENERATION,
    "GenerationIdOrMemberEpoch": Kind.GENERATION,
    "MemberEpoch": Kind.GENERATION,
    "LastFetchedEpoch": Kind.LEADER_EPOCH,
    "SubscriptionId": Kind.TOKEN,
    "TokenId": Kind.TOKEN,
    "Hmac": Kind.TOKEN,
}
ENDS = {"ProducerEpoch": Kind.PRODUCER_EPOCH, "LeaderEpoch": Kind.LEADER_EPOCH}
# JoinGroupResponse.leader is a member id (JoinGroupResponse.isLeader); sessionId is also the name of nothing else in these
BY_MESSAGE = {
    **dict.fromkeys(
        (
            *(("FetchRequest", "FetchOffset"), ("OffsetCommitRequest", "CommittedOffset")),
            *(("TxnOffsetCommitRequest", "CommittedOffset"), ("DeleteRecordsRequest", "Offset")),
            *(("ShareFetchRequest", "FirstOffset"), ("ShareFetchRequest", "LastOffset")),
            *(("ShareAcknowledgeRequest", "FirstOffset"), ("ShareAcknowledgeRequest", "LastOffset")),
            *(("AlterShareGroupOffsetsRequest", "StartOffset"), ("ProduceResponse", "BaseOffset")),
            *(("OffsetFetchResponse", "CommittedOffset"), ("ListOffsetsResponse", "Offset")),
            *(("OffsetForLeaderEpochResponse", "EndOffset"), ("DeleteRecordsResponse", "LowWatermark")),
            ("DescribeShareGroupOffsetsResponse", "StartOffset"),
        ),
        Kind.OFFSET,
    ),
    ("JoinGroupResponse", "Leader"): Kind.MEMBER,
    ("FetchRequest", "SessionId"): Kind.SESSION,
    ("FetchResponse", "SessionId"): Kind.SESSION,
}


class Spot(NamedTuple):
    """A field of a struct that holds an id, or that holds structs with ids in them."""

    field: Field
    kind: Kind | None  # None: structs


def kind_of(message: str, field: Field) -> Kind | None:
    """Return the kind of id in a field; None if a cluster does not assign its value."""
    if field.is_struct:
        return None
    found = BY_MESSAGE.get((message, field.name)) or NAMES.get(field.name) or ENTITIES.get(field.entity or "")
    if found is not None:
        return found
    if field.type == "uuid":
        return Kind.UUID
    return next((kind for end, kind in ENDS.items() if field.name.endswith(end)), None)


@functools.cache
def spots(message: str, struct: str) -> tuple[Spot, ...]:
    """Return the fields of a struct that hold ids, directly or in structs below."""
    kinds = ((field, kind_of(message, field)) for field in struct_types(message)[struct].fields)
    return tuple(Spot(field, kind) for field, kind in kinds if kind is not None or field.is_struct)


def key_fields(message: str, struct: Struct) -> tuple[Field, ...]:
    """Return the fields that identify an element among those of its array; none if only its index does.

    A name, or a number that the client chose, is preferred, as ids differ between clusters.
    """
    own, every = _key_fields(message, type(struct).__name__)
    return own if any(getattr(struct, field.attribute) not in ("", None) for field in own) else every


@functools.cache
def _key_fields(message: str, struct: str) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Return the key fields that are no ids of the cluster, and all key fields."""
    fields = struct_types(message)[struct].fields
    plain = (field for field in fields if not field.is_struct and not field.is_array)
    named = ("topicName", "groupId", "transactionalId", "brokerId", "producerId")
    keys = [f for f in plain if f.is_key or f.name in IDENTIFYING or (f.entity in named and f.name != "LeaderId")]
    own = (field for field in keys if kind_of(message, field) in (None, Kind.MEMBER))
    return tuple(own), tuple(keys)


class Producer(NamedTuple):
    """A producer id and its epoch; both are -1 for none."""

    producer_id: int
    epoch: int


def replace_producers(records: bytes, replacement: Callable[[int, int], Producer]) -> bytes:
    """Return a records field with other producer ids and epochs; the same object if none changes."""
    changed: bytearray | None = None
    for batch in read_batches(records):
        if batch.magic != MAGIC_OF_BATCHES or batch.producer_id in (None, -1) or not batch.crc_valid:
            continue
        old = Producer(batch.producer_id or 0, batch.producer_epoch or 0)
        new = replacement(*old)
        if new == old:
            continue
        changed = changed or bytearray(records)
        start, end = batch.position, batch.position + len(batch.raw)
        pack_into(">qh", changed, start + PRODUCER_ID_AT, new.producer_id, new.epoch)
        pack_into(">I", changed, start + CRC_AT, crc32c(memoryview(changed)[start + COVERED_AT : end]))
    return records if changed is None else bytes(changed)


def producers_of(records: bytes) -> set[Producer]:
    """Return the producer ids and epochs in a records field."""
    batches = (batch for batch in read_batches(records) if batch.magic == MAGIC_OF_BATCHES)
    return {Producer(b.producer_id, b.producer_epoch or 0) for b in batches if b.producer_id not in (None, -1)}


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
    # topic, partition -> what to add to offsets; see preparing.py
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
        new = value  # of a fetch session: sessions.py
        match kind:
            case Kind.UUID:
                new = self.uuids.get(value, value)
            case Kind.PRODUCER_ID:
                last = self.last_epochs.get(value)
                new = value if last is None else last[1].producer_id
            case Kind.PRODUCER_EPOCH:
                new = self.producer(place.producer, value).epoch
            case Kind.NODE:
                new = self.nodes.get(value, value)
            case Kind.MEMBER:
                new = self.members.get(value, value)
            case Kind.GENERATION:
                of_any_member = self.generations.get((place.group, "", value), value)
                new = self.generations.get((place.group, place.member, value), of_any_member)
            case Kind.LEADER_EPOCH:
                new = self._leader_epoch(value, place, name)
            case Kind.TOKEN:
                new = self.tokens.get((name, value), value)
            case Kind.OFFSET:
                new = self.offset(value, place.topic, place.partition)
        return new

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

    def _leader_epoch(self, value: Any, place: Place, name: str) -> Any:
        """Leave out an epoch that is not known to be the new cluster's: a broker then checks none (KIP-320)."""
        if value < 0:
            return value
        known = self.leader_epochs.get((place.topic, place.partition, value))
        # LeaderEpoch (OffsetForLeaderEpoch) is what the request asks about, not an epoch for the broker to check: it stays
        return known if known is not None else value if name == "LeaderEpoch" else -1


@functools.cache
def _parts_of(kind: type[Struct]) -> tuple[tuple[str, str], ...]:
    """Return the attributes of a struct type for its topic, partition, group ..., each with the part of Place that it sets."""
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


def align(
    message: str,
    recorded: Sequence[Any],
    new: Sequence[Any],
    identities: Identities,
    place: Place,
    *,
    by_place: bool = True,
) -> list[Pair]:
    """Pair the structs of two arrays.

    Elements that no field identifies are paired by their index if *by_place* is true, else they are left out.
    """
    if not recorded and not new:
        return []
    keyed = _by_key(message, recorded, new, identities, place)
    if keyed is not None:
        return keyed
    if not by_place and (len(recorded), len(new)) != (1, 1):
        return []
    shared = min(len(recorded), len(new))
    pairs: list[Pair] = list(zip(recorded[:shared], new[:shared], strict=True))
    return pairs + [(one, None) for one in recorded[shared:]] + [(None, one) for one in new[shared:]]


def _by_key(
    message: str, recorded: Sequence[Any], new: Sequence[Any], identities: Identities, place: Place
) -> list[Pair] | None:
    """Return pairs of elements with the same key; None if keys do not tell the elements apart."""
    if not key_fields(message, (recorded or new)[0]):
        return None
    old = {_key(message, one, identities, identities.place(one, place), ours=True): one for one in recorded}
    other = {_key(message, one, identities, place, ours=False): one for one in new}
    if len(old) != len(recorded) or len(other) != len(new):
        return None
    return list(_joined(old, other))


def _joined(old: dict[Any, Any], other: dict[Any, Any]) -> Iterator[Pair]:
    for key, one in old.items():
        yield one, other.get(key)
    for key, one in other.items():
        if key not in old:
            yield None, one


def _key(message: str, struct: Any, identities: Identities, place: Place, *, ours: bool) -> tuple[Any, ...]:
    """Return the values that identify a struct, with the new cluster's ids. *ours*: the struct has recorded ids, to translate."""
    values = []
    for key in key_fields(message, struct):
        value = getattr(struct, key.attribute)
        kind = kind_of(message, key)
        if kind is not None and ours:
            value = identities.new_id(kind, value, place, key.name)
        values.append(value)
    return tuple(values)


def learn_ids(identities: Identities, message: str, recorded: Any, new: Any, place: Place) -> None:
    """Learn which ids of the new cluster stand for recorded ones, from two answers to the same request.

    Args:
        identities: where the ids are noted.
        message: name of the response, such as JoinGroupResponse.
        recorded: the recorded answer, or a struct in it.
        new: the same of the new cluster.
        place: what the request says about the group, topic and so on of the ids, by recorded names.
    """
    place = identities.place(recorded, place)
    for spot in spots(message, type(recorded).__name__):
        values = getattr(recorded, spot.field.attribute), getattr(new, spot.field.attribute)
        if spot.kind is None:
            _learn_of_structs(identities, message, spot, values, place)
        elif not spot.field.is_array:
            _note(identities, spot, values, place)
    _learn_producer(identities, message, recorded, new)


def _learn_of_structs(identities: Identities, message: str, spot: Spot, values: tuple[Any, Any], place: Place) -> None:
    recorded, new = values
    if spot.field.is_array:
        pairs = align(message, recorded or [], new or [], identities, place, by_place=False)
    else:
        pairs = [(recorded, new)]
    for old, other in pairs:
        if old is not None and other is not None:
            learn_ids(identities, message, old, other, place)


def _note(identities: Identities, spot: Spot, values: tuple[Any, Any], place: Place) -> None:
    recorded, new = values
    if spot.kind is Kind.UUID and recorded not in SAME_UUIDS and new not in SAME_UUIDS:
        put(identities.uuids, recorded, new)
    elif spot.kind is Kind.MEMBER and recorded and new and spot.field.name != CHOSEN:
        put(identities.members, recorded, new)
    elif spot.kind is Kind.GENERATION and recorded > 0 and new > 0:
        put(identities.generations, (place.group, place.member, recorded), new)
        put(identities.generations, (place.group, "", recorded), new)
    elif spot.kind is Kind.LEADER_EPOCH and recorded >= 0 and new >= 0:
        put(identities.leader_epochs, (place.topic, place.partition, recorded), new)
    elif spot.kind is Kind.OFFSET and spot.field.name == APPENDED and recorded >= 0 and new >= 0:
        identities.shifts.setdefault((place.topic, place.partition), new - recorded)
    elif spot.kind is Kind.TOKEN and recorded and new:
        put(identities.tokens, (spot.field.name, recorded), new)


def _learn_producer(identities: Identities, message: str, recorded: Struct, new: Any) -> None:
    if not message.startswith(("InitProducerId", "EndTxn")) or "producer_epoch" not in recorded.by_attribute:
        return
    old = Producer(recorded.producer_id, recorded.producer_epoch)
    other = Producer(new.producer_id, new.producer_epoch)
    if min(*old, *other) >= 0:
        identities.note_producer(old, other)
