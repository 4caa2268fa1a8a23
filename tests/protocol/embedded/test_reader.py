"""Primitives of hand-written payloads: right, bounded, and DecodeError for everything else."""

from collections.abc import Callable
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError, Malformed, TrailingBytes, Truncated
from kproxy.protocol.embedded.reader import ALLOWANCE, Reader

READERS: dict[str, tuple[Callable[[Reader], Any], bytes, object]] = {
    "int8": (Reader.int8, b"\xfe", -2),
    "int16": (Reader.int16, pack(">h", -300), -300),
    "uint16": (Reader.uint16, b"\xff\xfe", 65534),
    "int32": (Reader.int32, pack(">i", -70_000), -70_000),
    "int64": (Reader.int64, pack(">q", -(2**62)), -(2**62)),
    "int32s": (Reader.int32s, pack(">iii", 2, 7, -1), [7, -1]),
    # 11 and 15 make "CxU..." in URL-safe base64; the all-ones uuid is Java's Uuid.toString of (-1, -1)
    "uuid": (Reader.uuid, b"\xff" * 16, "_____________________w"),
    "uvarint": (Reader.uvarint, b"\x96\x01", 150),  # 150 is the example of protobuf.dev
    "string": (Reader.string, b"\x00\x03caf", "caf"),
    "null string": (Reader.string, b"\xff\xff", None),
    "bytes": (Reader.nullable_bytes, pack(">i", 2) + b"ab", b"ab"),
    "null bytes": (Reader.nullable_bytes, pack(">i", -1), None),
    # JVM specification 4.4.7: NUL is C0 80, U+1F600 is two surrogates of three bytes each
    "java utf": (Reader.java_utf, b"\x00\x08\xc0\x80\xed\xa0\xbd\xed\xb8\x80", "\0\U0001f600"),
    "java chars": (Reader.java_chars, pack(">i", 2) + "né".encode("utf-16-be"), "né"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_value_is_read_and_its_every_prefix_is_truncated(name: str) -> None:
    read, data, expected = READERS[name]
    reader = Reader("x", data + b"next")
    assert read(reader) == expected
    assert reader.position == len(data)
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            read(Reader("x", data[:cut]))


@given(data=st.binary(max_size=40), name=st.sampled_from(sorted(READERS)))
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes, name: str) -> None:
    reader = Reader("x", data)
    try:
        READERS[name][0](reader)
    except DecodeError:
        return
    assert 0 < reader.position <= len(data)


def test_a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_made() -> None:
    """Hostile input 2: the count is compared with what is left."""
    with pytest.raises(Malformed, match="claims 2147483647 elements"):
        Reader("x", pack(">i", 0x7FFFFFFF) + bytes(100)).int32s()
    with pytest.raises(Malformed):
        Reader("x", pack(">i", 3) + bytes(11)).array(4, lambda: None)


def test_a_null_array_has_no_elements() -> None:
    assert Reader("x", pack(">i", -1)).array(4, lambda: 1) == []


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\xff\x01", b"\x80" * 11])
def test_a_long_varint_is_refused(data: bytes) -> None:
    """Hostile input 14."""
    with pytest.raises(Malformed, match="longer than five bytes"):
        Reader("x", data).uvarint()


def test_repeated_names_are_paid_for() -> None:
    reader = Reader("x", b"")
    with pytest.raises(Malformed, match="repeated"):
        for _ in range(ALLOWANCE + 1):
            reader.repeated("n")


def test_errors_say_what_and_where() -> None:
    reader = Reader("Connect metadata", b"\0\0\0")
    reader.int16()
    with pytest.raises(Truncated, match=r"Connect metadata: needs 4 bytes, 1 left \(at byte 2\)"):
        reader.int32()
    with pytest.raises(TrailingBytes, match="1 bytes are left over"):
        reader.end()


def test_what_is_not_utf8_is_replaced() -> None:
    assert Reader("x", b"\x00\x02a\xff").string() == "a\ufffd"
    assert Reader("x", b"\x00\x02a\xff").java_utf() == "a\ufffd"
