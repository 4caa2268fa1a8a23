"""The job: folders of captures and logs to Parquet that Spark and DuckDB read; run again, it adds nothing."""

import gzip
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from kproxy.spark.file_rows import Options
from kproxy.spark.files import InputFile, find_files
from kproxy.spark.ingest import groups, ingest
from kproxy.spark.reading import decode_whole
from kproxy.spark.targets import Report
from tests.support.corpus import CAPTURES
from tests.support.split_captures import decoded, differences, packets_of, rowset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
GOOD = "01-java-produce-consume-group.pcap"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    data = (CAPTURES / GOOD).read_bytes()
    (folder / "a.pcap").write_bytes(data)
    (folder / "b.pcap.gz").write_bytes(gzip.compress(data))
    (folder / "cut.pcap").write_bytes(data[:60_000])
    (folder / "odd.pcap").write_bytes(b"this is no capture")
    return folder


def run(spark: "SparkSession", inputs: Path, output: Path, **options: object) -> Report:
    return ingest(spark.sparkContext, [str(inputs)], str(output), **options)  # type: ignore[arg-type]


def test_bad_files_cost_themselves_and_are_quarantined(spark: "SparkSession", inputs: Path, tmp_path: Path) -> None:
    report = run(spark, inputs, tmp_path / "out")
    assert (report.read, report.skipped) == (4, 0)
    rows = rowset(tmp_path / "out")
    alone = {name: decoded(inputs / name, _folder(tmp_path / name)) for name in ("a.pcap", "b.pcap.gz", "cut.pcap")}
    together = {table: sorted(row for each in alone.values() for row in each[table]) for table in rows}
    assert differences(together, rows) == {}
    assert len(alone["a.pcap"]["exchanges"]) == 23
    assert 0 < len(alone["cut.pcap"]["exchanges"]) < 23
    quarantine = [json.loads(path.read_text()) for path in (tmp_path / "out/_kproxy/quarantine").iterdir()]
    reasons = {Path(each["path"]).name: each["reasons"][0].partition(": ")[2] for each in quarantine}
    assert sorted(reasons) == ["cut.pcap", "odd.pcap"]
    assert "neither pcap nor pcapng" in reasons["odd.pcap"]
    assert "the file ends within a packet" in reasons["cut.pcap"]


def shortest_connection() -> list[bytes]:
    """The packets of the connection in a capture that has the fewest of them, and data."""
    connections: dict[frozenset[bytes], list[bytes]] = {}
    for record in packets_of(GOOD)[1]:
        connections.setdefault(frozenset((record[50:52], record[52:54])), []).append(record)
    return min((some for some in connections.values() if sum(map(len, some)) > 2_000), key=len)


@pytest.mark.long
def test_a_damaged_file_in_a_folder_of_a_thousand_costs_that_file(spark: "SparkSession", tmp_path: Path) -> None:
    header, records = packets_of(GOOD)[0], shortest_connection()
    broken = records[-2][:8] + struct.pack("<I", 0x7FFFFFFF) + records[-2][12:]
    good, bad = header + b"".join(records), header + b"".join([*records[:-2], broken, records[-1]])
    (folder := tmp_path / "in").mkdir()
    for number in range(1_000):
        (folder / f"{number:04}.pcap").write_bytes(bad if number == 617 else good)
    report = run(spark, folder, tmp_path / "out")
    assert report.read == 1_000
    whole, part = (decoded(folder / name, _folder(folder / name)) for name in ("0000.pcap", "0617.pcap"))
    assert len(whole["exchanges"]) > 1
    assert report.rows == {
        table: 999 * len(whole[table]) + len(part[table]) for table in whole if whole[table] or part[table]
    }
    [quarantined] = (tmp_path / "out/_kproxy/quarantine").iterdir()
    found = json.loads(quarantined.read_text())
    assert found["path"] == str(folder / "0617.pcap")
    at = len(header + b"".join(records[:-2]))
    assert found["reasons"] == [
        f"{folder}/0617.pcap: byte {at}: a packet of 2147483647 bytes; no capture holds one of more than 262144"
    ]
    files = query_partitioned(tmp_path / "out", "connections")
    assert len(files) == 1_000
    assert run(spark, folder, tmp_path / "out").skipped == 1_000


def _folder(path: Path) -> Path:
    path = path.with_name(path.name + ".tables")
    path.mkdir()
    return path


def test_only_what_is_new_or_changed_is_read(spark: "SparkSession", inputs: Path, tmp_path: Path) -> None:
    run(spark, inputs, tmp_path / "out")
    before = rowset(tmp_path / "out")
    assert run(spark, inputs, tmp_path / "out") == Report(skipped=4)
    assert rowset(tmp_path / "out") == before
    (inputs / "cut.pcap").write_bytes((CAPTURES / GOOD).read_bytes()[:80_000])
    assert run(spark, inputs, tmp_path / "out").read == 1
    assert run(spark, inputs, tmp_path / "out", again=True).read == 4
    after = rowset(tmp_path / "out")
    assert len(after["connections"]) >= len(before["connections"])
    assert len(set(after["records"])) == len(after["records"])
    assert len(query_partitioned(tmp_path / "out", "exchanges")) == len(after["exchanges"])


def query_partitioned(output: Path, table: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as database:
        return database.sql(f"from read_parquet('{output}/{table}/**/*.parquet', hive_partitioning = true)").fetchall()


def test_spark_reads_partitions_by_cluster_and_day(spark: "SparkSession", inputs: Path, tmp_path: Path) -> None:
    run(spark, inputs, tmp_path / "out", cluster="blue/1")
    frame = spark.read.parquet(str(tmp_path / "out" / "exchanges"))
    found = frame.groupBy("cluster", "day").count().collect()
    [(cluster, day, count)] = [(row["cluster"], str(row["day"]), row["count"]) for row in found]
    assert (cluster, day) == ("blue/1", "2026-11-21")  # as the manifest dates the recording
    assert count == len(rowset(tmp_path / "out")["exchanges"])


def test_the_cluster_is_the_one_that_the_traffic_names(tmp_path: Path) -> None:
    """Divided or not: every cluster id that any connection showed, and the first of them by name."""
    [file] = find_files([str(CAPTURES / GOOD)])
    [done] = decode_whole(Options(), str(tmp_path), (file, None))
    assert isinstance(done, tuple)
    result = done[1]
    log = (CAPTURES / "broker-log" / "01-java-produce-consume-group.jsonl.gz").read_bytes()
    assert len(result.cluster_ids) == 1
    assert next(iter(result.cluster_ids)) in gzip.decompress(log).decode()


def test_a_decoded_log_is_read(spark: "SparkSession", tmp_path: Path) -> None:
    from tests.support.command import decode  # noqa: PLC0415 - the other decode

    (tmp_path / "in").mkdir()
    decode("--format", "jsonl", "-o", tmp_path / "in" / "kafka.jsonl", CAPTURES / GOOD)
    report = run(spark, tmp_path / "in", tmp_path / "out")
    assert (report.read, report.problems) == (1, [])
    assert report.rows["exchanges"] == 23


def test_files_are_put_into_place_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.spark.ingest.FILES_AT_A_TIME", 3)
    files = [InputFile(f"/{number}", size, 0) for number, size in enumerate((1, 1, 1, 1, 90, 20, 200))]
    assert [[file.size for file in group] for group in groups(files, 100)] == [[1, 1, 1], [1, 90], [20], [200]]
    assert list(groups([], 100)) == []
