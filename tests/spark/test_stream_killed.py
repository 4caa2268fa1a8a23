"""A driver that follows a folder is killed (SIGKILL) in the middle of batches; at the end each row is there once."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.corpus import CAPTURES
from tests.support.kafka.processes import eventually
from tests.support.spark import ROOT
from tests.support.split_captures import decoded, packets_of, rowset

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]
PROGRAM = [
    sys.executable,
    "-c",
    "from kproxy.cli.spark import main; main()",
    "ingest",
    "--master",
    "local[2]",
    "--records",
]
GROWING = "03-classic-rebalance-range.pcap"
FILES = 24
PATIENCE_S = 600
OLD = time.time() - 1_000


class Driver:
    """kproxy-spark, in a session of its own, with what it starts."""

    def __init__(self, tmp_path: Path, *words: str) -> None:
        where = [*words, "--checkpoint", str(tmp_path / "check"), "-o", str(tmp_path / "out"), str(tmp_path / "in")]
        environment = dict(os.environ, PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
        environment["SPARK_LOCAL_DIRS"] = str(tmp_path / "local")
        self._told = (tmp_path / "told").open("ab")
        self.process = subprocess.Popen(
            [*PROGRAM, "--follow", *where], env=environment, stderr=self._told, start_new_session=True
        )

    def kill(self) -> None:
        """It, and its JVM: they share a process group. Workers end by themselves."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)
        self.close()

    def close(self) -> None:
        """Close what it told, once it has ended."""
        self._told.close()


def put(path: Path, data: bytes) -> None:
    """A file that is complete, as far as its time of change tells."""
    (path.parent / f".{path.name}").write_bytes(data)
    os.utime(path.parent / f".{path.name}", (OLD, OLD))
    (path.parent / f".{path.name}").rename(path)


def test_rows_come_once_whenever_the_driver_is_killed(require: object, tmp_path: Path) -> None:
    header, records = packets_of(GROWING)
    (folder := tmp_path / "in").mkdir()
    other = (CAPTURES / "06-sasl-scram.pcap").read_bytes()
    state, offsets = tmp_path / "out" / "_kproxy", tmp_path / "check" / "offsets"
    for number in range(FILES):
        put(folder / f"{number:02}.pcap", other)
    moments: list[Callable[[], bool]] = [
        lambda: any((state / "staging").rglob("*.parquet")),  # tasks are writing rows
        lambda: len(list((state / "files").glob("*.json"))) >= 3,  # the driver puts files into place
        lambda: len(list(offsets.glob("[0-9]*"))) >= 2,  # a second batch, of what has grown, is planned
    ]
    for step, moment in enumerate(moments, 1):
        put(folder / "growing.pcap", header + b"".join(records[: step * len(records) // (len(moments) + 1)]))
        driver = Driver(tmp_path)
        try:
            eventually(lambda now=moment: now() or driver.process.poll() is not None, patience=PATIENCE_S)  # type: ignore[misc]  # noqa: B023
            assert driver.process.poll() is None, (tmp_path / "told").read_text()[-3_000:]
        finally:
            with suppress(ProcessLookupError):
                driver.kill()
    put(folder / "growing.pcap", header + b"".join(records))
    last = Driver(tmp_path, "--once")
    assert last.process.wait(PATIENCE_S) == 0, (tmp_path / "told").read_text()[-3_000:]
    last.close()
    found = rowset(tmp_path / "out")
    (one := tmp_path / "one").mkdir()
    (whole := tmp_path / "whole").mkdir()
    shutil.copy(folder / "00.pcap", one / "00.pcap")
    each, grown = decoded(folder / "00.pcap", one, "--records"), decoded(folder / "growing.pcap", whole, "--records")
    assert len(each["exchanges"]) == 41  # as its manifest counts them
    assert {table: len(rows) for table, rows in found.items()} == {
        table: FILES * len(rows) + len(grown[table]) for table, rows in each.items()
    }
    for table in ("exchanges", "offsets", "group_events"):
        assert set(grown[table]) <= set(found[table])
