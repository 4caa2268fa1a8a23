"""Tables as views of a Spark session, read once for all the analyses that a module runs on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.output.tables import TABLES
from kproxy.spark.report import SparkTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def cached_tables(spark: "SparkSession", tables: Path) -> Iterator[SparkTables]:
    """The tables of a directory, in one partition each: they are small."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    opened = SparkTables(spark, [str(tables)])
    for name in TABLES:
        spark.table(name).cache()
    yield opened
    opened.close()
    for name in TABLES:
        spark.table(name).unpersist()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
