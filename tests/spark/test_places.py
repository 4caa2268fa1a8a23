"""Where Spark reads and writes: folders and files of disks and of Hadoop, the data source, the sources of reports."""

import gzip
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pyspark
import pytest

from kproxy.analyses import library
from kproxy.analyses.analysis import View
from kproxy.analyses.duck import Database
from kproxy.errors import UsageError
from kproxy.output.tables import TABLES
from kproxy.spark.catalog import Report
from kproxy.spark.files import copy_from_hadoop, find_in_hadoop, is_hadoop, read_by_hadoop
from kproxy.spark.folders import Folder, HadoopFolder, LocalFolder, open_folder
from kproxy.spark.ingest import CONTINUED, Output, ingest
from kproxy.spark.report import SparkTables
from kproxy.spark.rows import ChunkWriter, Options
from kproxy.spark.session import open_context, open_session
from kproxy.spark.source import register
from kproxy.spark.writers import Origin, open_writer, rows_of
from tests.spark.test_tasks import offsets
from tests.support.corpus import CAPTURES
from tests.support.rotated import packets_of, two_days
from tests.support.spark import view_of
from tests.support.split_captures import decoded, differences, rowset
from tests.support.tables import decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]  # Spark takes seconds for each
ODD = ["a b.pcap", "50%.pcap", "ü{1},[2].pcap", "zero.pcap"]
ROOT = Path(__file__).parents[2]
OFFSETS = TABLES["offsets"]
TRANSACTIONS = CAPTURES / "04-transactions.pcap"
CAPTURE = CAPTURES / "01-java-produce-consume-group.pcap"
ALL_ROWS = Options(records=True)


@pytest.fixture(params=["disk", "hadoop"])
def folder(request: pytest.FixtureRequest, spark: "SparkSession", tmp_path: Path) -> Folder:
    name = str(tmp_path) if request.param == "disk" else view_of(spark, tmp_path)
    return open_folder(spark.sparkContext, name)


def test_files_are_written_read_moved_and_removed(folder: Folder, tmp_path: Path) -> None:
    assert isinstance(folder, LocalFolder) == (folder.root == str(tmp_path))
    assert folder.read("a/b/c.json") is None
    for text in (b"one", b"another \xff"):
        folder.write("a/b/c.json", text)
        assert folder.read("a/b/c.json") == (tmp_path / "a/b/c.json").read_bytes() == text
    folder.write("a/b/d.json", b"d")
    folder.move("a/b/d.json", "x/y/c.json")
    folder.move("a/b/c.json", "x/y/c.json")  # over the other
    assert folder.read("x/y/c.json") == b"another \xff"
    (tmp_path / "x" / "y" / "_hidden").touch()
    assert folder.files("x", depth=1) == ["x/y/c.json"]
    assert folder.files("nowhere") == folder.files("x") == []
    (tmp_path / "x" / "y" / "_hidden").unlink()
    for hidden in (tmp_path / "x" / "y").glob(".*"):
        hidden.unlink()  # checksums of Hadoop's local file system
    folder.remove("x/y/c.json")
    folder.remove("x/y/c.json")
    assert not (tmp_path / "x").exists()
    folder.write("t/u/v", b"")
    folder.remove_tree("t")
    folder.remove_tree("t")
    assert not (tmp_path / "t").exists()


def test_a_file_that_was_not_yet_replaced_is_found(spark: "SparkSession", tmp_path: Path) -> None:
    """A driver that is killed between the two steps of a replacement leaves the new file beside its place."""
    folder = HadoopFolder(spark.sparkContext, view_of(spark, tmp_path))
    folder.write("entry.json.tmp", b"new")
    assert folder.read("entry.json") == b"new"


def test_who_reaches_a_name() -> None:
    assert [is_hadoop(name) for name in ("/a", "file:///a", "s3://b/a", "gs://b/a")] == [False] * 4
    assert [is_hadoop(name) for name in ("s3a://b/a", "hdfs://h/a", "viewfs://v/a", "wasbs://w/a")] == [True] * 4


