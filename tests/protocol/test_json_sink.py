"""Kafka's JSON: which fields are written and where, and how each value is, seen through messages that hold one of each.

Referees of values: RFC 4648 for base64, Python's own decoder for UTF-8 (Unicode table 3-7 and the substitution of maximal
subparts, as Java's), json and repr for numbers, uuid of Kafka's Uuid.toString (URL-safe base64 without padding).
"""

import base64
import json
import math
import struct
import sys

import hypothesis
import hypothesis.strategies as st
import pytest

from kproxy.errors import DecodeError
from kproxy.protocol import message
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.secrets import Secrecy, secrecy
from tests.support.corpus import golden_lines
from tests.support.wire import compact, made_message, short, uvarint

RESPONSE_START = b"\0\0\1" + bytes(4)  # ApiVersionsResponse v3 up to its tags
WITHHELD = b'"(withheld)"'


def test_keys_stand_in_the_order_of_the_definition_with_no_space_between() -> None:
    assert message("MetadataResponse").to_json(1, bytes(4) + b"\0\0\0\5" + bytes(4)) == (
        b'{"brokers":[],"controllerId":5,"topics":[]}'
    )
    assert message("ApiVersionsRequest").to_json(0, b"") == b"{}"


def test_the_order_of_keys_is_kafkas_in_every_message() -> None:
    checked = 0
    for group in ("messages", "structs"):
        for line in golden_lines(group):
            if line["kind"] in ("typical", "many"):
                shown = json.loads(message(line["message"]).to_json(line["version"], bytes.fromhex(line["hex"])))
                assert_same_order(shown, line["json"], line["message"])
                checked += 1
    assert checked > 4000


def assert_same_order(shown: object, expected: object, where: str) -> None:
    if isinstance(shown, dict) and isinstance(expected, dict):
        assert [key for key in shown if key != "_unknownTaggedFields"] == list(expected), where
        for key, value in expected.items():
            assert_same_order(shown[key], value, f"{where}.{key}")
    elif isinstance(shown, list) and isinstance(expected, list):
        for one, other in zip(shown, expected, strict=True):
            assert_same_order(one, other, where)


ORDER = """\
message {name} type=request api=3 module=m release=4.3.1 versions=0 flexible=0+
  A int8 0+ tag=4 tagged=0+
  B int8 0+
  C int8 0+ tag=2 tagged=0+
  D string 0+ tag=0 tagged=0+
  E int8 0+ tag=1 tagged=0+
  F int8 0+
  G int8 0+ tag=3 tagged=0+
"""


