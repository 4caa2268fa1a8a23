"""A connection larger than what the memory of its worker may grow to: decoded all the same, by the task that it is given to."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.traffic import cluster_connection, file_header, metadata_v12, produce_v13, record_batch, send
from tests.support.spark import ROOT

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]
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
