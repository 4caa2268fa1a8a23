"""The sources of ``kproxy-spark report`` as DataFrames: directories and namespaces of tables, and files.

    tables/, s3a://bucket/tables       directories of Parquet, as ingest and kproxy decode write them
    lake/, hdfs://node/lake            directories of Delta tables, or of Iceberg tables in a Hadoop catalog
    lake.kafka                         a namespace of an Iceberg catalog of the session
    captures, decoded logs, patterns   read by ingest into a folder that all executors see; without such a folder by the data
                                       source, once for each table, with damages only in the logs of the executors

A frame has the columns of its contract; columns that older tables lack are NULL. It has ``cluster`` and ``day`` if the tables do.
"""

import re
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import functions

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES, Table
from kproxy.spark import hadoop_files
from kproxy.spark.file_rows import Options
from kproxy.spark.files import find_files
from kproxy.spark.folders import Folder, open_folder
from kproxy.spark.ingest import ingest
from kproxy.spark.schemas import contract, spark_schema
from kproxy.spark.source import FORMAT, register
from kproxy.spark.writers import DELTA, ICEBERG, PARQUET, check_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PARTITIONS = ("cluster", "day")
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
NAMESPACE = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)
LONGEST_REASON = 300


class Source(Protocol):
    """One source. ``damages``: why files could not be read to their end."""

    name: str
    damages: list[str]

    def frame(self, table: Table) -> "DataFrame":
        """Return one of its tables."""


def open_source(spark: "SparkSession", name: str, options: Options, scratch: str | None) -> Source:
    """Find out what kind of source it is, and open it.

    Args:
        spark: the session.
        name: as the user wrote it.
        options: which rows to make of files.
        scratch: a new folder for the tables of files, which all executors see, or None.

    Raises UsageError for a source that is none, or needs what the session does not have.
    """
    if NAMESPACE.fullmatch(name) and _is_namespace(spark, name):
        return _Catalog(spark, name)
    folder = _folder(spark, name)
    if folder is not None and any(map(folder.has_folder, TABLES)):
        return _Tables(spark, name, folder)
    return _read_files(spark, name, options, scratch)


def _folder(spark: "SparkSession", name: str) -> Folder | None:
    """The directory of this name; None for patterns, and for schemes that Hadoop does not know."""
    if any(letter in name for letter in "*?[") and "://" in name:
        return None
    try:
        folder = open_folder(spark.sparkContext, name)
        folder.has_folder("")
    except Py4JJavaError as error:
        if not hadoop_files.is_hadoop(name):  # pyarrow's schemes, which Hadoop need not know
            return None
        reason = str(error.java_exception).splitlines()[0][:LONGEST_REASON]
        raise UsageError(f"{name}: Spark's Hadoop cannot open it: {reason}") from None
    return folder


def _is_namespace(spark: "SparkSession", name: str) -> bool:
    try:
        return any(spark.catalog.tableExists(f"{name}.{table}") for table in TABLES)
    except AnalysisException:  # no such catalog
        return False


class _Tables:
    """A directory with a folder for each table."""

    def __init__(self, spark: "SparkSession", name: str, folder: Folder) -> None:
        self.name = name
        self.damages: list[str] = []
        self._spark = spark
        self._folder = folder
        self._format = _format_of(folder)
        if self._format != PARQUET:
            check_format(spark, self._format)

    def frame(self, table: Table) -> "DataFrame":
        """See Source."""
        schema = spark_schema(contract(table.name))
        place = f"{self._folder.root}/{table.name}"
        if not self._folder.has_folder(table.name):
            return _empty(self._spark, schema)
        reader = self._spark.read.format(self._format)
        if self._format == PARQUET:
            reader = reader.option("mergeSchema", "true").option("basePath", place)
        before = self._spark.conf.get(INFERENCE)
        self._spark.conf.set(INFERENCE, "false")  # a cluster called 007 is not the cluster 7
        try:
            return _like(reader.load(place), schema)
        except AnalysisException as error:
            if "UNABLE_TO_INFER_SCHEMA" not in str(error):  # which means that there are no files
                raise
            return _empty(self._spark, schema)
        finally:
            self._spark.conf.set(INFERENCE, before or "true")


def _format_of(folder: Folder) -> str:
    if any(folder.has_folder(f"{table}/_delta_log") for table in TABLES):
        return DELTA
    return ICEBERG if any(folder.has_folder(f"{table}/metadata") for table in TABLES) else PARQUET


class _Catalog:
    """The tables of a namespace of a catalog."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        self.name = name
        self.damages: list[str] = []
        self._spark = spark

    def frame(self, table: Table) -> "DataFrame":
        """See Source."""
        schema, name = spark_schema(contract(table.name)), f"{self.name}.{table.name}"
        return (
            _like(self._spark.table(name), schema)
            if self._spark.catalog.tableExists(name)
            else _empty(self._spark, schema)
        )


class _Files:
    """Captures and decoded logs, through the data source."""

    def __init__(self, spark: "SparkSession", name: str, options: Options) -> None:
        self.name = name
        self.damages: list[str] = []
        self._spark = spark
        self._options = options
        register(spark)

    def frame(self, table: Table) -> "DataFrame":
        """See Source."""
        if table.optional and not self._options.records:
            return _empty(self._spark, spark_schema(contract(table.name)))
        reader = self._spark.read.format(FORMAT).option("table", table.name)
        if self._options.keylog is not None:
            reader = reader.option("keylog", self._options.keylog)
        return reader.load(self.name)


def _read_files(spark: "SparkSession", name: str, options: Options, scratch: str | None) -> Source:
    if scratch is None:
        if hadoop_files.is_hadoop(name):
            raise UsageError(
                f"{name} has no tables; captures there are read with --staging, or by kproxy-spark ingest before"
            )
        find_files([name])
        return _Files(spark, name, options)
    done = ingest(spark.sparkContext, [name], scratch, options=options)
    read = _Tables(spark, name, open_folder(None, scratch))
    read.damages = done.problems
    return _Unpartitioned(read)


class _Unpartitioned:
    """Tables made of files for this report, without cluster and day."""

    def __init__(self, tables: _Tables) -> None:
        self.name = tables.name
        self.damages = tables.damages
        self._tables = tables

    def frame(self, table: Table) -> "DataFrame":
        """See Source."""
        return self._tables.frame(table).drop(*PARTITIONS)


def _empty(spark: "SparkSession", schema: "StructType") -> "DataFrame":
    return spark.createDataFrame([], schema)


def _like(frame: "DataFrame", schema: "StructType") -> "DataFrame":
    """Select the contract's columns, and as text those of PARTITIONS that the frame has."""
    have = set(frame.columns)
    columns = [
        (functions.col(field.name) if field.name in have else functions.lit(None))
        .cast(field.dataType.simpleString())
        .alias(field.name)
        for field in schema.fields
    ]
    return frame.select(
        columns + [functions.col(name).cast("string").alias(name) for name in PARTITIONS if name in have]
    )
