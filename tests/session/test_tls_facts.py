"""Facts about TLS start out as nothing known."""

from kproxy.session import Connection, TlsFacts


def test_a_connection_in_the_clear_has_none() -> None:
    assert Connection(1, "10.0.0.5:1", "10.0.0.9:9092").tls is None


def test_nothing_is_claimed_before_it_is_seen() -> None:
    facts = TlsFacts()
    assert (facts.version, facts.client_certificate, facts.decrypted, facts.resumed) == (None, None, False, False)
    facts.alerts.append("client: fatal unknown_ca")
    assert TlsFacts().alerts == []
