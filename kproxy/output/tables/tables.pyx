# cython: language_level=3, nonecheck=True
"""Tables: turns events into rows of all tables. Compiled because every exchange comes through here."""

import dataclasses
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TYPE_CHECKING

from libc.stdint cimport int64_t

from kproxy.output.small_bodies cimport keep, small_body
from kproxy.output.tables.body cimport Body
from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.group_events cimport group_events, write_group_events
from kproxy.output.tables.offsets cimport write_offsets
from kproxy.output.tables.partitions cimport has_states, write_deliveries, write_states
from kproxy.output.tables.rows cimport (
    Head, instant, put_counts, put_exchange, records_fields, RecordsField, write_batches,
)
from kproxy.session.exchanges cimport Event, Exchange, Frame

from kproxy.output.bodies import user_of
from kproxy.output.exchange_line import read_json
from kproxy.output.tables.contracts import (
    BODIES, CONNECTIONS, ERRORS, EXCHANGES, GROUP_EVENTS, OFFSETS, PARTITION_STATES, RECORD_BATCHES, RECORDS,
    SHARE_DELIVERIES, TOPIC_ACTIVITY,
)
from kproxy.output.tables.errors import error_rows
from kproxy.output.tables.group_events import ONLY_FAILED, READERS
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import MOST_PORT, split_address
from kproxy.session import BadFrame, Connection, Gap, NotKafka, SaslToken, TlsFacts  # no-cython-lint

if TYPE_CHECKING:
    from kproxy.output.bodies import Bodies
    from kproxy.output.tables.contracts import Table
    from kproxy.protocol.embedded.viewers import Viewers  # no-cython-lint

MOST_CLIENT_IDS = 16
MOST_COUNTED = (1 << 63) - 1
MOST_KEYS: int = 10_000  # keys of topic_activity that one connection may hold
MOST_STATES = 200_000  # partitions that all connections together may remember
MOST_HELD = 200_000  # keys of topic_activity that all connections together may hold
cdef int SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE
cdef int64_t LARGEST = 1 << 53  # records counted for one field at most, as a header may claim any number
cdef Py_ssize_t BODIES_AT = len(EXCHANGES.columns)
cdef int64_t MINUTE_US = 60_000_000


cdef class Count:
    """The counts of one key of topic_activity."""

    cdef int64_t last  # exchange that was counted last
    cdef int64_t exchanges
    cdef int64_t batches
    cdef int64_t records
    cdef int64_t size
    cdef int64_t refused


cdef class Activity:
    """Rows of topic_activity: what a connection produced to and fetched from each partition, counted by the minute.

    Counts are held until the connection moves on to another minute, has MOST_KEYS of them, or ends; later counts for the same
    minute begin another row. Only the exchanges of the connection decide this, so the rows are the same however a capture is
    divided among processes. The exception: if all connections together hold more than MOST_HELD keys, rows are written early.
    """

    cdef readonly str connection_id
    cdef readonly str broker
    cdef dict _counts  # minute, topic, id, partition, client id, direction -> Count
    cdef bint _has_newest
    cdef int64_t _newest  # minute

    def __init__(self, str connection_id not None, str broker):
        self.connection_id = connection_id
        self.broker = broker
        self._counts = {}

    cdef Py_ssize_t add(
        self, Rows rows, int64_t number, client_id, at, RecordsField field, int64_t batches, int64_t records
    ) except -1:
        """Count a records field, and write rows that are complete. Return how many keys are held now."""
        cdef Count count
        cdef int64_t minute = 0
        cdef object begins = None
        if at is not None:
            minute = <int64_t>at
            minute -= minute % MINUTE_US
            begins = minute
            if self._has_newest and minute > self._newest:
                self.write(rows)
            if not self._has_newest or minute > self._newest:
                self._newest, self._has_newest = minute, True
        key = begins, field.topic, field.topic_id, field.partition, client_id, field.direction
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= MOST_KEYS:
                self.write(rows)
            count = self._counts[key] = Count()
        if count.last != number:
            count.last = number
            count.exchanges += 1
        count.batches += batches
        count.records += records
        count.size += len(field.data)
        if field.error_code:
            count.refused += records
        return len(self._counts)

    cdef Py_ssize_t write(self, Rows rows) except -1:
        """Write all counts as rows and forget them. Return how many there were."""
        cdef Py_ssize_t held = len(self._counts)
        cdef Count count
        for key, count in self._counts.items():
            minute, topic, topic_id, partition, client_id, direction = key
            rows.append((
                minute, topic, topic_id, partition, client_id, self.connection_id, self.broker, direction,
                count.exchanges, count.batches, count.records, count.size, count.refused,
            ))
        self._counts.clear()
        return held


