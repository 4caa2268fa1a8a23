"""The items that a TlsConnection delivers, except TlsFacts (kproxy.session.tls_facts)."""

from msgspec import Struct

from kproxy.protocol import Direction


class TlsItem(Struct):
    """Base of the items of one direction; *at* in ns."""

    direction: Direction
    at: int


class Plain(TlsItem):
    """Application data, decrypted."""

    data: bytes


class Lost(TlsItem):
    """Application data is missing here, an unknown amount."""


class TlsProblem(TlsItem):
    """Something could not be read; *what* describes it, without secrets."""

    what: str
