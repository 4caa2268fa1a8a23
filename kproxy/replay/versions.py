"""At which version to send a request: the recorded one, or the nearest that both sides know, and what that would lose.

These ask for one thing in old versions (the old form) and for several in new ones, which older brokers do not have:

FindCoordinator   key (to version 3)                  coordinatorKeys (KIP-699)
OffsetFetch       groupId, topics (to version 7)      groups (KIP-709)
LeaveGroup        memberId (to version 2)             members (KIP-345)
DeleteTopics      topicNames (to version 5)           topics, by name or id (KIP-516)

No broker has the new form alone, so a request of the old form stays one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kproxy.errors import EncodeError
from kproxy.protocol import ApiKey, Message
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.facts import Field
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.protocol.structs import Struct, struct_types

Range = tuple[int, int]  # lowest and highest version
FIRST_OF_BATCHES = (
    3  # of Produce: the version from which records must be of magic 2 (KIP-98; KIP-724 for brokers from 4.0)
)
MAGIC_OF_BATCHES = 2
MOST_LOST = 5  # fields that are named
FIRST_OF_SEVERAL: dict[int, int] = {  # API -> the first version of the new form
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.LEAVE_GROUP: 3,
    ApiKey.DELETE_TOPICS: 6,
}
OF_ANSWERS = (ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH)  # whose answers have two forms as well


class Unsendable(Exception):
    """A request cannot be sent to this broker; the text says why."""


class Encoded(NamedTuple):
    """A request's body at the version it is sent at."""

    version: int
    body: bytes
    lost: tuple[str, ...] = ()  # fields that were set, but lost as the version lacks them: Kafka calls them ignorable


def nearest(message: Message, recorded: int, spoken: Range | None) -> int:
    """Return the version nearest to the recorded one that the broker speaks; the recorded one if *spoken* is None.

    Raises Unsendable.
    """
    if spoken is None or spoken[0] <= recorded <= spoken[1]:
        return recorded
    lowest, highest = max(spoken[0], message.versions.lowest), min(spoken[1], message.versions.highest)
    if lowest > highest:
        raise Unsendable(f"the broker speaks versions {spoken[0]} to {spoken[1]}, of which kproxy knows none")
    return min(max(recorded, lowest), highest)


def encode_at(message: Message, version: int, struct: Any, names: Mapping[str, str], ids: Mapping[str, str]) -> Encoded:
    """Encode a request for another version than it was recorded at.

    Args:
        names: topic id of the new cluster -> topic, for versions that have only names.
        ids: topic -> topic id of the new cluster, for versions that have only ids.

    Raises:
        Unsendable: a field that is set would be lost, and Kafka does not call it ignorable.
    """
    _name_topics(struct, version, names, ids)
    if (why := in_old_form(message.api_key, struct, version)) is not None:
        raise Unsendable(f"version {version}: {why}")
    if message.api_key == ApiKey.PRODUCE:
        _raise_magic(struct, version)
    if message.api_key == ApiKey.JOIN_GROUP and version >= 1 and struct.rebalance_timeout_ms < 0:
        struct.rebalance_timeout_ms = struct.session_timeout_ms  # as brokers take v0 (JoinGroupRequest)
    if message.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and struct.subscribed_topic_regex == "":
        struct.subscribed_topic_regex = None  # no expression, for which version 0 has no field
    try:
        body = message.encode(version, struct)
    except EncodeError as error:
        raise Unsendable(str(error)) from error
    again = message.decode(version, body)
    return Encoded(version, body, tuple(sorted(set(_lost(struct, again))))[:MOST_LOST])


def _name_topics(struct: Struct, version: int, names: Mapping[str, str], ids: Mapping[str, str]) -> None:
    """Give each topic of a request the name or the id by which its version names topics."""
    by_attribute = struct.by_attribute
    name_field = _name_field(struct)
    id_field = by_attribute.get("topic_id")
    if name_field is not None and id_field is not None:
        topic_id, name = getattr(struct, "topic_id"), getattr(struct, name_field.attribute)  # noqa: B009 - no attribute of Struct
        if version not in id_field.versions:
            if topic_id != ZERO_UUID and not name:
                if topic_id not in names:
                    raise Unsendable(
                        f"version {version} names topics, and the name of topic id {topic_id} is not known"
                    )
                setattr(struct, name_field.attribute, names[topic_id])
            setattr(struct, "topic_id", ZERO_UUID)  # noqa: B010
        elif version not in name_field.versions and topic_id == ZERO_UUID and name:
            if name not in ids:
                raise Unsendable(f"version {version} wants the topic's id, and the cluster has no topic of that name")
            setattr(struct, "topic_id", ids[name])  # noqa: B010
            setattr(struct, name_field.attribute, "")
    for inner in _inner(struct):
        _name_topics(inner, version, names, ids)


def name_topics(struct: Struct, names: Mapping[str, str]) -> None:
    """Give each topic of an answer that has only its id its name, to compare it with an answer of another version."""
    name_field = _name_field(struct)
    topic_id = getattr(struct, "topic_id", ZERO_UUID) if "topic_id" in struct.by_attribute else ZERO_UUID
    if name_field is not None and topic_id in names and not getattr(struct, name_field.attribute):
        setattr(struct, name_field.attribute, names[topic_id])
    for inner in _inner(struct):
        name_topics(inner, names)


