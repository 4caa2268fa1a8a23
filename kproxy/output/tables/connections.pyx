# cython: language_level=3, nonecheck=True
"""Rows of the table connections: what is counted while a connection lasts."""

from hashlib import blake2b

from libc.stdint cimport int64_t

from kproxy.output.tables.times cimport instant
from kproxy.session.exchanges cimport Event, Exchange, Frame

from kproxy.protocol.addresses import split_address
from kproxy.session import BadFrame, Gap, NotKafka, SaslToken

MOST_CLIENT_IDS = 16


cdef class Seen:
    """One connection so far."""

    def __init__(self, Event first not None, capture):
        """A connection whose first event this is."""
        self.connection = first.connection
        self.capture = capture
        self.connection_id = connection_id(first)
        self.client_ids = {}
        self.missing_bytes = self.skipped_bytes = 0

    def count(self, Event event not None):
        """Take an event that is no exchange into account."""
        if isinstance(event, Gap):
            self.gaps += 1
            self.missing_bytes += event.size or 0
            self.skipped_bytes += event.skipped
        elif isinstance(event, BadFrame):
            self.bad_frames += 1
        elif isinstance(event, NotKafka):
            self.not_kafka = event.kind
        elif isinstance(event, SaslToken):
            self.see(event.at, event.at)

    cpdef int64_t count_exchange(self, Exchange exchange) except -1:
        """Take an exchange into account; its number in the connection."""
        cdef Frame frame = exchange.request
        self.exchanges += 1
        self.unanswered += exchange.unanswered is not None
        if frame is not None:
            self.requests += 1
            self.request_bytes += len(frame.data) + 4
            self.see(frame.started_at, frame.ended_at)
        frame = exchange.response
        if frame is not None:
            self.responses += 1
            self.response_bytes += len(frame.data) + 4
            self.see(frame.started_at, frame.ended_at)
        client_id = exchange.client_id
        if client_id is not None and client_id not in self.client_ids and len(self.client_ids) < MOST_CLIENT_IDS:
            self.client_ids[client_id] = None
        return self.exchanges

    cdef int see(self, int64_t first, int64_t last) except -1:
        if not self.seen or first < self.first_seen_at:
            self.first_seen_at = first
        if not self.seen or last > self.last_seen_at:
            self.last_seen_at = last
        self.seen = True
        return 0

    def row(self, closed):
        """The columns of connections."""
        connection, tls = self.connection, self.tls
        return (
            self.connection_id,
            connection.number,
            self.capture,
            *split_address(connection.client),
            *split_address(connection.broker),
            instant(self.first_seen_at) if self.seen else None,
            instant(self.last_seen_at) if self.seen else None,
            connection.client_software_name,
            connection.client_software_version,
            list(self.client_ids),
            connection.sasl_mechanism,
            self.user_name,
            *((None,) * 5 if tls is None else (
                tls.version,
                tls.cipher_suite,
                tls.server_name,
                tls.client_certificate,
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


cdef str connection_id(Event first):
    """The same whenever the same bytes are read."""
    cdef int64_t began = first.at
    if isinstance(first, Exchange):
        for frame in (first.request, first.response):
            if frame is not None:
                began = frame.started_at
                break
    key = f"{first.connection.client} {first.connection.broker} {began}"
    return blake2b(key.encode(), digest_size=16).hexdigest()
