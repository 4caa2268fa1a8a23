# cython: language_level=3, nonecheck=True
"""Tables: events in, rows of all tables out."""

import dataclasses

from libc.stdint cimport int64_t

from kproxy.output.tables.bodies cimport Body, read_body
from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.connections cimport Seen
from kproxy.output.tables.exchanges cimport exchange_row, gather_bodies, top_fields
from kproxy.output.tables.gather cimport Found
from kproxy.output.tables.record_batches cimport batch_rows, records_fields, RecordsField
from kproxy.output.tables.times cimport instant
from kproxy.session.exchanges cimport Event, Exchange, Frame

from kproxy.errors import DecodeError
from kproxy.output.tables.bodies import json_of
from kproxy.output.tables.contracts import BODIES, CONNECTIONS, EXCHANGES, OFFSETS, RECORD_BATCHES, RECORDS
from kproxy.output.tables.offsets import offset_rows, ROWS
from kproxy.output.tables.records import record_columns
from kproxy.protocol import ApiKey
from kproxy.protocol.embedded.sasl import open_token

cdef int SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE
cdef tuple NO_RECORDS = (None, None, None)
cdef object COUNT = [column.name for column in RECORD_BATCHES.columns].index("count") - 3  # in a row from direction on


cdef class Tables:
    """Makes the rows of every table from the events of captures.

    Args:
        give: takes the rows of a table, some thousands at a time.
        bodies: add both bodies as JSON to exchanges.
        records: fill the table records too.
    """

    cdef readonly list tables
    cdef object _give
    cdef bint _bodies
    cdef bint _records
    cdef Rows _connections
    cdef Rows _exchanges
    cdef Rows _batches
    cdef Rows _offsets
    cdef dict _seen  # connection number -> Seen

    def __init__(self, give, *, bint bodies=False, bint records=False):
        self._give = give
        self._bodies = bodies
        self._records = records
        exchanges = EXCHANGES
        if bodies:
            exchanges = dataclasses.replace(EXCHANGES, columns=EXCHANGES.columns + BODIES)
        self.tables = [CONNECTIONS, exchanges, RECORD_BATCHES, OFFSETS, *([RECORDS] if records else [])]
        self._connections = Rows(CONNECTIONS, give)
        self._exchanges = Rows(exchanges, give)
        self._batches = Rows(RECORD_BATCHES, give)
        self._offsets = Rows(OFFSETS, give)
        self._seen = {}

    def take(self, Event event not None, capture, *, bint shown=True, bodies=None):
        """Take an event of a capture; one that is not *shown* counts for its connection only."""
        number = event.connection.number
        cdef Seen seen = self._seen.get(number)
        if seen is None:
            seen = self._seen[number] = Seen(event, capture)
        if event.connection.tls is not None:
            seen.tls = event.connection.tls
        if isinstance(event, Exchange):
            seen.connection = event.connection  # inside TLS it is another one
            self._take_exchange(<Exchange>event, seen, shown, bodies)
        else:
            seen.count(event)

    def ended(self, number, by):
        """Learn that one side (client or broker) closed or reset the connection of that number."""
        seen = self._seen.get(number)
        if seen is not None and seen.closed_by is None:
            seen.closed_by = by

    def closed(self, number, reason):
        """Learn that nothing more comes of the connection of that number."""
        seen = self._seen.pop(number, None)
        if seen is not None:
            self._connections.append(seen.row(reason))

    def flush(self):
        """Give on all that is held: the end of the last capture."""
        for number in list(self._seen):
            self.closed(number, "end of capture")
        for rows in (self._connections, self._exchanges, self._batches, self._offsets):
            rows.flush()

    cdef int _take_exchange(self, Exchange exchange, Seen seen, bint shown, bodies) except -1:
        cdef int64_t number = seen.count_exchange(exchange)
        cdef Body request
        cdef Body response
        cdef Found found
        cdef tuple row
        request, no_request = read_body(exchange.request)
        response, no_response = read_body(exchange.response)
        found = gather_bodies(exchange, request, response)
        undecoded = no_request or no_response
        seen.errors += 1 if found.error_codes else 0
        seen.undecoded += exchange.undecoded is not None or undecoded is not None
        if exchange.api_key == SASL_AUTHENTICATE and seen.user_name is None and request is not None:
            seen.user_name = _user(request.struct, exchange.connection.sasl_mechanism)
        if not shown:
            return 0
        if request is not None and request.form.name in ROWS:
            for offset in offset_rows(exchange, request, response):
                self._offsets.put((seen.connection_id, number))
                self._offsets.put(offset)
                self._offsets.end()
        fields = records_fields(request, response, exchange.topic_names)
        counts = NO_RECORDS if fields is None else self._take_records(seen.connection_id, number, exchange, fields)
        row = exchange_row(number, exchange, found, top_fields(request, response), undecoded)
        self._exchanges.put((seen.connection_id,))
        self._exchanges.put(row)
        self._exchanges.put(counts)
        if self._bodies:
            self._exchanges.put(_json(exchange, bodies))
        self._exchanges.end()
        return 0

    cdef tuple _take_records(self, str connection_id, int64_t number, Exchange exchange, list fields):
        """Rows of record_batches and records; batches, records and bytes."""
        cdef int64_t batches = 0
        cdef int64_t size = 0
        cdef RecordsField field
        records = 0
        for field in fields:
            at = _sent_at(exchange, field.direction)
            found = field.batches()
            problems = None
            if self._records and found:
                columns, problems = record_columns(connection_id, number, field, found)
                self._give(RECORDS, columns)
            batches += len(found)
            size += len(field.data)
            for row in batch_rows(field, found, problems):
                records += max(0, row[COUNT] or 0)
                self._batches.put((connection_id, number, at))
                self._batches.put(row)
                self._batches.end()
        return batches, records, size


cdef object _sent_at(Exchange exchange, str direction):
    cdef Frame frame = exchange.response
    if direction == "produce":
        frame = exchange.request
        return None if frame is None else instant(frame.started_at)
    return None if frame is None else instant(frame.ended_at)


cdef tuple _json(Exchange exchange, bodies):
    """The columns of both bodies."""
    both = (json_of(exchange.request), json_of(exchange.response)) if bodies is None else (bodies.request, bodies.response)
    return tuple([None if body is None else body.decode("utf-8", "replace") for body in both])


cdef object _user(request, mechanism):
    """The user that a client's token names, of the mechanisms that name one in the clear."""
    try:
        name = open_token(request.auth_bytes or b"", mechanism, from_client=True).get("username")
    except DecodeError:
        return None
    return name if isinstance(name, str) and name else None
