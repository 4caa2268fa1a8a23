"""What conditions may ask of an exchange: its topics and groups, and who its client is, from the login on."""

from kproxy.output.entities import Entities
from kproxy.session import Exchange
from tests.support.conversation import broker, client, closing, events_of
from tests.support.frames import (
    array,
    heartbeat,
    heartbeat_answer,
    request,
    sasl_authenticate,
    sasl_authenticate_answer,
    sasl_handshake,
    sasl_handshake_answer,
    string,
)


def metadata(correlation_id: int, *topics: str) -> bytes:
    """Metadata v0: topics."""
    return request(3, 0, correlation_id, array(*map(string, topics)))


LOGIN = (
    client >> sasl_handshake(1, 1, "PLAIN"),
    broker >> sasl_handshake_answer(1),
    client >> sasl_authenticate(2, b"\0alice\0secret"),
    broker >> sasl_authenticate_answer(2),
)
WORK = (client >> heartbeat(3, "billing"), broker >> heartbeat_answer(3), client >> metadata(4, "orders", "a b"))


def exchanges(*steps: object) -> list[Exchange]:
    return [event for event in events_of(*steps, closing) if isinstance(event, Exchange)]


def test_topics_groups_and_the_principal_after_a_login() -> None:
    entities = Entities()
    found = [entities.of(exchange) for exchange in exchanges(*LOGIN, *WORK)]
    assert [one["principal"] for one in found] == [None, "alice", "alice", "alice"]
    assert [one["groups"] for one in found] == [[], [], ["billing"], []]
    assert [one["topics"] for one in found] == [[], [], [], ["orders", "a b"]]


def test_without_a_login_the_certificate_says_who_it_is_and_else_nobody() -> None:
    (first, *_) = exchanges(*WORK)
    assert Entities().of(first)["principal"] is None
    assert Entities().of(first)["groups"] == ["billing"]
