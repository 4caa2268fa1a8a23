"""Compare two answers to the same request: where they differ, by field, with Kafka's names.

Fields that differ between any two clusters, or any two runs, without meaning anything are not compared (``LeftOut``). Two things
are compared over several answers, as it depends on milliseconds which of them has what:

    Fetched    the records of each partition, over all Fetch answers of a connection: by offset, with key, value and headers. Of
               a single answer only errors are compared
    Assigned   the partitions that coordinators assign in answers to heartbeats (KIP-848, KIP-932). Where the recorded answer
               reported an assignment, everything that the member has been assigned by then is compared; until it is the same,
               the heartbeat is sent again, as the client would go on doing
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kproxy.output.escaping import printable
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode, error_codes
from kproxy.protocol.facts import Field
from kproxy.protocol.records.editing import read_records
from kproxy.protocol.secrets import WITHHELD, Secrecy, is_secret_value, secrecy
from kproxy.protocol.structs import Struct
from kproxy.protocol.values import describe, value_set
from kproxy.replay.identities import Identities, Kind, Place, align, key_fields, kind_of
from kproxy.replay.recording import ConnectionId, Recorded

ADDRESSES = frozenset({"Host", "Port", "Rack", "ClusterId", "ControllerHost", "LogDir", "ClientHost", "ListenerName"})
DISK = frozenset({"PartitionSize", "TotalBytes", "UsableBytes", "OffsetLag"})
TIME_ENDS = ("TimestampMs", "TimeMs", "Timestamp", "IntervalMs")
EPOCHS = frozenset({"FinalizedFeaturesEpoch", "GroupEpoch", "AssignmentEpoch", "StateEpoch", "TopologyEpoch"})
LONGEST = 80  # characters of a value
MOST_DEEP = 32  # structs in structs; Kafka's have seven
NOT_READY = frozenset(
    {
        *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
        *(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS),
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID),
    }
)
OF_READY = (  # error codes of a coordinator or leader that is ready
    ErrorCode.NONE,
    ErrorCode.MEMBER_ID_REQUIRED,  # the first answer of a coordinator to a new member
)
BY_MEMBER = (  # compared by Assigned
    ("ConsumerGroupHeartbeatResponse", "Assignment"),
    ("ShareGroupHeartbeatResponse", "Assignment"),
)
ERRORS = ("error_code", "partition_error_code")
MISSING = "(absent)"


class LeftOut(StrEnum):
    """A class of fields, and why it is not compared."""

    IDS = "ids and epochs that a cluster hands out: they are mapped"
    NODES = "node ids, hosts, ports, racks, cluster id, log directories: of the cluster, not of the answer"
    TIMES = "times"
    THROTTLE = "throttle times"
    TEXTS = "texts for people, of errors and settings: error codes and values are compared"
    SIZES = "sizes on disk"
    DIVISION = "which records came in which Fetch answer: all that was read of a partition is compared"
    OFFSETS = "offsets, by as much as the log of the new cluster begins elsewhere"
    ASSIGNED = "which heartbeat assigns a member its partitions: what is assigned by then is compared"
    LEADER = "members of a group, which only the leader gets: the broker chose another leader"
    FOLLOWS = "other fields of an answer whose error code differs: only the error code is shown"
    NOT_READY = "answers that asked the client to try again, as a coordinator or leader was not ready: now it was"


BY_NAME = {
    "ThrottleTimeMs": LeftOut.THROTTLE,
    **dict.fromkeys(("ErrorMessage", "StatusDetail", "Documentation"), LeftOut.TEXTS),
    **dict.fromkeys(DISK, LeftOut.SIZES),
}


@functools.cache
def class_of(message: str, field: Field) -> LeftOut | None:
    """Return the class of a field of a response; None for a field that is compared."""
    kind = kind_of(message, field)
    if kind is Kind.NODE or field.name in ADDRESSES:
        return LeftOut.NODES
    if kind is Kind.OFFSET:
        return LeftOut.OFFSETS  # not compared if moved by as much as the other offsets of the partition
    if kind is not None or field.name in EPOCHS:
        return LeftOut.IDS
    if field.name in BY_NAME:
        return BY_NAME[field.name]
    values = value_set(message, (field.json_name,))
    if (values is not None and values.kind == "time") or field.name.endswith(TIME_ENDS):
        return LeftOut.TIMES
    return None


@dataclass(frozen=True, slots=True)
class Difference:
    """A field, or an element of an array, that differs."""

    path: str  # fields from the message down, without elements: "topics.partitions.errorCode"
    where: str  # the same with elements: "topics[orders].partitions[0].errorCode"
    recorded: str
    new: str


@dataclass(slots=True)
class Comparison:
    """The differences between two answers."""

    differences: list[Difference] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)  # fields that differ, and are not compared


@dataclass(slots=True)
class _Walk:
    """The state of one comparison, which the functions here pass along."""

    message: str
    versions: tuple[int, int]
    identities: Identities
    found: Comparison
    sensitive: bool = False  # whether the broker marked the setting that is being walked through


def compare(
    message: str, recorded: Any, new: Any, versions: tuple[int, int], identities: Identities, place: Place
) -> Comparison:
    """Compare two decoded answers in the fields that both have. *versions*: that of the recorded one, that of the new one."""
    walk = _Walk(message, versions, identities, Comparison())
    _compare_structs(walk, recorded, new, "", "", place)
    return walk.found


def error_codes_of(struct: Any, depth: int = 0) -> Iterator[int]:
    """Yield every error code in an answer, 0 included."""
    for one in struct.fields if depth < MOST_DEEP else ():
        value = getattr(struct, one.attribute)
        if one.is_struct:
            for inner in (value or ()) if one.is_array else (value,):
                if inner is not None:
                    yield from error_codes_of(inner, depth + 1)
        elif is_error_code(one) and not one.is_array:
            yield value


def is_error_code(one: Field) -> bool:
    return one.type == "int16" and one.name.endswith("ErrorCode")


def error_name(code: int) -> str:
    """Return Kafka's name of an error code; "error 999" for an unknown one."""
    known = error_codes().get(code)
    return known.name if known is not None else f"error {code}"


