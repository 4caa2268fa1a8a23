"""One capture on two cores: 1, 2, 7 and 64 parts give the tables of `kproxy decode`, whatever is wrong with it."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kproxy.spark.connections import gather
from kproxy.spark.divided import Undividable, decode_divided, partition_of, plan_capture
from kproxy.spark.files import find_files
from kproxy.spark.ingest import ingest
from kproxy.spark.rows import Options
from tests.bench.traffic import cluster_connection, file_header, metadata_v12, produce_v13, record_batch, send
from tests.support.corpus import CAPTURES
from tests.support.sampled import sampled
from tests.support.spark import ROOT
from tests.support.split_captures import altered, decoded, differences, packets_of, rowset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]  # Spark takes seconds for each
MIB = 1 << 20
BOUND, SIZE = 640 * MIB, 1_024 * MIB  # of a worker's address space; of what the connection carries
JOB = """
import json, resource, sys
from pyspark.sql import SparkSession
from kproxy.spark.ingest import ingest

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
bounds = spark.sparkContext.parallelize([0], 1).map(lambda _: resource.getrlimit(resource.RLIMIT_AS)[0]).collect()
report = ingest(spark.sparkContext, [sys.argv[1]], sys.argv[2], split_from=0)
print(json.dumps([bounds[0], report.rows, report.problems]))
spark.stop()
"""


def ingested(spark: "SparkSession", capture: Path, output: Path, parts: int) -> dict[str, list[str]]:
    notes: list[str] = []
    ingest(
        spark.sparkContext,
        [str(capture)],
        str(output),
        options=Options(records=True),
        split_from=0,
        parts=parts,
        note=notes.append,
    )
    assert notes == []
    return rowset(output)


@pytest.mark.parametrize("parts", sampled([1, 2, 7, 64], [7]))  # test_tasks.py compares them without Spark
def test_parts_give_the_tables_of_one_run(spark: "SparkSession", tmp_path: Path, parts: int) -> None:
    """10: connections between brokers, some of which begin before the capture; they span all parts."""
    capture = CAPTURES / "10-kraft-interbroker.pcap"
    found = ingested(spark, capture, tmp_path / "out", parts)
    assert differences(decoded(capture, tmp_path, "--records"), found) == {}
    assert len(found["connections"]) == 19


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("07-tls13-dsb.pcapng", None),
        pytest.param("12-midstream-start.pcap", "cut", marks=pytest.mark.slow),
        pytest.param("03-classic-rebalance-range.pcap", "shuffled", marks=pytest.mark.slow),
    ],
)
def test_so_do_those_of_pcapng_cut_and_shuffled_captures(
    spark: "SparkSession", tmp_path: Path, name: str, how: str | None
) -> None:
    capture = CAPTURES / name
    if how is not None:
        capture = tmp_path / name
        capture.write_bytes(altered(name, how, 1))
    expected = decoded(capture, tmp_path, "--records")
    assert len(expected["exchanges"]) > 5
    assert differences(expected, ingested(spark, capture, tmp_path / "out", 7)) == {}


@pytest.mark.parametrize("what", ["shorter", "gone"])
def test_a_capture_that_changes_while_it_is_read_costs_itself(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It does so between two stages: at a call that the driver makes."""
    (tmp_path / "in").mkdir()
    for name, capture in (("a.pcap", "03-classic-rebalance-range.pcap"), ("b.pcap", "06-sasl-scram.pcap")):
        (tmp_path / "in" / name).write_bytes((CAPTURES / capture).read_bytes())

    def changed(surveys: object) -> object:
        path = tmp_path / "in" / "a.pcap"
        if path.exists() and path.stat().st_size > 20_000:
            path.unlink() if what == "gone" else os.truncate(path, 20_000)
        return gather(surveys)  # type: ignore[arg-type]

    monkeypatch.setattr("kproxy.spark.divided.gather", changed)
    report = ingest(spark.sparkContext, [str(tmp_path / "in")], str(tmp_path / "out"), split_from=0, parts=2)
    assert (report.read, report.unread) == (1, 1)
    assert report.rows["exchanges"] == 41  # of the other, as its manifest counts them
    [problem] = report.problems
    assert problem.startswith(f"{tmp_path}/in/a.pcap: ")
    assert ("No such file" if what == "gone" else "it changed while it was being read") in problem