@pytest.mark.parametrize("missing", range(6))
def test_tagged_fields_stand_where_the_definition_has_them(monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    made = made_message(monkeypatch, ORDER.format(name=f"Order{missing}Request"))
    tagged = {0: b"\x05text", 1: b"\1", 2: b"\2", 3: b"\3", 4: b"\4"}
    tagged.pop(missing, None)
    tags = b"".join(bytes([tag, len(data)]) + data for tag, data in tagged.items())
    names = {"a": 4, "b": None, "c": 2, "d": 0, "e": 1, "f": None, "g": 3}
    values = {"a": 4, "b": 8, "c": 2, "d": "text", "e": 1, "f": 9, "g": 3}
    expected = {name: values[name] for name, tag in names.items() if tag is None or tag in tagged}
    data = b"\x08\x09" + bytes([len(tagged)]) + tags
    assert made.to_json(0, data).decode() == json.dumps(expected, separators=(",", ":"))


def test_a_tagged_field_that_says_its_default_is_left_out() -> None:
    explicit = b"\2" + b"\1\x08" + b"\xff" * 8 + b"\3\1\0"
    shown = message("ApiVersionsResponse").to_json(3, RESPONSE_START + explicit)
    assert json.loads(shown) == {"errorCode": 0, "apiKeys": [], "throttleTimeMs": 0}


def test_the_last_of_a_tag_that_comes_twice_counts() -> None:
    twice = b"\2" + b"\1\x08" + (5).to_bytes(8, "big") + b"\1\x08" + (6).to_bytes(8, "big")
    assert json.loads(message("ApiVersionsResponse").to_json(3, RESPONSE_START + twice))["finalizedFeaturesEpoch"] == 6


def test_unknown_tags_keep_their_order() -> None:
    tags = b"\4" + b"\x63\2hi" + b"\3\1\1" + b"\x09\0" + b"\x63\1!"
    assert (
        message("ApiVersionsResponse")
        .to_json(3, RESPONSE_START + tags)
        .endswith(
            b',"zkMigrationReady":true,"_unknownTaggedFields":'
            b'[{"tag":99,"data":"aGk="},{"tag":9,"data":""},{"tag":99,"data":"IQ=="}]}'
        )
    )


def test_records_are_shown_as_their_size() -> None:
    data = (
        b"\0\1" + bytes(4) + b"\0\0\0\1" + short("t") + b"\0\0\0\2" + bytes(4) + b"\0\0\0\3abc" + bytes(4) + b"\xff" * 4
    )
    partitions = json.loads(message("ProduceRequest").to_json(0, data))["topicData"][0]["partitionData"]
    assert partitions == [{"index": 0, "recordsSizeInBytes": 3}, {"index": 0, "records": None}]


def shown(name: str, version: int, data: bytes) -> bytes:
    """With credentials withheld; without, the canary is there."""
    assert b"canary" in message(name).to_json(version, data) or b"Y2FuYXJ5" in message(name).to_json(version, data)
    text = message(name).to_json(version, data, withhold=True)
    json.loads(text)
    assert b"canary" not in text and b"Y2FuYXJ5" not in text
    return text


CANARY = b"\0\0\0\6canary"
ONE = b"\0\0\0\1"


@pytest.mark.parametrize(
    ("name", "version", "data", "withheld"),
    [
        ("SaslAuthenticateRequest", 0, CANARY, 1),
        ("SaslAuthenticateRequest", 2, compact(b"canary") + b"\0", 1),
        ("SaslAuthenticateResponse", 0, b"\0\0\xff\xff" + CANARY, 1),
        ("CreateDelegationTokenResponse", 0, b"\0\0" + short("a") * 2 + bytes(24) + short("id") + CANARY + bytes(4), 1),
        ("RenewDelegationTokenRequest", 0, CANARY + bytes(8), 1),
        ("ExpireDelegationTokenRequest", 0, CANARY + bytes(8), 1),
        (
            "DescribeDelegationTokenResponse",
            0,
            b"\0\0" + ONE + short("a") * 2 + bytes(24) + short("id") + CANARY + bytes(8),
            1,
        ),
        (
            "AlterUserScramCredentialsRequest",
            0,
            b"\1\2" + compact(b"u") + b"\1" + bytes(4) + compact(b"canary") * 2 + b"\0\0",
            2,
        ),
        ("EnvelopeRequest", 0, compact(b"canary") + compact(b"p") + compact(b"h") + b"\0", 1),
        ("EnvelopeResponse", 0, compact(b"canary") + b"\0\0\0", 1),
    ],
)
def test_fields_that_are_credentials_are_withheld(name: str, version: int, data: bytes, withheld: int) -> None:
    assert shown(name, version, data).count(WITHHELD) == withheld


@pytest.mark.parametrize(
    "setting",
    [
        "ssl.key.password",
        "listener.name.internal.ssl.keystore.password",
        "SASL.JAAS.CONFIG",
        "ssl.keystore.key",
        "listener.name.x.scram-sha-256.sasl.jaas.config",
        "aws.secret.access.key",
    ],
)
def test_settings_whose_name_is_that_of_a_secret_are_withheld(setting: str) -> None:
    both = short(setting) + short("canary") + short("retention.ms") + short("1000")
    resource = b"\2" + short("t") + b"\0\0\0\2"
    alter = json.loads(shown("AlterConfigsRequest", 0, ONE + resource + both + b"\0"))
    assert [c["value"] for c in alter["resources"][0]["configs"]] == ["(withheld)", "1000"]
    with_operation = short(setting) + b"\0" + short("canary") + short("retention.ms") + b"\0" + short("1000")
    incremental = json.loads(shown("IncrementalAlterConfigsRequest", 0, ONE + resource + with_operation + b"\0"))
    assert [c["value"] for c in incremental["resources"][0]["configs"]] == ["(withheld)", "1000"]
    topic = ONE + short("passwords") + bytes(4) + b"\0\1" + bytes(4) + b"\0\0\0\2" + both + bytes(4)
    create = json.loads(shown("CreateTopicsRequest", 0, topic))
    assert [c["value"] for c in create["topics"][0]["configs"]] == ["(withheld)", "1000"]


def test_settings_and_their_synonyms_are_withheld_by_their_own_names() -> None:
    synonyms = (
        b"\0\0\0\2" + short("ssl.key.password") + short("canary") + b"\5" + short("log.dir") + short("/d") + b"\5"
    )
    first = short("listener.name.x.ssl.key.password") + short("canary") + b"\0\1\0" + synonyms
    second = short("retention.ms") + short("1000") + b"\0\1\0" + bytes(4)
    data = bytes(4) + ONE + b"\0\0\xff\xff\2" + short("t") + b"\0\0\0\2" + first + second
    configs = json.loads(shown("DescribeConfigsResponse", 1, data))["results"][0]["configs"]
    assert [c["value"] for c in configs] == ["(withheld)", "1000"]
    assert [s["value"] for s in configs[0]["synonyms"]] == ["(withheld)", "/d"]


def test_a_setting_that_the_broker_calls_sensitive_is_withheld_whatever_its_name() -> None:
    synonyms = b"\0\0\0\1" + short("other") + short("canary") + b"\5"
    first = short("custom") + short("canary") + b"\0\1\1" + synonyms  # readOnly, configSource, isSensitive
    second = short("retention.ms") + short("1000") + b"\0\1\0" + bytes(4)
    data = bytes(4) + ONE + b"\0\0\xff\xff\2" + short("t") + b"\0\0\0\2" + first + second
    configs = json.loads(shown("DescribeConfigsResponse", 1, data))["results"][0]["configs"]
    assert [c["value"] for c in configs] == ["(withheld)", "1000"]
    assert configs[0]["synonyms"][0]["value"] == "(withheld)"
    first_config = message("DescribeConfigsResponse").decode(1, data).results[0].configs[0]
    assert "value='canary'" not in repr(first_config).partition("synonyms")[0]


def test_a_secret_that_is_null_is_shown_as_null() -> None:
    data = ONE + b"\2" + short("t") + ONE + short("ssl.key.password") + b"\xff\xff" + b"\0"
    text = message("AlterConfigsRequest").to_json(0, data, withhold=True)
    assert json.loads(text)["resources"][0]["configs"] == [{"name": "ssl.key.password", "value": None}]
    envelope = message("EnvelopeResponse").to_json(0, b"\0\0\0\0", withhold=True)
    assert json.loads(envelope)["responseData"] is None


def test_every_field_that_is_bytes_and_sounds_like_a_secret_is_withheld() -> None:
    """A credential that a new release adds is not to be overlooked."""
    words = ("password", "secret", "hmac", "salt", "auth", "token", "credential")
    found = set()

    def visit(name: str, fields: tuple[Field, ...]) -> None:
        for field in fields:
            visit(name, field.fields)
            if field.type == "bytes" and any(word in field.name.lower() for word in words):
                found.add((name, field.name))

    for name in facts().messages():
        visit(name, facts().layouts(name)[0].fields)
    assert {(n, f) for n, f in found if secrecy(n, (f[0].lower() + f[1:],)) is not Secrecy.ALWAYS} == set()
    assert len(found) >= 9


def test_withholding_changes_no_other_message() -> None:
    for line in golden_lines("messages"):
        if line["kind"] == "many" and line["message"] in ("MetadataResponse", "FetchResponse", "JoinGroupRequest"):
            data = bytes.fromhex(line["hex"])
            layout = message(line["message"])
            assert layout.to_json(line["version"], data) == layout.to_json(line["version"], data, withhold=True)


def test_damage_inside_a_secret_is_found_all_the_same() -> None:
    with pytest.raises(DecodeError) as caught:
        message("SaslAuthenticateRequest").to_json(0, b"\0\0\0\7canary", withhold=True)
    assert caught.value.path == "authBytes" and "canary" not in str(caught.value)


def test_many_tags_cost_no_more_than_their_bytes() -> None:
    tags = uvarint(50_000) + b"\x7f\0" * 50_000
    text = message("ApiVersionsResponse").to_json(3, RESPONSE_START + tags)
    assert len(json.loads(text)["_unknownTaggedFields"]) == 50_000


def test_unknown_tagged_fields_beside_credentials_are_withheld() -> None:
    body = b"\x06token" + b"\x01\x07\x06secret"  # authBytes, then tag 7
    shown = json.loads(message("SaslAuthenticateRequest").to_json(2, body, withhold=True))
    assert shown == {"authBytes": "(withheld)", "_unknownTaggedFields": [{"tag": 7, "data": "(withheld)"}]}
    heartbeat = b"\x01\0\0\0\0\x01\0" + b"\x01\x07\x06secret"
    shown = json.loads(message("HeartbeatRequest").to_json(4, heartbeat, withhold=True))
    assert shown["_unknownTaggedFields"] == [{"tag": 7, "data": "c2VjcmV0"}]


# How one value is written

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