def test_files_are_found_and_read(spark: "SparkSession", tmp_path: Path) -> None:
    for name in (*ODD, "_left", ".out"):
        (tmp_path / name).write_bytes(name.encode() if name != "zero.pcap" else b"")
    (tmp_path / "below").mkdir()
    view = view_of(spark, tmp_path)
    found = find_in_hadoop(spark.sparkContext, view)
    assert sorted(file.name for file in found) == sorted(ODD)
    assert [file.name for file in find_in_hadoop(spark.sparkContext, f"{view}/a*.pcap")] == ["a b.pcap"]
    assert [file.name for file in find_in_hadoop(spark.sparkContext, f"{view}/_left")] == ["_left"]
    assert (
        find_in_hadoop(spark.sparkContext, f"{view}/nowhere") == find_in_hadoop(spark.sparkContext, f"{view}/x*") == []
    )
    read = {file.name: data for file, data in read_by_hadoop(spark.sparkContext, found).collect()}
    assert read == {name: name.encode() if name != "zero.pcap" else b"" for name in ODD}
    [file] = [file for file in found if file.name == "50%.pcap"]
    assert file.size == 8
    assert abs(file.modified_ns - (tmp_path / "50%.pcap").stat().st_mtime_ns) < 2_000_000_000
    copy_from_hadoop(spark.sparkContext, file, str(tmp_path / "copied"))
    assert (tmp_path / "copied").read_bytes() == b"50%.pcap"


def test_a_session_without_the_format_is_told(spark: "SparkSession") -> None:
    with pytest.raises(UsageError, match="this Spark session has no delta"):
        open_writer(spark, "delta", "/nowhere")


def test_rows_have_their_source_cluster_and_day(spark: "SparkSession") -> None:
    writer = ChunkWriter("abc", "2026-01-01")
    writer.write(OFFSETS, offsets(1, 2))
    writer.close()
    chunks = spark.sparkContext.parallelize([*writer.take(), "something else"], 2)
    found = rows_of(spark, chunks, OFFSETS, {"abc": Origin("prod")}).orderBy("exchange").collect()
    assert [(row["exchange"], row["source"], row["cluster"], row["day"]) for row in found] == [
        (1, "abc", "prod", "2026-03-01"),
        (2, "abc", "prod", "2026-03-01"),
    ]
    assert rows_of(spark, chunks, TABLES["errors"], {}).count() == 0


def test_a_table_has_the_rows_of_decode(spark: "SparkSession", tmp_path: Path) -> None:
    register(spark)
    decode("--records", "-o", tmp_path / "tables", TRANSACTIONS)
    for table in TABLES:
        files = list((tmp_path / "tables" / table).glob("*.parquet"))
        expected = sorted(repr(row) for file in files for row in pq.ParquetFile(file).read().to_pylist())
        options = {"table": table, "partitions": "3"}
        frame = spark.read.format("kproxy").options(**options).load(str(TRANSACTIONS))
        found = sorted(repr(row) for row in frame.toArrow().to_pylist())
        assert [text.replace("tzfile('/usr/share/zoneinfo/UTC')", "UTC") for text in found] == expected, table
        assert frame.rdd.getNumPartitions() == 3


def test_a_pattern_of_compressed_files_is_read_and_a_bad_one_costs_itself(
    spark: "SparkSession", tmp_path: Path
) -> None:
    register(spark)
    packed = gzip.compress(TRANSACTIONS.read_bytes())
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


def count(spark: "SparkSession", name: str, scratch: str | None = None) -> dict[str, int]:
    opened = SparkTables(spark.sparkContext, [name], scratch=scratch)
    assert opened.damages == []
    sizes = {
        table: opened.select(View("n", "", f"SELECT count(*) AS n FROM {table}", "")).to_pylist()[0]["n"]
        for table in ("exchanges", "records")
    }
    opened.close()
    return sizes


def test_each_kind_of_source_has_the_rows_of_the_capture(spark: "SparkSession", tmp_path: Path) -> None:
    assert decode("-o", tmp_path / "decoded", CAPTURE) == 0
    expected = {"exchanges": 23, "records": 0}  # as its manifest counts them
    (tmp_path / "seen").mkdir()
    view = view_of(spark, tmp_path / "seen")
    ingest(spark.sparkContext, [str(CAPTURE)], Output(f"{view}/out"))
    (tmp_path / "seen" / CAPTURE.name).write_bytes(CAPTURE.read_bytes())
    assert count(spark, str(tmp_path / "decoded")) == expected
    assert count(spark, f"{view}/out", str(tmp_path / "copy")) == expected
    assert count(spark, f"{view}/{CAPTURE.name}", str(tmp_path / "one")) == expected
    assert count(spark, str(CAPTURE), str(tmp_path / "two")) == expected


