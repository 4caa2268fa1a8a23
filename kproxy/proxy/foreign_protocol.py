"""Recognise a peer that speaks another protocol than Kafka, and name the setting of kproxy, or of the client, that helps."""

from kproxy.filters.contract import Direction
from kproxy.session.recognise import foreign_size

SETTINGS = {
    ("tls", Direction.REQUEST): (
        "the client speaks TLS, and this listener does not: give it listener_tls, "
        "or the client security.protocol=PLAINTEXT or SASL_PLAINTEXT"
    ),
    ("tls", Direction.RESPONSE): "the broker speaks TLS: give the cluster broker_tls",
    ("proxy", Direction.REQUEST): "a PROXY header comes before the client's first request: set proxy_protocol",
}


def explain_foreign_protocol(start: bytes, direction: Direction) -> str | None:
    """Explain four bytes that stand where Kafka has the size of a frame; None if they are of no known protocol."""
    foreign = foreign_size(start, direction)
    return SETTINGS.get((foreign.kind, direction), foreign.what) if foreign else None
