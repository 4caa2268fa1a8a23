"""Targets of ``ingest``: files moved into place on a disk; by_spark.py has the target for other outputs."""

from abc import ABC, abstractmethod
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from kproxy.output.tables import TABLES, Table, Tables
from kproxy.spark.catalog import UNKNOWN, Catalog, Entry
from kproxy.spark.divided import Result
from kproxy.spark.file_rows import Options
from kproxy.spark.files import InputFile

if TYPE_CHECKING:
    from pyspark import RDD


class Report(Struct):
    """What a job of ``ingest`` did."""

    read: int = 0
    skipped: int = 0  # in the output already
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Count an ingested file."""
        self.read += 1
        self.problems += entry.problems
        for table, count in entry.rows.items():
            self.rows[table] = self.rows.get(table, 0) + count


class Target(ABC):
    """Puts rows into the output. as_chunks: it takes an RDD of chunks, not the files of each Result."""

    as_chunks = False

    def __init__(self, catalog: Catalog, options: Options, cluster: str | None, report: Report) -> None:
        self.catalog = catalog
        self.options = options
        self.report = report
        self.mark = mark_of(options, cluster)
        self._cluster = cluster

    @abstractmethod
    def put(self, done: list[tuple[InputFile, Result]], rows: "RDD[Any] | None") -> None:
        """Put the rows of files into the output, in place of those of an earlier run."""

    def cluster_of(self, result: Result) -> str:
        """The cluster whose traffic a file holds."""
        return self._cluster or min(result.cluster_ids, default=UNKNOWN)


class FilesOnDisk(Target):
    """Parquet files on a disk, which tasks have written already."""

    def put(self, done: list[tuple[InputFile, Result]], rows: "RDD[Any] | None") -> None:
        """See Target."""
        for file, result in done:
            name = self.cluster_of(result)
            self.report.add(self.catalog.commit(file, self.mark, name, result.files, result.damages, result.numbers))


def tables_of(options: Options) -> list[Table]:
    """The tables that get rows with these options."""
    return list(Tables(lambda table, rows: None, bodies=options.bodies, records=options.records).tables)


def mark_of(options: Options, cluster: str | None) -> str:
    """A hash of what decides which rows are made: options, and versions of the tables."""
    versions = {name: (table.version, len(table.columns)) for name, table in TABLES.items()}
    text = msgspec.json.encode([options, cluster, versions])
    return blake2b(text, digest_size=8).hexdigest()
