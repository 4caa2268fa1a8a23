"""`kproxy-spark ingest` against `kproxy decode --format parquet` on one core, on captures of growing size.

    python -m tests.bench.spark [--mebibytes 256,512,1024] [--parts N] [--master local[2]] [--folder DIR] [--no-decode]

Without --master it runs on two cores without Spark.
Of each: CPU seconds of all its processes, seconds by the clock, and the largest memory of the JVM and of any Python worker, read
from /proc twice a second. MB/s are per CPU second, which other programs on the machine disturb least; *ratio* is that of Spark to
that of kproxy decode. The captures are made by traffic.py, and removed, as are the tables, which are compared by their
rows.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import duckdb

from tests.bench.measuring import KPROXY, options_of, started
from tests.bench.traffic import write_cluster
from tests.support.kafka.processes import children

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
DECODE = [*KPROXY, "decode", "-q", "--format", "parquet"]
INGEST = ["taskset", "-c", "0,1", sys.executable, "-c", "from kproxy.cli.spark import main; main()", "ingest"]


class Watched:
    """A command while it runs: what it and its descendants use, looked at twice a second: the JVM outlives its workers."""

    def __init__(self, command: list[str]) -> None:
        self.cpu: dict[tuple[str, int], float] = {}
        self.largest: dict[str, int] = {"jvm": 0}
        begun = time.monotonic()
        with subprocess.Popen(command) as process:
            before = os.times()
            while process.poll() is None:
                for pid in children(process.pid):
                    with suppress(OSError):
                        self._look(pid)
                time.sleep(0.5)
        self.seconds, after = time.monotonic() - begun, os.times()
        self.waited_for = sum(after[2:4]) - sum(before[2:4])
        if process.returncode != 0:
            sys.exit(f"{command} ended with {process.returncode}")

    def _look(self, pid: int) -> None:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        kind, state = "jvm" if name == "java" else "python", rest.split()
        self.cpu[kind, pid] = (int(state[11]) + int(state[12])) / TICKS
        self.largest[kind] = max(self.largest.get(kind, 0), int(state[21]) * PAGE)

    def cpu_seconds(self, wanted: str | None = None) -> float:
        """What was seen; without Spark, whose daemon does not wait for its workers, also what was used after the last look."""
        seen = sum(seconds for (kind, _), seconds in self.cpu.items() if wanted in (None, kind))
        return seen if wanted else max(seen, self.waited_for)


def rows(folder: Path) -> dict[str, int]:
    found = {}
    for table in sorted(path for path in folder.iterdir() if path.name[0] != "_"):
        [(found[table.name],)] = duckdb.sql(f"select count(*) from '{table}/**/*.parquet'").fetchall()
    return {name: count for name, count in found.items() if count}


def main() -> None:
    given = options_of(
        __doc__, mebibytes=[256, 512, 1024], parts=0, master="", folder=tempfile.gettempdir(), no_decode=False
    )
    for mebibytes in given.mebibytes:
        with started(given.folder) as folder:
            os.environ["SPARK_LOCAL_DIRS"] = str(folder)
            measure(folder, mebibytes, given.parts, given.master, decodes=not given.no_decode)


def measure(folder: Path, mebibytes: int, parts: int, master: str, *, decodes: bool) -> None:
    capture = folder / "cluster.pcap"
    exchanges = write_cluster(capture, mebibytes << 20)
    megabytes = capture.stat().st_size / 1e6
    extra = [*(["--parts", str(parts)] if parts else []), *(["--master", master] if master else [])]
    spark = Watched([*INGEST, "--split-from", "0", *extra, "-o", str(folder / "spark"), str(capture)])
    line = (
        f"{mebibytes:>6} MiB {exchanges:>9,} exchanges  spark {spark.cpu_seconds():7.1f} s CPU"
        f" (JVM {spark.cpu_seconds('jvm'):.1f}) {spark.seconds:7.1f} s"
        f" {megabytes / spark.cpu_seconds():6.1f} MB/s  JVM {spark.largest['jvm'] >> 20} MiB"
        f"  worker {spark.largest['python'] >> 20} MiB"
    )
    if decodes:
        decode = Watched([*DECODE, "-o", str(folder / "decoded"), str(capture)])
        expected, found = rows(folder / "decoded"), rows(folder / "spark")
        assert expected == found, (expected, found)
        line += (
            f"   decode {decode.cpu_seconds():7.1f} s CPU {megabytes / decode.cpu_seconds():6.1f} MB/s"
            f" {decode.largest['python'] >> 20} MiB   ratio {decode.cpu_seconds() / spark.cpu_seconds():.2f}"
        )
    print(line, flush=True)


if __name__ == "__main__":
    main()
