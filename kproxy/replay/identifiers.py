"""Which fields hold ids that a cluster assigns, so that another cluster's differ: found by types and names in the facts."""

import functools
from enum import Enum
from typing import NamedTuple

from kproxy.protocol.facts import Field
from kproxy.protocol.structs import Struct, struct_types


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
# Fields that identify an element of an array, in addition to keys and fields with an entity type in the facts
IDENTIFYING = frozenset(
    {
        *("Name", "Key", "Partition", "PartitionIndex", "Index", "ResourceName", "ResourceType", "ApiKey", "MemberId"),
        *("TopicId", "GroupId", "User", "Mechanism", "EntityType", "EntityName", "ConfigName", "Feature", "LogDir"),
    }
)


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