cdef class ConnectionTotals:
    """The counts of an open connection, which become its row of connections."""

    cdef public object connection  # type: Connection
    cdef public object tls  # type: TlsFacts | None
    cdef public object user_name  # type: str | None
    cdef public object closed_by  # type: str | None
    cdef public object closed_at  # type: int | None  # ns since the epoch
    cdef public int64_t undecoded
    cdef public int64_t errors
    cdef readonly str connection_id
    cdef object capture
    cdef bint has_times  # whether the next two are known
    cdef readonly int64_t first_seen_at
    cdef readonly int64_t last_seen_at
    cdef readonly dict client_ids  # type: dict[str, None]
    cdef int64_t exchanges
    cdef int64_t requests
    cdef int64_t responses
    cdef int64_t request_bytes
    cdef int64_t response_bytes
    cdef int64_t unanswered
    cdef readonly int64_t gaps
    cdef readonly object missing_bytes  # type: int
    cdef readonly object skipped_bytes  # type: int
    cdef readonly int64_t bad_frames
    cdef readonly object not_kafka  # type: str | None
    cdef Activity activity  # None until there is any
    cdef dict states  # hashes of the states of partitions that it saw last; None until it saw any

    def __init__(self, Event first not None, capture: str):
        """Begin the counts of a connection with its first event."""
        self.connection = first.connection
        self.capture = capture
        self.connection_id = connection_id(first)
        self.client_ids = {}
        self.missing_bytes = self.skipped_bytes = 0

    def count(self, Event event not None) -> None:
        """Count an event other than an exchange."""
        if isinstance(event, Gap):
            self.gaps += 1
            self.missing_bytes += event.size or 0
            self.skipped_bytes += event.skipped
        elif isinstance(event, BadFrame):
            self.bad_frames += 1
        elif isinstance(event, NotKafka):
            self.not_kafka = event.kind
            if not self.has_times:
                tcp = event.connection.tcp
                without_bytes = tcp is not None and tcp.syn_at == event.at and tcp.last_syn_at is not None
                self.add_times(event.at, tcp.last_syn_at if without_bytes else event.at)
        elif isinstance(event, SaslToken) or type(event) is Event:  # the latter: a live connection has begun
            self.add_times(event.at, event.at)

    cpdef int64_t count_exchange(self, Exchange exchange) except -1:
        """Count an exchange; return its number in the connection."""
        cdef Frame frame = exchange.request
        self.exchanges += 1
        self.unanswered += exchange.unanswered is not None
        if frame is not None:
            self.requests += 1
            self.request_bytes += len(frame.data) + frame.absent + 4
            self.add_times(frame.started_at, frame.ended_at)
        frame = exchange.response
        if frame is not None:
            self.responses += 1
            self.response_bytes += len(frame.data) + frame.absent + 4
            self.add_times(frame.started_at, frame.ended_at)
        client_id = exchange.client_id
        if client_id is not None and client_id not in self.client_ids and len(self.client_ids) < MOST_CLIENT_IDS:
            self.client_ids[client_id] = None
        return self.exchanges

    cdef str broker(self):
        """Return the address and port of the broker; None before one is chosen."""
        return self.connection.broker or None

    cdef int add_times(self, int64_t first, int64_t last) except -1:
        if not self.has_times or first < self.first_seen_at:
            self.first_seen_at = first
        if not self.has_times or last > self.last_seen_at:
            self.last_seen_at = last
        self.has_times = True
        return 0

    def row(self, closed: str | None) -> tuple[Any, ...]:
        """Return the columns of connections."""
        connection, tls = self.connection, self.tls
        return (
            self.connection_id,
            connection.number,
            self.capture,
            *_address(connection.client),
            *_address(connection.broker),
            instant(self.first_seen_at) if self.has_times else None,
            instant(self.last_seen_at) if self.has_times else None,
            connection.client_software_name,
            connection.client_software_version,
            list(self.client_ids),
            connection.sasl_mechanism,
            connection.user_name if self.user_name is None else self.user_name,  # a live connection may have logged in before its first event here
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
            min(self.missing_bytes, MOST_COUNTED),
            min(self.skipped_bytes, MOST_COUNTED),
            self.bad_frames,
            self.not_kafka,
            *self._closing(),
            closed,
            *_beginning(connection.tcp),
            None if tls is None else tls.alerts,
        )  # fmt: skip

    cdef tuple _closing(self):
        tcp = self.connection.tcp
        by, at = self.closed_by, self.closed_at
        if tcp is not None and tcp.closed_by is not None:  # by time; the other side's may have been delivered first
            by, at = tcp.closed_by, tcp.closed_at
        return by, None if at is None else instant(at)


