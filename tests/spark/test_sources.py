"""What kproxy-spark report reads; Delta and Iceberg are in test_table_formats.py, with a session that has them."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES
from kproxy.spark.ingest import Output, ingest
from kproxy.spark.sources import open_source
from kproxy.spark.whole import Options
from tests.support.spark import view_of
from tests.support.tables import decode
from tests.support.traffic import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
CAPTURE = CAPTURES / "01-java-produce-consume-group.pcap"
ROWS = Options()


def count(spark: "SparkSession", name: str, scratch: str | None = None) -> dict[str, int]:
    source = open_source(spark, name, ROWS, scratch)
    assert source.damages == []
    return {table: source.frame(TABLES[table]).count() for table in ("exchanges", "records")}


def test_each_kind_of_source_has_the_rows_of_the_capture(spark: "SparkSession", tmp_path: Path) -> None:
    assert decode("-o", tmp_path / "decoded", CAPTURE) == 0
    expected = {"exchanges": 23, "records": 0}  # as its manifest counts them
    (tmp_path / "seen").mkdir()
    view = view_of(spark, tmp_path / "seen")
    ingest(spark.sparkContext, [str(CAPTURE)], Output(f"{view}/out"))
    (tmp_path / "seen" / CAPTURE.name).write_bytes(CAPTURE.read_bytes())
    assert count(spark, str(tmp_path / "decoded")) == expected
    assert count(spark, f"{view}/out") == expected
    assert count(spark, f"{view}/{CAPTURE.name}", str(tmp_path / "one")) == expected
    assert count(spark, str(CAPTURE)) == expected


def test_damages_of_files_are_told(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "cut.pcap").write_bytes(CAPTURE.read_bytes()[:-5])
    source = open_source(spark, str(tmp_path / "cut.pcap"), ROWS, str(tmp_path / "tables"))
    [damage] = source.damages
    assert "cut.pcap: byte" in damage


def test_what_is_no_source_says_so(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: no such file"):
        open_source(spark, str(tmp_path / "nowhere"), ROWS, None)
    with pytest.raises(UsageError, match="nowhere: no such file"):
        open_source(spark, "nowhere", ROWS, str(tmp_path / "tables"))
    view = view_of(spark, tmp_path)
    with pytest.raises(UsageError, match="captures there are read with --staging"):
        open_source(spark, f"{view}/x.pcap", ROWS, None)
    with pytest.raises(UsageError, match=r"nope://a/b: Spark's Hadoop cannot open it: .*nope"):
        open_source(spark, "nope://a/b", ROWS, None)


@pytest.mark.parametrize(("folder", "format_name"), [("_delta_log", "delta"), ("metadata", "iceberg")])
def test_a_format_that_the_session_lacks_is_named(
    spark: "SparkSession", tmp_path: Path, folder: str, format_name: str
) -> None:
    (tmp_path / "exchanges" / folder).mkdir(parents=True)
    with pytest.raises(UsageError, match=f"this Spark session has no {format_name}: run spark-submit"):
        open_source(spark, str(tmp_path), ROWS, None)
