"""Forwarded requests: Kafka's own bytes, hostile ones, and secrets inside them."""

import base64
import json
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError
from kproxy.protocol import message
from kproxy.protocol.embedded.envelope import open_address, open_nested_request, open_nested_response, open_principal
from kproxy.protocol.embedded.payload import Embedded
from tests.support.corpus import payloads

LINES = [line for line in payloads("carrier") if line["apiKey"] == 58]
PAIRS = list(zip(LINES[::2], LINES[1::2], strict=True))


def expected(line: dict[str, Any], path: str) -> Any:
    return next(one["json"] for one in line["embedded"] if one["path"] == path)


def field(line: dict[str, Any], name: str) -> bytes:
    return base64.b64decode(line["json"][name])


def plain(value: Any) -> Any:
    return Embedded("", None, "", value).value()


def test_requests_principals_and_addresses_are_what_kafka_says() -> None:
    for line, _ in PAIRS:
        assert plain(open_nested_request(field(line, "requestData"))) == expected(line, "requestData")
        assert plain(open_principal(field(line, "requestPrincipal"))) == expected(line, "requestPrincipal")
        assert open_address(field(line, "clientHostAddress")) == expected(line, "clientHostAddress")


def test_responses_are_read_as_their_requests_demand() -> None:
    for request, response in PAIRS:
        api_version = expected(request, "requestData")["version"]
        opened = plain(open_nested_response(field(response, "responseData"), 19, api_version))
        assert opened == expected(response, "responseData")


def test_credentials_in_a_nested_request_are_withheld() -> None:
    """Hostile input 21: Envelope carries AlterUserScramCredentials."""
    body = message("AlterUserScramCredentialsRequest")
    upsertion = {
        "name": "alice",
        "mechanism": 1,
        "iterations": 4096,
        "salt": "c2FsdC1jYW5hcnk=",
        "saltedPassword": "cHctY2FuYXJ5",
    }
    text = json.dumps({"deletions": [], "upsertions": [upsertion]})
    nested = pack(">hhih", 51, 0, 7, -1) + b"\0" + body.encode(0, body.from_json(0, text))
    opened = Embedded("", None, "", open_nested_request(nested)).to_json()
    assert b"alice" in opened
    assert b"c2FsdC1jYW5hcnk" not in opened
    assert b"cHctY2FuYXJ5" not in opened


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes([192, 0, 2, 1]), "192.0.2.1"),
        (bytes(15) + b"\1", "0:0:0:0:0:0:0:1"),  # InetAddress.getLoopback().getHostAddress() of IPv6
        (bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1]), "10.0.0.1"),  # IPv4-mapped: Java makes it an Inet4Address
    ],
)
def test_an_address_is_spelled_as_java_does(data: bytes, text: str) -> None:
    assert open_address(data) == text


def test_what_cannot_be_nested_is_refused() -> None:
    with pytest.raises(DecodeError, match="5 bytes are no IP address"):
        open_address(b"12345")
    with pytest.raises(DecodeError, match="API 999 is not known"):
        open_nested_request(pack(">hhih", 999, 0, 7, -1) + b"\0")
    with pytest.raises(DecodeError, match="API 999 is not known"):
        open_nested_response(b"", 999, 0)


def test_every_cut_is_refused() -> None:
    data = field(PAIRS[0][0], "requestData")
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            open_nested_request(data[:cut])


@given(data=st.binary(max_size=60), api_key=st.integers(-1, 95), api_version=st.integers(-1, 20))
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes, api_key: int, api_version: int) -> None:
    for read in (
        lambda: open_nested_request(data),
        lambda: open_nested_request(pack(">hhih", api_key, api_version, 1, -1) + data),
        lambda: open_nested_response(data, api_key, api_version),
        lambda: open_principal(data),
    ):
        try:
            plain(read())
        except DecodeError:
            continue
