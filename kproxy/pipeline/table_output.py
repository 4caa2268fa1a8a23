"""TableOutput: events as rows of tables, handed on as Arrow batches; what goes to Parquet, to DuckDB and to Spark."""

from collections.abc import Callable
from typing import Any, TypeAlias

from kproxy.output.bodies import Bodies
from kproxy.output.tables import Table, Tables
from kproxy.pipeline.output import End, Output, Source
from kproxy.session import Event

Write: TypeAlias = Callable[[Table, Any], None]  # a table, and a pyarrow.RecordBatch of its rows


class TableOutput(Output):
    """Makes rows of all events.

    Args:
        write: called with each batch of rows, in groups of some thousands.
        bodies: whether rows of exchanges have their bodies as JSON.
        records: whether there are rows of records.
    """

    def __init__(self, write: Write, *, bodies: bool = False, records: bool = False) -> None:
        self.tables = Tables(write, bodies=bodies, records=records)
        self._capture = ""

    def start_source(self, source: Source) -> None:
        """See Output."""
        self._capture = source.name

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output. An event that is not shown only counts for its connection."""
        self.tables.add(event, self._capture, shown=shown, bodies=bodies)

    def end(self, end: End) -> None:
        """See Output."""
        if end.side is not None:
            self.tables.ended(end.connection, end.side, end.at)
        elif end.reason is not None:
            self.tables.closed(end.connection, end.reason)

    def flush(self) -> None:
        """See Output: rows are written in groups of some thousands."""

    def close(self, error: BaseException | None = None) -> None:
        """See Output. Without an error the last rows are written."""
        if error is None:
            self.tables.flush()
