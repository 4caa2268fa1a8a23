"""The user in a login, as the client wrote it into its token."""

import base64

import pytest

from kproxy.output.tables.rows import read_body
from kproxy.output.users import user_of
from kproxy.session import Exchange
from tests.support.conversation import broker, client, closing, events_of
from tests.support.frames import sasl_authenticate, sasl_authenticate_answer, sasl_handshake, sasl_handshake_answer

AUTHENTICATE = 36


def login(mechanism: str, token: bytes) -> Exchange:
    steps = (
        client >> sasl_handshake(1, 1, mechanism),
        broker >> sasl_handshake_answer(1),
        client >> sasl_authenticate(2, token),
        broker >> sasl_authenticate_answer(2),
    )
    events = [event for event in events_of(*steps, closing) if isinstance(event, Exchange)]
    return next(event for event in events if event.api_key == AUTHENTICATE)


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),  # RFC 4616: authorization id, user, password
        ("PLAIN", b"other\0alice\0secret", "alice"),
        ("PLAIN", b"\0\0secret", None),
        ("PLAIN", b"no NUL at all", None),
        ("SCRAM-SHA-256", b"n,,n=alice,r=" + base64.b64encode(b"nonce"), "alice"),  # RFC 5802
        ("SCRAM-SHA-256", b"c=biws,r=x,p=" + base64.b64encode(b"proof"), None),
        ("GSSAPI", b"\x60\x82\x02\x76", None),
        ("PLAIN", b"", None),
    ],
)
def test_the_user_of_a_token(mechanism: str, token: bytes, user: str | None) -> None:
    exchange = login(mechanism, token)
    body, _ = read_body(exchange.request)
    assert body is not None
    assert user_of(exchange, body.struct, None) == user
