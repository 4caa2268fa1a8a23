"""``follow``: ingest files as they appear in a folder (folder_reader.py decides which are taken, and when).

If a file has grown since, ``follow`` reads it again and replaces its rows: the stream's offset (of the table ``files``) holds
sizes and times of files. Other sinks get each file once, since they cannot take rows back.
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
    """Read files into the tables of a directory as they appear. Returns the query, which runs until it is stopped.

    Args:
        spark: the session.
        inputs: folders and patterns; they may still be empty.
        output: as that of ``ingest``.
        checkpoint: a folder where Spark keeps which files were read.
        once: end when all present files were read.
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
