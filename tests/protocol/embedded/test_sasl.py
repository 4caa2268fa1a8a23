"""SASL tokens: what Kafka's own classes made, less what is secret, and never anything secret."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.sasl import open_token
from tests.support.corpus import payloads

SECRETS = {"password", "saltHex", "proofHex", "serverSignatureHex", "token", "nonce"}
LINES = payloads("sasl-token")


def opened(line: dict[str, Any], mechanism: str | None) -> dict[str, Any]:
    return open_token(bytes.fromhex(line["hex"]), mechanism, from_client=line["from"] == "client")


def test_where_the_handshake_was_not_seen_the_form_tells() -> None:
    for line in LINES:
        assert opened(line, None) == opened(line, line["mechanism"]), line["mechanism"]


def test_no_secret_is_shown_in_any_spelling() -> None:
    """Hostile input 21: raw, base64 and hex."""
    for line in LINES:
        secrets = {value for name, value in line["json"].items() if name in SECRETS}
        for secret in secrets:
            raw = bytes.fromhex(secret) if secret and set(secret) <= set("0123456789abcdef") else secret.encode()
            spellings = {secret, raw.hex(), base64.b64encode(raw).decode(), base64.b64encode(secret.encode()).decode()}
            for mechanism in (line["mechanism"], None):
                text = json.dumps(opened(line, mechanism), ensure_ascii=False)
                assert not [spelling for spelling in spellings if spelling in text]


CANARY = b"canary-9f3a"


@pytest.mark.parametrize(
    ("mechanism", "data"),
    [
        ("PLAIN", b"\0alice\0" + CANARY + b"\0more"),  # too many parts
        ("PLAIN", CANARY),
        ("PLAIN", b"\xff\0alice\0" + CANARY),
        ("SCRAM-SHA-256", b"n,,n=alice,r=" + CANARY + b",oops"),
        ("SCRAM-SHA-512", b"c=!!,r=x,p=" + CANARY),
        ("OAUTHBEARER", b"n,,\x01AUTH=Bearer " + CANARY + b"\x01\x01"),
        ("OAUTHBEARER", b"auth=Bearer " + CANARY),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer x\x01access_token=" + CANARY + b"\x01\x01"),
        ("GSSAPI", b"\x60" + CANARY),
        ("AWS_MSK_IAM", b'{"signature":"' + CANARY + b'"}'),
    ],
)
def test_a_token_that_is_not_as_it_should_be_does_not_show_its_secret(mechanism: str, data: bytes) -> None:
    for asked in (mechanism, None):
        try:
            text = json.dumps(open_token(data, asked, from_client=True))
        except DecodeError as error:
            text = str(error)
        assert CANARY.decode() not in text


def test_what_has_other_than_three_parts_is_no_plain_token() -> None:
    """PlainSaslServer.extractTokens."""
    for data in (b"\0alice", b"\0alice\0canary\0more"):
        with pytest.raises(DecodeError, match="parts, not 3"):
            open_token(data, "PLAIN", from_client=True)


def test_a_binary_token_with_two_nuls_is_not_taken_for_plain() -> None:
    assert open_token(b"\x60\0\x01\x02\0\x03", None, from_client=True) == {"size": 6}


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM", "SOMETHING"])
def test_an_opaque_token_has_a_size(mechanism: str) -> None:
    assert open_token(b"\x60\x01\x02", mechanism, from_client=True) == {"size": 3}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI"])
def test_an_empty_answer_tells_the_outcome(mechanism: str) -> None:
    assert open_token(b"", mechanism, from_client=False) == {"success": True}
    assert open_token(b"", mechanism, from_client=False, failed=True) == {"success": False}


def test_a_huge_token_is_not_looked_into() -> None:
    assert open_token(b"\0" * 600_000, "PLAIN", from_client=True) == {"size": 600_000}


@given(
    data=st.binary(max_size=60) | st.text("ncrpevsi=,\x01\0", max_size=20).map(str.encode),
    mechanism=st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", None]),
    from_client=st.booleans(),
)
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes, mechanism: str | None, from_client: bool) -> None:
    try:
        assert isinstance(open_token(data, mechanism, from_client=from_client), dict)
    except DecodeError:
        assert mechanism is not None
