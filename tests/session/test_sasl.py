"""When frames are tokens."""

import pytest

from kproxy.session import Connection, Direction
from kproxy.session.sasl import SaslPhase, token_event
from tests.support.frames import heartbeat

REQUEST = heartbeat(2)[4:]


def in_tokens(answered: int) -> SaslPhase:
    phase = SaslPhase()
    assert phase.on_handshake(0, "app")
    for _ in range(answered):
        phase.on_client_token()
        phase.on_server_token()
    return phase


def test_tokens_follow_a_handshake_of_version_0_alone() -> None:
    assert in_tokens(0).in_tokens
    later = SaslPhase()
    later.on_handshake(1, "app")
    assert not later.in_tokens


def test_only_the_first_handshake_is_the_connections_first() -> None:
    phase = SaslPhase()
    assert phase.on_handshake(1, "app") is True
    assert phase.on_handshake(1, "app") is False


def test_a_request_ends_the_phase_once_every_token_was_answered() -> None:
    assert not in_tokens(0).ends_with(REQUEST)
    phase = in_tokens(1)
    assert phase.ends_with(REQUEST)
    phase.on_client_token()
    assert not phase.ends_with(REQUEST)


def test_a_request_of_another_client_or_with_bytes_left_does_not() -> None:
    phase = in_tokens(2)
    assert not phase.ends_with(heartbeat(2, client_id="other")[4:])
    assert not phase.ends_with(REQUEST + b"\0")
    assert not phase.ends_with(b"\0alice\0secret")


def test_a_refusal_and_leaving_end_it() -> None:
    phase = in_tokens(0)
    phase.on_refusal()
    assert not phase.in_tokens
    phase = in_tokens(1)
    phase.leave()
    assert not phase.in_tokens


def test_a_gssapi_token_begins_it_only_at_the_very_start() -> None:
    phase = SaslPhase()
    assert not phase.begins_with_token(b"")
    assert phase.begins_with_token(b"\x60\x82") and phase.in_tokens
    assert not in_tokens(0).begins_with_token(b"\x60\x82")


def test_after_a_gap_the_next_request_ends_it() -> None:
    phase = in_tokens(0)
    phase.on_client_token()
    phase.on_gap()
    assert phase.ends_with(REQUEST)


@pytest.mark.parametrize(
    ("mechanism", "direction", "data", "parts"),
    [
        ("PLAIN", Direction.REQUEST, b"\0alice\0canary", {"authorizationId": "", "username": "alice"}),
        ("PLAIN", Direction.RESPONSE, b"", {"success": True}),
        ("PLAIN", Direction.REQUEST, b"canary", None),
        ("GSSAPI", Direction.REQUEST, b"\x60canary", None),
        (None, Direction.REQUEST, b"\0alice\0canary", None),
    ],
)
def test_a_token_tells_what_is_no_secret(
    mechanism: str | None, direction: Direction, data: bytes, parts: dict[str, object] | None
) -> None:
    event = token_event(Connection(1, "a:1", "b:2", sasl_mechanism=mechanism), direction, data, 7)
    assert (event.at, event.direction, event.size, event.parts) == (7, direction, len(data), parts)
    assert "canary" not in repr(event)
