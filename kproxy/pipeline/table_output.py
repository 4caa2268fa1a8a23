"""Turn events into rows of tables, in Arrow batches for Parquet, DuckDB and Spark."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kproxy.errors import UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.tables import Table, Tables, check_available
from kproxy.output.tables.parquet import ParquetDirectory, check_directory
from kproxy.pipeline.output import End, Output, Source
from kproxy.session import Event

if TYPE_CHECKING:
    import pyarrow

Write: TypeAlias = Callable[[Table, Any], None]  # a table, and a pyarrow.RecordBatch of its rows


class TableOutput(Output):
    """Makes table rows of all events.

    Args:
        write: receives each batch of some thousand rows.
        bodies: add the bodies as JSON to the rows of exchanges.
        records: write rows for records, too.
    """

    def __init__(self, write: Write, *, bodies: bool = False, records: bool = False) -> None:
        self.tables = Tables(write, bodies=bodies, records=records)
        self._capture = ""

    def start_source(self, source: Source) -> None:
        self._capture = source.name
        self.tables.viewers = source.viewers

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output. An event that is not shown still counts in its connection's row."""
        self.tables.add(event, self._capture, shown=shown, bodies=bodies)

    def end(self, end: End) -> None:
        if end.side is not None:
            self.tables.ended(end.connection, end.side, end.at)
        elif end.reason is not None:
            self.tables.closed(end.connection, end.reason)

    def flush(self) -> None:
        """See Output. Does nothing: rows are written in groups of some thousands."""

    def close(self, error: BaseException | None = None) -> None:
        """See Output. Writes the last rows, unless the run ended with an error."""
        if error is None:
            self.tables.flush()


def check_parquet(output: Path | None) -> Path:
    """Return the directory to write to. Raises UsageError if it cannot be written to, or pyarrow is missing."""
    check_available()
    if output is None:
        raise UsageError("--format parquet wants a directory: -o DIR")
    check_directory(output)
    return output


class ParquetOutput(TableOutput):
    """Writes the rows of all tables. The tables appear together when the output is closed without an error."""

    needs_frames = False  # kproxy.output.tables.contracts lists the columns that decoded logs lack

    def __init__(self, directory: Path, *, bodies: bool, records: bool) -> None:
        super().__init__(self._write_rows, bodies=bodies, records=records)
        self._directory = ParquetDirectory(directory, self.tables.tables)

    def _write_rows(self, table: Table, batch: "pyarrow.RecordBatch") -> None:
        self._directory.write(table, batch)

    def close(self, error: BaseException | None = None) -> None:
        try:
            super().close(error)
        except BaseException as failed:
            self._directory.__exit__(type(failed), failed, None)
            raise
        self._directory.__exit__(None if error is None else type(error), error, None)
