"""Parquet files of tables: a directory with one folder for each table, DIR/exchanges/part-00000.parquet.

Files are written as ``*.tmp`` and renamed at the end, when all are complete; then ``_kproxy.json`` says who wrote the tables, and
lists them with their contracts and numbers of rows. A directory without it is not finished. Row groups are bounded in rows
and bytes, so that memory does not grow with the capture.
"""

import contextlib
import functools
import json
import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from kproxy.errors import UsageError
from kproxy.output.tables.contracts import TABLES, Column, Table

if TYPE_CHECKING:
    import pyarrow

MARKER = "_kproxy.json"
WRITER = "kproxy decode"
ENTRIES = "_kproxy/files"
PART = "part-00000.parquet"
OURS = re.compile(r"part-\d{5}\.parquet(\.tmp)?")
GROUP_ROWS = 131_072
GROUP_BYTES = 16 * 1024 * 1024  # in Arrow's memory
# A dictionary of values that hardly repeat costs time for nothing, and without it they need half the space.
HARDLY_REPEATED = frozenset(
    {
        "exchange",
        "request_at",
        "response_at",
        "seen_at",
        "latency_ms",
        "correlation_id",
        "partition_offset",
        "timestamp",
        "value",
    }
    | {"appended_offset", "base_offset", "last_offset", "base_timestamp", "max_timestamp", "base_sequence"}
    | {"first_seen_at", "last_seen_at", "request_json", "response_json"}
)
LEVEL = 1  # of zstd: 3 takes twice the time for a few per cent


def check_directory(path: Path) -> None:
    """Raise UsageError if a directory has other files than tables of kproxy and what Spark keeps beside tables."""
    if path.is_dir():
        strange = next((entry.name for entry in sorted(path.iterdir()) if not _is_ours(entry)), None)
        if strange is not None:
            raise UsageError(
                f"{path} has other things in it ({strange}); -o wants a new or empty directory, or one of tables"
            )
    elif path.exists():
        raise UsageError(f"{path} is a file; --format parquet wants a directory for -o")
    elif not path.parent.is_dir():
        raise UsageError(f"{path} cannot be created: its folder does not exist")


def _is_ours(entry: Path) -> bool:
    if entry.is_dir():
        is_table = entry.name in TABLES and all(OURS.fullmatch(file.name) for file in entry.iterdir())
        return is_table or entry.name.startswith("_")  # as _checkpoint
    return entry.name in (MARKER, f"{MARKER}.tmp")


def marker_text(writer: str, rows: Mapping[str, int]) -> str:
    """Return the content of MARKER. *rows*: of each table; empty if they are not known."""
    tables = {
        name: {"contract": table.version} | ({"rows": rows[name]} if rows else {})
        for name, table in TABLES.items()
        if name in rows or not rows
    }
    return json.dumps({"writer": writer, "tables": tables}, indent=1) + "\n"


def check_marker(place: str, content: bytes | None, there: Container[str] = TABLES, writer: str | None = None) -> None:
    """Raise UsageError if the tables of a directory are not complete, not ours, or of another writer than *writer*.

    *content*: of its MARKER; None: it has none. *there*: the tables that the directory has.
    """
    if content is None:
        raise UsageError(
            f"{place} is not complete: it has no {MARKER}, which is written last; read the captures again, into a new directory"
        )
    try:
        said = msgspec.json.decode(content, type=Marker)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{place}/{MARKER} is not as kproxy writes it: {error}") from None
    if writer is not None and said.writer != writer:
        raise UsageError(f"{place} has tables of {said.writer}; {writer} wants a directory of its own")
    for name, table in said.tables.items():
        if name not in TABLES or table.contract != TABLES[name].version:
            ours = f"version {TABLES[name].version}" if name in TABLES else "no such table"
            raise UsageError(
                f"{place} was written by another kproxy: its {name} has version {table.contract}, this kproxy has {ours}; "
                "read the captures again, into a new directory"
            )
        if table.rows and name not in there:
            raise UsageError(
                f"{place} is not complete: its table {name} is gone; read the captures again, into a new directory"
            )


def missing_parts(directory: Path) -> list[str]:
    """Return a sentence if files of ingest are gone from days that have others; days may be removed as a whole."""
    parts = [directory / part for file in sorted((directory / ENTRIES).glob("*.json")) for part in _parts_of(file)]
    gone = [part for part in parts if not part.exists() and part.parent.exists()]
    more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
    return [f"{part}{more}: gone, and so are its rows; kproxy-spark ingest --again writes them" for part in gone[:1]]


def _parts_of(file: Path) -> list[str]:
    """Return the files that an entry of ingest names. A damaged entry names none: ingest writes it again."""
    try:
        entry = msgspec.json.decode(file.read_bytes(), type=Written)
    except msgspec.MsgspecError:
        return []
    return entry.parts if entry.state == "done" else []


class Written(msgspec.Struct):
    """What is read of an Entry of kproxy.spark.catalog: the files with the rows of a capture."""

    state: str
    parts: list[str] = []


class MarkedTable(msgspec.Struct):
    """What MARKER says of a table."""

    contract: int
    rows: int = 0  # 0: they were not counted, too


class Marker(msgspec.Struct):
    """The content of MARKER."""

    tables: dict[str, MarkedTable]
    writer: str = WRITER