cdef tuple _beginning(tcp):
    if tcp is None:
        return None, None, None
    syn_at, syn_ack_at = tcp.syn_at, tcp.syn_ack_at
    return (
        None if syn_at is None else instant(syn_at), min(tcp.syns, MOST_COUNTED),
        None if syn_ack_at is None else instant(syn_ack_at),
    )


cdef tuple _address(str text):
    """Split an address into host and port. A decoded log may have "" (a broker not chosen yet), or anything."""
    try:
        host, port = split_address(text)
    except ValueError:
        return text, 0
    return (host, port) if 0 <= port <= MOST_PORT else (text, 0)


cdef str connection_id(Event first):
    """Return an id that is the same whenever the same bytes are read."""
    cdef int64_t began = first.at
    if isinstance(first, Exchange):
        for frame in (first.request, first.response):
            if frame is not None:
                began = frame.started_at
                break
    key = f"{first.connection.client} {first.connection.broker} {began}"
    return blake2b(key.encode(), digest_size=16).hexdigest()


cdef dict _known = {}  # small bodies of a request and its response -> rows of group_events


cdef list events_of(Exchange exchange, Body request, Body response):
    """Return what group_events does; that of small bodies is kept for equal ones, as members send them again and again."""
    cdef tuple key = (None if request is None else small_body(exchange.request), None if response is None else small_body(exchange.response))
    names = exchange.topic_names
    if type(names) is not dict or names or (key[0] is None) != (request is None) or (key[1] is None) != (response is None):
        return group_events(request, response, names)
    events = _known.get(key)
    return keep(_known, key, group_events(request, response, names)) if events is None else events


