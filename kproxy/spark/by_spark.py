"""Tables that Spark writes (writers.py) as the target of ``ingest``: rows come as chunks of an RDD."""

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql import SparkSession

from kproxy.spark.catalog import STAGING, Catalog, safe
from kproxy.spark.divided import Result
from kproxy.spark.file_rows import Options
from kproxy.spark.files import InputFile
from kproxy.spark.parts import PartFile
from kproxy.spark.targets import Report, Target, tables_of
from kproxy.spark.writers import PARQUET, Origin, ParquetWriter, Writer, open_writer, rows_of

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext


class TablesBySpark(Target):
    """See Target. Raises UsageError where the session has no such format."""

    as_chunks = True

    def __init__(
        self,
        context: "SparkContext",
        place: str,
        format_name: str,
        catalog: Catalog,
        options: Options,
        cluster: str | None,
        report: Report,
        job: str,
    ) -> None:
        super().__init__(catalog, options, cluster, report)
        self._spark = SparkSession.builder.getOrCreate()
        self._context = context
        self._staging = f"{STAGING}/{job}"
        self._other = None if format_name == PARQUET else open_writer(self._spark, format_name, place)

    def put(self, done: list[tuple[InputFile, Result]], rows: "RDD[Any] | None") -> None:
        """See Target."""
        chunks: Any = self._context.parallelize([], 1) if rows is None else rows
        try:
            if self._other is None:
                self._put_files(done, chunks)
            else:
                self._put_rows(done, chunks, self._other)
        finally:
            if rows is not None:
                rows.unpersist()

    def _put_files(self, done: list[tuple[InputFile, Result]], chunks: "RDD[Any]") -> None:
        writer = ParquetWriter(self.catalog.folder, self._staging)
        self._write(done, chunks, writer, only_with_rows=True)
        for file, result in done:
            parts = _counted(writer.parts.get(file.key, []), result.files)
            self.report.add(self.catalog.commit(file, self.mark, self.cluster_of(result), parts, result.damages))

    def _put_rows(self, done: list[tuple[InputFile, Result]], chunks: "RDD[Any]", writer: Writer) -> None:
        entries = []
        for file, result in done:
            rows: dict[str, int] = {}
            for part in result.files:
                rows[part.table] = rows.get(part.table, 0) + part.rows
            entries.append(self.catalog.begin(file, self.mark, rows, result.damages))
        self._write(done, chunks, writer, only_with_rows=False)
        for entry in entries:
            self.catalog.finish(entry)
            self.report.add(entry)

    def _write(
        self, done: list[tuple[InputFile, Result]], chunks: "RDD[Any]", writer: Writer, *, only_with_rows: bool
    ) -> None:
        origins = {file.key: Origin(safe(self.cluster_of(result)), result.numbers) for file, result in done}
        with_rows = {part.table for _, result in done for part in result.files}
        for table in tables_of(self.options):
            if table.name in with_rows or not only_with_rows:
                writer.write(table, rows_of(self._spark, chunks, table, origins), list(origins))


def _counted(parts: list[PartFile], counts: list[PartFile]) -> list[PartFile]:
    """Give the first part of each table the row count of the whole table, and the others 0."""
    totals: dict[str, int] = {}
    for count in counts:
        totals[count.table] = totals.get(count.table, 0) + count.rows
    return [replace(part, rows=totals.pop(part.table, 0)) for part in parts]
