"""Who a client is: once the broker has accepted it, and nothing else of its tokens."""

import base64
import json
from typing import Any

import pytest

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.chain import Chain
from kproxy.filters.contract import ConnectionFacts, Filter, RequestFacts, Send
from kproxy.filters.identify import TopicNames, identifying
from kproxy.protocol import message
from tests.support.filtering import GivenRuntime, Scripted, connection
from tests.support.messages import make, request_frame, response_frame

JWT = b".".join(base64.urlsafe_b64encode(json.dumps(part_).encode()) for part_ in ({"alg": "none"}, {"sub": "ann"}, 1))
LOGINS = {
    "PLAIN": [(b"\0alice\0canary-secret", b"")],
    "SCRAM-SHA-256": [(b"n,,n=alice,r=abc", b"r=abcd,s=c2FsdA==,i=4096"), (b"c=biws,r=abcd,p=cHJvb2Y=", b"v=c2ln")],
    "OAUTHBEARER": [(b"n,,\x01auth=Bearer " + JWT + b"\x01\x01", b"")],
    "GSSAPI": [(b"\x60\x01\x02", b"\x01"), (b"\x02", b"")],
}
NAMES = {"PLAIN": "alice", "SCRAM-SHA-256": "alice", "OAUTHBEARER": "ann", "GSSAPI": None}


def chain(**wants: Any) -> Chain:
    return Chain([Scripted(lambda _: None, identifies=True, **wants)], runtime=GivenRuntime())


def asked(at: ConnectionFacts, name: str, version: int, **values: Any) -> RequestFacts | None:
    outcome = chain().on_request(at, request_frame(name, version, **values))
    assert isinstance(outcome, Send)
    return outcome.request


def answered(at: ConnectionFacts, request: RequestFacts | None, **values: Any) -> None:
    assert request is not None
    name = {17: "SaslHandshakeResponse", 36: "SaslAuthenticateResponse"}[request.api_key]
    body = message(name).encode(request.api_version, make(name, **values))
    chain().on_response(at, request, response_frame(request.api_key, request.api_version, body))


def chosen(at: ConnectionFacts, mechanism: str) -> None:
    answered(at, asked(at, "SaslHandshakeRequest", 1, mechanism=mechanism))


@pytest.mark.parametrize("mechanism", LOGINS)
def test_the_principal_is_known_when_the_broker_has_accepted_it(mechanism: str) -> None:
    at = connection()
    chosen(at, mechanism)
    for token, answer in LOGINS[mechanism]:
        assert (at.principal, at.mechanism) == (None, None)
        request = asked(at, "SaslAuthenticateRequest", 2, auth_bytes=token)
        assert at.principal is None
        answered(at, request, auth_bytes=answer)
    assert (at.principal, at.mechanism) == (NAMES[mechanism], mechanism)
    assert "canary" not in repr(at)


@pytest.mark.parametrize("mechanism", LOGINS)
def test_a_client_that_is_refused_is_not_known(mechanism: str) -> None:
    at = connection()
    chosen(at, mechanism)
    request = asked(at, "SaslAuthenticateRequest", 2, auth_bytes=LOGINS[mechanism][0][0])
    answered(at, request, error_code=58, error_message="no")
    assert (at.principal, at.mechanism) == (None, None)


def test_a_name_sent_before_the_login_is_answered_is_not_taken_for_the_name_that_was_accepted() -> None:
    """Clients may send several requests at once: alice's login is accepted, admin's, sent right behind it, is refused."""
    at = connection()
    handshake = asked(at, "SaslHandshakeRequest", 1, mechanism="PLAIN")
    alice = asked(at, "SaslAuthenticateRequest", 2, auth_bytes=b"\0alice\0right")
    admin = asked(at, "SaslAuthenticateRequest", 2, auth_bytes=b"\0admin\0wrong")
    other = asked(at, "SaslHandshakeRequest", 1, mechanism="SCRAM-SHA-256")
    answered(at, handshake)
    answered(at, alice)
    assert (at.principal, at.mechanism) == ("alice", "PLAIN")
    answered(at, admin, error_code=34)  # ILLEGAL_SASL_STATE, and the connection stays open
    answered(at, other, error_code=34)
    assert (at.principal, at.mechanism) == ("alice", "PLAIN")


def test_a_bearer_token_that_is_refused_first_in_json() -> None:
    at = connection()
    chosen(at, "OAUTHBEARER")
    request = asked(at, "SaslAuthenticateRequest", 2, auth_bytes=LOGINS["OAUTHBEARER"][0][0])
    answered(at, request, auth_bytes=b'{"status":"invalid_token"}')
    assert at.principal is None


