"""Protobuf: a schema is the text of a .proto file; protoc (of grpcio-tools) compiles it, protobuf's messages read and
write payloads.

protoc runs as a process of its own, within limits: its input came from a registry or from the traffic.
"""

import functools
import re
import resource
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import Any

from kproxy.schemas.fields import ChangeField, Edit, FieldPaths, NotDescribed, NoWayOn, OtherType
from kproxy.schemas.formats import (
    DESCRIPTOR_SET,
    LEAF,
    Compiled,
    PayloadError,
    SchemaError,
    Substitutes,
    ValueMismatch,
    any_of,
    as_float,
    below,
    from_base64,
    require,
)
from kproxy.schemas.kinds import ANY, Counted, Kind, Map
from kproxy.schemas.marks import EACH, MOST_NODES, Template, edited, shown, varint
from kproxy.schemas.readable import readable
from kproxy.schemas.walk import PayloadWalk

COMPILE_S = 10
MOST_MEMORY = 1 << 30
FILE = "schema.proto"
PROTO_TEXT = re.compile(r"[{;]")  # base64 has neither
WELL_KNOWN = re.compile(
    r"google/protobuf/(any|api|duration|empty|field_mask|source_context|struct|timestamp|type|wrappers)\.proto"
)

SCALARS = {  # by FieldDescriptor.CPPTYPE_*
    1: "INTEGER",
    2: "BIGINT",
    3: "UINTEGER",
    4: "UBIGINT",
    5: "DOUBLE",
    6: "DOUBLE",
    7: "BOOLEAN",
    8: "VARCHAR",  # of enums: the name
    9: "VARCHAR",  # also bytes, in base64
}
WELL_KNOWN_TYPES = {
    "google.protobuf.Timestamp": "TIMESTAMPTZ",
    "google.protobuf.Duration": "VARCHAR",
    "google.protobuf.FieldMask": "VARCHAR",
    "google.protobuf.DoubleValue": "DOUBLE",
    "google.protobuf.FloatValue": "DOUBLE",
    "google.protobuf.Int64Value": "BIGINT",
    "google.protobuf.UInt64Value": "UBIGINT",
    "google.protobuf.Int32Value": "INTEGER",
    "google.protobuf.UInt32Value": "UINTEGER",
    "google.protobuf.BoolValue": "BOOLEAN",
    "google.protobuf.StringValue": "VARCHAR",
    "google.protobuf.BytesValue": "VARCHAR",
}
WRAPPED_NUMBERS = ("google.protobuf.Int64Value", "google.protobuf.UInt64Value")  # text in Protobuf's own JSON
LIMITS = {  # of substitutes; beyond them Protobuf's JSON has no times
    "google.protobuf.Timestamp.seconds": (-62_135_596_800, 253_402_300_799),
    "google.protobuf.Duration.seconds": (-315_576_000_000, 315_576_000_000),
    "google.protobuf.Timestamp.nanos": (0, 10**9 - 1),
    "google.protobuf.Duration.nanos": (1 - 10**9, 10**9 - 1),
}


