"""Input files that only Hadoop reaches: found by name, folder and pattern, read whole, copied."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.spark.hadoop_files import copy, find, is_hadoop, read_whole
from tests.support.spark import view_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
ODD = ["a b.pcap", "50%.pcap", "ü{1},[2].pcap", "zero.pcap"]


def test_who_reaches_a_name() -> None:
    assert [is_hadoop(name) for name in ("/a", "file:///a", "s3://b/a", "gs://b/a")] == [False] * 4
    assert [is_hadoop(name) for name in ("s3a://b/a", "hdfs://h/a", "viewfs://v/a", "wasbs://w/a")] == [True] * 4


def test_files_are_found_and_read(spark: "SparkSession", tmp_path: Path) -> None:
    for name in (*ODD, "_left", ".out"):
        (tmp_path / name).write_bytes(name.encode() if name != "zero.pcap" else b"")
    (tmp_path / "below").mkdir()
    view = view_of(spark, tmp_path)
    found = find(spark.sparkContext, view)
    assert sorted(file.name for file in found) == sorted(ODD)
    assert [file.name for file in find(spark.sparkContext, f"{view}/a*.pcap")] == ["a b.pcap"]
    assert [file.name for file in find(spark.sparkContext, f"{view}/_left")] == ["_left"]
    assert find(spark.sparkContext, f"{view}/nowhere") == find(spark.sparkContext, f"{view}/x*") == []
    read = {file.name: data for file, data in read_whole(spark.sparkContext, found).collect()}
    assert read == {name: name.encode() if name != "zero.pcap" else b"" for name in ODD}
    [file] = [file for file in found if file.name == "50%.pcap"]
    assert file.size == 8
    assert abs(file.modified_ns - (tmp_path / "50%.pcap").stat().st_mtime_ns) < 2_000_000_000
    copy(spark.sparkContext, file, str(tmp_path / "copied"))
    assert (tmp_path / "copied").read_bytes() == b"50%.pcap"