def shown(message: str, one: Field, value: Any, struct: Any = None, *, sensitive: bool = False) -> str:
    """Render a value for people, with credentials withheld.

    *struct* has the field; *sensitive*: the broker marked it as sensitive.
    """
    if is_hidden(message, one, struct, sensitive=sensitive):
        return WITHHELD
    if is_error_code(one) and isinstance(value, int):
        return error_name(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:16].hex()}".rstrip()
    if isinstance(value, int) and (special := describe(message, one.json_name, value)) is not None:
        return printable(special, LONGEST)
    return printable("null" if value is None else str(value), LONGEST)


def is_hidden(message: str, one: Field, struct: Any, *, sensitive: bool) -> bool:
    """Return whether a field carries a credential, or the value of a setting that may be one."""
    match secrecy(message, (one.json_name,)):
        case Secrecy.ALWAYS:
            return True
        case Secrecy.BY_NAME:
            name = str(getattr(struct, "name", "")).encode("utf-8", "surrogateescape")
            return sensitive or struct is None or is_secret_value(message, name)
    return False


def _compare_structs(walk: _Walk, recorded: Any, new: Any, path: str, where: str, place: Place) -> None:
    place = walk.identities.place(recorded, place)
    fields = recorded.fields
    error = next((recorded.by_attribute[one] for one in ERRORS if one in recorded.by_attribute), None)
    if error is not None:
        old_code, new_code = getattr(recorded, error.attribute), getattr(new, error.attribute)
        if old_code in NOT_READY and new_code in OF_READY:
            walk.found.left_out[LeftOut.NOT_READY] += 1
            return
        if old_code != new_code:
            walk.found.left_out[LeftOut.FOLLOWS] += 1
            fields = (error,)
    outside, walk.sensitive = walk.sensitive, walk.sensitive or _is_sensitive(recorded) or _is_sensitive(new)
    for one in fields:
        if walk.versions[0] not in one.versions or walk.versions[1] not in one.versions:
            continue
        old_value, new_value = getattr(recorded, one.attribute), getattr(new, one.attribute)
        steps = f"{path}.{one.json_name}".lstrip("."), f"{where}.{one.json_name}".lstrip(".")
        if one.is_struct:
            _compare_nested(walk, one, (old_value, new_value), steps, place)
        elif not _equal(old_value, new_value, one):
            _note_difference(walk, one, (recorded, new), steps, place)
    walk.sensitive = outside


def _is_sensitive(struct: Any) -> bool:
    return "is_sensitive" in struct.by_attribute and bool(struct.is_sensitive)