class ProtobufSchema(Compiled):
    """Reads the payloads of the messages of one file."""

    def __init__(self, text: str, references: Mapping[str, str], message: str | None = None) -> None:
        files = _of_set(text) if text.startswith(DESCRIPTOR_SET) else _files({**references, FILE: text})
        pool = require("google.protobuf.descriptor_pool").DescriptorPool()
        try:
            for name in TopologicalSorter({name: file.dependency for name, file in files.items()}).static_order():
                pool.Add(files[name])
            self.file = pool.FindFileByName(FILE)
        except (TypeError, KeyError, CycleError) as error:
            raise SchemaError(f"not a schema of Protobuf: {error}") from error
        self._tree = files[FILE].message_type
        self._first = (0,) if message is None else _indexes_of(message, files[FILE])
        self._classes: dict[tuple[int, ...], Any] = {}  # by the indexes of their messages

    def read(self, payload: bytes, indexes: tuple[int, ...] | None = None) -> object:
        """Return the message, its fields named as in the schema; the first one of the file if no indexes say which."""
        return _message(self._parsed(payload, indexes))

    def write(self, value: object, like: bytes | None = None, indexes: tuple[int, ...] | None = None) -> bytes:
        """See Compiled."""
        before = None
        if like is not None:
            with suppress(PayloadError):
                before = self._parsed(like, indexes)
        made = self._class(indexes)()
        _fill(made, value, before, "")
        try:
            written: bytes = made.SerializeToString()
        except require("google.protobuf.message").EncodeError as error:
            raise ValueMismatch(f"cannot be written: {error}") from error
        return written

    def substituted(self, payload: bytes, indexes: tuple[int, ...] | None, substitutes: Substitutes) -> bytes:
        """See Compiled. Fields that the schema does not name are left out, as nothing is known of their values."""
        message = self._parsed(payload, indexes)
        message.DiscardUnknownFields()
        try:
            _substitute(message, substitutes)
            written: bytes = message.SerializeToString()
        except (OverflowError, ValueError, require("google.protobuf.message").EncodeError) as error:
            raise PayloadError(f"a value has no substitute: {error}") from error
        return written

    def _class(self, indexes: tuple[int, ...] | None) -> Any:
        which = indexes or self._first
        if which not in self._classes:
            descriptor = self._descriptor(which)
            self._classes[which] = require("google.protobuf.message_factory").GetMessageClass(descriptor)
        return self._classes[which]

    @functools.cached_property
    def _unknown(self) -> Any:
        return require("google.protobuf.unknown_fields").UnknownFieldSet

    def _parsed(self, payload: bytes, indexes: tuple[int, ...] | None) -> Any:
        message = self._class(indexes)()
        try:
            message.ParseFromString(payload)
        except require("google.protobuf.message").DecodeError as error:
            raise PayloadError(f"the payload does not fit the schema: {error}") from error
        for unknown in self._unknown(message):
            field = message.DESCRIPTOR.fields_by_number.get(unknown.field_number)
            is_newer = field is not None and field.enum_type is not None  # proto2 knows no other numbers of an enum
            if (
                field is not None and not is_newer
            ):  # a newer schema may have more fields, but not the same one of another type
                raise PayloadError(
                    f"the payload does not fit the schema: field {field.number} ({field.name}) is of another type"
                )
        return message

    def hiding(self, states: Sequence[Any], stars: bool) -> Callable[[bytes, tuple[int, ...] | None], bytes | None]:
        """Return what hides the values at the paths of an automaton in messages (kproxy.filters.mask.parse_paths).

        It returns the message, the same object if nothing is hidden; None if the payload does not fit. A text becomes "***" with
        *stars*; other fields are cleared, or have their default where proto2 requires them. Paths do not tell items apart.
        """

        def hidden(payload: bytes, indexes: tuple[int, ...] | None) -> bytes | None:
            try:
                message = self._parsed(payload, indexes)
            except PayloadError:
                return None
            return message.SerializeToString() if _Hiding(states, stars).hide(message, states[0]) else payload

        return hidden

    def editing(self, paths: FieldPaths) -> Edit:
        plans: dict[tuple[int, ...], tuple[PayloadWalk, Mapping[int, tuple[Template, bool]]]] = {}

        def planned(which: tuple[int, ...]) -> tuple[PayloadWalk, Mapping[int, tuple[Template, bool]]]:
            descriptor = self._descriptor(which)
            plan = _Plan(paths.states, paths.is_strict)
            walk = PayloadWalk(plan.of(descriptor))
            for path, states in paths.each.items():
                alone = _Plan(states)
                alone.of(descriptor)
                if not alone.leaves:
                    raise NotDescribed(f"the schema has no field {path}")
            plans[which] = walk, plan.leaves
            return walk, plan.leaves

        def edit(payload: bytes, indexes: tuple[int, ...] | None, change: ChangeField) -> bytes:
            which = indexes or self._first
            walk, leaves = plans.get(which) or planned(which)
            usual, marked = payload, walk.marked(payload)
            if marked is None:  # what counts in it, says the library
                usual = self._parsed(payload, which).SerializePartialToString()
                marked = walk.marked(usual)
            if marked is None:
                raise PayloadError("the payload does not fit the schema")
            changed = edited(usual, marked, leaves, change, 0)
            return payload if changed is usual else changed

        if len(self._tree) == 1:
            planned(self._first)
        return edit

    def _descriptor(self, indexes: tuple[int, ...]) -> Any:
        nested, found = self._tree, None
        for index in indexes:
            if not 0 <= index < len(nested):
                raise PayloadError(f"the schema has no message {list(indexes)}")
            name = nested[index].name
            found = self.file.message_types_by_name[name] if found is None else found.nested_types_by_name[name]
            nested = nested[index].nested_type
        return found

    def kinds(self, indexes: tuple[int, ...] | None = None) -> dict[str, Kind]:
        found = _Kinds().of_message(self._descriptor(indexes or self._first))
        return found if isinstance(found, dict) else {}


