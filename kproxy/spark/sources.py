"""The sources of ``kproxy-spark report`` that have tables, as DataFrames: directories and namespaces.

    tables/, s3a://bucket/tables       directories of Parquet, as ingest and kproxy decode write them
    lake/, hdfs://node/lake            directories of Delta tables, or of Iceberg tables in a Hadoop catalog
    lake.kafka                         a namespace of an Iceberg catalog of the session

A frame has the columns of its contract; columns that older tables lack are NULL. It has ``cluster`` and ``day`` if the tables do.
"""

from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec import Struct
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession, functions

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES, Table
from kproxy.output.tables.parquet import MARKER, check_marker
from kproxy.spark.catalog import safe
from kproxy.spark.files import is_hadoop, may_be_namespace
from kproxy.spark.folders import Folder, open_folder
from kproxy.spark.rows import TIMES, contract, spark_schema
from kproxy.spark.session import LONGEST_REASON
from kproxy.spark.writers import DELTA, ICEBERG, PARQUET, check_format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from kproxy.spark.report import Narrowed

PARTITIONS = ("cluster", "day")
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
DAY_FORMAT = "yyyy-MM-dd"
MOST_NAMED = 20


class Source(Struct, frozen=True):
    name: str
    tables: "dict[str, DataFrame]"


def is_tables(context: "SparkContext", name: str) -> bool:
    """Whether it is a folder of tables, or a namespace. Raises UsageError for a place that Hadoop cannot open."""
    if _folder_of_tables(context, name) is not None:
        return True
    return may_be_namespace(name) and _has_tables(name)


def format_of_output(spark: "SparkSession", name: str) -> str:
    """Return iceberg for a namespace of a catalog of the session, else parquet. Raises UsageError for another catalog."""
    catalog = name.partition(".")[0]
    kind = spark.conf.get(f"spark.sql.catalog.{catalog}", "") if may_be_namespace(name) else ""
    if kind and not kind.startswith("org.apache.iceberg."):
        raise UsageError(f"{catalog} is a catalog of {kind[:LONGEST_REASON]}; ingest writes catalogs of Iceberg")
    return ICEBERG if kind else PARQUET


def open_source(spark: "SparkSession", name: str) -> Source:
    """Open a folder of tables, or a namespace. Raises UsageError if it needs what the session does not have."""
    folder = _folder_of_tables(spark.sparkContext, name)
    if folder is not None:
        return Source(name, _tables_in(spark, folder))
    return Source(name, {table.name: _of_namespace(spark, name, table) for table in TABLES.values()})


def open_tables(spark: "SparkSession", folder: str) -> "dict[str, DataFrame]":
    return _tables_in(spark, open_folder(None, folder))


def _folder_of_tables(context: "SparkContext", name: str) -> Folder | None:
    folder = _folder(context, name)
    return folder if folder is not None and any(map(folder.has_folder, TABLES)) else None


def _folder(context: "SparkContext", name: str) -> Folder | None:
    """The directory of this name; None for patterns, and for schemes that Hadoop does not know."""
    if any(letter in name for letter in "*?[") and "://" in name:
        return None
    try:
        return open_folder(context, name)
    except UsageError:
        if is_hadoop(name):
            raise
        return None  # pyarrow's schemes, which Hadoop need not know


def _has_tables(name: str) -> bool:
    spark = SparkSession.builder.getOrCreate()
    try:
        return any(spark.catalog.tableExists(f"{name}.{table}") for table in TABLES)
    except AnalysisException:  # no such catalog
        return False


def _of_namespace(spark: "SparkSession", name: str, table: Table) -> "DataFrame":
    schema, full_name = spark_schema(contract(table.name)), f"{name}.{table.name}"
    return _like(spark.table(full_name), schema) if spark.catalog.tableExists(full_name) else _empty(spark, schema)


