"""Write events as tables: a directory with a folder of Parquet files for each table."""

from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.errors import UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.tables import Table, Tables, check_available
from kproxy.output.tables.parquet import ParquetDirectory, check_directory
from kproxy.pipeline.output import End, Output, Source
from kproxy.session import Event

if TYPE_CHECKING:
    import pyarrow


def check_parquet(output: Path | None) -> Path:
    """The directory to write to. Raises UsageError for one that cannot be written to, and where pyarrow is missing."""
    check_available()
    if output is None:
        raise UsageError("--format parquet wants a directory: -o DIR")
    check_directory(output)
    return output


class ParquetOutput(Output):
    """Rows of all tables. The tables appear, all at once, when the output is closed without an error."""

    def __init__(self, directory: Path, *, bodies: bool, records: bool) -> None:
        self._tables = Tables(self._write_rows, bodies=bodies, records=records)
        self._directory = ParquetDirectory(directory, self._tables.tables)
        self._capture = ""

    def _write_rows(self, table: Table, batch: "pyarrow.RecordBatch") -> None:
        self._directory.write(table, batch)

    def flush(self) -> None:
        """See Output: nothing appears before the end, and rows are written in groups of some thousands."""

    def start_source(self, source: Source) -> None:
        """See Output."""
        self._capture = source.name

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output. An event that is not shown only counts for its connection."""
        self._tables.add(event, self._capture, shown=shown, bodies=bodies)

    def end(self, end: End) -> None:
        """See Output."""
        if end.side is not None:
            self._tables.ended(end.connection, end.side)
        elif end.reason is not None:
            self._tables.closed(end.connection, end.reason)

    def close(self, error: BaseException | None = None) -> None:
        """See Output."""
        try:
            if error is None:
                self._tables.flush()
        except BaseException as failed:
            self._directory.__exit__(type(failed), failed, None)
            raise
        self._directory.__exit__(None if error is None else type(error), error, None)
