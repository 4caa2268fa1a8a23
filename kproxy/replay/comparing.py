"""Compare two answers to the same request: where they differ, by field, with Kafka's names."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kproxy.output.escaping import printable
from kproxy.protocol.error_codes import ErrorCode, error_codes
from kproxy.protocol.facts import Field
from kproxy.protocol.secrets import WITHHELD, Secrecy, is_secret_value, secrecy
from kproxy.protocol.structs import Struct
from kproxy.protocol.values import describe
from kproxy.replay.alignment import align
from kproxy.replay.identifiers import key_fields
from kproxy.replay.identities import Identities, Place
from kproxy.replay.left_out import LeftOut, class_of

LONGEST = 80  # characters of a value
MOST_DEEP = 32  # structs in structs; Kafka's have seven
NOT_READY = frozenset(
    {
        *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
        *(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS),
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID),
    }
)
GOES_ON = (
    ErrorCode.NONE,
    ErrorCode.MEMBER_ID_REQUIRED,  # the first answer of a coordinator to a new member
)
BY_MEMBER = (  # compared in assigned.py
    ("ConsumerGroupHeartbeatResponse", "Assignment"),
    ("ShareGroupHeartbeatResponse", "Assignment"),
)
ERRORS = ("error_code", "partition_error_code")
MISSING = "(absent)"


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
    _structs(walk, recorded, new, "", "", place)
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
    """Return whether a field holds an error code."""
    return one.type == "int16" and one.name.endswith("ErrorCode")


def shown(message: str, one: Field, value: Any, struct: Any = None, *, sensitive: bool = False) -> str:
    """Render a value for people, with credentials withheld.

    *struct* has the field; *sensitive*: the broker marked it as sensitive.
    """
    if is_hidden(message, one, struct, sensitive=sensitive):
        return WITHHELD
    if is_error_code(one) and isinstance(value, int):
        known = error_codes().get(value)
        return known.name if known is not None else str(value)
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


def _structs(walk: _Walk, recorded: Any, new: Any, path: str, where: str, place: Place) -> None:
    place = walk.identities.place(recorded, place)
    if _was_not_ready(recorded, new):
        walk.found.left_out[LeftOut.NOT_READY] += 1
        return
    fields = recorded.fields
    error = _own_error(recorded)
    if error is not None and getattr(recorded, error.attribute) != getattr(new, error.attribute):
        walk.found.left_out[LeftOut.FOLLOWS] += 1
        fields = (error,)
    outside, walk.sensitive = walk.sensitive, walk.sensitive or _is_sensitive(recorded) or _is_sensitive(new)
    for one in fields:
        if walk.versions[0] not in one.versions or walk.versions[1] not in one.versions:
            continue
        old_value, new_value = getattr(recorded, one.attribute), getattr(new, one.attribute)
        steps = f"{path}.{one.json_name}".lstrip("."), f"{where}.{one.json_name}".lstrip(".")
        if one.is_struct:
            _inner(walk, one, (old_value, new_value), steps, place)
        elif not _equal(old_value, new_value, one):
            _note(walk, one, (recorded, new), steps, place)
    walk.sensitive = outside


def _is_sensitive(struct: Any) -> bool:
    return "is_sensitive" in struct.by_attribute and bool(struct.is_sensitive)


def _was_not_ready(recorded: Struct, new: Struct) -> bool:
    error = _own_error(recorded)
    if error is None:
        return False
    return getattr(recorded, error.attribute) in NOT_READY and getattr(new, error.attribute) in GOES_ON


def _own_error(struct: Struct) -> Field | None:
    """Return the field with the error code of a message, or of an element of an array."""
    return next((struct.by_attribute[one] for one in ERRORS if one in struct.by_attribute), None)


def _inner(walk: _Walk, one: Field, values: tuple[Any, Any], steps: tuple[str, str], place: Place) -> None:
    recorded, new = values
    if (walk.message, one.name) in BY_MEMBER:
        walk.found.left_out[LeftOut.ASSIGNED] += recorded != new
        return
    if walk.message == "JoinGroupResponse" and (not recorded) != (not new):
        walk.found.left_out[LeftOut.LEADER] += 1
        return
    if not one.is_array:
        if recorded is not None and new is not None:
            _structs(walk, recorded, new, *steps, place)
        elif recorded is not new:
            _differ(walk, steps, *("null" if v is None else "present" for v in values))
        return
    if (recorded is None) != (new is None):
        _differ(walk, steps, *("null" if v is None else f"{len(v)} elements" for v in values))
        return
    pairs = align(walk.message, recorded or [], new or [], walk.identities, place)
    if class_of(walk.message, one) is None and _only_of_nodes(walk.message, pairs):
        return
    for place_in, (old, other) in enumerate(pairs):
        one_there: Any = old if old is not None else other
        name = _name(walk, one_there, place_in)
        where = f"{steps[1]}[{name}]"
        if old is not None and other is not None:
            _structs(walk, old, other, steps[0], where, place)
        else:
            there = "present", MISSING
            _differ(walk, (steps[0], where), *(there if old is not None else reversed(there)))


def _only_of_nodes(message: str, pairs: list[tuple[Any, Any]]) -> bool:
    """Return whether the elements are the nodes of the cluster, which are not compared."""
    first = next((one for pair in pairs for one in pair if one is not None), None)
    keys = () if first is None else key_fields(message, first)
    return bool(keys) and all(class_of(message, key) is LeftOut.NODES for key in keys)


def _name(walk: _Walk, struct: Struct, place_in: int) -> str:
    """Return what identifies an element, in words."""
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


def _note(walk: _Walk, one: Field, structs: tuple[Any, Any], steps: tuple[str, str], place: Place) -> None:
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
        _differ(walk, steps, *values)


def _differ(walk: _Walk, steps: tuple[str, str], recorded: str, new: str) -> None:
    walk.found.differences.append(Difference(*steps, recorded, new))
