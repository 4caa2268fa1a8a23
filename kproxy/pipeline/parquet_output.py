"""Write events as tables: a directory with a folder of Parquet files for each table."""

from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.errors import UsageError
from kproxy.output.tables import Table, check_available
from kproxy.output.tables.parquet import ParquetDirectory, check_directory
from kproxy.pipeline.table_output import TableOutput

if TYPE_CHECKING:
    import pyarrow


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
        """See Output."""
        try:
            super().close(error)
        except BaseException as failed:
            self._directory.__exit__(type(failed), failed, None)
            raise
        self._directory.__exit__(None if error is None else type(error), error, None)
