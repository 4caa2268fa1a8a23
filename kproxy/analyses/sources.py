"""The sources of a report: captures, decoded logs and directories of tables."""

import os
import re
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kproxy.capture.reader import STANDARD_INPUT
from kproxy.errors import UsageError
from kproxy.output.tables.contracts import TABLES
from kproxy.output.tables.parquet import MARKER
from kproxy.pipeline.decoded_log import open_named

SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:/")  # of a URI; Path makes one slash of two
LOGS = {"_delta_log": "Delta", "metadata": "Iceberg"}  # folders with which a table lists its current files


class Kind(Enum):
    """The kinds of sources."""

    EVENTS = "captures and decoded logs"
    TABLES = "a directory of tables"


class Source(NamedTuple):
    """One source, which exists and is of that kind."""

    path: Path
    kind: Kind


def look_at(path: Path) -> Source:
    """Find out what kind of source a path is. Raises UsageError if it is none, or cannot be read."""
    if str(path) == STANDARD_INPUT:
        return Source(path, Kind.EVENTS)
    if not path.exists():
        if SCHEME.match(str(path)):
            raise UsageError(f"{path}: this reads files of this machine; kproxy-spark report reads object stores, too")
        raise UsageError(f"{path}: no such file")
    if path.is_dir():
        _refuse_table_formats(path)
        if table_files(path):
            return Source(path, Kind.TABLES)
        if (path / MARKER).is_file():
            raise UsageError(f"{path} has no tables: its Parquet files are gone")
        raise UsageError(f"{path} is a directory without tables; name captures or logs, for instance {path / '*'}")
    if path.is_file() or path.samefile(os.devnull):  # a pipe can be opened only once
        open_named(path).close()
    return Source(path, Kind.EVENTS)


def _refuse_table_formats(directory: Path) -> None:
    """Raise UsageError for Delta and Iceberg: their folders also hold Parquet files that are no longer part of the table."""
    for name in TABLES:
        for log, kind in LOGS.items():
            if (directory / name / log).is_dir():
                raise UsageError(
                    f"{directory} has tables of {kind}: kproxy-spark report reads them, with a Spark that has {kind}"
                )


def table_files(directory: Path) -> dict[str, list[Path]]:
    """Table -> its Parquet files, including those in folders of partitions."""
    tables = {name: sorted((directory / name).rglob("*.parquet")) for name in TABLES if (directory / name).is_dir()}
    return {name: files for name, files in tables.items() if files}
