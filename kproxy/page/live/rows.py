"""LiveRows: exchanges as rows of all tables, collected until they are shown."""

import functools
from collections import deque
from typing import TYPE_CHECKING, Any

from kproxy.output.entities import Entities
from kproxy.output.escaping import well_formed
from kproxy.output.tables import TABLES, Table, Tables, schema_of
from kproxy.page.columns import ADDED
from kproxy.page.live.files import Part, least, most
from kproxy.page.recorded import client_facts, login_of
from kproxy.session import Event, Exchange

if TYPE_CHECKING:
    import pyarrow

SOURCE = "live"  # what the column ``capture`` of connections has
OPEN = "end of capture"  # the value of ``closed`` for open connections: findings look for it


class LiveRows:
    """The rows that are not shown yet.

    Args:
        count: exchanges before them that have no rows.
    """

    def __init__(self, count: int = 0) -> None:
        self._tables = Tables(self._take)
        self._entities = Entities()
        self._batches: dict[str, list[Any]] = {}
        self._added: deque[tuple[Any, ...]] = deque()  # values of the columns ADDED
        self.count = count  # exchanges
        self._first_ns: int | None = None
        self._last_ns: int | None = None

    def add(self, number: int, exchange: Exchange) -> None:
        """Add an exchange under its number."""
        connection, request, response = exchange.connection, exchange.request, exchange.response
        request_ns = None if request is None else request.started_at
        response_ns = None if response is None else response.ended_at
        ends = connection.number, connection.client, connection.broker
        self._added.append(
            (number, *ends, request_ns, response_ns, self._principal(exchange), *client_facts(connection))
        )
        self._tables.add(exchange, SOURCE)  # which may write rows, this one among them
        self._first_ns = least(self._first_ns, request_ns)
        self._last_ns = most(self._last_ns, request_ns if response_ns is None else response_ns)
        self.count += 1

    def note(self, event: Event) -> None:
        """Count an event that is no exchange for its connection; a mere Event makes the connection known."""
        self._tables.add(event, SOURCE)

    def ended(self, number: int, side: str | None, at: int, reason: str | None) -> None:
        """Note the end of a connection, or of one side of it."""
        if side is not None:
            self._tables.ended(number, side, at)
        else:
            self._tables.closed(number, reason or "finished")

    def note_activity(self) -> None:
        """Make rows of what the open connections did so far."""
        self._tables.write_activity()

    def take(self, first: int) -> Part:
        """Return the rows since the last call; *first* is the number of their first exchange."""
        self._tables.write_rows()
        part = Part(first, first + self.count - 1, self._first_ns, self._last_ns, {}, self._batches)
        self._batches, self.count, self._first_ns, self._last_ns = {}, 0, None, None
        return part

    def open_connections(self) -> "list[pyarrow.RecordBatch]":
        """Return the present rows of the open connections."""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        batches: list[Any] = []
        self._tables.write_open(OPEN, lambda table, batch: batches.append(batch))
        return [pa.RecordBatch.from_arrays(batch.columns, schema=schemas()["connections"]) for batch in batches]

    def _principal(self, exchange: Exchange) -> str | None:
        """Return the principal as tables of a capture have it; for logins before the feed began, as the analyzer knows it."""
        seen = self._entities.principal(exchange, login_of(exchange))
        connection = exchange.connection
        if seen is not None or (connection.user_name is None and connection.tls_to_proxy is None):
            return seen
        tls = connection.tls_to_proxy
        known = connection.user_name or (None if tls is None else tls.client_certificate)
        return None if known is None else well_formed(known)

    def _take(self, table: Table, batch: "pyarrow.RecordBatch") -> None:
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        schema, arrays = schemas()[table.name], list(batch.columns)
        if table.name == "exchanges":
            added = zip(*(self._added.popleft() for _ in range(batch.num_rows)), strict=True)
            kinds = schema.types[len(arrays) :]
            arrays += [pa.array(values, kind) for values, kind in zip(added, kinds, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        self._batches.setdefault(table.name, []).append(batch)


@functools.cache
def schemas() -> "dict[str, pyarrow.Schema]":
    """Return the columns of each table, those ADDED to exchanges included; without descriptions, which each file would repeat."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    by_table = {name: pa.schema([pa.field(f.name, f.type) for f in schema_of(table)]) for name, table in TABLES.items()}
    for name, sql in ADDED.items():
        kind = pa.string() if sql == "VARCHAR" else pa.int64()
        by_table["exchanges"] = by_table["exchanges"].append(pa.field(name, kind))
    return by_table
