"""Rows of the table connections: what is counted while a connection lasts."""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from kproxy.output.escaping import well_formed
from kproxy.output.tables.times import instant
from kproxy.session import BadFrame, Connection, Event, Exchange, Gap, NotKafka, SaslToken, TlsFacts

MOST_CLIENT_IDS = 16


@dataclass(slots=True)
class Seen:
    """One connection so far."""

    connection: Connection
    capture: str
    connection_id: str
    tls: TlsFacts | None = None
    first_seen_at: int | None = None
    last_seen_at: int | None = None
    client_ids: dict[str, None] = field(default_factory=dict)
    user_name: str | None = None
    exchanges: int = 0
    requests: int = 0
    responses: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    unanswered: int = 0
    undecoded: int = 0
    errors: int = 0
    gaps: int = 0
    missing_bytes: int = 0
    skipped_bytes: int = 0
    bad_frames: int = 0
    not_kafka: str | None = None
    closed_by: str | None = None

    @classmethod
    def begin(cls, event: Event, capture: str) -> "Seen":
        """A connection whose first event this is."""
        connection = event.connection
        key = f"{connection.client} {connection.broker} {_began(event)}"
        return cls(connection, capture, blake2b(key.encode(), digest_size=16).hexdigest())

    def count(self, event: Event) -> None:
        """Take an event that is no exchange into account."""
        match event:
            case Gap():
                self.gaps += 1
                self.missing_bytes += event.size or 0
                self.skipped_bytes += event.skipped
            case BadFrame():
                self.bad_frames += 1
            case NotKafka():
                self.not_kafka = event.kind
            case SaslToken():
                self._seen(event.at, event.at)

    def count_exchange(self, exchange: Exchange) -> int:
        """Take an exchange into account; its number in the connection."""
        self.exchanges += 1
        self.unanswered += exchange.unanswered is not None
        request, response = exchange.request, exchange.response
        if request is not None:
            self.requests += 1
            self.request_bytes += request.wire_size
            self._seen(request.started_at, request.ended_at)
        if response is not None:
            self.responses += 1
            self.response_bytes += response.wire_size
            self._seen(response.started_at, response.ended_at)
        client_id = exchange.client_id
        if client_id is not None and client_id not in self.client_ids and len(self.client_ids) < MOST_CLIENT_IDS:
            self.client_ids[client_id] = None
        return self.exchanges

    def _seen(self, first: int, last: int) -> None:
        if self.first_seen_at is None or first < self.first_seen_at:
            self.first_seen_at = first
        if self.last_seen_at is None or last > self.last_seen_at:
            self.last_seen_at = last

    def row(self, closed: str | None) -> tuple[Any, ...]:
        """The columns of connections."""
        connection, tls = self.connection, self.tls
        return (
            self.connection_id,
            connection.number,
            well_formed(self.capture),
            *_split(connection.client),
            *_split(connection.broker),
            None if self.first_seen_at is None else instant(self.first_seen_at),
            None if self.last_seen_at is None else instant(self.last_seen_at),
            _text(connection.client_software_name),
            _text(connection.client_software_version),
            [well_formed(client_id) for client_id in self.client_ids],
            _text(connection.sasl_mechanism),
            _text(self.user_name),
            *((None,) * 5 if tls is None else (
                _text(tls.version),
                _text(tls.cipher_suite),
                _text(tls.server_name),
                _text(tls.client_certificate),
                tls.decrypted,
            )),
            self.requests,
            self.responses,
            self.request_bytes,
            self.response_bytes,
            self.unanswered,
            self.undecoded,
            self.errors,
            self.gaps,
            self.missing_bytes,
            self.skipped_bytes,
            self.bad_frames,
            self.not_kafka,
            self.closed_by,
            closed,
        )  # fmt: skip


def _began(event: Event) -> int:
    if isinstance(event, Exchange):
        for frame in (event.request, event.response):
            if frame is not None:
                return frame.started_at
    return event.at


def _split(endpoint: str) -> tuple[str, int]:
    address, _, port = endpoint.rpartition(":")
    return address.removeprefix("[").removesuffix("]"), int(port)


def _text(text: str | None) -> str | None:
    return text if text is None else well_formed(text)
