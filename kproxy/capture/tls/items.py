"""The items that a TlsConnection delivers, except TlsFacts (kproxy.session.tls_facts)."""

from dataclasses import dataclass

from kproxy.protocol import Direction


@dataclass(slots=True)
class TlsItem:
    """Base of the items of one direction; *at* in ns."""

    direction: Direction
    at: int


@dataclass(slots=True)
class Plain(TlsItem):
    """Application data, decrypted."""

    data: bytes


@dataclass(slots=True)
class Lost(TlsItem):
    """Application data is missing here, an unknown amount."""


@dataclass(slots=True)
class TlsProblem(TlsItem):
    """Something could not be read; *what* describes it, without secrets."""

    what: str
