"""The data source: every table, as `kproxy decode` writes it; options that are wrong say so."""

import gzip
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kproxy.output.tables import TABLES
from kproxy.spark.source import register
from tests.support.split_captures import decoded
from tests.support.tables import decode
from tests.support.traffic import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
CAPTURE = CAPTURES / "04-transactions.pcap"


@pytest.mark.parametrize("table", list(TABLES))
def test_a_table_has_the_rows_of_decode(spark: "SparkSession", tmp_path: Path, table: str) -> None:
    register(spark)
    decode("--records", "-o", tmp_path / "tables", CAPTURE)
    files = list((tmp_path / "tables" / table).glob("*.parquet"))
    expected = sorted(repr(row) for file in files for row in pq.ParquetFile(file).read().to_pylist())
    options = {"table": table, "partitions": "3"}
    frame = spark.read.format("kproxy").options(**options).load(str(CAPTURE))
    found = sorted(repr(row) for row in frame.toArrow().to_pylist())
    assert [text.replace("tzfile('/usr/share/zoneinfo/UTC')", "UTC") for text in found] == expected
    assert frame.rdd.getNumPartitions() == 3


def test_a_pattern_of_compressed_files_is_read_and_a_bad_one_costs_itself(
    spark: "SparkSession", tmp_path: Path
) -> None:
    register(spark)
    packed = gzip.compress(CAPTURE.read_bytes())
    for name in ("a", "b"):
        (tmp_path / f"{name}.pcap.gz").write_bytes(packed)
    (tmp_path / "c.pcap.gz").write_bytes(packed[: len(packed) // 2])
    frame = spark.read.format("kproxy").option("table", "connections").load(f"{tmp_path}/*.pcap.gz")
    counts = {row["capture"]: row["count"] for row in frame.groupBy("capture").count().collect()}
    assert counts["a.pcap.gz"] == counts["b.pcap.gz"] == 12
    assert 0 < counts["c.pcap.gz"] <= 12
    strict = spark.read.format("kproxy").option("mode", "failfast").load(f"{tmp_path}/c.pcap.gz")
    with pytest.raises(Exception, match="gzip data ends too early"):
        strict.count()


def test_bodies_and_conditions(spark: "SparkSession", tmp_path: Path) -> None:
    register(spark)
    frame = spark.read.format("kproxy").options(bodies="true", where='apiName == "EndTxn"').load(str(CAPTURE))
    rows = frame.collect()
    expected = decoded(CAPTURE, tmp_path, "--where", 'apiName == "EndTxn"')
    assert len(rows) == len(expected["exchanges"]) > 0
    assert all('"transactionalId":"tx-1"' in row["request_json"] for row in rows)
    assert {row["request_at"].astimezone(UTC).date().isoformat() for row in rows} == {"2026-11-21"}
