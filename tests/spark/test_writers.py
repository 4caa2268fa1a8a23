"""What Spark itself writes: rows with their source, cluster and day; a session without Delta is told so."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES
from kproxy.spark.chunks import ChunkWriter
from kproxy.spark.writers import Origin, open_writer, rows_of
from tests.spark.test_chunks import offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
ROOT = Path(__file__).parents[2]
OFFSETS = TABLES["offsets"]


def test_a_session_without_the_format_is_told(spark: "SparkSession") -> None:
    with pytest.raises(UsageError, match="this Spark session has no delta"):
        open_writer(spark, "delta", "/nowhere")


def test_rows_have_their_source_cluster_and_day(spark: "SparkSession") -> None:
    writer = ChunkWriter("abc", "2026-01-01")
    writer.write(OFFSETS, offsets(1, 2))
    writer.close()
    chunks = spark.sparkContext.parallelize([*writer.take(), "something else"], 2)
    found = rows_of(spark, chunks, OFFSETS, {"abc": Origin("prod")}).orderBy("exchange").collect()
    assert [(row["exchange"], row["source"], row["cluster"], row["day"]) for row in found] == [
        (1, "abc", "prod", "2026-03-01"),
        (2, "abc", "prod", "2026-03-01"),
    ]
    assert rows_of(spark, chunks, TABLES["errors"], {}).count() == 0
