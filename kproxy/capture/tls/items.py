"""What a TlsConnection says, besides TlsFacts (which is in kproxy.session.tls_facts)."""

from dataclasses import dataclass

from kproxy.protocol import Direction


@dataclass(slots=True)
class TlsItem:
    """Anything said of one direction; *at* in ns."""

    direction: Direction
    at: int


@dataclass(slots=True)
class Plain(TlsItem):
    """Application data, decrypted."""

    data: bytes


@dataclass(slots=True)
class Lost(TlsItem):
    """Application data is missing here; nobody knows how much."""


@dataclass(slots=True)
class TlsProblem(TlsItem):
    """Something could not be read; *what* says it in words and shows no secret."""

    what: str
