"""What somebody speaks instead of Kafka, and which setting of kproxy run, or of the client, would be the right one."""

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


def spoken_instead(start: bytes, direction: Direction) -> str | None:
    """In words, what begins with these four bytes, where Kafka has the size of a frame; None: not known."""
    foreign = foreign_size(start, direction)
    return SETTINGS.get((foreign.kind, direction), foreign.what) if foreign else None
