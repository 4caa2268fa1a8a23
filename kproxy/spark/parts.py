"""Write the rows of one task to Parquet files in a staging folder, by table and day; targets.py moves them into the output.

    STAGING/<table>/day=<YYYY-MM-DD>/<prefix>.parquet

The day is that of the row's own time (UTC). Rows without a time, and rows of further days after MOST_DAYS (a damaged capture may
hold any), get *default_day*.
"""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from kproxy.output.tables import Table
from kproxy.output.tables.parquet import TableFile

if TYPE_CHECKING:
    import pyarrow

TIMES = ("request_at", "at", "response_at", "minute", "first_seen_at")  # the first that a row has gives its day
MOST_DAYS = 32
EPOCH = date(1970, 1, 1)


class PartFile(Struct, frozen=True):
    """A complete file."""

    table: str
    day: str
    path: str
    rows: int


class RowsFile(Protocol):
    """A file for the rows of a table and day."""

    path: Path
    rows: int

    def write(self, batch: "pyarrow.RecordBatch") -> None: ...

    def close(self) -> None: ...


class PartWriter:
    """Writes rows into files by table and day; ``close`` returns the files. Memory: one row group for each file.

    Args:
        staging: a folder that all tasks see.
        prefix: of the names of files, of this task alone.
        default_day: of rows that have none.
    """

    def __init__(self, staging: str, prefix: str, default_day: str) -> None:
        self.default_day = default_day
        self.day: str | None = None  # for rows of tables without a time
        self._staging = Path(staging)
        self._prefix = prefix
        self._files: dict[tuple[str, str], RowsFile] = {}
        self._days: set[str] = {default_day}

    def write(self, table: Table, rows: "pyarrow.RecordBatch") -> None:
        """Add rows of a table."""
        for day, some in self._by_day(rows):
            self._file(table, day).write(some)

    def close(self) -> list[PartFile]:
        """Finish all files."""
        done = []
        for (table, day), file in sorted(self._files.items()):
            file.close()
            done.append(PartFile(table, day, str(file.path), file.rows))
        return done

    def _file(self, table: Table, day: str) -> RowsFile:
        if day not in self._days:
            day = self.default_day if len(self._days) >= MOST_DAYS else day
            self._days.add(day)
        file = self._files.get((table.name, day))
        if file is None:
            file = self._files[table.name, day] = self._open(table, day)
        return file

    def _open(self, table: Table, day: str) -> RowsFile:
        folder = self._staging / table.name / f"day={day}"
        folder.mkdir(parents=True, exist_ok=True)
        return TableFile(table, folder / f"{self._prefix}.parquet")

    def _by_day(self, rows: "pyarrow.RecordBatch") -> list[tuple[str, "pyarrow.RecordBatch"]]:
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
        from pyarrow import compute  # noqa: PLC0415

        names = [name for name in TIMES if name in rows.schema.names]
        if not names:
            return [(self.day or self.default_day, rows)]
        times = [rows.column(name).cast(pa.timestamp("us", "UTC")) for name in names]
        days = compute.coalesce(*times).cast(pa.date32()).cast(pa.int32())
        different: list[Any] = compute.unique(days).to_pylist()
        if len(different) == 1:
            return [(self._name(different[0]), rows)]
        by_day = []
        for each in different:
            mask = compute.is_null(days) if each is None else compute.equal(days, each)
            by_day.append((self._name(each), rows.filter(mask)))
        return by_day

    def _name(self, day: int | None) -> str:
        return self.default_day if day is None else (EPOCH + timedelta(days=day)).isoformat()


def day_of(time_ns: int) -> str:
    """The day (UTC) of a time in a capture, which may be any 64-bit number."""
    try:
        return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return EPOCH.isoformat()
