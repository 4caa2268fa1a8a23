"""What a person names as a source: a capture, a decoded log, or a directory of tables."""

from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kproxy.capture.files import STANDARD_INPUT
from kproxy.errors import CaptureError, UsageError
from kproxy.output.tables.contracts import TABLES
from kproxy.output.tables.parquet import MARKER
from kproxy.pipeline.decoded_log import open_input


class Kind(Enum):
    """The kinds of sources."""

    EVENTS = "captures and decoded logs"
    TABLES = "a directory of tables"


class Source(NamedTuple):
    """One source, which exists and is of that kind."""

    path: Path
    kind: Kind


def look_at(path: Path) -> Source:
    """Tell what kind of source a path is. Raises UsageError for one that is none, or cannot be read."""
    if str(path) == STANDARD_INPUT:
        return Source(path, Kind.EVENTS)
    if not path.exists():
        raise UsageError(f"{path}: no such file")
    if path.is_dir():
        if table_files(path):
            return Source(path, Kind.TABLES)
        if (path / MARKER).is_file():
            raise UsageError(f"{path} has no tables: its Parquet files are gone")
        raise UsageError(f"{path} is a directory without tables; name captures or logs, for instance {path / '*'}")
    if path.is_file():  # a pipe can be opened only once
        try:
            open_input(path).close()
        except CaptureError as error:
            raise UsageError(str(error)) from error
    return Source(path, Kind.EVENTS)


def table_files(directory: Path) -> dict[str, list[Path]]:
    """Table -> its Parquet files, also those that are partitioned into folders."""
    found = {name: sorted((directory / name).rglob("*.parquet")) for name in TABLES if (directory / name).is_dir()}
    return {name: files for name, files in found.items() if files}
