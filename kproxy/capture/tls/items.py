"""The items that a TlsConnection delivers; another one is kproxy.session.tls_facts.TlsFacts."""

from msgspec import Struct

from kproxy.protocol import Direction


class TlsItem(Struct):
    """Base of the items of one direction; *at* in ns."""

    direction: Direction
    at: int


class Plain(TlsItem):
    """Decrypted application data."""

    data: bytes


class Lost(TlsItem):
    """An unknown amount of application data is missing here."""


class TlsProblem(TlsItem):
    """A description of unreadable data, without secrets."""

    what: str
