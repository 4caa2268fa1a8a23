"""The Spark session or context of a job: that of spark-submit, or one on this machine."""

import logging
import os
import sys
from typing import TYPE_CHECKING

from kproxy.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# For a JVM that kproxy starts on this machine. Most work is done in Python, so compiling the JVM's code a second time, with more
# effort, costs more CPU (5 s) than it saves. spark-defaults.conf and SPARK_SUBMIT_OPTS come later, and win. The same is true of
# executors on this machine (local-cluster), which take 3 s of CPU each in place of 6.5; spark.executor.extraJavaOptions win.
JVM = "-XX:TieredStopAtLevel=1 -Dspark.ui.enabled=false"
EXECUTORS_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def open_session(name: str, master: str | None = None) -> "SparkSession":
    """Start a session, or return the existing one.

    Args:
        name: of the job, in Spark's pages.
        master: Spark's master URL; None: that of spark-submit, else all cores of this machine.

    Raises UsageError where pyspark is missing.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        raise _no_pyspark() from None
    _prepare()
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # This logger repeats on standard error, with the JVM's stack, what PySpark raises anyway.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    return session


def open_context(name: str, master: str | None = None) -> "SparkContext":
    """As open_session, for a job without SQL: its JVM starts with a third less CPU, and compiles little, for a short job."""
    try:
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - an extra
    except ImportError:
        raise _no_pyspark() from None
    is_local = _prepare() and (master or "local").startswith("local")
    if is_local:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{JVM} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".rstrip()
    settings = SparkConf().setAppName(name).set("spark.ui.showConsoleProgress", "false")
    if is_local:
        settings.setIfMissing("spark.executor.defaultJavaOptions", EXECUTORS_JVM)
    if master is not None:
        settings = settings.setMaster(master)
    context = SparkContext.getOrCreate(settings)
    context.setLogLevel("ERROR")
    return context


def is_wanted(master: str | None) -> bool:
    """Whether a job without SQL has to run on Spark: by *master*, under spark-submit, or because it runs already."""
    pyspark = sys.modules.get("pyspark")
    runs = pyspark is not None and pyspark.SparkContext._active_spark_context is not None
    return master is not None or is_submitted() or runs


def is_submitted() -> bool:
    return "SPARK_ENV_LOADED" in os.environ


def _prepare() -> bool:
    """Make Spark's workers on this machine use this Python. Returns False under spark-submit, which decides itself."""
    if is_submitted():
        return False
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return True


def _no_pyspark() -> UsageError:
    return UsageError("kproxy-spark needs pyspark: pip install 'kproxy-kafka[spark]'")
