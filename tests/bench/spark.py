"""`kproxy-spark ingest` on local[2] against `kproxy decode --format parquet` on one core, on captures of growing size.

    python -m tests.bench.spark [--mebibytes 256,512,1024] [--parts N] [--folder DIR] [--no-decode]

Of each: CPU seconds of all its processes, seconds by the clock, and the largest memory of the JVM and of any Python worker, read
from /proc twice a second. MB/s are per CPU second, which other programs on the machine disturb least; *ratio* is that of Spark to
that of kproxy decode. The captures are made by cluster_capture.py, and removed, as are the tables, which are compared by their
rows.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from tests.bench.cluster_capture import write_cluster

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
DECODE = [sys.executable, "-c", "from kproxy.cli import main; main()", "decode", "-q", "--format", "parquet"]
INGEST = [sys.executable, "-c", "from kproxy.cli.spark import main; main()", "ingest", "--master", "local[2]"]


class Watched:
    """A command while it runs: what it and its descendants use."""

    def __init__(self, command: list[str]) -> None:
        self.cpu: dict[tuple[str, int], float] = {}
        self.largest: dict[str, int] = {}
        begun = time.monotonic()
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                self._look(process.pid)
                time.sleep(0.5)
        self.seconds = time.monotonic() - begun
        if process.returncode != 0:
            sys.exit(f"{command} ended with {process.returncode}")

    def _look(self, root: int) -> None:
        parents: dict[int, int] = {}
        states: dict[int, list[str]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            states[int(entry.name)] = [name, *rest.split()]
            parents[int(entry.name)] = int(rest.split()[1])
        for process, state in states.items():
            above = process
            while above not in (root, 0):
                above = parents.get(above, 0)
            if above == root:
                kind = "jvm" if state[0] == "java" else "python"
                self.cpu[kind, process] = (int(state[12]) + int(state[13])) / TICKS
                self.largest[kind] = max(self.largest.get(kind, 0), int(state[22]) * PAGE)

    def cpu_seconds(self, wanted: str | None = None) -> float:
        return sum(seconds for (kind, _), seconds in self.cpu.items() if wanted in (None, kind))


def rows(folder: Path) -> dict[str, int]:
    found = {}
    for table in sorted(path for path in folder.iterdir() if path.name[0] != "_"):
        [(found[table.name],)] = duckdb.sql(f"select count(*) from '{table}/**/*.parquet'").fetchall()
    return {name: count for name, count in found.items() if count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", default="256,512,1024")
    parser.add_argument("--parts", type=int)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--no-decode", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))
    os.environ["SPARK_LOCAL_DIRS"] = str(arguments.folder)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for mebibytes in map(int, arguments.mebibytes.split(",")):
        folder = Path(tempfile.mkdtemp(prefix="kproxy-spark-", dir=arguments.folder))
        try:
            measure(folder, mebibytes, arguments.parts, decodes=not arguments.no_decode)
        finally:
            shutil.rmtree(folder)


def measure(folder: Path, mebibytes: int, parts: int | None, *, decodes: bool) -> None:
    capture = folder / "cluster.pcap"
    exchanges = write_cluster(capture, mebibytes << 20)
    megabytes = capture.stat().st_size / 1e6
    extra = [] if parts is None else ["--parts", str(parts)]
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
