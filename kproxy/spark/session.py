"""The Spark session of a job: that of spark-submit, or one on this machine."""

import os
import sys
from typing import TYPE_CHECKING

from kproxy.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(name: str, master: str | None = None) -> "SparkSession":
    """Begin a session, or take the one there is.

    Args:
        name: of the job, in Spark's pages.
        master: Spark's; None: that of spark-submit, else all cores of this machine.

    Raises UsageError where pyspark is missing.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError("kproxy-spark needs pyspark: pip install 'kproxy[spark]'") from None
    if "SPARK_ENV_LOADED" not in os.environ:  # not by spark-submit: workers on this machine are this Python
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
