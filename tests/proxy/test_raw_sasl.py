"""Which frames of a link are raw SASL tokens; the rules themselves are tested in tests/session/test_sasl.py."""

from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.proxy.raw_sasl import begins_tokens, is_token
from tests.support.links import request

TOKEN = b"\0\0\0\4\0a\0p"
GSSAPI = b"\0\0\0\4\x60\1\2\3"
HEARTBEAT = request(12, 0, 1, b"\0\1g\0\0\0\1\0\1m")


def link() -> Any:
    return SimpleNamespace(sasl=None)


@pytest.mark.parametrize(("version", "tokens"), [(0, True), (1, False)])
def test_tokens_follow_version_0_of_the_handshake_until_a_request_follows(version: int, tokens: bool) -> None:
    one = link()
    assert begins_tokens(one, request(17, version, 1, b"\0\5PLAIN")) is tokens
    if tokens:
        assert is_token(one, TOKEN)
        assert is_token(one, HEARTBEAT)  # before any token was answered
        one.sasl.on_server_token()
        assert is_token(one, TOKEN)
        assert not is_token(one, HEARTBEAT)
        assert not one.sasl.in_tokens


def test_a_handshake_that_cannot_be_decoded_begins_nothing() -> None:
    assert begins_tokens(link(), b"\0\0\0\2\0\x11") is False


def test_a_first_frame_may_be_a_token_of_gssapi() -> None:
    assert is_token(link(), GSSAPI)
    assert not is_token(link(), HEARTBEAT)
