"""The Spark session or context of a job: that of spark-submit, or one on this machine."""

import atexit
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from kproxy.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# For a JVM that kproxy starts on this machine. Most work is done in Python, so compiling the JVM's code a second time, with more
# effort, costs more CPU (5 s) than it saves. spark-defaults.conf and SPARK_SUBMIT_OPTS come later, and win. The same is true of
# executors on this machine (local-cluster), which take 3 s of CPU each in place of 6.5; spark.executor.extraJavaOptions win.
JVM = "-XX:TieredStopAtLevel=1 -Dspark.ui.enabled=false"
EXECUTORS_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LONGEST_REASON = 300
NO_START = (
    "Spark does not start, for the reason above: it needs Java 17 or later (JAVA_HOME, or java in PATH), and a master such as"
    " local[2], spark://HOST:7077, yarn or k8s://HOST:PORT"
)


def open_session(name: str, master: str | None = None) -> "SparkSession":
    """As open_context, with SQL."""
    open_context(name, master)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    session = SparkSession.builder.getOrCreate()
    # This logger repeats on standard error, with the JVM's stack, what PySpark raises anyway.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    return session


def open_context(name: str, master: str | None = None) -> "SparkContext":
    """Start a context, or return the existing one.

    Args:
        name: of the job, in Spark's pages.
        master: Spark's master URL; None: that of spark-submit, else all cores of this machine.

    Raises UsageError where pyspark or Java is missing, and for a master that is none or does not answer.
    """
    try:
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - an extra
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415
        from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    except ImportError:
        raise UsageError("kproxy-spark needs pyspark: pip install 'kproxy-kafka[spark]'") from None
    settings = SparkConf().setAppName(name).set("spark.ui.showConsoleProgress", "false")
    if not is_submitted():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if (master or "local").startswith("local"):
            os.environ["SPARK_SUBMIT_OPTS"] = f"{JVM} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".rstrip()
            settings.setIfMissing("spark.executor.defaultJavaOptions", EXECUTORS_JVM)
    if master is not None:
        settings = settings.setMaster(master)
    is_new = SparkContext._active_spark_context is None
    try:
        context = SparkContext.getOrCreate(settings)
    except PySparkRuntimeError:  # the process of Java has ended, and has said why
        raise UsageError(NO_START) from None
    except Py4JJavaError as error:
        raise UsageError(f"Spark does not start: {reason_of(error)}") from None
    assert context._jsc is not None
    if context._jsc.sc().isStopped():
        raise UsageError(f"{context.master}: this master of Spark does not answer")
    context.setLogLevel("ERROR")
    if is_new and not context._jsc.sc().isLocal():
        atexit.register(context.stop)  # or executors that end before the JVM would count as lost, and others be started
    return context


def is_wanted(master: str | None) -> bool:
    """Whether a job without SQL has to run on Spark: by *master*, under spark-submit, or because it runs already."""
    pyspark = sys.modules.get("pyspark")
    runs = pyspark is not None and pyspark.SparkContext._active_spark_context is not None
    return master is not None or is_submitted() or runs


def reason_of(error: Any) -> str:
    """The first line of an exception of Java or Spark."""
    return str(getattr(error, "java_exception", error)).splitlines()[0][:LONGEST_REASON]


def is_submitted() -> bool:
    return "SPARK_ENV_LOADED" in os.environ
