"""Which files of a folder a batch has; never one that is still being written."""

import os
from pathlib import Path

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from kproxy.spark.files import find_files
from kproxy.spark.folder_reader import FolderReader, complete, marks_of, offset
from kproxy.spark.partitions import Settings
from kproxy.spark.schemas import spark_schema
from tests.spark.appearing import OLD, put


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