def _compare_nested(walk: _Walk, one: Field, values: tuple[Any, Any], steps: tuple[str, str], place: Place) -> None:
    recorded, new = values
    if (walk.message, one.name) in BY_MEMBER:
        walk.found.left_out[LeftOut.ASSIGNED] += recorded != new
        return
    if walk.message == "JoinGroupResponse" and (not recorded) != (not new):
        walk.found.left_out[LeftOut.LEADER] += 1
        return
    if not one.is_array:
        if recorded is not None and new is not None:
            _compare_structs(walk, recorded, new, *steps, place)
        elif recorded is not new:
            _add_difference(walk, steps, *("null" if v is None else "present" for v in values))
        return
    if (recorded is None) != (new is None):
        _add_difference(walk, steps, *("null" if v is None else f"{len(v)} elements" for v in values))
        return
    pairs = align(walk.message, recorded or [], new or [], walk.identities, place)
    if class_of(walk.message, one) is None and _only_of_nodes(walk.message, pairs):
        return
    for place_in, (old, other) in enumerate(pairs):
        one_there: Any = old if old is not None else other
        name = _name(walk, one_there, place_in)
        where = f"{steps[1]}[{name}]"
        if old is not None and other is not None:
            _compare_structs(walk, old, other, steps[0], where, place)
        else:
            there = "present", MISSING
            _add_difference(walk, (steps[0], where), *(there if old is not None else reversed(there)))


def _only_of_nodes(message: str, pairs: list[tuple[Any, Any]]) -> bool:
    """Return whether the elements are the nodes of the cluster, which are not compared."""
    first = next((one for pair in pairs for one in pair if one is not None), None)
    keys = () if first is None else key_fields(message, first)
    return bool(keys) and all(class_of(message, key) is LeftOut.NODES for key in keys)


def _name(walk: _Walk, struct: Struct, place_in: int) -> str:
    keys = key_fields(walk.message, struct)
    names = walk.identities.names
    named = ((key, getattr(struct, key.attribute)) for key in keys)
    values = [shown(walk.message, key, names.get(value, value), struct) for key, value in named]
    return "/".join(value for value in values if value) or str(place_in)


def _equal(recorded: Any, new: Any, one: Field) -> bool:
    if recorded == new:
        return True
    if one.is_array and recorded is not None and new is not None:
        return sorted(map(repr, recorded)) == sorted(map(repr, new))  # brokers keep many in hash tables
    return False


def _note_difference(walk: _Walk, one: Field, structs: tuple[Any, Any], steps: tuple[str, str], place: Place) -> None:
    left_out = class_of(walk.message, one)
    if left_out is LeftOut.OFFSETS:
        recorded, new = (getattr(struct, one.attribute) for struct in structs)
        if walk.identities.offset(recorded, place.topic, place.partition) != new:
            left_out = None
    if left_out is not None:
        walk.found.left_out[left_out] += 1
    else:
        values = (
            shown(walk.message, one, getattr(struct, one.attribute), struct, sensitive=walk.sensitive)
            for struct in structs
        )
        _add_difference(walk, steps, *values)


def _add_difference(walk: _Walk, steps: tuple[str, str], recorded: str, new: str) -> None:
    walk.found.differences.append(Difference(*steps, recorded, new))


# Assignments of consumer and share groups

HEARTBEATS = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT})
MOST_MEMBERS = 100_000
Member = tuple[str, str]  # group, recorded member id
Partitions = frozenset[tuple[str, int]]  # topic, number


@dataclass
class Assigned:
    """The assignments of one replay. *recorded_name* and *new_name*: topic id -> topic."""

    recorded_name: Callable[[str], str]
    new_name: Callable[[str], str]
    _latest: dict[Member, Partitions] = field(default_factory=dict)  # assigned by the new coordinator
    _different: set[str] = field(default_factory=set)  # groups whose members got another assignment than recorded

    def is_as_recorded(self, recorded: Recorded, answer: Any) -> bool:
        """Note the answer to a heartbeat.

        Returns whether its member has the recorded assignment by now, if the recorded answer reported one.
        """
        old, key = recorded.answer(), _member(recorded)
        if old is None or key is None or answer.error_code or old.error_code:
            return True
        assigned = _partitions(answer, self.new_name)
        if assigned is not None and (len(self._latest) < MOST_MEMBERS or key in self._latest):
            self._latest[key] = assigned
        wanted = _partitions(old, self.recorded_name)
        return wanted is None or key[0] in self._different or self._latest.get(key, frozenset()) == wanted

    def difference(self, recorded: Recorded, answer: Any) -> Difference | None:
        """Return how the member's assignment differs from the recorded one, if it does; its group is not waited for again."""
        old, key = recorded.answer(), _member(recorded)
        if old is None or key is None or answer.error_code or old.error_code:
            return None
        wanted, has = _partitions(old, self.recorded_name), self._latest.get(key, frozenset())
        if wanted is None or wanted == has:
            return None
        self._different.add(key[0])
        return Difference("assignment", f"assignment of {printable(key[1], LONGEST)}", _shown(wanted), _shown(has))


