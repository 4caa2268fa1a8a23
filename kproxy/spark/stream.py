"""``follow``: the files that appear in a folder become rows of tables (folder_reader.py says which are taken, and when).

``follow`` reads a file again that has grown since, and puts its rows in place of those it had: its offset (of the table
``files``) names files with their sizes and times. Rows that a sink has taken cannot be taken back: for it a file comes once.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.spark.files import is_remote
from kproxy.spark.ingest import Output, ingest
from kproxy.spark.schemas import FILES
from kproxy.spark.source import FORMAT, register
from kproxy.spark.targets import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def follow(
    spark: "SparkSession",
    inputs: Sequence[str],
    output: str | Output,
    checkpoint: str,
    *,
    once: bool = False,
    every: str = "10 seconds",
    on_batch: Callable[[Report], None] = lambda report: None,
    **options: Any,
) -> "StreamingQuery":
    """Read files into the tables of a directory as they appear; the query that does it runs until it is stopped.

    Args:
        spark: the session.
        inputs: folders and patterns; they may be empty yet.
        output: as that of ``ingest``.
        checkpoint: a folder of Spark's: which files were read.
        once: end when all files that are there were read.
        every: how long a batch gathers files.
        on_batch: called with what each batch did.
        **options: of ``ingest``.
    """
    register(spark)
    reader = spark.readStream.format(FORMAT).option("table", FILES).option("paths", json.dumps(list(inputs)))
    frame = reader.option("maxFilesPerTrigger", "1000").load()
    batch = partial(_ingest_batch, output, options, on_batch)
    writer = frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(batch)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)).start()


def _ingest_batch(
    output: str | Output, options: dict[str, Any], on_batch: Callable[[Report], None], frame: "DataFrame", number: int
) -> None:
    paths = [row["path"] for row in frame.collect() if is_remote(row["path"]) or Path(row["path"]).exists()]
    if paths:
        on_batch(ingest(frame.sparkSession.sparkContext, paths, output, **options))