def test_damages_of_files_are_told(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "cut.pcap").write_bytes(CAPTURE.read_bytes()[:-5])
    (tmp_path / "tables").mkdir()
    source, scratch = str(tmp_path / "cut.pcap"), str(tmp_path / "tables")
    with closing(SparkTables(spark.sparkContext, [source], scratch=scratch)) as opened:
        [damage] = opened.damages
    assert "cut.pcap: byte" in damage


def test_what_is_no_source_says_so(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: no such file"):
        SparkTables(spark.sparkContext, [str(tmp_path / "nowhere")], scratch=str(tmp_path / "tables"))
    with pytest.raises(UsageError, match="nowhere: no such file"):
        SparkTables(spark.sparkContext, ["nowhere"], scratch=str(tmp_path / "tables"))
    view = view_of(spark, tmp_path)
    with pytest.raises(UsageError, match="cannot be read in place: give --staging"):
        SparkTables(spark.sparkContext, [f"{view}/x.pcap"], scratch=None)
    with pytest.raises(UsageError, match=r"nope://a/b: Spark's Hadoop cannot open it: .*nope"):
        SparkTables(spark.sparkContext, ["nope://a/b"], scratch=None)


@pytest.mark.parametrize(("folder", "format_name"), [("_delta_log", "delta"), ("metadata", "iceberg")])
def test_a_format_that_the_session_lacks_is_named(
    spark: "SparkSession", tmp_path: Path, folder: str, format_name: str
) -> None:
    (tmp_path / "exchanges" / folder).mkdir(parents=True)
    with pytest.raises(UsageError, match=f"this Spark session has no {format_name}: run spark-submit"):
        SparkTables(spark.sparkContext, [str(tmp_path)], scratch=None)


def test_a_session_and_a_context_that_are_there_are_taken(spark: "SparkSession") -> None:
    assert open_session("another name") is spark
    assert open_context("another name") is spark.sparkContext
    spark.sparkContext.setLogLevel("OFF")


def test_without_pyspark_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(UsageError, match=r"pip install 'kproxy-kafka\[spark\]'"):
        open_session("job")


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


ON_EXECUTORS = """
import sys
from kproxy.analyses import library
from kproxy.cli.spark import kproxy_spark
from kproxy.spark import report
from kproxy.spark.session import open_context

context = open_context("job", "local-cluster[2,1,1024]")
for words in (["-o", "whole"], ["-o", "divided", "--split-from", "0", "--parts", "3"]):
    kproxy_spark.main(["ingest", "--records", *words, "in/*.pcap"], standalone_mode=False)
report.SMALL = 0
tables = report.SparkTables(context, ["divided"])
chosen = [library.load()[name] for name in ("latency", "map")]
tables.prepare(chosen, {})
print([tables.run(one).num_rows for one in chosen], "_database" in vars(tables))
for words in (
    *(["-o", "both", "days/*"], ["-o", "both divided", "--split-from", "0", "--parts", "3", "days/*"]),
    *(["-o", "grown", "days/1.pcap"], ["-o", "grown", "days/*"]),
    *(["-o", "read again", "days/1.pcap"], ["-o", "read again", "--again", "days/*"]),
):
    kproxy_spark.main(["ingest", "--records", *words], standalone_mode=False)
"""


def test_executors_that_are_other_processes_have_the_rows_of_one_decode(tmp_path: Path) -> None:
    """Each executor runs in a folder of its own; paths are those of the driver. Also of two days: connections go on from the
    first day to the second, on which others have their ports, too."""
    for folder in ("in", "days", "alone", "together", "1", "2"):
        (tmp_path / folder).mkdir()
    (tmp_path / "in" / CAPTURE.name).write_bytes(CAPTURE.read_bytes())
    for number, data in enumerate(two_days(packets_of("03-classic-rebalance-range.pcap")), 1):
        (tmp_path / "days" / f"{number}.pcap").write_bytes(data)
    assert pyspark.__file__ is not None
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    command = [sys.executable, "-c", ON_EXECUTORS]
    done = subprocess.run(
        command, cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert " ERROR " not in done.stderr  # no executor counts as lost at the end
    expected = decoded(CAPTURE, tmp_path / "alone", "--records")
    for name in ("whole", "divided"):
        assert differences(expected, rowset(tmp_path / name)) == {}, name
    with Database([tmp_path / "alone" / "decoded"]) as database:
        counts = [database.run(library.load()[name]).num_rows for name in ("latency", "map")]
    assert done.stdout == f"{counts} False\n"
    together = decoded(tmp_path / "days", tmp_path / "together", "--records")
    for name in ("both", "both divided", "read again"):
        assert differences(together, rowset(tmp_path / name)) == {}, name
    first, second = (decoded(tmp_path / "days" / f"{at}.pcap", tmp_path / at, "--records") for at in ("1", "2"))
    assert (
        differences({table: sorted(first[table] + second[table]) for table in first}, rowset(tmp_path / "grown")) == {}
    )
    goes_on = len(first["connections"]) + len(second["connections"]) - len(together["connections"])
    assert goes_on > 1 and done.stderr.count("go on from files") == 1 and CONTINUED.format(goes_on) in done.stderr


@pytest.fixture
def view(spark: "SparkSession", tmp_path: Path) -> str:
    (tmp_path / "seen" / "in").mkdir(parents=True)
    return view_of(spark, tmp_path / "seen")


def run(spark: "SparkSession", view: str, **options: object) -> Report:
    inputs, output = [f"{view}/in"], Output(f"{view}/out")
    return ingest(spark.sparkContext, inputs, output, options=ALL_ROWS, **options)  # type: ignore[arg-type]


def test_in_and_out_go_through_hadoop_once(spark: "SparkSession", view: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "seen" / "in", tmp_path / "seen" / "out"
    (folder / "a b,{1}.pcap").write_bytes(CAPTURE.read_bytes())
    (folder / "cut.pcap").write_bytes(CAPTURE.read_bytes()[:60_000])
    (folder / "empty.pcap").touch()
    expected = decoded(folder / "a b,{1}.pcap", tmp_path, "--records")
    report = run(spark, view)
    assert (report.read, report.unread) == (2, 1)
    quarantine = [json.loads(path.read_text()) for path in (out / "_kproxy" / "quarantine").glob("*.json")]
    assert sorted(each["path"] for each in quarantine) == [f"{view}/in/cut.pcap", f"{view}/in/empty.pcap"]
    found = rowset(out)
    assert all(set(expected[table]) <= set(found[table]) for table in TABLES)
    assert report.rows["exchanges"] == len(found["exchanges"]) > len(expected["exchanges"]) == 23
    assert all(list((out / table).glob("cluster=*/day=*/*.parquet")) for table in TABLES)
    assert run(spark, view) == Report(unread=1, skipped=2, problems=report.problems)
    assert run(spark, view, again=True).read == 2
    assert differences(found, rowset(out)) == {}


@pytest.mark.slow
def test_a_capture_is_divided(spark: "SparkSession", view: str, tmp_path: Path) -> None:
    """Once with a copy in a staging folder, once as on a cluster without one: through Spark's shuffle."""
    (tmp_path / "seen" / "in" / CAPTURE.name).write_bytes(CAPTURE.read_bytes())
    (tmp_path / "staging").mkdir()
    for name, inputs in (("staged", f"{view}/in"), ("shuffled", str(tmp_path / "seen" / "in"))):
        output = Output(f"{view}/{name}", staging=str(tmp_path / "staging"))
        ingest(spark.sparkContext, [inputs], output, options=ALL_ROWS, split_from=0, parts=7)
        assert not list((tmp_path / "staging").iterdir())
        (tmp_path / name).mkdir()
        expected = decoded(CAPTURE, tmp_path / name, "--records")
        assert differences(expected, rowset(tmp_path / "seen" / name)) == {}


def test_what_is_not_there_is_said(spark: "SparkSession", view: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"/in/\*\.log: no such file"):
        ingest(spark.sparkContext, [f"{view}/in/*.log"], str(tmp_path))
    (tmp_path / "a.pcap").touch()
    for name in ("delta", "iceberg"):
        with pytest.raises(UsageError, match=f"this Spark session has no {name}"):
            ingest(spark.sparkContext, [str(tmp_path / "a.pcap")], Output(str(tmp_path / "out"), name))
