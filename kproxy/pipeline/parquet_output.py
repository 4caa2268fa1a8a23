"""``kproxy decode --format parquet``: events to the files of tables."""

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from kproxy.capture import Closed, Ended
from kproxy.errors import UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.tables import Table, Tables, check_available
from kproxy.output.tables.parquet import ParquetDirectory, check_directory
from kproxy.session import Event

if TYPE_CHECKING:
    import pyarrow

SIDES = ("client", "broker")


def check_parquet(output: Path | None) -> Path:
    """The directory to write to. Raises UsageError for one that will not do, and where pyarrow is missing."""
    check_available()
    if output is None:
        raise UsageError("--format parquet wants a directory: -o DIR")
    check_directory(output)
    return output


class ParquetOutput:
    """Takes events; use it as a context manager. The tables are there when it ends without an error."""

    def __init__(self, directory: Path, *, bodies: bool, records: bool) -> None:
        self._tables = Tables(self._give, bodies=bodies, records=records)
        self._directory = ParquetDirectory(directory, self._tables.tables)
        self._capture = ""

    def _give(self, table: Table, batch: "pyarrow.RecordBatch") -> None:
        self._directory.write(table, batch)

    def begin(self, file: Path) -> None:
        """Learn which capture the events from now on are of."""
        self._capture = file.name

    def take(self, event: Event, bodies: Bodies | None, *, shown: bool) -> None:
        """Take an event; one that is not shown only counts for its connection."""
        self._tables.take(event, self._capture, shown=shown, bodies=bodies)

    def ended(self, number: int, item: Ended | Closed) -> None:
        """Learn that a side of a connection, or all of it, has ended."""
        if isinstance(item, Ended):
            self._tables.ended(number, SIDES[item.direction])
        else:
            self._tables.closed(number, item.reason)

    def __enter__(self) -> "ParquetOutput":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._tables.flush()
        except BaseException as failed:
            self._directory.__exit__(type(failed), failed, None)
            raise
        self._directory.__exit__(kind, error, trace)
