"""When frames are tokens."""

from collections.abc import Callable

import pytest

from kproxy.session import Connection, Direction
from kproxy.session.endings import Cut
from kproxy.session.exchanges import Frame
from kproxy.session.sasl import SaslPhase, token_event
from tests.support.frames import heartbeat

REQUEST = heartbeat(2)[4:]


def in_tokens(answered: int) -> SaslPhase:
    phase = SaslPhase()
    assert phase.on_handshake(0, "app")
    for _ in range(answered):
        phase.on_server_token()
    return phase


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\x60\x82\x02\x0b\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00",  # RFC 4121 section 4.1: AP-REQ
        bytes.fromhex("050400ff000c00000000000012345678") + bytes(20),  # RFC 4121 section 4.2.6.2: a Wrap token
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",  # RFC 7677 section 3
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"\0tim\0tanstaaftanstaaf",  # RFC 4616 section 4
        b"n,,\x01auth=Bearer canary\x01\x01",
    ],
)
def test_no_token_of_a_mechanism_kafka_has_ends_it(token: bytes) -> None:
    assert not in_tokens(2).ends_with(token)
    begun_by_token = SaslPhase()
    assert begun_by_token.begins_with_token(b"\x60\x82")
    begun_by_token.on_server_token()
    assert not begun_by_token.ends_with(token)


def test_a_request_of_another_client_or_with_bytes_left_does_not() -> None:
    phase = in_tokens(2)
    assert not phase.ends_with(heartbeat(2, client_id="other")[4:])
    assert not phase.ends_with(REQUEST + b"\0")
    assert not phase.ends_with(b"\0alice\0secret")


def test_a_cut_frame_ends_the_phase_by_its_whole_header_alone() -> None:
    for size in range(len(REQUEST)):
        assert in_tokens(1).ends_with(REQUEST[:size], cut=True) is (size >= 8 + 2 + len("app"))
    for token in (b"\0tim\0tanstaaftanstaaf", b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", b"\x60\x82\x02\x0b\x06\x09\x2a"):
        assert not any(in_tokens(1).ends_with(token[:size], cut=True) for size in range(len(token)))


def test_after_a_refusal_a_request_ends_it_at_once() -> None:
    phase = in_tokens(0)
    phase.on_refusal()
    assert phase.in_tokens and phase.ends_with(REQUEST)
    assert not phase.ends_with(b"\0alice\0secret")


def test_until_it_is_left_what_is_no_request_may_be_a_token() -> None:
    assert not SaslPhase().may_be_token
    phase = in_tokens(1)
    assert phase.may_be_token
    phase.leave()
    assert not phase.in_tokens and not phase.may_be_token


def test_a_gssapi_token_begins_it_only_at_the_very_start() -> None:
    phase = SaslPhase()
    assert not phase.begins_with_token(b"")
    assert phase.begins_with_token(b"\x60\x82") and phase.in_tokens
    assert not in_tokens(0).begins_with_token(b"\x60\x82")


def test_after_a_gap_the_next_request_ends_it() -> None:
    phase = in_tokens(0)
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
    event = token_event(Connection(1, "a:1", "b:2", sasl_mechanism=mechanism), direction, Frame(data, 5, 7))
    assert (event.at, event.direction, event.size, event.parts) == (7, direction, len(data), parts)
    assert "canary" not in repr(event)


def test_a_cut_token_has_its_size_and_nothing_in_it_is_shown() -> None:
    told = Connection(1, "a:1", "b:2", sasl_mechanism="PLAIN")
    event = token_event(told, Direction.REQUEST, Frame(b"\0alice\0cana", 5, 7, cut=Cut.SNAPLEN, size=13))
    assert (event.size, event.parts) == (13, None)


# The table of kproxy/session/sasl.py, walked: every event in every state.

GSSAPI = b"\x60\x82"
REACH: dict[str, list[Callable[[SaslPhase], object]]] = {
    "NOT_BEGUN": [],
    "REQUESTS": [lambda phase: phase.on_handshake(1, "app")],
    "TOKENS": [lambda phase: phase.on_handshake(0, "app")],
    "MAY_END": [lambda phase: phase.on_handshake(0, "app"), lambda phase: phase.on_server_token()],
    "DONE": [lambda phase: phase.on_handshake(1, "app"), lambda phase: phase.leave()],
}
EVENTS: dict[str, Callable[[SaslPhase], object]] = {
    "first token": lambda phase: phase.begins_with_token(GSSAPI),
    "handshake v0": lambda phase: phase.on_handshake(0, "app"),
    "handshake v1": lambda phase: phase.on_handshake(1, "app"),
    "server token": lambda phase: phase.on_server_token(),
    "refusal": lambda phase: phase.on_refusal(),
    "gap": lambda phase: phase.on_gap(),
    "leave": lambda phase: phase.leave(),
}
HANDSHAKES = {"handshake v0": "TOKENS", "handshake v1": "REQUESTS"}
NEXT = {
    "NOT_BEGUN": {**HANDSHAKES, "first token": "TOKENS"},
    "REQUESTS": {**HANDSHAKES, "leave": "DONE"},
    "TOKENS": {**HANDSHAKES, "server token": "MAY_END", "refusal": "MAY_END", "gap": "MAY_END", "leave": "DONE"},
    "MAY_END": {**HANDSHAKES, "leave": "DONE"},
    "DONE": HANDSHAKES,
}


def state_of(phase: SaslPhase, before: str) -> str:
    if phase.in_tokens:
        return "MAY_END" if phase.ends_with(REQUEST) else "TOKENS"
    if phase.may_be_token:
        return "REQUESTS"
    return "NOT_BEGUN" if before == "NOT_BEGUN" else "DONE"


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", REACH)
def test_every_event_in_every_state_leads_where_the_table_says(state: str, event: str) -> None:
    phase = SaslPhase()
    for step in REACH[state]:
        step(phase)
    assert state_of(phase, state) == state
    EVENTS[event](phase)
    assert state_of(phase, state) == NEXT[state].get(event, state)
