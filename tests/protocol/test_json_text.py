"""JSON values as text, seen through messages that hold one of each.

Referees: RFC 4648 for base64, Python's own decoder for UTF-8 (Unicode table 3-7 and the substitution of maximal subparts, as
Java's), json and repr for numbers, uuid of Kafka's Uuid.toString (URL-safe base64 without padding).
"""

import base64
import json
import math
import struct
import sys

import hypothesis
import hypothesis.strategies as st
import pytest

from kproxy.protocol import message
from tests.support.wire import compact

MORE = hypothesis.settings(max_examples=hypothesis.settings.default.max_examples * 20)


def string_text(data: bytes) -> bytes:
    """What becomes of a string: ApiVersionsRequest v3's software name."""
    shown = message("ApiVersionsRequest").to_json(3, compact(data) + compact(b"") + b"\0")
    return shown.removeprefix(b'{"clientSoftwareName":').removesuffix(b',"clientSoftwareVersion":""}')


def base64_text(data: bytes) -> bytes:
    """What becomes of bytes: SaslAuthenticateRequest v0's only field."""
    shown = message("SaslAuthenticateRequest").to_json(0, len(data).to_bytes(4, "big") + data)
    return shown.removeprefix(b'{"authBytes":').removesuffix(b"}")


def float_text(data: bytes) -> bytes:
    """What becomes of a float64: the value of a quota in DescribeClientQuotasResponse v0."""
    one = b"\0\0\0\1"
    shown = message("DescribeClientQuotasResponse").to_json(0, bytes(8) + one + bytes(4) + one + b"\0\1k" + data)
    return shown.split(b'"value":')[1].removesuffix(b"}]}]}")


def int64_text(value: int) -> bytes:
    """What becomes of an int64: finalizedFeaturesEpoch, tag 1 of ApiVersionsResponse v3."""
    data = b"\0\0\1" + bytes(4) + b"\1\1\x08" + value.to_bytes(8, "big", signed=True)
    return message("ApiVersionsResponse").to_json(3, data).split(b'"finalizedFeaturesEpoch":')[1].removesuffix(b"}")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"f", "Zg=="),
        (b"fo", "Zm8="),
        (b"foo", "Zm9v"),
        (b"foob", "Zm9vYg=="),
        (b"fooba", "Zm9vYmE="),
        (b"foobar", "Zm9vYmFy"),
    ],
)
def test_base64_is_that_of_rfc_4648_section_10(data: bytes, text: str) -> None:
    assert base64_text(data) == f'"{text}"'.encode()


@hypothesis.given(st.binary(max_size=200))
def test_base64_of_any_bytes(data: bytes) -> None:
    assert json.loads(base64_text(data)) == base64.b64encode(data).decode()


@MORE
@hypothesis.given(st.binary(max_size=60))
def test_any_bytes_of_a_string_become_what_pythons_decoder_makes_of_them(data: bytes) -> None:
    assert json.loads(string_text(data)) == data.decode("utf-8", "replace")


@MORE
@hypothesis.given(
    st.lists(st.sampled_from([*range(0x7E, 0x82), 0x8F, 0x90, 0x9F, 0xA0, 0xBF, *range(0xC0, 0x100), 0x41]))
)
def test_ill_formed_utf8_around_every_edge_of_table_3_7(data: list[int]) -> None:
    assert json.loads(string_text(bytes(data))) == bytes(data).decode("utf-8", "replace")


def test_every_pair_of_bytes_as_a_string() -> None:
    for first in range(256):
        data = b"".join(bytes([first, second]) + b"|" for second in range(256))
        assert json.loads(string_text(data)) == data.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("data", "replaced"),  # the examples of the Unicode standard, section 3.9, tables 3-8 to 3-11
    [("C0AFE080BFF0818241", 8), ("EDA080EDBFBFEDAF41", 8), ("F4919293FF4180BF42", 7), ("E180E2F09192F1BF41", 4)],
)
def test_the_examples_of_the_unicode_standard(data: str, replaced: int) -> None:
    shown = json.loads(string_text(bytes.fromhex(data)))
    assert shown.count("\ufffd") == replaced
    assert shown.replace("\ufffd", "") == ("AB" if data.startswith("F4") else "A")


def test_every_character_reads_back_and_control_and_bidi_ones_are_escaped() -> None:
    unseen = [
        *range(0x20),
        *range(0x7F, 0xA0),
        0x061C,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        0xFEFF,
    ]
    for start in range(0, sys.maxunicode + 1, 4096):
        characters = [chr(c) for c in range(start, start + 4096) if not 0xD800 <= c < 0xE000]
        text = string_text("".join(characters).encode())
        assert json.loads(text) == "".join(characters)
        assert not {chr(c) for c in unseen} & set(text.decode())


@pytest.mark.parametrize(
    ("character", "text"),
    [
        ('"', r"\""),
        ("\\", r"\\"),
        ("\n", r"\n"),
        ("\r", r"\r"),
        ("\t", r"\t"),
        ("\0", r"\u0000"),
        ("\x1b", r"\u001b"),
        ("\x7f", r"\u007f"),
        ("\x85", r"\u0085"),
        ("\u202e", r"\u202e"),
        ("\ufeff", r"\ufeff"),
        ("é", "é"),
        ("😀", "😀"),
        ("/", "/"),
    ],
)
def test_escapes(character: str, text: str) -> None:
    assert string_text(f"a{character}b".encode()).decode() == f'"a{text}b"'


@MORE
@hypothesis.given(
    st.integers(-(2**63), 2**63 - 1)
    | st.integers(0, 63).map(lambda n: 2**n - 1)
    | st.integers(0, 18).map(lambda n: 10**n)
)
def test_int64_beyond_what_a_double_holds(value: int) -> None:
    hypothesis.assume(value != -1)  # the default: it is left out
    assert int64_text(value) == str(value).encode()


def test_the_ends_of_int64() -> None:
    assert int64_text(-(2**63)) == b"-9223372036854775808"
    assert int64_text(2**53 + 1) == b"9007199254740993"


@MORE
@hypothesis.given(st.binary(min_size=8, max_size=8))
def test_any_float_reads_back_as_the_same_number(data: bytes) -> None:
    (value,) = struct.unpack(">d", data)
    shown = json.loads(float_text(data))
    if math.isnan(value):
        assert shown == "NaN"
    elif math.isinf(value):
        assert shown == ("Infinity" if value > 0 else "-Infinity")
    else:
        assert struct.pack(">d", shown) == data


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1e300, "1e+300"),
        (0.1, "0.1"),
        (5e-324, "5e-324"),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
        (math.nan, '"NaN"'),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert float_text(struct.pack(">d", value)) == text.encode()


@hypothesis.given(st.binary(min_size=16, max_size=16))
def test_a_uuid_is_22_characters_of_url_safe_base64(data: bytes) -> None:
    shown = message("DescribeTopicPartitionsResponse").to_json(
        0, bytes(4) + b"\2" + bytes(2) + b"\0" + data + b"\0\1" + bytes(4) + b"\0" + b"\xff\0"
    )
    assert json.loads(shown)["topics"][0]["topicId"] == base64.urlsafe_b64encode(data).decode().removesuffix("==")
