"""Tables: events in, rows of all tables out."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kproxy.errors import DecodeError
from kproxy.output.bodies import Bodies
from kproxy.output.tables.arrow import Rows
from kproxy.output.tables.bodies import json_of, read_body
from kproxy.output.tables.connections import Seen
from kproxy.output.tables.contracts import BODIES, CONNECTIONS, EXCHANGES, RECORD_BATCHES, RECORDS, Table
from kproxy.output.tables.exchanges import exchange_row, gather_bodies, top_fields
from kproxy.output.tables.record_batches import RecordsField, batch_rows, records_fields
from kproxy.output.tables.records import record_columns
from kproxy.output.tables.times import instant
from kproxy.protocol.embedded.sasl import open_token
from kproxy.session import Event, Exchange

if TYPE_CHECKING:
    import pyarrow

Give = Callable[[Table, "pyarrow.RecordBatch"], None]
SASL_AUTHENTICATE = 36
NO_RECORDS = (None, None, None)


class Tables:
    """Makes the rows of every table from the events of captures.

    Args:
        give: takes the rows of a table, some thousands at a time.
        bodies: add both bodies as JSON to exchanges.
        records: fill the table records too.
    """

    def __init__(self, give: Give, *, bodies: bool = False, records: bool = False) -> None:
        self._give = give
        self._bodies = bodies
        exchanges = EXCHANGES
        if bodies:
            exchanges = dataclasses.replace(EXCHANGES, columns=EXCHANGES.columns + BODIES)
        self.tables = [CONNECTIONS, exchanges, RECORD_BATCHES, *([RECORDS] if records else [])]
        self._records = records
        self._connections = self._rows(CONNECTIONS)
        self._exchanges = self._rows(exchanges)
        self._batches = self._rows(RECORD_BATCHES)
        self._seen: dict[int, Seen] = {}

    def _rows(self, table: Table) -> Rows:
        return Rows(table, lambda batch: self._give(table, batch))

    def take(self, event: Event, capture: str, *, shown: bool = True, bodies: Bodies | None = None) -> None:
        """Take an event of a capture; one that is not *shown* counts for its connection only."""
        number = event.connection.number
        seen = self._seen.get(number)
        if seen is None:
            seen = self._seen[number] = Seen.begin(event, capture)
        if event.connection.tls is not None:
            seen.tls = event.connection.tls
        if isinstance(event, Exchange):
            seen.connection = event.connection  # inside TLS it is another one
            self._take_exchange(event, seen, shown, bodies)
        else:
            seen.count(event)

    def ended(self, number: int, by: str) -> None:
        """Learn that one side (client or broker) closed or reset the connection of that number."""
        seen = self._seen.get(number)
        if seen is not None and seen.closed_by is None:
            seen.closed_by = by

    def closed(self, number: int, reason: str) -> None:
        """Learn that nothing more comes of the connection of that number."""
        seen = self._seen.pop(number, None)
        if seen is not None:
            self._connections.append(seen.row(reason), sum(map(len, seen.client_ids)))

    def flush(self) -> None:
        """Give on all that is held: the end of the last capture."""
        for number in list(self._seen):
            self.closed(number, "end of capture")
        for rows in (self._connections, self._exchanges, self._batches):
            rows.flush()

    def _take_exchange(self, exchange: Exchange, seen: Seen, shown: bool, bodies: Bodies | None) -> None:
        number = seen.count_exchange(exchange)
        sent = (exchange.request, exchange.response)
        request, no_request = read_body(exchange.request)
        response, no_response = read_body(exchange.response)
        found = gather_bodies(exchange, request, response)
        undecoded = no_request or no_response
        seen.errors += bool(found.error_codes)
        seen.undecoded += exchange.undecoded is not None or undecoded is not None
        if exchange.api_key == SASL_AUTHENTICATE and seen.user_name is None and request is not None:
            seen.user_name = _user(request.struct, exchange.connection.sasl_mechanism)
        if not shown:
            return
        carried = records_fields(request, response, exchange.topic_names)
        counts = NO_RECORDS if carried is None else self._take_records(seen.connection_id, number, exchange, carried)
        row = exchange_row(number, exchange, found, top_fields(request, response), undecoded)
        size = sum(map(len, found.topics)) + sum(map(len, found.groups)) + 24 * len(found.topic_ids)
        row = (seen.connection_id, *row, *counts)
        if self._bodies:
            both = (bodies.request, bodies.response) if bodies is not None else tuple(map(json_of, sent))
            row += tuple(None if body is None else body.decode("utf-8", "replace") for body in both)
            size += sum(len(body) for body in both if body is not None)
        self._exchanges.append(row, size + len(exchange.client_id or ""))

    def _take_records(
        self, connection_id: str, number: int, exchange: Exchange, fields: Iterator[RecordsField]
    ) -> tuple[int, int, int]:
        """Rows of record_batches and records; batches, records and bytes."""
        batches = records = size = 0
        sent = (exchange.request, exchange.response)
        for field in fields:
            frame = sent[field.direction == "fetch"]
            at = (
                None if frame is None else instant(frame.started_at if field.direction == "produce" else frame.ended_at)
            )
            found = field.batches()
            problems: dict[int, str] = {}
            if self._records and found:
                columns, problems = record_columns(connection_id, number, field, found)
                self._give(RECORDS, columns)
            batches += len(found)
            size += len(field.data)
            for row in batch_rows(field, found, problems):
                records += max(0, row[COUNT] or 0)
                self._batches.append((connection_id, number, at, *row))
        return batches, records, size


COUNT = [column.name for column in RECORD_BATCHES.columns].index("count") - 3  # in a row from direction on


def _user(request: Any, mechanism: str | None) -> str | None:
    """The user that a client's token names, of the mechanisms that name one in the clear."""
    try:
        name = open_token(request.auth_bytes or b"", mechanism, from_client=True).get("username")
    except DecodeError:
        return None
    return name if isinstance(name, str) and name else None
