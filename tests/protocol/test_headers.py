"""Headers, held against Kafka's own frames (tests/golden) and bytes written by hand from the protocol guide."""

import json

import pytest

from kproxy.errors import DecodeError, Malformed, Truncated
from kproxy.protocol.headers import (
    read_request_header,
    read_response_header,
    request_header_version,
    response_header_version,
)
from tests.support.corpus import golden_lines
from tests.support.wire import short, uvarint

REQUEST_START = bytes.fromhex("0003000c00000007")  # Metadata (3) v12, correlation id 7: header 2


def test_the_header_version_of_every_api_version_is_kafkas() -> None:
    seen = set()
    for line in golden_lines("messages"):
        rule = request_header_version if line["direction"] == "request" else response_header_version
        assert rule(line["apiKey"], line["version"]) == line["headerVersion"], line["message"]
        seen.add((line["apiKey"], line["version"], line["direction"]))
    assert len(seen) == 722


def test_the_two_exceptions() -> None:
    assert [request_header_version(7, version) for version in range(4)] == [0, 1, 1, 2]  # ControlledShutdown
    assert [response_header_version(18, version) for version in range(6)] == [0] * 6  # KIP-511


def test_an_api_newer_than_the_facts_is_taken_as_flexible() -> None:
    assert (request_header_version(3000, 0), response_header_version(3000, 0)) == (2, 1)
    assert (request_header_version(-5, 0), response_header_version(-5, 0)) == (1, 0)


def test_a_client_id_keeps_its_int16_size_in_header_2() -> None:
    header = read_request_header(REQUEST_START + short("me") + b"\0" + b"body")
    assert (header.api_key, header.api_version, header.correlation_id) == (3, 12, 7)
    assert (header.client_id, header.header_version, header.size) == ("me", 2, 13)
    assert repr(header) == "RequestHeader(api_key=3, api_version=12, correlation_id=7, client_id='me')"
    assert repr(read_response_header(b"\0\0\0\7", 0)) == "ResponseHeader(correlation_id=7)"


@pytest.mark.parametrize("size", [b"\xff\xff", b"\xff\xfe", b"\x80\0"])
def test_a_negative_size_is_a_null_client_id(size: bytes) -> None:
    header = read_request_header(REQUEST_START + size + b"\0")
    assert header.client_id is None
    assert json.loads(header.to_json())["clientId"] is None


def test_a_client_id_that_is_not_utf8_survives() -> None:
    header = read_request_header(REQUEST_START + b"\0\2a\xff" + b"\0")
    assert header.client_id == "a\udcff"
    assert json.loads(header.to_json())["clientId"] == "a\ufffd"


def test_tags_keep_their_order_and_are_shown() -> None:
    tags = b"\3" + b"\x09\1A" + b"\2\0" + b"\x09\2BC"
    header = read_request_header(REQUEST_START + b"\0\0" + tags + b"body")
    assert header.unknown_tags == ((9, b"A"), (2, b""), (9, b"BC"))
    assert header.size == len(REQUEST_START) + 2 + len(tags)
    assert json.loads(header.to_json())["_unknownTaggedFields"] == [
        {"tag": 9, "data": "QQ=="},
        {"tag": 2, "data": ""},
        {"tag": 9, "data": "QkM="},
    ]
    assert read_response_header(b"\0\0\0\1" + tags, 1).unknown_tags == header.unknown_tags


@pytest.mark.parametrize("start", [0, 3])
def test_a_short_header_says_so_at_every_cut(start: int) -> None:
    request = REQUEST_START + short("client") + b"\1\5\3abc"
    for cut in range(len(request)):
        with pytest.raises((Truncated, Malformed)) as caught:
            read_request_header(b"abc"[:start] + request[:cut], start)
        assert caught.value.message == "RequestHeader"
        assert 0 <= caught.value.position <= cut
    response = b"\0\0\0\7\1\5\3abc"
    for cut in range(len(response)):
        with pytest.raises(DecodeError) as caught:
            read_response_header(b"abc"[:start] + response[:cut], 1, start)
        assert caught.value.message == "ResponseHeader"


def test_faults_are_named() -> None:
    with pytest.raises(Truncated) as short_id:
        read_request_header(REQUEST_START + b"\0\5ab")
    assert (short_id.value.path, short_id.value.needed, short_id.value.left) == ("clientId", 5, 2)
    assert str(short_id.value) == "RequestHeader: clientId: needs 5 bytes, 2 left (at byte 10)"
    with pytest.raises(Malformed):
        read_request_header(REQUEST_START + b"\0\0" + uvarint(2**32 - 1) + b"many")
    with pytest.raises(Malformed):
        read_request_header(REQUEST_START + b"\0\0" + b"\xff\xff\xff\xff\xff\1" + bytes(99))
    with pytest.raises(Truncated):
        read_request_header(REQUEST_START + b"\0\0" + b"\1\0" + uvarint(2**32 - 1) + bytes(9))


def test_what_is_not_bytes_is_refused() -> None:
    for wrong in (None, "text", bytearray(20)):
        with pytest.raises(TypeError):
            read_request_header(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            read_response_header(wrong, 0)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        read_request_header(b"abc", 4)
