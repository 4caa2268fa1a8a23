"""Rows of the table connections: what is counted while a connection lasts."""

from typing import Any

from kproxy.session import Connection, Event, Exchange, TlsFacts

MOST_CLIENT_IDS: int

class Seen:
    """One connection so far."""

    connection: Connection
    tls: TlsFacts | None
    user_name: str | None
    closed_by: str | None
    undecoded: int
    errors: int

    @property
    def first_seen_at(self) -> int:
        """Ns; 0 when no frame was seen. What follows it is counted likewise."""

    @property
    def last_seen_at(self) -> int: ...
    @property
    def gaps(self) -> int: ...
    @property
    def missing_bytes(self) -> int: ...
    @property
    def skipped_bytes(self) -> int: ...
    @property
    def bad_frames(self) -> int: ...
    @property
    def not_kafka(self) -> str | None: ...
    def __init__(self, first: Event, capture: str) -> None:
        """A connection whose first event this is."""

    @property
    def connection_id(self) -> str:
        """The same whenever the same bytes are read."""

    @property
    def client_ids(self) -> dict[str, None]:
        """In the order in which they came; bounded."""

    def count(self, event: Event) -> None:
        """Take an event that is no exchange into account."""

    def count_exchange(self, exchange: Exchange) -> int:
        """Take an exchange into account; its number in the connection."""

    def row(self, closed: str | None) -> tuple[Any, ...]:
        """The columns of connections."""