def _tables_in(spark: "SparkSession", folder: Folder) -> "dict[str, DataFrame]":
    kind, content = _format_of(folder), folder.read(MARKER)
    if kind != PARQUET:
        check_format(spark, kind)
    if kind == PARQUET or content is not None:
        check_marker(folder.root, content, set(filter(folder.has_folder, TABLES)))
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
        .alias(field.name, metadata=field.metadata)
        for field in schema.fields
    ]
    return frame.select(
        columns + [functions.col(name).cast("string").alias(name) for name in PARTITIONS if name in have]
    )


def narrow(source: str, tables: "Mapping[str, DataFrame]", to: "Narrowed") -> "dict[str, DataFrame]":
    """Narrow the tables of a source. Raises UsageError for a cluster, if the source does not say whose traffic its rows are."""
    narrowed = dict(tables)
    if to.cluster is not None:
        if "cluster" not in narrowed["connections"].columns:
            raise UsageError(
                f"{source}: --cluster is for tables of kproxy-spark ingest; nothing here says which cluster a row belongs to"
            )
        names = names_of(to.cluster)
        own = narrowed["connections"].where(functions.col("cluster").isin(names))
        narrowed = {name: _of_cluster(frame, names, own) for name, frame in narrowed.items()}
    if to.has_days:
        narrowed = {name: _of_days(name, frame, narrowed["exchanges"], to) for name, frame in narrowed.items()}
    return narrowed


def names_of(cluster: str) -> list[str]:
    """The values that the column cluster may have: the name as ingest makes it a folder's, or as Spark reads it back."""
    return sorted({safe(cluster), unquote(safe(cluster), "latin-1")})


def check_cluster(tables: "list[DataFrame]", cluster: str) -> None:
    """Raise UsageError if no table of connections has this cluster; list the known clusters."""
    every = reduce(lambda one, other: one.union(other), [frame.select("cluster") for frame in tables])
    there = sorted(unquote(row[0]) for row in every.distinct().limit(1_000).collect() if row[0] is not None)
    if not {*there} & {cluster, *names_of(cluster), *map(unquote, names_of(cluster))}:
        listed = ", ".join(there[:MOST_NAMED]) + (", ..." if len(there) > MOST_NAMED else "")
        raise UsageError(f"there is no cluster {cluster[:80]!r} in these tables; there are {listed or 'none'}")


def _of_cluster(frame: "DataFrame", names: list[str], connections: "DataFrame") -> "DataFrame":
    if "cluster" in frame.columns:
        return frame.where(functions.col("cluster").isin(names))
    return frame.join(connections.select("connection_id"), "connection_id", "left_semi").select(frame.columns)


def _of_days(name: str, frame: "DataFrame", exchanges: "DataFrame", to: "Narrowed") -> "DataFrame":
    """Keep the rows of a table that belong to the days of *to*; a connection belongs to each day of its life."""
    if name == "connections":
        begins, ends = functions.col("first_seen_at"), functions.coalesce("last_seen_at", "first_seen_at")
        return _between(frame, _day_of(frame, begins), _day_of(frame, ends), to)
    times = [each for each in TIMES if each in frame.columns]
    if "day" in frame.columns:
        day = functions.col("day")
    elif times:
        day = _day(functions.coalesce(*times))
    else:
        wanted = _of_days("exchanges", exchanges, exchanges, to).select("connection_id", "exchange")
        return frame.join(wanted, ["connection_id", "exchange"], "left_semi").select(frame.columns)
    return _between(frame, day, day, to)


def _between(frame: "DataFrame", begins: "Column", ends: "Column", to: "Narrowed") -> "DataFrame":
    if to.first is not None:
        frame = frame.where(ends >= to.first.isoformat())
    return frame if to.last is None else frame.where(begins <= to.last.isoformat())


def _day_of(frame: "DataFrame", time: "Column") -> "Column":
    return functions.coalesce(_day(time), functions.col("day")) if "day" in frame.columns else _day(time)


def _day(time: "Column") -> "Column":
    return functions.date_format(time, DAY_FORMAT)
