"""The session of a job: the one there is; a sentence where pyspark is missing."""

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kproxy.errors import UsageError
from kproxy.spark.session import open_context, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def test_a_session_that_is_there_is_taken(spark: "SparkSession") -> None:
    assert open_session("another name") is spark
    spark.sparkContext.setLogLevel("OFF")


def test_without_pyspark_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UsageError, match=r"pip install 'kproxy\[spark\]'"):
        open_session("job")


def test_a_context_that_is_there_is_taken(spark: "SparkSession") -> None:
    assert open_context("another name") is spark.sparkContext
    spark.sparkContext.setLogLevel("OFF")


def test_a_context_of_its_own_has_a_jvm_for_short_jobs() -> None:
    """The JVM's own word for its options; those of the user come behind, and win."""
    code = (
        "from kproxy.spark.session import open_context\n"
        "context = open_context('job', 'local[1]')\n"
        "found = context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()\n"
        "print([word for word in found if 'TieredStop' in word], context.uiWebUrl)\n"
    )
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=3", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "['-XX:TieredStopAtLevel=1', '-XX:TieredStopAtLevel=3'] None\n"
