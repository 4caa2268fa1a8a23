"""TLS in the decoded log and in words."""

import json
import re
import ssl

import pytest

from kproxy.output import tls
from kproxy.output.jsonl import event_line
from kproxy.output.text.lines import TextLines
from kproxy.output.tls import tls_facts, tls_json, tls_words, undecrypted_words
from kproxy.session import Connection, Direction, NotKafka, Tls, TlsFacts
from tests.support.tls import BROKER, CLIENT, REQUEST, Pair, Setup, listen

NAME = re.compile(r"^    (\w+) +(?:\S)", re.MULTILINE)


def facts_of(setup: Setup, *, keys: bool = True) -> TlsFacts:
    pair = Pair(setup).handshake()
    pair.send(REQUEST, b"hello")
    return listen(pair.chunks, pair.keylog if keys else b"").facts


def test_the_object_has_the_documented_fields() -> None:
    assert list(tls_json(TlsFacts())) == NAME.findall(tls.__doc__ or "")


def test_a_connection_that_was_read() -> None:
    facts = facts_of(Setup(client_certificate=True, ask_certificate=True, alpn=["kafka"]))
    row = json.loads(event_line(Tls(Connection(2, "10.0.0.5:1", "10.0.0.9:9093", tls=facts), 0)))
    assert row["event"] == "tls"
    assert row["tls"]["version"] == "TLS 1.3"
    assert row["tls"]["clientCertificate"] == CLIENT
    assert row["tls"]["serverCertificate"] == BROKER
    assert row["tls"]["alpn"] == "kafka"
    assert row["tls"]["requests"]["plainSize"] == 5
    words = tls_words(facts)
    for said in ("TLS 1.3 TLS_AES_256_GCM_SHA384", "server name broker.test", f"client certificate {CLIENT}"):
        assert said in words


def test_the_object_is_read_back() -> None:
    for keys in (True, False):
        facts = facts_of(Setup(client_certificate=True, ask_certificate=True, alpn=["kafka"]), keys=keys)
        row = json.loads(event_line(Tls(Connection(2, "10.0.0.5:1", "10.0.0.9:9093", tls=facts), 0)))["tls"]
        read = tls_facts(row)
        assert tls_words(read) == tls_words(facts)
        assert (read.offered_versions, read.missing, read.requests) == (
            facts.offered_versions,
            facts.missing,
            facts.requests,
        )
        assert tls_json(read) == row


def test_a_connection_that_could_not_be_read_says_why_and_what_to_do() -> None:
    facts = facts_of(Setup(ssl.TLSVersion.TLSv1_2), keys=False)
    words = undecrypted_words(facts)
    assert "no session keys of this connection are given" in words
    assert "--keylog FILE" in words
    event = NotKafka(Connection(2, "10.0.0.5:1", "10.0.0.9:9093", tls=facts), 0, "tls", Direction.REQUEST, words)
    assert json.loads(event_line(event))["tls"]["decrypted"] is False
    assert "not Kafka (tls): TLS 1.2 TLS_ECDHE" in TextLines().render(event)


def test_a_handshake_that_failed_does_not_ask_for_keys() -> None:
    words = undecrypted_words(TlsFacts(offered_versions=["TLS 1.2"], alerts=["broker: fatal protocol_version"]))
    assert "the client offers TLS 1.2" in words
    assert "alert from broker: fatal protocol_version" in words
    assert "did not come to its end" in words
    assert "--keylog" not in words


def test_in_the_clear_there_is_no_object() -> None:
    event = NotKafka(Connection(2, "10.0.0.5:1", "10.0.0.9:9093"), 0, "http", Direction.REQUEST, "HTTP")
    assert json.loads(event_line(event))["tls"] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"resumed": True}, "resumed"),
        ({"client_certificate": ""}, "no client certificate although the broker asked for one"),
        ({"alerts": ["client: fatal unknown_ca"]}, "alert from client: fatal unknown_ca"),
        ({"key_updates": 2}, "key updates: 2"),
        ({"renegotiations": 1}, "renegotiations: 1"),
        ({"early_data": "accepted"}, "early data accepted"),
        ({"client_hello_at": 0, "established_at": 3_000_000}, "handshake in 3.00 ms"),
        ({"client_hello_at": 0}, "its listener may be a PLAINTEXT one"),
    ],
)
def test_what_happened_is_said(change: dict[str, object], said: str) -> None:
    facts = TlsFacts(version="TLS 1.3", cipher_suite="TLS_AES_128_GCM_SHA256")
    for name, value in change.items():
        setattr(facts, name, value)
    assert said in tls_words(facts)


def test_hostile_names_stay_inside_their_line() -> None:
    facts = TlsFacts(server_name="a\n\x1b[31m", offered_alpn=["\u202e"])
    connection = Connection(2, "10.0.0.5:1", "10.0.0.9:9093", tls=facts)
    assert event_line(Tls(connection, 0)).count(b"\n") == 1
    assert "\n" not in TextLines().render(Tls(connection, 0))
    assert "\x1b" not in TextLines().render(Tls(connection, 0))
