"""Outputs that Spark itself writes: Delta, Iceberg, and Parquet in a file system of Hadoop. Rows come as chunks of an RDD.

    open_writer(spark, "parquet", "s3a://bucket/tables")      files, then renamed into place as those on a disk (catalog.py)
    open_writer(spark, "delta", "/shared/tables")             a Delta table in each folder, partitioned by cluster and day
    open_writer(spark, "iceberg", "lake.kafka")               tables of a namespace of an Iceberg catalog, likewise

Rows have three more columns: ``source``, the key of the input file, ``cluster`` and ``day``. (In Parquet the last two are
folders, and *source* is in the names of files.) Rows of a group of input files replace earlier rows of these files: in Delta
with one transaction for each table, in Iceberg with two (DELETE, append). A job that is killed in between leaves them
COMMITTING in the catalog, so the next job replaces them again.

Jars of Delta and Iceberg are made for one release of Spark. Tried with Spark 4.1.4, Delta 4.3.1 (io.delta:delta-spark_4.1_2.13)
and Iceberg 1.11.0 (org.apache.iceberg:iceberg-spark-runtime-4.1_2.13), see tests/spark/test_table_formats.py.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from kproxy.errors import UsageError
from kproxy.output.tables import Table
from kproxy.spark.catalog import STAGING, Catalog, Report, Target, safe, tables_of
from kproxy.spark.divided import Result
from kproxy.spark.files import InputFile
from kproxy.spark.folders import Folder
from kproxy.spark.rows import Chunk, Options, PartFile, numbered, spark_schema

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
TIMES_AS = "spark.sql.parquet.outputTimestampType"
ADDED = ("source", "cluster", "day")


class Origin(Struct, frozen=True):
    """The cluster of an input file, and the numbers of its connections (see divided.Result)."""

    cluster: str
    numbers: list[int] | None = None


class Writer(Protocol):
    """Writes the rows of a group of input files."""

    def write(self, table: Table, rows: "DataFrame", sources: Iterable[str]) -> None:
        """Replace the table's rows from the input files with these keys."""


class ParquetWriter:
    """Writes files in a staging folder; ``parts`` lists them by input file, for Catalog.commit.

    Args:
        folder: the output.
        staging: path in it.
    """

    def __init__(self, folder: Folder, staging: str) -> None:
        self.parts: dict[str, list[PartFile]] = {}
        self._folder = folder
        self._staging = staging

    def write(self, table: Table, rows: "DataFrame", sources: Iterable[str]) -> None:
        place = f"{self._staging}/{table.name}"
        rows.sparkSession.conf.set(TIMES_AS, "TIMESTAMP_MICROS")  # the default is INT96, which has no time zone
        writer = rows.drop("cluster").write.mode("overwrite").option("compression", "zstd")
        writer.partitionBy("source", "day").parquet(f"{self._folder.root}/{place}")
        for path in self._folder.files(place, depth=2):
            *_, source, day, _ = path.split("/")
            part = PartFile(table.name, day.removeprefix("day="), f"{self._folder.root}/{path}", 0)
            self.parts.setdefault(source.removeprefix("source="), []).append(part)


class DeltaWriter:
    """Delta tables in the folders of a directory."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def write(self, table: Table, rows: "DataFrame", sources: Iterable[str]) -> None:
        writer = rows.write.format(DELTA).mode("overwrite").option("replaceWhere", _is_from(sources))
        writer.option("mergeSchema", "true").partitionBy("cluster", "day").save(f"{self._root}/{table.name}")


class IcebergWriter:
    """Tables of a namespace."""

    def __init__(self, spark: SparkSession, namespace: str) -> None:
        self._spark = spark
        self._namespace = namespace
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")

    def write(self, table: Table, rows: "DataFrame", sources: Iterable[str]) -> None:
        name = f"{self._namespace}.{table.name}"
        if not self._spark.catalog.tableExists(name):
            rows.writeTo(name).using(ICEBERG).partitionedBy(rows["cluster"], rows["day"]).create()
            return
        self._spark.sql(f"DELETE FROM {name} WHERE {_is_from(sources)}")
        rows.writeTo(name).append()


def _is_from(sources: Iterable[str]) -> str:
    return f"source IN ({', '.join(repr(each) for each in sources)})"


def open_writer(spark: SparkSession, format_name: str, output: str) -> Writer:
    """Open a writer of Delta or Iceberg tables. Raises UsageError if the session lacks the format."""
    check_format(spark, format_name)
    return DeltaWriter(output) if format_name == DELTA else IcebergWriter(spark, output)


def check_format(spark: SparkSession, format_name: str) -> None:
    """Raise UsageError if the session lacks Delta or Iceberg."""
    classes = {DELTA: "io.delta.sql.DeltaSparkSessionExtension", ICEBERG: "org.apache.iceberg.spark.SparkCatalog"}
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Class.forName(
            classes[format_name], False, jvm.java.lang.Thread.currentThread().getContextClassLoader()
        )
    except Exception as error:
        if "ClassNotFoundException" not in str(error):
            raise
        raise UsageError(
            f"this Spark session has no {format_name}: run spark-submit with its --packages and --conf, see its documentation"
        ) from None


def rows_of(spark: SparkSession, chunks: "RDD[Any]", table: Table, origins: dict[str, Origin]) -> "DataFrame":
    """Collect the rows of a table from chunks, with the columns ADDED.

    Args:
        spark: the session.
        chunks: an RDD with chunks; other things in it are left out.
        table: which, with the columns that the chunks have.
        origins: of each input file, by its key.
    """
    schema = StructType(spark_schema(table).fields)
    for name in ADDED:
        schema = schema.add(name, StringType(), nullable=False)
    of_table = {key: o if table.name == "connections" else Origin(o.cluster) for key, o in origins.items()}
    wanted = table.name
    own = chunks.filter(lambda item: isinstance(item, Chunk) and item.table == wanted)
    rows = own.flatMap(partial(_open_chunk, of_table))
    # Row by row, as PySpark passes on Arrow batches of DataFrames only if pandas is installed.
    return spark.createDataFrame(rows, schema, verifySchema=False)


def _open_chunk(origins: dict[str, Origin], chunk: Chunk) -> Iterator[tuple[Any, ...]]:
    origin = origins[chunk.source]
    for batch in pa.ipc.open_stream(chunk.rows):
        rows = batch if origin.numbers is None else numbered(batch, origin.numbers)
        for row in rows.to_pylist():
            yield *row.values(), chunk.source, origin.cluster, chunk.day


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
        keys = [one.key for file, _ in done for one in (file, *file.others)]
        with_rows = {part.table for _, result in done for part in result.files}
        for table in tables_of(self.options):
            if table.name in with_rows or not only_with_rows:
                writer.write(table, rows_of(self._spark, chunks, table, origins), keys)


def _counted(parts: list[PartFile], counts: list[PartFile]) -> list[PartFile]:
    """Give the first part of each table the row count of the whole table, and the others 0."""
    totals: dict[str, int] = {}
    for count in counts:
        totals[count.table] = totals.get(count.table, 0) + count.rows
    return [replace(part, rows=totals.pop(part.table, 0)) for part in parts]
