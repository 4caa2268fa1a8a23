"""Files that appear in a folder, read into tables: each exactly once, also over a restart."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from kproxy.spark.catalog import Report
from kproxy.spark.files import find_files
from kproxy.spark.rows import spark_schema
from kproxy.spark.source import NOT_READY, FolderReader, Settings, complete, follow, marks_of, offset, register, run
from tests.support.command import decode
from tests.support.corpus import CAPTURES
from tests.support.split_captures import rowset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]  # Spark takes seconds for each
OLD = time.time() - 1_000


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
        run(writer.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start)
        counts.append(spark.read.parquet(str(out)).count())
    assert counts == [23, 23 + 41, 23 + 41]  # exchanges of the captures, as their manifests count them


@pytest.mark.slow
def test_what_is_there_is_read_once_a_file_at_a_time(spark: "SparkSession", tmp_path: Path) -> None:
    register(spark)
    folder, check, out = tmp_path / "in", tmp_path / "check", tmp_path / "out"
    for step in range(2):
        for name in ("a", "b", "c"):
            put(folder, f"{name}{step}.pcap", "06-sasl-scram.pcap")
        frame = spark.readStream.format("kproxy").option("maxFilesPerTrigger", "1").load(str(folder))
        writer = frame.writeStream.format("parquet").option("path", str(out)).option("checkpointLocation", str(check))
        run(writer.trigger(availableNow=True).start)
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
        run(lambda: follow(spark, [str(folder)], str(out), str(tmp_path / "check"), once=True, on_batch=reports.append))
    assert [report.read for report in reports] == [1, 2]
    assert len(rowset(out)["exchanges"]) == 23 + 41


def test_a_query_whose_process_starts_late_is_started_again_and_no_other() -> None:
    ends = [StreamingQueryException(f"Job aborted: {text}.") for text in (NOT_READY, NOT_READY, "no space", NOT_READY)]
    given = iter([*ends[:2], None, ends[2], *ends[:2], ends[3]])
    query = Mock(awaitTermination=Mock(side_effect=given))
    run(lambda: query)
    for last in (ends[2], ends[3]):
        with pytest.raises(StreamingQueryException) as raised:
            run(lambda: query)
        assert raised.value is last
    assert query.awaitTermination.call_count == 7


def reader(folder: Path, **options: str) -> FolderReader:
    settings = Settings.read({"path": str(folder), **options})
    return FolderReader(settings, spark_schema(settings.contract))


def names(given: dict[str, object]) -> list[str]:
    return [Path(path).name for path in marks_of(given)]


def test_a_batch_is_what_came_since(tmp_path: Path) -> None:
    stream = reader(tmp_path / "in")
    start = stream.latestOffset(stream.initialOffset(), None)
    assert start == stream.initialOffset() == offset([])
    put(tmp_path / "in", "a.pcap", "01-java-produce-consume-group.pcap")
    first = stream.latestOffset(start, None)
    put(tmp_path / "in", "b.pcap", "06-sasl-scram.pcap")
    second = stream.latestOffset(first, None)
    assert (names(first), names(second)) == (["a.pcap"], ["a.pcap", "b.pcap"])
    found = [partition.file.name for partition in reader(tmp_path / "in").partitions(first, second)]  # type: ignore[attr-defined]
    assert found == ["b.pcap"]
    assert stream.latestOffset(second, None) == second


def test_files_that_are_gone_are_forgotten_and_batches_bounded(tmp_path: Path) -> None:
    stream = reader(tmp_path, maxFilesPerTrigger="2")
    for number in range(5):
        put(tmp_path, f"{number}.pcap", "06-sasl-scram.pcap")
    first = stream.latestOffset(stream.initialOffset(), ReadMaxFiles(2))
    assert names(first) == ["0.pcap", "1.pcap"]
    (tmp_path / "0.pcap").unlink()
    assert names(stream.latestOffset(first, ReadMaxFiles(2))) == ["1.pcap", "2.pcap", "3.pcap"]


def test_a_batch_is_bounded_but_where_spark_asks_for_all(tmp_path: Path) -> None:
    stream = reader(tmp_path, maxFilesPerTrigger="1")
    for number in range(3):
        put(tmp_path, f"{number}.pcap", "06-sasl-scram.pcap")
    assert stream.getDefaultReadLimit() == ReadMaxFiles(1)
    assert reader(tmp_path).getDefaultReadLimit() == ReadAllAvailable()
    assert names(stream.latestOffset(stream.initialOffset(), ReadMaxFiles(1))) == ["0.pcap"]
    assert names(stream.latestOffset(stream.initialOffset(), ReadAllAvailable())) == ["0.pcap", "1.pcap", "2.pcap"]


def test_what_comes_after_a_query_for_what_is_there_began_is_not_of_it(tmp_path: Path) -> None:
    stream = reader(tmp_path, maxFilesPerTrigger="1")
    put(tmp_path, "a.pcap", "06-sasl-scram.pcap")
    stream.prepareForTriggerAvailableNow()
    put(tmp_path, "b.pcap", "06-sasl-scram.pcap")
    for limit in (ReadMaxFiles(1), ReadAllAvailable()):
        found = stream.latestOffset(stream.initialOffset(), limit)
        assert names(found) == ["a.pcap"]
        assert stream.latestOffset(found, limit) == found


def test_spark_that_does_not_tell_the_start_gets_all_that_is_there(tmp_path: Path) -> None:
    """Before Spark 4.2: after a restart, the part of the files that comes first may have been read long ago."""
    for number in range(3):
        put(tmp_path, f"{number}.pcap", "06-sasl-scram.pcap")
    assert names(reader(tmp_path, maxFilesPerTrigger="1").latestOffset()) == ["0.pcap", "1.pcap", "2.pcap"]


def test_the_part_that_is_being_written_is_not_taken(tmp_path: Path) -> None:
    for name in ("kafka.jsonl", "kafka.000001.jsonl.gz", "kafka.000002.jsonl", "other.jsonl", "young.pcap"):
        (tmp_path / name).touch()
        if name not in ("young.pcap", "kafka.000002.jsonl"):
            os.utime(tmp_path / name, (OLD, OLD))
    found = [file.name for file in complete(find_files([str(tmp_path)]), 60)]
    assert found == ["kafka.000001.jsonl.gz", "kafka.000002.jsonl", "other.jsonl"]
    assert "young.pcap" in [file.name for file in complete(find_files([str(tmp_path)]), 0)]


def test_a_file_that_grows_comes_once_as_rows_and_again_to_be_ingested(tmp_path: Path) -> None:
    put(tmp_path / "in", "a.pcap", "06-sasl-scram.pcap")
    for table, again in (("exchanges", 0), ("files", 1)):
        stream = reader(tmp_path / "in", table=table)
        first = stream.latestOffset(stream.initialOffset(), None)
        assert stream.latestOffset(first, None) == first
        with (tmp_path / "in" / "a.pcap").open("ab") as file:
            file.write(bytes(16))
        os.utime(tmp_path / "in" / "a.pcap", (OLD, OLD))
        second = stream.latestOffset(first, None)
        found = [partition.file.name for partition in stream.partitions(first, second)]  # type: ignore[attr-defined]
        assert found == ["a.pcap"] * again
        assert len(marks_of(second)) == 1


def put(folder: Path, name: str, capture: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_bytes((CAPTURES / capture).read_bytes())
    (folder / f".{name}").rename(folder / name)
    os.utime(folder / name, (OLD, OLD))