def test_the_owner_of_a_delegation_token_is_not_named_by_it() -> None:
    at = connection()
    chosen(at, "SCRAM-SHA-256")
    request = asked(at, "SaslAuthenticateRequest", 2, auth_bytes=b"n,,n=id-1,r=abc,tokenauth=true")
    answered(at, request, auth_bytes=b"v=c2ln")
    assert at.principal == "delegation token id-1"


@pytest.mark.parametrize("token", [b"", b"\xff" * 100, b"\x01auth=Bearer a.b.c", b"\x01auth=Bearer a.W10=.c"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "?"])
def test_tokens_that_are_none(mechanism: str, token: bytes) -> None:
    at = connection()
    chosen(at, mechanism)
    request = asked(at, "SaslAuthenticateRequest", 2, auth_bytes=token)
    answered(at, request)
    assert at.principal is None


def test_raw_tokens() -> None:
    at = connection()
    asked(at, "SaslHandshakeRequest", 0, mechanism="PLAIN")
    made = chain()
    made.on_token(at, b"\0alice\0canary-secret")
    assert at.principal is None
    made.on_token(at, None)
    assert (at.principal, at.mechanism) == ("alice", "PLAIN")


def test_filters_are_told_of_logins_by_raw_tokens() -> None:
    """Once when it begins, and once when the broker has accepted it; one that fails harms nobody."""
    told: list[tuple[str | None, bool]] = []

    class Told(Filter):
        identifies = True

        def on_raw_login(self, at: ConnectionFacts, is_accepted: bool) -> None:
            told.append((at.principal, is_accepted))
            raise ZeroDivisionError

    at, made = connection(), Chain([Told()], runtime=GivenRuntime())
    asked(at, "SaslHandshakeRequest", 0, mechanism="PLAIN")
    for token in (b"\0alice\0canary-secret", b"", None):
        made.on_token(at, token)
    assert told == [(None, False), ("alice", True)]
    assert made.faults["Told"] == 2


def test_software() -> None:
    at = connection()
    asked(at, "ApiVersionsRequest", 3, client_software_name="librdkafka", client_software_version="2.5")
    assert at.software == ("librdkafka", "2.5")


def test_topic_names_by_their_ids() -> None:
    runtime = GivenRuntime()
    made = Chain([Scripted(lambda _: None, names_topics=True)], runtime=runtime)
    topics = [{"name": "a", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}]
    body = message("MetadataResponse").encode(12, make("MetadataResponse", topics=topics))
    made.on_response(connection(), RequestFacts(3, 12, 7), response_frame(3, 12, body))
    assert runtime.kept["topic_names"].get("AAAAAAAAAAAAAAAAAAAAAQ") == "a"
    assert list(runtime.shared_set("identify.topics")) == ["AAAAAAAAAAAAAAAAAAAAAQ a"]


def test_topic_names_that_another_worker_has_seen() -> None:
    shared = BoundedSet()
    here = TopicNames(shared)
    assert here.get("id1") is None
    TopicNames(shared)["id1"] = "a"
    assert here.get("id1") == "a"
    TopicNames(shared)["id2"] = "x" * 249  # the longest that Kafka has
    assert here.get("id2") == "x" * 249
    TopicNames(shared)["id3"] = "x" * 250
    assert here.get("id3", "unknown") == "unknown"
    TopicNames(shared)["id1"] = "b"  # of a broker that wants the records of "a" treated as those of "b"
    here["id1"] = "a"
    assert here.get("id1") is None


def test_topics_are_learned_also_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.filters.identify.MOST_TOPICS", 3)
    shared = BoundedSet(most=3)
    here, there = TopicNames(shared), TopicNames(shared)
    for number in range(10):
        there[f"id{number}"] = f"topic {number}"
        assert here.get(f"id{number}") == f"topic {number}"
        assert number < 3 or here.get("id1") == "topic 1"  # it is in use
        assert number < 3 or here.get(f"id{number - 2}", "forgotten") == ("topic 1" if number == 3 else "forgotten")
    here["id2"] = "topic 2"
    assert here.get("id2") == "topic 2"


def test_only_what_is_asked_for_is_held() -> None:
    assert identifying([Scripted(lambda _: None)]) == ()
    (clients,) = identifying([Scripted(lambda _: None, identifies=True)])
    assert (clients.requests, clients.responses) == ((17, 18, 36), (17, 36))
    (topics,) = identifying([Scripted(lambda _: None, names_topics=True)])
    assert (topics.requests, topics.responses) == ((), (3,))
