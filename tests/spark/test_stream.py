"""Files that appear in a folder, read into tables: each exactly once, also over a restart."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.spark.source import register
from kproxy.spark.stream import follow
from kproxy.spark.targets import Report
from tests.spark.appearing import OLD, put
from tests.support.command import decode
from tests.support.corpus import CAPTURES
from tests.support.split_captures import rowset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def test_rows_come_exactly_once_into_parquet(spark: "SparkSession", tmp_path: Path) -> None:
    """Three runs of one query with a checkpoint, files added between them: rotated logs and captures."""
    register(spark)
    folder, out = tmp_path / "in", tmp_path / "out"
    put(folder, "kafka.000001.pcap", "01-java-produce-consume-group.pcap")
    decode("--format", "jsonl", "-o", tmp_path / "log.jsonl", CAPTURES / "06-sasl-scram.pcap")
    counts = []
    for step in range(3):
        if step == 1:
            (tmp_path / "log.jsonl").rename(folder / "kafka.000001.jsonl")
            (folder / "kafka.jsonl").write_text('{"event":"exch')
        frame = spark.readStream.format("kproxy").option("table", "exchanges").load(str(folder))
        writer = frame.writeStream.format("parquet").option("path", str(out))
        query = writer.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start()
        query.awaitTermination(300)
        assert query.exception() is None
        counts.append(spark.read.parquet(str(out)).count())
    assert counts == [23, 23 + 41, 23 + 41]  # exchanges of the captures, as their manifests count them


def test_what_is_there_is_read_once_a_file_at_a_time(spark: "SparkSession", tmp_path: Path) -> None:
    register(spark)
    folder, check, out = tmp_path / "in", tmp_path / "check", tmp_path / "out"
    for step in range(2):
        for name in ("a", "b", "c"):
            put(folder, f"{name}{step}.pcap", "06-sasl-scram.pcap")
        frame = spark.readStream.format("kproxy").option("maxFilesPerTrigger", "1").load(str(folder))
        writer = frame.writeStream.format("parquet").option("path", str(out)).option("checkpointLocation", str(check))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(300)
        assert query.exception() is None
        assert spark.read.parquet(str(out)).count() == 3 * 41 * (step + 1)
        assert len(list((check / "commits").glob("[0-9]"))) == 3 * (step + 1)


def test_a_followed_folder_becomes_tables(spark: "SparkSession", tmp_path: Path) -> None:
    """Half of a capture is there at first, and is read; its rows give way to those of the whole."""
    folder, out, reports = tmp_path / "in", tmp_path / "out", list[Report]()
    put(folder, "a.pcap", "01-java-produce-consume-group.pcap")
    whole = (folder / "a.pcap").read_bytes()
    os.truncate(folder / "a.pcap", 60_000)
    os.utime(folder / "a.pcap", (OLD, OLD))
    for step in range(2):
        if step:
            assert 0 < len(rowset(out)["exchanges"]) < 23
            (folder / "a.pcap").write_bytes(whole)
            os.utime(folder / "a.pcap", (OLD, OLD))
            put(folder, "b.pcap", "06-sasl-scram.pcap")
        query = follow(spark, [str(folder)], str(out), str(tmp_path / "check"), once=True, on_batch=reports.append)
        query.awaitTermination(300)
        assert query.exception() is None
    assert [report.read for report in reports] == [1, 2]
    assert len(rowset(out)["exchanges"]) == 23 + 41