class _Kinds:
    """The types in SQL of messages, as ``_message`` shows them."""

    def __init__(self) -> None:
        self._inside: list[str] = []  # names of the messages around a field
        self._counted = Counted()

    def of_message(self, descriptor: Any) -> Kind:
        name = descriptor.full_name
        if _is_well_known(descriptor):
            return WELL_KNOWN_TYPES.get(name, ANY)
        if name in self._inside:
            return ANY
        self._inside.append(name)
        kinds = {field.name: self._of(field) for field in descriptor.fields}
        self._inside.pop()
        return kinds

    def _of(self, field: Any) -> Kind:
        entry = field.message_type
        if field.is_repeated and entry is not None and entry.GetOptions().map_entry:
            return Map(SCALARS[entry.fields_by_name["key"].cpp_type], self._of(entry.fields_by_name["value"]))
        if not self._counted.may_go_on(len(self._inside)):
            return ANY
        kind = SCALARS[field.cpp_type] if entry is None else self.of_message(entry)
        return [kind] if field.is_repeated else kind


class _Hiding:
    """Hides fields of messages."""

    def __init__(self, states: Sequence[Any], stars: bool) -> None:
        self._states = states
        self._stars = stars

    def hide(self, message: Any, state: Any) -> bool:
        """Hide what is below a state; return whether anything was there."""
        changed = False
        for field, value in message.ListFields():
            below = state.names.get(field.name, state.every)
            if below is None:
                continue
            if below != LEAF and field.is_repeated:
                known = self._states[below]
                is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
                below = any_of(known.names if is_map else known.indexes, known.every)
                items = value.values() if is_map else value
            else:
                items = [value]
            if below is not None and _is_well_known(field.message_type):  # JSON has other names for what is in them
                below = LEAF
            if below == LEAF:
                self._clear(message, field, value)
                changed = True
            elif below is not None:
                is_message = field.message_type is not None and all(hasattr(item, "ListFields") for item in items)
                for item in items if is_message else ():
                    changed |= self.hide(item, self._states[below])
        return changed

    def _clear(self, message: Any, field: Any, value: Any) -> None:
        if field.type == field.TYPE_STRING and self._stars:
            if field.is_repeated:
                value[:] = ["***"] * len(value)
            else:
                setattr(message, field.name, "***")
            return
        message.ClearField(field.name)
        if field.is_required:
            if field.message_type is None:
                setattr(message, field.name, field.default_value)
            else:
                getattr(message, field.name).SetInParent()


MESSAGE, ENTRY, VARINT, FIXED64, FIXED32, TEXT, DATA, INNER, GROUP = range(14, 23)  # in the order of walk.Kind
REPEATED, MARKED, PRESENT, UTF8 = 1, 2, 4, 8  # walk.Flag
FLAGS = 4  # bits
KINDS = {  # by FieldDescriptor.TYPE_*
    **dict.fromkeys((1, 6, 16), FIXED64),
    **dict.fromkeys((2, 7, 15), FIXED32),
    9: TEXT,
    10: GROUP,
    11: INNER,
    12: DATA,
}


