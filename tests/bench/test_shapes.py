"""The shapes that the decode benchmark adds are real Kafka traffic to others, too."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bench.shapes import SESSION, SHAPES
from tests.bench.traffic import SEGMENT
from tests.conftest import Require

ADDED = sorted(set(SHAPES) - set(SEGMENT))


@pytest.mark.parametrize("shape", ADDED)
def test_the_capture_is_the_same_every_time(tmp_path: Path, shape: str) -> None:
    exchanges = [SHAPES[shape](tmp_path / name, 500_000) for name in ("a.pcap", "b.pcap")]
    assert exchanges[0] == exchanges[1] > len(SESSION)
    assert (tmp_path / "a.pcap").read_bytes() == (tmp_path / "b.pcap").read_bytes()


@pytest.mark.parametrize("shape", ADDED)
def test_tshark_reads_every_frame_of_it(tmp_path: Path, shape: str, require: Require) -> None:
    require("tshark", shutil.which("tshark"), "tshark is not installed")
    exchanges = SHAPES[shape](tmp_path / "traffic.pcap", 500_000)
    fields = ["-T", "fields", "-e", "kafka.correlation_id", "-e", "_ws.malformed"]
    command = ["tshark", "-r", str(tmp_path / "traffic.pcap"), "-Y", "kafka", *fields]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    frames = [number for line in lines for number in line.split("\t")[0].split(",")]
    assert len(frames) == 2 * exchanges
    assert not any(line.split("\t")[1] for line in lines)
