"""Fields of Protobuf that a walk finds and changes: the message is the one that its library makes by the same paths."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from kproxy.filters.encrypted_fields import field_paths
from kproxy.schemas.fields import Place
from kproxy.schemas.formats import PayloadError
from kproxy.schemas.protobuf import ProtobufSchema

ORDER = """message Order {{
    {0}int64 total = 1; {0}string note = 2; {0}bytes card = 3; repeated Person people = 4; map<string, string> tags = 5;
    map<sint32, Person> by_id = 6; {0}Person owner = 7; oneof either {{ string a = 8; Person b = 9; }}
    repeated sint32 packed = 10{1}; repeated string notes = 11; optional string may = 12; repeated fixed64 times = 13;
    {0}Order inner = 14; {2} }}
    message Person {{ {0}string email = 1; {0}Order order = 2; {0}string other = 3; }}"""
GROUPS = "optional group Held = 15 { optional string x = 1; } repeated group Each = 16 { optional Person who = 1; }"
SCHEMAS = (
    ProtobufSchema('syntax = "proto3"; ' + ORDER.format("", "", ""), {}),
    ProtobufSchema('syntax = "proto2"; ' + ORDER.format("optional ", " [packed = true]", GROUPS), {}),
)
PATHS = ["$.note", "$.card", "$.people[*].email", "$.tags.*", "$.by_id.*.email", "$.owner.email", "$.owner.order.note"]
PATHS += ["$.a", "$.b.email", "$.notes[*]", "$.may", "$.inner.inner.note", "$.inner.people[*].order.tags.*"]
OF_GROUPS = ["$.held.x", "$.each[*].who.email"]
UNKNOWN = [b"\x9a\x06\x01\xff", b"\x98\x06\x05", b"\x9b\x06\x08\x01\x9c\x06", b"\x9d\x06abcd"]  # of field 99
NUMBERS = [b"\x08\x07", b"\x08\x80\x00", b"\x52\x02\x01\x02", b"\x50\x01", b"\x6a\x08" + bytes(8), b"\x69" + bytes(8)]


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def sized(number: int, content: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return content.map(lambda data: varint(number << 3 | 2) + varint(len(data)) + data)


def joined(*chunks: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Fields in the order of their numbers, as libraries write them, or in any; some of them twice."""
    drawn = st.lists(st.one_of(chunks), max_size=6)
    return (drawn.map(lambda found: sorted(found, key=lambda one: one[0] >> 3)) | drawn).map(b"".join)


TEXTS = st.sampled_from(["", "a", "é𝄞", "x" * 130]).map(str.encode)


def orders(people: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    entries = joined(sized(1, TEXTS), sized(2, TEXTS)) | st.tuples(sized(1, TEXTS), sized(2, TEXTS)).map(b"".join)
    by_id = st.tuples(st.sampled_from([b"\x08\x05", b"\x08\x06", b""]), sized(2, people) | st.just(b"")).map(b"".join)
    held, each = joined(sized(1, TEXTS)), joined(sized(1, people))
    return joined(
        *(sized(number, TEXTS) for number in (2, 3, 8, 11, 12)),
        *(sized(number, people) for number in (4, 7, 9)),
        *(sized(5, entries), sized(6, by_id), st.sampled_from(NUMBERS), st.sampled_from(UNKNOWN)),
        *(held.map(lambda data: b"\x7b" + data + b"\x7c"), each.map(lambda data: b"\x83\x01" + data + b"\x84\x01")),
    )


def people(order: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return joined(sized(1, TEXTS), sized(2, order), sized(3, TEXTS), st.sampled_from(UNKNOWN))


FLAT = orders(people(st.just(b"")))
DEEP = orders(people(FLAT))
PAYLOADS = FLAT | st.tuples(DEEP, sized(14, DEEP), sized(14, sized(14, FLAT)) | st.just(b"")).map(b"".join)


def longer(text: Any) -> Any:
    return text + type(text)("x" * 127, *(["ascii"] if isinstance(text, bytes) else []))


def change(held: Any, field: Any, key: Any, steps: list[str], place: Place) -> Iterator[Place]:
    """Change by the library what is at the rest of a path in a value, which ``held`` has under a name or a key."""
    value = getattr(held, field.name) if key is None else held[key]
    if key is None and field.is_repeated:
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        for at in list(value) if is_map else range(len(value)):
            yield from change(value, field, at, steps[1:], (*place, str(at) if is_map else at))
    elif steps:
        below = value.DESCRIPTOR.fields_by_name[steps[0]]
        if below.is_repeated or (value.HasField(below.name) if below.has_presence else getattr(value, below.name)):
            yield from change(value, below, None, steps[1:], (*place, below.name))
    else:
        yield place
        if key is None:
            setattr(held, field.name, longer(value))
        else:
            held[key] = longer(value)


class Whole:
    """Has a message under a name."""

    name, is_repeated = "message", False

    def __init__(self, message: Any) -> None:
        self.message = message


@pytest.mark.parametrize("schema", SCHEMAS, ids=["proto3", "proto2"])
@given(payload=PAYLOADS, damage=st.none() | st.tuples(st.integers(0, 400), st.binary(max_size=2), st.integers(0, 2)))
def test_the_message_is_the_one_that_the_library_makes(schema: ProtobufSchema, payload: bytes, damage: Any) -> None:
    if damage is not None:
        at, new, size = damage
        payload = payload[:at] + new + payload[at + size :]
    paths = PATHS + OF_GROUPS * (schema is SCHEMAS[1])
    expected, places, seen = schema._class(None)(), set[Place](), set[Place]()

    def other(place: Place, field: bytes, is_text: bool) -> bytes:
        seen.add(place)
        return longer(field)

    edit = schema.editing(field_paths(tuple(paths)))
    try:
        expected.ParseFromString(payload)
        for path in paths:
            places.update(change(Whole(expected), Whole, None, path[2:].replace("[", ".[").split("."), ()))
    except (DecodeError, UnicodeDecodeError):
        with pytest.raises(PayloadError):
            edit(payload, None, other)
        return
    try:
        edited = edit(payload, None, other)
    except PayloadError:  # a known field of another wire type, which is an unknown one for the library
        assert damage is not None
        return
    assert schema._class(None).FromString(edited).SerializeToString(deterministic=True) == expected.SerializeToString(
        deterministic=True
    )
    assert places <= seen
    assert edit(payload, None, lambda place, field, is_text: field) is payload


def test_a_message_is_as_deep_as_the_library_takes_it() -> None:
    edit = SCHEMAS[0].editing(field_paths(("$.note",)))
    payloads = {0: b"\x12\x01a"}
    for depth in range(1, 102):
        payloads[depth] = payloads[0] + b"\x72" + varint(len(payloads[depth - 1])) + payloads[depth - 1]
    SCHEMAS[0].read(payloads[100])
    assert (
        edit(payloads[100], None, lambda place, field, is_text: b"other")[:9] == b"\x12\x05other" + payloads[100][3:5]
    )
    for refused in (SCHEMAS[0].read, lambda payload: edit(payload, None, lambda place, field, is_text: b"other")):
        with pytest.raises(PayloadError):
            refused(payloads[101])
