"""The sources of ``kproxy-spark report`` as DataFrames: directories and namespaces of tables, and files.

    tables/, s3a://bucket/tables       directories of Parquet, as ingest and kproxy decode write them
    lake/, hdfs://node/lake            directories of Delta tables, or of Iceberg tables in a Hadoop catalog
    lake.kafka                         a namespace of an Iceberg catalog of the session
    captures, decoded logs, patterns   read by ingest into a folder that all executors see

A frame has the columns of its contract; columns that older tables lack are NULL. It has ``cluster`` and ``day`` if the tables do.
"""

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import functions

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES, Table
from kproxy.spark.files import is_hadoop
from kproxy.spark.folders import Folder, open_folder
from kproxy.spark.ingest import ingest
from kproxy.spark.rows import Options, contract, spark_schema
from kproxy.spark.writers import DELTA, ICEBERG, PARQUET, check_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PARTITIONS = ("cluster", "day")
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
NAMESPACE = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)
LONGEST_REASON = 300


class Source(Struct, frozen=True):
    """One source. damages: why files could not be read to their end."""

    name: str
    tables: "dict[str, DataFrame]"
    damages: list[str] = []


def open_source(spark: "SparkSession", name: str, options: Options, scratch: str | None) -> Source:
    """Find out what kind of source it is, and open it.

    Args:
        spark: the session.
        name: as the user wrote it.
        options: which rows to make of files.
        scratch: a new folder for the tables of files, which all executors see; None: files cannot be read.

    Raises UsageError for a source that is none, or needs what the session does not have.
    """
    if NAMESPACE.fullmatch(name) and _is_namespace(spark, name):
        return Source(name, {table.name: _of_namespace(spark, name, table) for table in TABLES.values()})
    folder = _folder(spark, name)
    if folder is not None and any(map(folder.has_folder, TABLES)):
        return Source(name, _tables_in(spark, folder))
    if scratch is None:
        raise UsageError(f"{name} has no tables; files are read with --staging, or by kproxy-spark ingest before")
    ingested = ingest(spark.sparkContext, [name], scratch, options=options)
    tables = _tables_in(spark, open_folder(None, scratch))
    return Source(name, {table: frame.drop(*PARTITIONS) for table, frame in tables.items()}, ingested.problems)


def _folder(spark: "SparkSession", name: str) -> Folder | None:
    """The directory of this name; None for patterns, and for schemes that Hadoop does not know."""
    if any(letter in name for letter in "*?[") and "://" in name:
        return None
    try:
        folder = open_folder(spark.sparkContext, name)
        folder.has_folder("")
    except Py4JJavaError as error:
        if not is_hadoop(name):  # pyarrow's schemes, which Hadoop need not know
            return None
        reason = str(error.java_exception).splitlines()[0][:LONGEST_REASON]
        raise UsageError(f"{name}: Spark's Hadoop cannot open it: {reason}") from None
    return folder


def _is_namespace(spark: "SparkSession", name: str) -> bool:
    try:
        return any(spark.catalog.tableExists(f"{name}.{table}") for table in TABLES)
    except AnalysisException:  # no such catalog
        return False


def _of_namespace(spark: "SparkSession", name: str, table: Table) -> "DataFrame":
    schema, full_name = spark_schema(contract(table.name)), f"{name}.{table.name}"
    return _like(spark.table(full_name), schema) if spark.catalog.tableExists(full_name) else _empty(spark, schema)


def _tables_in(spark: "SparkSession", folder: Folder) -> "dict[str, DataFrame]":
    """The tables of a directory that has a folder for each."""
    kind = _format_of(folder)
    if kind != PARQUET:
        check_format(spark, kind)
    return {table.name: _of_folder(spark, folder, kind, table) for table in TABLES.values()}


def _of_folder(spark: "SparkSession", folder: Folder, kind: str, table: Table) -> "DataFrame":
    schema, place = spark_schema(contract(table.name)), f"{folder.root}/{table.name}"
    if not folder.has_folder(table.name):
        return _empty(spark, schema)
    reader = spark.read.format(kind)
    if kind == PARQUET:
        reader = reader.option("mergeSchema", "true").option("basePath", place)
    before = spark.conf.get(INFERENCE)
    spark.conf.set(INFERENCE, "false")  # a cluster called 007 is not the cluster 7
    try:
        return _like(reader.load(place), schema)
    except AnalysisException as error:
        if "UNABLE_TO_INFER_SCHEMA" not in str(error):  # which means that there are no files
            raise
        return _empty(spark, schema)
    finally:
        spark.conf.set(INFERENCE, before or "true")


def _format_of(folder: Folder) -> str:
    if any(folder.has_folder(f"{table}/_delta_log") for table in TABLES):
        return DELTA
    return ICEBERG if any(folder.has_folder(f"{table}/metadata") for table in TABLES) else PARQUET


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