cdef class Tables:
    """Make the rows of every table from the events of captures.

    Args:
        write: called with a table and a pyarrow.RecordBatch of its rows, some thousands at a time.
        bodies: add both bodies as JSON to exchanges.
        records: fill the table records too.

    ``viewers`` show keys and values in that table as JSON; None: they are only copied.
    """

    cdef readonly list tables  # type: list[Table]
    cdef public object viewers  # type: Viewers | None
    cdef object _write
    cdef bint _bodies
    cdef bint _records
    cdef Rows _connections
    cdef Rows _exchanges
    cdef Rows _batches
    cdef Rows _offsets
    cdef Rows _groups
    cdef Rows _activity
    cdef Rows _errors
    cdef Rows _states
    cdef Rows _deliveries
    cdef Body _request  # of the latest exchange
    cdef Body _response
    cdef Head _head
    cdef Py_ssize_t _remembered  # partitions, of all connections
    cdef Py_ssize_t _held  # keys of topic_activity, of all connections
    cdef dict _open  # connection number -> ConnectionTotals

    def __init__(self, write: Callable[[Table, Any], None], *, bint bodies=False, bint records=False):
        self._write = write
        self._bodies = bodies
        self._records = records
        exchanges = EXCHANGES
        if bodies:
            exchanges = dataclasses.replace(EXCHANGES, columns=EXCHANGES.columns + BODIES)
        self.tables = [CONNECTIONS, exchanges, RECORD_BATCHES, OFFSETS, GROUP_EVENTS, TOPIC_ACTIVITY, ERRORS]
        self.tables += [PARTITION_STATES, SHARE_DELIVERIES]
        self.tables += [RECORDS] if records else []
        self._connections = Rows(CONNECTIONS, write)
        self._exchanges = Rows(exchanges, write)
        self._batches = Rows(RECORD_BATCHES, write)
        self._offsets = Rows(OFFSETS, write)
        self._groups = Rows(GROUP_EVENTS, write)
        self._activity = Rows(TOPIC_ACTIVITY, write)
        self._errors = Rows(ERRORS, write)
        self._states = Rows(PARTITION_STATES, write)
        self._deliveries = Rows(SHARE_DELIVERIES, write)
        self._request, self._response, self._head = Body(), Body(), Head()
        self._open = {}

    def add(self, Event event not None, capture: str, *, bint shown=True, bodies: Bodies | None = None) -> None:
        """Add an event of a capture; one that is not *shown* counts for its connection only."""
        number = event.connection.number
        cdef ConnectionTotals totals = self._open.get(number)
        if totals is None:
            totals = self._open[number] = ConnectionTotals(event, capture)
        if event.connection.tls is not None:
            totals.tls = event.connection.tls
        elif totals.tls is None:
            totals.tls = event.connection.tls_to_proxy
        if isinstance(event, Exchange):
            totals.connection = event.connection  # decrypted traffic has a Connection of its own
            self._add_exchange(<Exchange>event, totals, shown, bodies)
        else:
            totals.count(event)

    def ended(self, number: int, by: str, at: int | None = None) -> None:
        """Note that one side (*by*: client or broker) closed or reset a connection, at *at* ns since the epoch."""
        totals = self._open.get(number)
        if totals is not None and totals.closed_by is None:
            totals.closed_by, totals.closed_at = by, at

    def closed(self, number: int, reason: str) -> None:
        """Add the row of a connection that was closed, or of which the capture has no more packets."""
        cdef ConnectionTotals totals = self._open.pop(number, None)
        if totals is not None:
            self._connections.append(totals.row(reason))
            if totals.activity is not None:
                self._held -= totals.activity.write(self._activity)
            if totals.states is not None:
                self._remembered -= len(totals.states)

    def write_open(self, state: str, write: Callable[[Table, Any], None]) -> None:
        """Write rows for the connections that are still open, with *state* in the column closed."""
        cdef Rows rows = Rows(CONNECTIONS, write)
        cdef ConnectionTotals totals
        for totals in self._open.values():
            rows.append(totals.row(state))
        rows.flush()

    def write_activity(self) -> None:
        """Write the counts of topic_activity for the open connections; later counts go to other rows."""
        cdef ConnectionTotals totals
        for totals in self._open.values():
            if totals.activity is not None:
                totals.activity.write(self._activity)
        self._held = 0

    def flush(self) -> None:
        """End the last capture: add the rows of open connections, and write all rows."""
        for number in list(self._open):
            self.closed(number, "end of capture")
        self.write_rows()

    def write_rows(self) -> None:
        """Write all complete rows. An open connection gets its row when it ends."""
        for rows in (self._connections, self._exchanges, self._batches, self._offsets):
            rows.flush()
        for rows in (self._groups, self._activity, self._errors, self._states, self._deliveries):
            rows.flush()

    cdef int _add_exchange(self, Exchange exchange, ConnectionTotals totals, bint shown, bodies) except -1:
        cdef Head head = self._head
        cdef Body request = self._request if self._request.read(exchange.request) else None
        cdef Body response = self._response if self._response.read(exchange.response) else None
        head.connection_id, head.broker, head.exchange = totals.connection_id, totals.broker(), totals.count_exchange(exchange)
        undecoded = self._request.problem or self._response.problem
        totals.errors += response is not None and response.codes.size > 0
        totals.undecoded += exchange.undecoded is not None or undecoded is not None
        if exchange.api_key == SASL_AUTHENTICATE and totals.user_name is None and request is not None:
            totals.user_name = user_of(exchange, request.struct, bodies)
        if not shown:
            return 0
        if request is not None:
            write_offsets(self._offsets, head, exchange, request, response)
            write_deliveries(self._deliveries, head, exchange, request, response)
            if request.name in READERS and (request.name not in ONLY_FAILED or (response is not None and response.codes.size)):
                write_group_events(self._groups, head, exchange, events_of(exchange, request, response))
        if response is not None and has_states(response):
            self._add_states(totals, exchange, response)
        if response is not None and response.codes.size:
            for row in error_rows(exchange, request, response):
                head.put(self._errors)
                self._errors.put_part(3, row)
                self._errors.end()
        fields = records_fields(request, response, exchange.topic_names)
        head.put(self._exchanges)
        put_exchange(self._exchanges, exchange, request, response, undecoded)
        if fields is not None:
            self._add_records(totals, exchange, fields)
        if self._bodies:
            self._exchanges.put_part(BODIES_AT, _json(exchange, bodies))
        return self._exchanges.end()

    cdef int _add_states(self, ConnectionTotals totals, Exchange exchange, Body response) except -1:
        if totals.states is None:
            totals.states = {}
        self._remembered -= len(totals.states)
        write_states(self._states, self._head, exchange, response, totals.states)
        self._remembered += len(totals.states)
        if self._remembered > MOST_STATES:
            for totals in self._open.values():
                totals.states = None
            self._remembered = 0
        return 0

    cdef int _add_records(self, ConnectionTotals totals, Exchange exchange, list fields) except -1:
        """Add rows of record_batches, records and topic_activity; set the numbers of batches, records and bytes in exchanges."""
        cdef Head head = self._head
        cdef int64_t batches = 0
        cdef int64_t size = 0
        cdef int64_t count
        cdef RecordsField field
        cdef list rows
        records = 0
        for field in fields:
            at = _sent_at(exchange, field.direction)
            if type(field.data) is bytes:
                found = field.batches()
                problems = None
                if self._records and found:
                    from kproxy.output.tables.records import record_columns  # noqa: PLC0415 - brings what reads schemas

                    columns, problems = record_columns(
                        head.connection_id, head.broker, head.exchange, field, found, self.viewers
                    )
                    self._write(RECORDS, columns)
                count, counted = len(found), write_batches(self._batches, head, at, field, found, problems)
            else:
                from kproxy.output.tables.records import logged_batches  # noqa: PLC0415 - as above

                rows, count, counted = logged_batches(field, field.data.opened)
                for row in rows:
                    head.put(self._batches)
                    self._batches.put(3, at)
                    self._batches.put_part(4, row)
                    self._batches.end()
            batches += count
            size += len(field.data)
            records += counted
            self._count_activity(totals, head.exchange, exchange, at, field, count, min(counted, LARGEST))
        return put_counts(self._exchanges, batches, min(records, LARGEST), size)

    cdef int _count_activity(
        self, ConnectionTotals totals, int64_t number, Exchange exchange, at, RecordsField field, int64_t batches,
        int64_t records,
    ) except -1:
        cdef Activity activity = totals.activity
        cdef Py_ssize_t before
        if activity is None:
            activity = totals.activity = Activity(totals.connection_id, totals.broker())
        before = len(activity._counts)
        self._held += activity.add(self._activity, number, exchange.client_id, at, field, batches, records) - before
        if self._held > MOST_HELD:
            for totals in self._open.values():
                if totals.activity is not None:
                    totals.activity.write(self._activity)
            self._held = 0
        return 0


cdef object _sent_at(Exchange exchange, str direction):
    cdef Frame frame = exchange.response
    if direction == "produce":
        frame = exchange.request
        return None if frame is None else instant(frame.started_at)
    return None if frame is None else instant(frame.ended_at)


cdef tuple _json(Exchange exchange, bodies):
    """Return the columns of both bodies."""
    known = read_json(exchange) if bodies is None else bodies
    return tuple([None if body is None else body.decode("utf-8", "replace") for body in (known.request, known.response)])