class _Plan:
    """Makes the nodes of a PayloadWalk that marks the texts and bytes at the paths of an automaton.

    ``leaves``: their places, and whether they are texts, by node. *is_strict*: NoWayOn is raised for a type that a path cannot
    go on in.
    """

    def __init__(self, states: Sequence[Any], is_strict: bool = False) -> None:
        self._states = states
        self._is_strict = is_strict
        self._steps: list[tuple[int, int, tuple[int, ...], bytes | None]] = []
        self._known: dict[tuple[str, int | None, Template], int] = {}  # name of a message, state and place -> its node
        self.leaves: dict[int, tuple[Template, bool]] = {}

    def of(self, descriptor: Any) -> list[tuple[int, int, tuple[int, ...], bytes | None]]:
        """Return the nodes; the first is that of the message. Raises FieldRefused, NotDescribed."""
        self._message(descriptor, 0, ())
        return self._steps

    def _message(self, descriptor: Any, state: int | None, place: Template) -> int:
        known = descriptor.full_name, state, place
        if known not in self._known:
            if len(self._steps) > MOST_NODES:
                raise NotDescribed("paths with wildcards lead to too many places of the schema")
            number = self._known[known] = self._add(MESSAGE, 0)
            message = require("google.protobuf.message_factory").GetMessageClass(descriptor)
            fields = sorted(descriptor.fields, key=lambda field: field.number)
            self._steps[number] = MESSAGE, 0, tuple(self._field(one, message, state, place) for one in fields), None
        return self._known[known]

    def _field(self, field: Any, message: Any, state: int | None, place: Template) -> int:
        """Add the node of a field, and those below it."""
        known = None if state is None else self._states[state]
        below = known and known.names.get(field.name, known.every)
        flags, inner, place = REPEATED * field.is_repeated, field.message_type, (*place, field.name)
        if below is None or not field.is_repeated:
            return self._value(field, message, below, place, flags)
        if below == LEAF:
            raise OtherType(shown(place), "map" if _is_map(field) else "repeated")
        known = self._states[below]
        if not (known.names if _is_map(field) else known.indexes) and known.every is None:
            self._check_way(False, place, "map" if _is_map(field) else "repeated")
        if not _is_map(field):
            return self._value(field, message, any_of(known.indexes, known.every), (*place, EACH), flags)
        below = any_of(known.names, known.every)
        entry = require("google.protobuf.message_factory").GetMessageClass(inner)
        if below is None:
            return self._value(field, message, None, (), flags)
        place = (*place, lambda data: str(entry.FromString(data).key))
        key = self._value(inner.fields_by_name["key"], entry, None, (), MARKED | UTF8)
        value = self._value(inner.fields_by_name["value"], entry, below, place, MARKED | PRESENT)
        return self._add(INNER, field.number << FLAGS | flags | MARKED, self._add(ENTRY, 0, key, value))

    def _value(self, field: Any, message: Any, below: int | None, place: Template, flags: int) -> int:
        """Add the node of a field whose value, or each of them, is in this state."""
        kind, inner = KINDS.get(field.type, VARINT), field.message_type
        if below == LEAF or (below is not None and _is_well_known(inner)):
            if kind not in (TEXT, DATA):
                raise OtherType(shown(place), _type_name(field))
            self.leaves[len(self._steps)] = place, kind == TEXT
            flags |= MARKED | UTF8 | (PRESENT if flags or field.has_presence else 0)
            return self._add(kind, field.number << FLAGS | flags, hidden=b"")
        if below is not None:
            state = self._states[below]
            self._check_way(inner is not None and (state.names or state.every is not None), place, _type_name(field))
        number = self._add(kind, 0)
        children = () if inner is None else (self._message(inner, below, () if below is None else place),)
        flags |= MARKED if below is not None and inner is not None else 0
        flags |= UTF8 if kind == TEXT and _refuses_bytes(message, field) else 0
        self._steps[number] = kind, field.number << FLAGS | flags, children, None
        return number

    def _check_way(self, goes_on: bool, place: Template, kind: str) -> None:
        if self._is_strict and not goes_on:
            raise NoWayOn(shown(place), kind)

    def _add(self, kind: int, size: int, *children: int, hidden: bytes | None = None) -> int:
        self._steps.append((kind, size, children, hidden))
        return len(self._steps) - 1


def _refuses_bytes(message: Any, field: Any) -> bool:
    """Return whether the library takes no bytes that are no UTF-8 in a field of texts: proto2 does."""
    try:
        message.FromString(varint(field.number << 3 | 2) + b"\x01\xff")
    except require("google.protobuf.message").DecodeError:
        return True
    return False


