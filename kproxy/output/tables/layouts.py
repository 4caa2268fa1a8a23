"""Which fields of a message at a version the rows are made of, found in the facts; the walk of body.pyx finds them.

The facts name error codes and entities (topics, groups, transactional ids) in every API, so that none is forgotten. Each
function is called once for a message at a version.

To add a column of exchanges that is a field at the top of bodies: a line in TOP_FIELDS, the column in contracts.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kproxy.protocol.facts import Field, facts


class Kind(IntEnum):
    """What kind of resource a name is of."""

    TOPIC = 0
    GROUP = 1
    TRANSACTIONAL_ID = 2
    BY_TYPE = 4  # of configurations: as the resource type before it says


class Form(IntEnum):
    """How the value of a column is made from a field."""

    VALUE = 0  # the field
    INNER = 1  # a field of the struct in it
    FIRST = 2  # that field of the first struct of the array in it
    COUNT = 3  # the number of its elements
    NAMES = 4  # the names of its elements
    ONE_NAME = 5  # a list of it alone
    RANGES = 6  # the version ranges of its elements, as text
    DESCRIBED = 7  # the names of its elements without an error
    ADDRESSES = 8  # of its elements: node id and address


class Part(IntEnum):
    """What a field says about the partitions in a body."""

    INDEX = 0
    ERROR_CODE = 1
    OFFSET = 2
    HIGH_WATERMARK = 3
    LAST_STABLE_OFFSET = 4
    LOG_START_OFFSET = 5
    TIMESTAMP = 6
    RECORDS = 7
    OLD_OFFSETS = 8  # of ListOffsets 0: an array
    TOPIC_NAME = 9  # these are of the structs around it
    TOPIC_ID = 10
    GROUP = 11
    KEY_TYPE = 12  # of FindCoordinator
    LEADER_ID = 13
    LEADER_EPOCH = 14
    CURRENT_LEADER = 15  # both, in a struct
    FIRST_LIST = 16  # arrays, whose elements are read when a row is made of them: replicas; deliveries of a share group
    SECOND_LIST = 17  # replicas in sync
    THIRD_LIST = 18  # offline replicas
    ACKNOWLEDGE_ERROR = 19


class About(IntEnum):
    """What a field says about an error code in its struct, or in a struct in it."""

    CODE = 1
    MESSAGE = 2  # of that code
    OTHER_CODE = 3  # in the same struct
    OTHER_MESSAGE = 4
    TOPIC = 5  # a name; from here on in the order of Kind
    GROUP = 6
    TRANSACTIONAL_ID = 7
    KEY = 8  # of a coordinator: a group or a transactional id, as the request says
    TOPIC_ID = 9
    PARTITION = 10
    RESOURCE_TYPE = 11  # ConfigResource.Type
    RESOURCE_NAME = 12


class Searched(NamedTuple):
    """The attributes of a struct, at one version, that hold something for the rows."""

    error_codes: tuple[str, ...]
    names: dict[str, Kind]  # by attribute
    topic_id: str | None
    partitions: str | None
    children: tuple[tuple[str, "Searched"], ...]  # attribute, what is in its structs
    about: dict[str, About]  # attribute, what it says about error codes

    @property
    def finds_something(self) -> bool:
        """Whether the struct holds anything for the rows."""
        return bool(self.error_codes or self.names or self.topic_id or self.partitions or self.children)


class TopField(NamedTuple):
    """Where a message, at one version, has the value of a column. Values in *nothing* stand for a missing one."""

    column: int  # index in TOP_FIELDS
    attribute: str
    inner: str
    form: Form
    nothing: tuple[Any, ...]


_ENTITIES = {"topicName": Kind.TOPIC, "groupId": Kind.GROUP, "transactionalId": Kind.TRANSACTIONAL_ID}
_ABOUT = {
    "topic_id": About.TOPIC_ID,
    "resource_type": About.RESOURCE_TYPE,
    "resource_name": About.RESOURCE_NAME,
    **dict.fromkeys(("partition_index", "partition", "partition_id", "index"), About.PARTITION),
}
_GROUPS_WITHOUT_ENTITY = ("group_id",)  # of the requests about the state of share groups

# column, where it may be in the request, and where in the response if the request does not have it
TOP_FIELDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("member_id", ("member_id", "members.member_id"), ("member_id",)),
    ("group_instance_id", ("group_instance_id", "instance_id", "members.group_instance_id"), ()),
    ("generation_id", ("generation_id", "generation_id_or_member_epoch", "member_epoch"), ()),
    ("response_generation_id", (), ("generation_id", "member_epoch")),
    ("protocol_type", ("protocol_type",), ("protocol_type",)),
    ("protocol_name", ("protocol_name",), ("protocol_name",)),
    ("protocols", ("protocols", "server_assignor"), ()),
    ("leader_id", (), ("leader",)),
    ("members", ("members",), ("members",)),
    ("session_timeout_ms", ("session_timeout_ms",), ()),
    ("rebalance_timeout_ms", ("rebalance_timeout_ms",), ()),
    ("reason", ("reason", "members.reason"), ()),
    ("producer_id", ("producer_id", "v3_and_below_producer_id"), ("producer_id",)),
    ("producer_epoch", ("producer_epoch", "v3_and_below_producer_epoch"), ("producer_epoch",)),
    ("committed", ("committed",), ()),
    ("acks", ("acks",), ()),
    ("timeout_ms", ("timeout_ms", "transaction_timeout_ms"), ()),
    ("replica_id", ("replica_id", "replica_state.replica_id"), ()),
    ("isolation_level", ("isolation_level",), ()),
    ("max_wait_ms", ("max_wait_ms",), ()),
    ("min_bytes", ("min_bytes",), ()),
    ("max_bytes", ("max_bytes",), ()),
    ("fetch_session_id", ("session_id",), ("session_id",)),
    ("fetch_session_epoch", ("session_epoch",), ()),
    ("throttle_time_ms", (), ("throttle_time_ms",)),
    ("offered_versions", (), ("api_keys",)),
    ("described_topics", (), ("topics",)),
    ("advertised", (), ("brokers",)),
    ("cluster_id", (), ("cluster_id",)),
)
_ONLY_IN = {
    "offered_versions": frozenset({"ApiVersionsResponse"}),
    "described_topics": frozenset({"MetadataResponse", "DescribeTopicPartitionsResponse"}),
    "advertised": frozenset({"MetadataResponse", "DescribeClusterResponse"}),
    "cluster_id": frozenset({"MetadataResponse", "DescribeClusterResponse"}),
}
_FORMS = {
    "members": Form.COUNT,
    "offered_versions": Form.RANGES,
    "described_topics": Form.DESCRIBED,
    "advertised": Form.ADDRESSES,
}
_NOTHING = (None, "", -1)
_OTHER_NOTHING: dict[str, tuple[Any, ...]] = {"fetch_session_id": (None, 0), "fetch_session_epoch": (None,)}


# Messages whose partitions make rows of offsets, record_batches, partition_states or share_deliveries
PARTITIONED = frozenset(
    {"FindCoordinatorRequest", "FetchRequest", "ListOffsetsRequest", "OffsetCommitRequest", "TxnOffsetCommitRequest"}
    | {"FetchResponse", "ListOffsetsResponse", "OffsetCommitResponse", "TxnOffsetCommitResponse", "OffsetFetchResponse"}
    | {"ProduceRequest", "ProduceResponse", "ShareFetchResponse", "FetchSnapshotResponse"}
    | {"MetadataResponse", "DescribeTopicPartitionsResponse"}
    | {"ShareFetchRequest", "ShareAcknowledgeRequest", "ShareAcknowledgeResponse"}
)
INDEXES = frozenset({"partition", "partition_index", "index"})  # what messages call a partition's number
_PARTS = {
    **dict.fromkeys(INDEXES, Part.INDEX),
    "error_code": Part.ERROR_CODE,
    **dict.fromkeys(("fetch_offset", "offset", "committed_offset", "base_offset"), Part.OFFSET),
    "high_watermark": Part.HIGH_WATERMARK,
    "last_stable_offset": Part.LAST_STABLE_OFFSET,
    "log_start_offset": Part.LOG_START_OFFSET,
    "timestamp": Part.TIMESTAMP,
    "old_style_offsets": Part.OLD_OFFSETS,
    "records": Part.RECORDS,
    "unaligned_records": Part.RECORDS,
    "leader_id": Part.LEADER_ID,
    "leader_epoch": Part.LEADER_EPOCH,
    "current_leader": Part.CURRENT_LEADER,
    **dict.fromkeys(("replica_nodes", "acquired_records", "acknowledgement_batches"), Part.FIRST_LIST),
    "isr_nodes": Part.SECOND_LIST,
    "offline_replicas": Part.THIRD_LIST,
    "acknowledge_error_code": Part.ACKNOWLEDGE_ERROR,
}
_PARTS_AROUND = {"name": Part.TOPIC_NAME, "topic": Part.TOPIC_NAME, "topic_id": Part.TOPIC_ID}


def part_of(message: str, attribute: str, *, is_partition: bool) -> Part | None:
    """Return what a field of a partition, or of a struct around it, says; None for nothing that rows need."""
    if is_partition:
        return _PARTS.get(attribute)
    if message == "OffsetFetchResponse" and attribute == "group_id":
        return Part.GROUP
    return Part.KEY_TYPE if attribute == "key_type" else _PARTS_AROUND.get(attribute)


def default_of(message: str, version: int, field: TopField) -> Any:
    """Return the value of a column where the bytes of a message do not have its field: the field's default."""
    if field.form in (Form.VALUE, Form.INNER):
        outer = next(each for each in _fields(message, version) if each.attribute == field.attribute)
        inner = next((each for each in outer.fields if each.attribute == field.inner), None)
        return (outer if inner is None else inner).default
    return {Form.COUNT: 0, Form.FIRST: None}.get(field.form, [])


