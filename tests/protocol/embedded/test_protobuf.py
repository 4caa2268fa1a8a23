"""The wire format of Protocol Buffers: its documentation's own examples, and hostile bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.protobuf import MOST_DEPTH, FieldType, ProtobufReader

# protobuf.dev, "Encoding": Test1 {int32 a = 1}, Test2 {string b = 2}, Test3 {Test1 c = 3}, Test5 {repeated int32 f = 6}
MESSAGES = {
    "Test1": {1: FieldType("a", "int32"), 2: FieldType("s", "sint32"), 3: FieldType("o", "int32", explicit=True)},
    "Test2": {2: FieldType("b", "string"), 3: FieldType("t", "bytes"), 4: FieldType("e", "Corpus")},
    "Test3": {3: FieldType("c", "Test1")},
    "Test5": {6: FieldType("f", "int32", repeated=True)},
    "Deep": {1: FieldType("d", "Deep", repeated=True)},
    "Fixed": {1: FieldType("d", "double"), 2: FieldType("q", "sfixed64"), 3: FieldType("w", "fixed32")},
}
ENUMS = {"Corpus": {0: "UNIVERSAL", 1: "WEB"}}


def read(message: str, text: str) -> dict[str, object]:
    return ProtobufReader(MESSAGES, ENUMS).read(message, bytes.fromhex(text))


@pytest.mark.parametrize(
    ("message", "text", "expected"),
    [
        ("Test1", "08 96 01", {"a": 150}),
        ("Test2", "12 07 74657374696e67", {"b": "testing"}),
        ("Test3", "1a 03 08 96 01", {"c": {"a": 150}}),
        ("Test5", "32 06 03 8e 02 9e a7 05", {"f": [3, 270, 86942]}),  # packed
        ("Test5", "30 03 30 8e 02", {"f": [3, 270]}),  # not packed
        ("Test1", "08 fe ff ff ff ff ff ff ff ff 01", {"a": -2}),  # negative int32: ten bytes
        ("Test1", "10 03", {"s": -2}),  # zig-zag
        ("Test1", "08 00", {}),  # the default, without presence
        ("Test1", "18 00", {"o": 0}),  # the default, with presence
        ("Test1", "08 07 08 00", {}),  # the last one counts
        ("Test2", "20 01", {"e": "WEB"}),
        ("Test2", "20 09", {"e": 9}),  # a value that the table lacks stays a number
        ("Test2", "1a 02 00 ff", {"t": "AP8="}),
        ("Test1", "50 01 08 96 01", {"a": 150}),  # field 10 is unknown
        ("Test1", "53 08 01 54 08 96 01", {"a": 150}),  # an unknown group
        ("Test1", "0d 01 00 00 00 08 96 01", {"a": 150}),  # a known field of another wire type counts as unknown
        ("Fixed", "09 00000000 0000f07f", {"d": "Infinity"}),
        ("Fixed", "11 ffffffff ffffffff 1d 01000000", {"q": -1, "w": 1}),
    ],
)
def test_a_message_is_what_the_documentation_says(message: str, text: str, expected: dict[str, object]) -> None:
    assert read(message, text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("08", "needs 1 bytes"),
        ("12 7f 00", "needs 127 bytes"),
        ("12 ff ff ff ff ff ff ff ff ff 01", "needs 18446744073709551615 bytes"),
        ("08 80 80 80 80 80 80 80 80 80 80 01", "longer than ten bytes"),
        ("0f", "wire type 7"),
        ("00 00", "field number 0"),
        ("54", "a group ends that did not begin"),
        ("53", "needs 1 bytes"),
    ],
)
def test_what_is_no_message_is_refused(text: str, reason: str) -> None:
    """Hostile input 14: overlong varints; lengths beyond the end."""
    with pytest.raises(DecodeError, match=reason):
        read("Test1", text)


def test_messages_inside_each_other_end_somewhere() -> None:
    data = b""
    for _ in range(MOST_DEPTH + 2):
        size = len(data)
        data = b"\x0a" + (bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])) + data
    with pytest.raises(DecodeError, match="inside each other"):
        ProtobufReader(MESSAGES, ENUMS).read("Deep", data)


def test_two_bytes_that_make_an_object_each_are_counted() -> None:
    """Hostile input 4: a megabyte of empty submessages is not half a million objects."""
    with pytest.raises(DecodeError, match="more than 200,000 values"):
        ProtobufReader(MESSAGES, ENUMS).read("Deep", b"\x0a\x00" * 500_000)


@given(data=st.binary(max_size=80), message=st.sampled_from(sorted(MESSAGES)))
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes, message: str) -> None:
    try:
        assert isinstance(ProtobufReader(MESSAGES, ENUMS).read(message, data), dict)
    except DecodeError:
        return