def _is_map(field: Any) -> bool:
    return field.is_repeated and field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _type_name(field: Any) -> str:
    named = field.message_type or field.enum_type
    kinds = require("google.protobuf.descriptor_pb2").FieldDescriptorProto.Type
    return str(kinds.Name(field.type).removeprefix("TYPE_").lower() if named is None else named.full_name)


def _is_well_known(descriptor: Any) -> bool:
    return descriptor is not None and bool(descriptor.full_name.startswith("google.protobuf."))


def _message(message: Any) -> object:
    """Return a message as JSON: names of fields as in the schema, 64-bit integers as numbers, fields without presence always."""
    if _is_well_known(message.DESCRIPTOR):
        if message.DESCRIPTOR.full_name in WRAPPED_NUMBERS:
            return message.value
        try:
            return require("google.protobuf.json_format").MessageToDict(message)
        except Exception:  # an Any of a type that is not known, a Timestamp out of range: shown by its fields
            pass
    shown: dict[str, object] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.is_repeated:
            entry = field.message_type
            if entry is not None and entry.GetOptions().map_entry:
                of = entry.fields_by_name["value"]
                shown[field.name] = {str(key): _value(of, value[key]) for key in value}
            else:
                shown[field.name] = [_value(field, one) for one in value]
        elif not field.has_presence or message.HasField(field.name):
            shown[field.name] = _value(field, value)
    return shown