def _name_field(struct: Struct) -> Field | None:
    return next((f for f in struct.fields if f.entity == "topicName" and not f.is_array and not f.is_struct), None)


def _inner(struct: Struct) -> Iterator[Struct]:
    for field in struct.fields:
        if field.is_struct:
            value = getattr(struct, field.attribute)
            yield from (one for one in ((value or ()) if field.is_array else (value,)) if one is not None)


def _raise_magic(produce: Any, version: int) -> None:
    for topic in produce.topic_data:
        for partition in topic.partition_data:
            if partition.records and version >= FIRST_OF_BATCHES:
                partition.records = in_batches(partition.records)


def in_batches(records: bytes) -> bytes:
    """Convert messages of magic 0 and 1 to batches of magic 2; batches stay the same bytes. Raises Unsendable."""
    read = read_records(records)
    if all(batch.magic == MAGIC_OF_BATCHES for batch in read):
        return records
    for batch in read:
        wrong_crc = batch.source is not None and not batch.source.crc_valid
        if batch.error is not None or batch.skipped is not None or wrong_crc:
            why = batch.error or batch.skipped or "wrong CRC"
            raise Unsendable(f"records of magic {batch.magic} that cannot be read: {why}")
    # one batch for each partition, however many messages there were (KIP-98, ProduceRequest.validateRecords)
    every = [record for batch in read for record in batch.records]
    for offset, record in enumerate(every):
        record.offset = offset
    try:
        return write_batches([RecordBatch(every, codec=read[0].codec)])
    except EncodeError as error:
        raise Unsendable(f"records of magic {read[0].magic}: {error}") from error


def _lost(struct: Struct, again: Struct) -> list[str]:
    """Return Kafka's names of the fields that differ."""
    lost = []
    for field in struct.fields:
        old, new = getattr(struct, field.attribute), getattr(again, field.attribute)
        if field.is_struct and old is not None and new is not None:
            olds, news = (old, new) if field.is_array else ([old], [new])
            if len(olds) == len(news):
                lost += [name for one, other in zip(olds, news, strict=True) for name in _lost(one, other)]
                continue
        if old != new:
            lost.append(field.json_name)
    return lost


def in_old_form(api_key: int | None, body: Any, version: int) -> str | None:
    """Change a request of the new form into the old form, for a version that has it; return why that is impossible.

    Its topics must have names. What is left in other fields is nothing that the old version would lose.
    """
    if api_key not in FIRST_OF_SEVERAL or version >= FIRST_OF_SEVERAL[api_key]:
        return None
    if api_key == ApiKey.DELETE_TOPICS:
        names = [one.name for one in body.topics]
        if None in names:
            return "this version names topics, and the name of a topic id is not known"
        if names:
            body.topics, body.topic_names = [], names
        return None
    what: dict[int, str] = {
        ApiKey.FIND_COORDINATOR: "coordinator_keys",
        ApiKey.OFFSET_FETCH: "groups",
        ApiKey.LEAVE_GROUP: "members",
    }
    named = getattr(body, what[api_key])
    if len(named) > 1:
        words = what[api_key].replace("coordinator_keys", "coordinators")
        return f"it names {len(named):,} {words}, and this version can only name one"
    for one in named:
        _name_one(api_key, body, one)
    return None


def _name_one(api_key: int, body: Any, one: Any) -> None:
    """Put the only element of the new form into the fields of the old form."""
    if api_key == ApiKey.FIND_COORDINATOR:
        body.key, body.coordinator_keys = one, []
    elif api_key == ApiKey.OFFSET_FETCH:
        kind = struct_types("OffsetFetchRequest")["OffsetFetchRequestTopic"]
        body.group_id, body.groups = one.group_id, []
        body.topics = one.topics and [_as(kind, topic) for topic in one.topics]
    elif one.member_id:
        body.member_id, body.members = one.member_id, []


def several(api_key: int, request: Any, answer: Any, version: int) -> None:
    """Give an answer of the old form the fields of the new form as well, for a comparison. *request*: the one it answers."""
    if version >= FIRST_OF_SEVERAL.get(api_key, 0):
        return
    if api_key == ApiKey.FIND_COORDINATOR:
        made = struct_types("FindCoordinatorResponse")["Coordinator"](
            key=request.key or next(iter(request.coordinator_keys), ""),
            **{name: getattr(answer, name) for name in ("node_id", "host", "port", "error_code", "error_message")},
        )
        answer.coordinators = [made]
    elif api_key == ApiKey.OFFSET_FETCH:
        types = struct_types("OffsetFetchResponse")
        group = next((one.group_id for one in request.groups), request.group_id)
        topics = [
            types["OffsetFetchResponseTopics"](
                name=topic.name,
                partitions=[_as(types["OffsetFetchResponsePartitions"], one) for one in topic.partitions],
            )
            for topic in answer.topics
        ]
        answer.groups = [types["OffsetFetchResponseGroup"](group_id=group, topics=topics, error_code=answer.error_code)]


def _as(kind: Any, struct: Any) -> Any:
    return kind(**{name: getattr(struct, name) for name in kind.by_attribute if name in struct.by_attribute})