def make_next_heartbeat(body: Any, answer: Any) -> None:
    """Turn a heartbeat that was answered into the next heartbeat of its member."""
    body.member_epoch = answer.member_epoch
    body.member_id = answer.member_id or body.member_id


def _member(recorded: Recorded) -> Member | None:
    """Return group and member id. The first heartbeat of version 0 has no member id: its answer assigns one."""
    body, answer = recorded.body(), recorded.answer()
    member = body.member_id or (answer.member_id if answer is not None else "")
    return (body.group_id, member) if member else None


def _partitions(answer: Any, name: Callable[[str], str]) -> Partitions | None:
    if answer.assignment is None:
        return None
    return frozenset(
        (name(one.topic_id), number) for one in answer.assignment.topic_partitions for number in one.partitions
    )


def _shown(partitions: Partitions) -> str:
    text = ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions))
    return printable(text or "no partitions", LONGEST)


# Records of Fetch

MOST_RECORDS = 5_000_000  # that are remembered, of both sides; what comes after is not compared
FetchedPartition = tuple[ConnectionId, str, int]  # connection, topic, partition


class Fetched:
    """The records of one replay, by connection and partition.

    Args:
        recorded_name, new_name: topic id -> topic.
        moved: recorded offset, topic, partition -> the offset of that record in the new cluster.
    """

    def __init__(
        self,
        recorded_name: Callable[[str], str],
        new_name: Callable[[str], str],
        moved: Callable[[int, str, int], int] = lambda offset, topic, partition: offset,
    ) -> None:
        self._names = (recorded_name, new_name)
        self._moved = moved
        self._found: dict[FetchedPartition, tuple[dict[int, int], dict[int, int]]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether there were more records than are compared."""
        return self._count >= MOST_RECORDS

    def add(self, connection: ConnectionId, recorded: Any, new: Any) -> Comparison:
        """Note the records of two answers, and return how the answers differ in everything else."""
        comparison = Comparison()
        error = recorded.by_attribute["error_code"]
        if recorded.error_code != new.error_code:
            values = (shown("FetchResponse", error, one.error_code) for one in (recorded, new))
            comparison.differences.append(Difference("errorCode", "errorCode", *values))
        errors = [self._note(connection, side, answer) for side, answer in enumerate((recorded, new))]
        for (topic, partition), code in errors[0].items():
            other = errors[1].get((topic, partition))
            if other is not None and other != code:
                values = (shown("FetchResponse", error, value) for value in (code, other))
                where = f"responses[{topic}].partitions[{partition}].errorCode"
                comparison.differences.append(Difference("responses.partitions.errorCode", where, *values))
        if errors[0] != errors[1] and not comparison.differences:
            comparison.left_out[LeftOut.DIVISION] += 1
        return comparison

    def differences(self) -> Iterator[tuple[ConnectionId, Difference]]:
        """Yield the partitions from which different records were read."""
        for (connection, topic, partition), (read, new) in self._found.items():
            recorded = {self._moved(offset, topic, partition): record for offset, record in read.items()}
            if recorded == new:
                continue
            different = sorted(
                offset for offset in recorded.keys() | new.keys() if recorded.get(offset) != new.get(offset)
            )
            where = f"responses[{topic}].partitions[{partition}].records"
            yield (
                connection,
                Difference(
                    "responses.partitions.records",
                    where,
                    f"{len(read):,} records",
                    f"{len(new):,} records, {len(different):,} missing or others, from offset {different[0]:,} on",
                ),
            )

    def _note(self, connection: ConnectionId, side: int, answer: Any) -> dict[tuple[str, int], int]:
        """Note the records of an answer; return its error codes by partition."""
        errors = {}
        for topic in answer.responses:
            name = topic.topic or self._names[side](topic.topic_id)
            for partition in topic.partitions:
                errors[name, partition.partition_index] = partition.error_code
                if partition.records:
                    key = (connection, name, partition.partition_index)
                    self._add(self._found.setdefault(key, ({}, {}))[side], partition.records)
        return errors

    def _add(self, hashes: dict[int, int], records: bytes) -> None:
        for batch in read_records(records):
            if batch.is_control or self.is_full:
                continue
            for record in batch.records:
                hashes[record.offset] = hash((record.key, record.value, tuple(record.headers)))
                self._count += 1