def searched_fields(message: str, version: int) -> Searched:
    """Return where a body of the message at the version holds something for the rows."""
    return _searched(_fields(message, version), version)


def top_fields(message: str, version: int, *, in_response: bool) -> tuple[TopField, ...]:
    fields = {field.attribute: field for field in _fields(message, version) if version in field.versions}
    present = []
    for number, (column, request_paths, response_paths) in enumerate(TOP_FIELDS):
        if column in _ONLY_IN and message not in _ONLY_IN[column]:
            continue
        for path in response_paths if in_response else request_paths:
            outer, _, inner = path.partition(".")
            if outer in fields and (not inner or inner in {each.attribute for each in fields[outer].fields}):
                form = _form(column, fields[outer], inner)
                present.append(TopField(number, outer, inner, form, _OTHER_NOTHING.get(column, _NOTHING)))
                break
    return tuple(present)


def _fields(message: str, version: int) -> tuple[Field, ...]:
    return tuple(next(layout for layout in facts().layouts(message) if version in layout.versions).fields)


def _searched(fields: Iterable[Field], version: int) -> Searched:
    present = [f for f in fields if version in f.versions]
    is_topic = any(f.entity == "topicName" or f.attribute == "topic_id" for f in present)
    codes = tuple(f.attribute for f in present if f.json_name.endswith("rrorCode") and not f.is_array)
    children = [(f.attribute, _searched(f.fields, version)) for f in present if f.is_struct]
    names = {f.attribute: kind for f in present if (kind := _kind(f)) is not None}
    ids = [f.attribute for f in present if f.attribute == "topic_id" and f.type == "uuid"]
    partitions = [f.attribute for f in present if is_topic and f.is_array and f.attribute.startswith("partition")]
    return Searched(
        error_codes=codes,
        names=names,
        topic_id=ids[0] if ids else None,
        partitions=partitions[0] if partitions else None,
        children=tuple(child for child in children if child[1].finds_something),
        about=_about({f.attribute: f for f in present if not f.is_array and not f.is_struct}, codes),
    )


def _about(single: Mapping[str, Field], codes: Sequence[str]) -> dict[str, About]:
    """Return what the fields of a struct say about error codes; the facts have at most two codes in one struct."""
    about = {name: _ABOUT[name] for name in single if name in _ABOUT}
    about |= {f.attribute: About(About.TOPIC + _ENTITIES[f.entity]) for f in single.values() if f.entity in _ENTITIES}
    if codes and "key" in single:
        about["key"] = About.KEY
    for number, code in enumerate(codes):
        about[code] = About(About.CODE + 2 * number)
        about[code.removesuffix("code") + "message"] = About(About.MESSAGE + 2 * number)
    return about


def _kind(f: Field) -> Kind | None:
    if f.type != "string":
        return None
    if f.attribute == "resource_name":
        return Kind.BY_TYPE
    return Kind.GROUP if f.attribute in _GROUPS_WITHOUT_ENTITY else _ENTITIES.get(f.entity or "")


def _form(column: str, field: Field, inner: str) -> Form:
    if inner:
        return Form.FIRST if field.is_array else Form.INNER
    if column == "protocols":
        return Form.NAMES if field.is_array else Form.ONE_NAME
    return _FORMS.get(column, Form.VALUE)
