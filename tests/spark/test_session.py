"""The session of a job: the one there is; a sentence where pyspark is missing."""

import sys
from typing import TYPE_CHECKING

import pytest

from kproxy.errors import UsageError
from kproxy.spark.session import open_session

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