def test_names_that_another_connection_learns_behind_the_head_are_found(spark: "SparkSession", tmp_path: Path) -> None:
    """Without a head, no name is known at first: connections that ask for one are decoded again; with Spark's own shuffle."""
    capture = CAPTURES / "01-java-produce-consume-group.pcap"
    [file] = find_files([str(capture)])
    result = decode_divided(
        spark.sparkContext, file, Options(records=True), str(tmp_path / "out"), 3, head=0, sorted_by_spark=True
    )
    files = {part.path for part in result.files}
    for path in (tmp_path / "out").rglob("*.parquet"):
        if str(path) not in files:
            path.unlink()  # of the first round
    found, expected = rowset(tmp_path / "out"), decoded(capture, tmp_path, "--records")
    for table in ("exchanges", "record_batches", "records", "offsets"):
        assert found[table] == expected[table]
    assert result.numbers is not None
    assert len(result.numbers) == len(expected["connections"])


def test_large_connections_have_partitions_of_their_own(spark: "SparkSession") -> None:
    [file] = find_files([str(CAPTURES / "11-lossy-network.pcap")])
    plan = plan_capture(spark.sparkContext, file, 3)
    sizes: dict[bytes, int] = {}
    for survey in plan.surveys:
        for key, (_, _, size) in survey.connections.items():
            sizes[key] = sizes.get(key, 0) + size
    first, second, *_ = sorted(sizes, key=lambda key: -sizes[key])
    assert plan.owners[first] != plan.owners[second]
    assert partition_of(plan.owners, 3, (first, 99)) == plan.owners[first]
    small = random.Random(1).randbytes(12)
    assert partition_of(plan.owners, 3, (small, 1)) == partition_of(plan.owners, 3, (small, 2))


def test_compressed_captures_and_fragments_are_not_divided(spark: "SparkSession", tmp_path: Path) -> None:
    (packed := tmp_path / "a.pcap.gz").write_bytes(b"\x1f\x8b" + bytes(50))
    header, records = packets_of("01-java-produce-consume-group.pcap")
    fragment = bytearray(records[0])
    fragment[16 + 14 + 6 : 16 + 14 + 8] = b"\x20\x00"  # more fragments
    (fragmented := tmp_path / "b.pcap").write_bytes(header + bytes(fragment) + b"".join(records[1:]))
    for path, reason in ((packed, "compressed"), (fragmented, "IP fragments")):
        [file] = find_files([str(path)])
        with pytest.raises(Undividable, match=reason):
            decode_divided(spark.sparkContext, file, Options(), str(tmp_path / "staging"), 2)


def write_connection(path: Path) -> int:
    """One connection that carries SIZE bytes; how many exchanges."""
    batch, exchanges, at = record_batch(random.Random(5), 256 << 10), 1, 1_700_000_000_000_000
    with path.open("wb") as out:
        out.write(file_header())
        connection = cluster_connection(out, 1)
        connection.open(at)
        send(connection, metadata_v12(0), at)
        while out.tell() < SIZE:
            at += 1_000
            send(connection, produce_v13(exchanges, 3, 1, batch), at)
            exchanges += 1
    return exchanges


@pytest.mark.long
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "copied"])
def test_a_connection_beyond_the_memory_of_its_worker(require: object, tmp_path: Path, *, in_place: bool) -> None:
    exchanges = write_connection(tmp_path / "one.pcap")
    settings = {
        "spark.master": "local[1]",
        "spark.executor.pyspark.memory": f"{BOUND // MIB}m",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    words = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    environment = dict(os.environ, PYSPARK_SUBMIT_ARGS=f"{words} pyspark-shell", PYSPARK_PYTHON=sys.executable)
    environment |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    job = JOB if in_place else "import kproxy.spark.divided as d; d.SHARE_OF_MEMORY = 0\n" + JOB
    command = [sys.executable, "-c", job, str(tmp_path / "one.pcap"), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3_000:]
    bound, rows, problems = json.loads(done.stdout.splitlines()[-1])
    assert (bound, problems) == (BOUND, [])
    assert (rows["connections"], rows["exchanges"], rows["record_batches"]) == (1, exchanges, exchanges - 1)