def _value(field: Any, value: Any) -> object:
    if field.message_type is not None:
        return _message(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    return readable(value)


def _fill(message: Any, value: object, before: Any, path: str) -> None:
    """Set the fields of an empty message as JSON has them, and those that the schema does not name as in *before*."""
    if _is_well_known(message.DESCRIPTOR) and _is_filled(message, value, path):
        return
    if before is not None:
        unnamed = type(before)()
        unnamed.CopyFrom(before)
        for field, _ in before.ListFields():
            unnamed.ClearField(field.name)
        message.MergeFrom(unnamed)
    if not isinstance(value, dict):
        raise ValueMismatch("is not an object", path)
    chosen: dict[str, str] = {}  # by the name of a oneof
    for name, inner in value.items():
        field = message.DESCRIPTOR.fields_by_name.get(name)
        at = below(path, name)
        if field is None:
            raise ValueMismatch("is not a field of the schema", at)
        oneof = field.containing_oneof
        if oneof is not None and chosen.setdefault(oneof.name, name) != name:
            raise ValueMismatch(f"cannot be there with {chosen[oneof.name]}: both are of the oneof {oneof.name}", at)
        _set(message, field, inner, before, at)


def _is_filled(message: Any, value: object, path: str) -> bool:
    """Fill a message of Protobuf's own types; return False if JSON has it by its fields, as _message does at times."""
    try:
        require("google.protobuf.json_format").ParseDict(value, message)
    except Exception as error:  # of each type its own
        message.Clear()
        if isinstance(value, dict) and value.keys() <= set(message.DESCRIPTOR.fields_by_name.keys()):
            return False
        raise ValueMismatch(f"is not {message.DESCRIPTOR.name}: {error}", path) from error
    return True


def _set(message: Any, field: Any, value: Any, before: Any, path: str) -> None:
    """Set a field as JSON has it. *before*: the message as it was, or None."""
    known = getattr(before, field.name) if before is not None else None
    held = getattr(message, field.name)
    entry = field.message_type if field.is_repeated else None
    if entry is not None and entry.GetOptions().map_entry:
        of, of_key = entry.fields_by_name["value"], entry.fields_by_name["key"]
        if not isinstance(value, dict):
            raise ValueMismatch("is not an object", path)
        for name, inner in value.items():
            at, key = below(path, name), _key(of_key, name, path)
            with _mismatches(at):
                if of.message_type is None:
                    held[key] = _scalar(of, inner, at)
                else:
                    _fill(held[key], inner, known[key] if known is not None and key in known else None, at)
    elif field.is_repeated:
        if not isinstance(value, list):
            raise ValueMismatch("is not an array", path)
        for number, inner in enumerate(value):
            at = below(path, number)
            with _mismatches(at):
                if field.message_type is None:
                    held.append(_scalar(field, inner, at))
                else:
                    _fill(held.add(), inner, known[number] if known is not None and number < len(known) else None, at)
    elif field.message_type is not None:
        held.SetInParent()
        _fill(held, value, known if before is not None and before.HasField(field.name) else None, path)
    else:
        with _mismatches(path):
            setattr(message, field.name, _scalar(field, value, path))


@contextmanager
def _mismatches(path: str) -> Iterator[None]:
    """Raise ValueMismatch where Protobuf refuses a value."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueMismatch(f"is refused: {error}", path) from error


def _key(field: Any, name: str, path: str) -> Any:
    """Return the key of a map, which JSON has as text."""
    if field.type == field.TYPE_STRING:
        return name
    try:
        return {"True": True, "False": False}[name] if field.type == field.TYPE_BOOL else int(name)
    except (KeyError, ValueError):
        wanted = "True or False" if field.type == field.TYPE_BOOL else "a whole number"
        raise ValueMismatch(f"has a key that is not {wanted}", path) from None


def _scalar(field: Any, value: Any, path: str) -> Any:
    """Return a value of JSON as the type of a field has it. Raises ValueMismatch."""
    if field.enum_type is not None and isinstance(value, str):
        if value not in field.enum_type.values_by_name:
            raise ValueMismatch(f"is none of {', '.join(list(field.enum_type.values_by_name)[:20])}", path)
        return field.enum_type.values_by_name[value].number
    if field.type == field.TYPE_BYTES:
        return from_base64(value, path)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return as_float(value, field.type == field.TYPE_FLOAT, path)
    kind, name = {field.TYPE_STRING: (str, "a text"), field.TYPE_BOOL: (bool, "true or false")}.get(
        field.type, (int, "a whole number")
    )
    if type(value) is not kind:
        raise ValueMismatch(f"is not {name}", path)
    return value


def _substitute(message: Any, to: Substitutes) -> None:
    """Replace the values in a message by substitutes."""
    for field, value in message.ListFields():
        if not field.is_repeated:
            if field.message_type is not None:
                _substitute(value, to)
            else:
                setattr(message, field.name, _substitute_of(field, value, to))
        elif field.message_type is None:
            value[:] = [_substitute_of(field, one, to) for one in value]
        elif field.message_type.GetOptions().map_entry:
            _substitute_map(field, value, to)
        else:
            for one in value:
                _substitute(one, to)


def _substitute_map(field: Any, held: Any, to: Substitutes) -> None:
    of_key, of = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    pairs = [(key, held[key]) for key in held]
    if of.message_type is not None:
        copies = [type(one)() for _, one in pairs]
        for copied, (_, one) in zip(copies, pairs, strict=True):
            copied.CopyFrom(one)
            _substitute(copied, to)
    else:
        copies = [_substitute_of(of, one, to) for _, one in pairs]
    held.clear()
    for (key, _), one in zip(pairs, copies, strict=True):
        substitute = _substitute_of(of_key, key, to)
        if of.message_type is None:
            held[substitute] = one
        else:
            held[substitute].CopyFrom(one)


def _substitute_of(field: Any, value: Any, to: Substitutes) -> Any:
    """Return a substitute for the value of a field, or of one of its items."""
    if field.enum_type is not None:
        known = list(field.enum_type.values_by_number)
        return to.one_of(value, known) if value in known else value
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        is_type = field.full_name == "google.protobuf.Any.type_url"
        return value if is_type else to.text(value)
    if isinstance(value, bytes):
        return to.data(value)
    if isinstance(value, float):
        return to.real(value)
    return to.whole(value, *LIMITS.get(field.full_name, _limits(field)))


def _limits(field: Any) -> tuple[int, int]:
    bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    is_signed = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)


def _files(contents: Mapping[str, str]) -> dict[str, Any]:
    """Return the descriptor of each file and of what it imports, by name. Contents are .proto text, or a descriptor in base64."""
    descriptor_pb2 = require("google.protobuf.descriptor_pb2")
    texts = {name: content for name, content in contents.items() if PROTO_TEXT.search(content)}
    files = {name: _serialized(name, content) for name, content in contents.items() if name not in texts}
    if texts:
        known = descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString()
        compiled = descriptor_pb2.FileDescriptorSet.FromString(_compile(texts, known))
        files = {file.name: file for file in compiled.file} | files
    for file in list(files.values()):
        for name in file.dependency:
            if name not in files:
                files[name] = _well_known(name)
    return files


def _of_set(text: str) -> dict[str, Any]:
    """Return the descriptors of a FileDescriptorSet in base64, by name; its last file, which protoc was asked for, as FILE."""
    try:
        found = require("google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(
            b64decode(text.removeprefix(DESCRIPTOR_SET), validate=True)
        )
    except (ValueError, require("google.protobuf.message").DecodeError) as error:
        raise SchemaError("not a set of descriptors") from error
    if not found.file:
        raise SchemaError("a set of descriptors without a file")
    files = {file.name: file for file in found.file[:-1]}
    files[FILE] = found.file[-1]
    files[FILE].name = FILE
    for name in {name for file in files.values() for name in file.dependency} - files.keys():
        files[name] = _well_known(name)
    return files


def _indexes_of(message: str, file: Any) -> tuple[int, ...]:
    """Return which message of a file has a name, as "shop.Order", "Order" or "Order.Line"."""
    nested, indexes = file.message_type, []
    for name in message.removeprefix(f"{file.package}." if file.package else "").split("."):
        at = next((at for at, one in enumerate(nested) if one.name == name), None)
        if at is None:
            raise SchemaError(f"the schema has no message {message}")
        indexes.append(at)
        nested = nested[at].nested_type
    return tuple(indexes)


def _compile(texts: Mapping[str, str], known: bytes) -> bytes:
    """Run protoc on some files, which import each other and those of the set *known*; return their FileDescriptorSet."""
    include = Path(require("grpc_tools").__file__).parent / "_proto"
    with tempfile.TemporaryDirectory(prefix="kproxy-proto-") as name:
        folder = Path(name)
        for at, content in texts.items():
            _write(folder, at, content)
        (folder / "known").write_bytes(known)
        target = folder / "descriptors"
        words = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{include}", "--include_imports"]
        words += [f"--descriptor_set_in={folder / 'known'}"] if known else []
        try:
            done = subprocess.run(
                [*words, f"--descriptor_set_out={target}", *texts],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=COMPILE_S,
                check=False,
                preexec_fn=_limit,
            )
        except subprocess.TimeoutExpired as error:
            raise SchemaError(f"protoc took more than {COMPILE_S} s") from error
        if done.returncode or not target.exists():
            said = [line for line in done.stderr.splitlines() if ".proto:" in line] or [
                f"protoc ended with {done.returncode}"
            ]
            raise SchemaError(f"not a schema of Protobuf: {said[0].replace(f'{folder}/', '')}")
        return target.read_bytes()


def _write(folder: Path, at: str, content: str) -> None:
    path = PurePosixPath(at)
    if path.is_absolute() or ".." in path.parts:
        raise SchemaError(f"an import of {at}, which leaves its folder")
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(content, encoding="utf-8")


def _serialized(name: str, content: str) -> Any:
    """Return a descriptor that a registry gave in base64 (?format=serialized), under the name by which others import it."""
    try:
        file = require("google.protobuf.descriptor_pb2").FileDescriptorProto.FromString(
            b64decode(content, validate=True)
        )
    except (ValueError, require("google.protobuf.message").DecodeError) as error:
        raise SchemaError("neither the text of a .proto file nor a descriptor in base64") from error
    file.name = name
    return file


def _well_known(name: str) -> Any:
    """Return the descriptor of one of Protobuf's own files."""
    if not WELL_KNOWN.fullmatch(name):
        raise SchemaError(f"it imports {name}, which is not among its references")
    file = require("google.protobuf.descriptor_pb2").FileDescriptorProto()
    require(f"{name.removesuffix('.proto').replace('/', '.')}_pb2").DESCRIPTOR.CopyToProto(file)
    return file


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (COMPILE_S, COMPILE_S))