class TableFile:
    """One Parquet file that is being written."""

    def __init__(self, table: Table, path: Path) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - heavy, and an extra

        self.table = table
        self.path = path
        self.rows = 0
        repeated = [column for column in table.columns if column.name not in HARDLY_REPEATED]
        self._writer = pq.ParquetWriter(
            path,
            schema_of(table),
            compression="zstd",
            compression_level=LEVEL,
            use_dictionary=[leaf for column in repeated for leaf in _leaves(column)],
        )
        self._group: list[Any] = []
        self._group_rows = 0
        self._group_bytes = 0

    def write(self, batch: "pyarrow.RecordBatch") -> None:
        """Add rows; they are written when there are enough for a row group."""
        self._group.append(batch)
        self._group_rows += batch.num_rows
        self._group_bytes += batch.nbytes
        if self._group_rows >= GROUP_ROWS or self._group_bytes >= GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write the last row group and the file's footer."""
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Stop writing; the caller removes the incomplete file."""
        with contextlib.suppress(Exception):  # the error that ended the writing is already on its way to the caller
            self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        if self._group:
            self._writer.write_table(pa.Table.from_batches(self._group), row_group_size=GROUP_ROWS)
        self.rows += self._group_rows
        self._group, self._group_rows, self._group_bytes = [], 0, 0


def _leaves(column: Column) -> list[str]:
    """Return the paths of the leaf columns of a field in Parquet."""
    if not column.type.startswith("list<"):
        return [column.name]
    struct = STRUCT.search(column.type)
    members = [] if struct is None else [f".{name}" for name, _ in members_of(struct)]
    return [f"{column.name}.list.element{member}" for member in members or [""]]


class ParquetDirectory:
    """The directory of tables that a run writes. Use it as a context manager: after an error, none of its files is left.

    Tables that the directory already has are replaced at the end.
    """

    def __init__(self, path: Path, tables: Iterable[Table]) -> None:
        check_directory(path)
        self.path = path
        self._files: dict[str, TableFile] = {}
        self._made = [folder for folder in (path, *(path / table.name for table in tables)) if _make(folder)]
        for table in tables:
            self._files[table.name] = TableFile(table, path / table.name / f"{PART}.tmp")

    def write(self, table: Table, batch: "pyarrow.RecordBatch") -> None:
        self._files[table.name].write(batch)

    def __enter__(self) -> "ParquetDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        else:
            self._abandon()

    def _finish(self) -> None:
        for file in self._files.values():
            file.close()
        (self.path / MARKER).unlink(missing_ok=True)
        for name in TABLES:
            for old in (self.path / name).glob("part-*.parquet"):
                old.unlink()
        for file in self._files.values():
            file.path.rename(file.path.with_suffix(""))
        for name in TABLES.keys() - self._files.keys():
            with contextlib.suppress(OSError):
                (self.path / name).rmdir()
        marker = self.path / f"{MARKER}.tmp"
        marker.write_text(
            marker_text(WRITER, {name: file.rows for name, file in self._files.items()}), encoding="utf-8"
        )
        marker.rename(self.path / MARKER)

    def _abandon(self) -> None:
        for file in self._files.values():
            file.abandon()
            file.path.unlink(missing_ok=True)
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _make(folder: Path) -> bool:
    """Make a folder; return False if there is one already. Raises UsageError."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}") from error
    return True


LIST = re.compile(r"list<(.+)>")
STRUCT = re.compile(r"struct<(.+)>")


def members_of(struct: re.Match[str]) -> list[tuple[str, str]]:
    """Return the names and types in a struct."""
    pairs = (member.partition(": ") for member in struct[1].split(", "))
    return [(name, kind) for name, _, kind in pairs]


def check_available() -> None:
    """Raise UsageError where pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - heavy, and an extra
    except ImportError:
        raise UsageError("--format parquet needs pyarrow: pip install 'kproxy-kafka[parquet]'") from None


def arrow_type(text: str) -> "pyarrow.DataType":
    """Return the Arrow type for a type as the contracts write it. Raises KeyError or ValueError for any other text."""
    import pyarrow as pa  # noqa: PLC0415

    if inner := LIST.fullmatch(text):
        return pa.list_(pa.field("element", arrow_type(inner[1]), nullable=False))
    if inner := STRUCT.fullmatch(text):
        return pa.struct([pa.field(name, arrow_type(kind), nullable=name != "key") for name, kind in members_of(inner)])
    if text.startswith("timestamp["):
        return pa.timestamp(text[10:12], "UTC")
    return pa.type_for_alias(text)


@functools.cache
def schema_of(table: Table) -> "pyarrow.Schema":
    """Return the Arrow schema of a table, with the texts of the contract as metadata."""
    import pyarrow as pa  # noqa: PLC0415

    metadata = {"kproxy.table": table.name, "kproxy.contract": str(table.version), "kproxy.row": table.row}
    metadata["kproxy.since"] = table.since
    return pa.schema(list(map(_field, table.columns)), metadata=metadata)


def _field(column: Column) -> "pyarrow.Field":
    import pyarrow as pa  # noqa: PLC0415

    words = {"comment": column.meaning, "since": column.since, **({"unit": column.unit} if column.unit else {})}
    return pa.field(column.name, arrow_type(column.type), column.nullable, words)
