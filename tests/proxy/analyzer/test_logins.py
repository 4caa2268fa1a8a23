"""Logins: what came of each, by what a broker answers in each mechanism and version of SaslHandshake."""

import pytest

from kproxy.pipeline.output import End
from kproxy.proxy.analyzer.counts import AnalysisCounts
from kproxy.proxy.analyzer.logins import MOST_BEGUN, Logins
from kproxy.session import Connection
from tests.support.conversation import broker, client, closing, events_of, new_session
from tests.support.frames import (
    frame,
    heartbeat,
    heartbeat_answer,
    sasl_authenticate,
    sasl_authenticate_answer,
    sasl_handshake,
    sasl_handshake_answer,
)

UNSUPPORTED, FAILED = 33, 58  # UNSUPPORTED_SASL_MECHANISM, SASL_AUTHENTICATION_FAILED


def logins(*steps: object) -> list[tuple[str, str, int]]:
    counts = AnalysisCounts()
    for event in events_of(*steps, closing, session=new_session()):
        counts.write(event, None)
    counts.end(End(new_session().connection.number, 0))
    return counts.message(0).sasl


def handshake(mechanism: str, version: int = 1, error: int = 0) -> list[object]:
    return [client >> sasl_handshake(1, version, mechanism), broker >> sasl_handshake_answer(1, error)]


def round_of(correlation_id: int, error: int = 0) -> list[object]:
    return [
        client >> sasl_authenticate(correlation_id, b"token"),
        broker >> sasl_authenticate_answer(correlation_id, error),
    ]


NEXT = [client >> heartbeat(9), broker >> heartbeat_answer(9)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([*handshake("PLAIN"), *round_of(2)], [("PLAIN", "succeeded", 1)]),
        ([*handshake("PLAIN"), *round_of(2, FAILED)], [("PLAIN", "failed", 1)]),
        ([*handshake("SCRAM-SHA-256"), *round_of(2), *round_of(3)], [("SCRAM-SHA-256", "succeeded", 1)]),
        ([*handshake("SCRAM-SHA-256"), *round_of(2), *round_of(3, FAILED)], [("SCRAM-SHA-256", "failed", 1)]),
        ([*handshake("SCRAM-SHA-256"), *round_of(2)], [("SCRAM-SHA-256", "not_completed", 1)]),
        ([*handshake("OAUTHBEARER"), *round_of(2), *NEXT], [("OAUTHBEARER", "succeeded", 1)]),
        ([*handshake("OAUTHBEARER"), *round_of(2), *round_of(3, FAILED)], [("OAUTHBEARER", "failed", 1)]),
        (handshake("NONE\x1b", error=UNSUPPORTED), [("NONE\\x1b", "failed", 1)]),
        ([client >> sasl_handshake(1, 1, "PLAIN")], [("PLAIN", "not_completed", 1)]),
        # raw tokens: the next request is answered, or the broker closes
        (
            [*handshake("PLAIN", 0), client >> frame(b"\0a\0b"), broker >> frame(b""), *NEXT],
            [("PLAIN", "succeeded", 1)],
        ),
        ([*handshake("PLAIN", 0), client >> frame(b"\0a\0b")], [("PLAIN", "not_completed", 1)]),
        # again on the same connection (KIP-368)
        (
            [*handshake("PLAIN"), *round_of(2), *NEXT, *handshake("PLAIN"), *round_of(2, FAILED)],
            [("PLAIN", "succeeded", 1), ("PLAIN", "failed", 1)],
        ),
        (NEXT, []),
    ],
)
def test_what_came_of_a_login(steps: list[object], expected: list[tuple[str, str, int]]) -> None:
    assert logins(*steps) == expected


def test_logins_that_go_on_are_bounded() -> None:
    followed = Logins()
    for number in range(MOST_BEGUN + 500):
        followed.note_token((0, number), Connection(number, "a:1", "b:2", sasl_mechanism="GSSAPI"))
    for number in range(MOST_BEGUN + 500):
        followed.end((0, number))
    assert followed.counts.rows() == [("GSSAPI", "not_completed", MOST_BEGUN)]
    assert not followed.has_begun
