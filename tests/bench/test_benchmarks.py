"""The benchmarks themselves: their captures are real Kafka traffic to others, too, and what they measure is what they say."""

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.bench.first_minute import ROOT, cost_of, steps
from tests.bench.measuring import paired
from tests.bench.memory import peak_of
from tests.bench.traffic import (
    SHAPES,
    compact,
    fetch_response_v13,
    metadata_response_v12,
    record_batch,
    uvarint,
)
from tests.conftest import Require
from tests.support.frames import crc32c


def test_crc32c_is_that_of_iscsi() -> None:
    # RFC 3720, B.4: 32 bytes of zeroes, of ones, and 0 to 31; the RFC prints them least significant byte first.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


def test_a_batch_is_as_long_as_it_says() -> None:
    batch = record_batch(random.Random(1), 16_000)
    assert struct.unpack_from(">qi", batch) == (0, len(batch) - 12)
    assert batch[16] == 2  # magic
    assert 15_000 < len(batch) < 18_000


@pytest.mark.parametrize("shape", SHAPES)
def test_the_capture_is_the_same_every_time(tmp_path: Path, shape: str) -> None:
    exchanges = [SHAPES[shape](tmp_path / name, 1_000_000) for name in ("a.pcap", "b.pcap")]
    assert exchanges[0] == exchanges[1] > 10
    assert (tmp_path / "a.pcap").read_bytes() == (tmp_path / "b.pcap").read_bytes()


@pytest.mark.parametrize("shape", SHAPES)
def test_tshark_reads_every_frame_of_it(tmp_path: Path, shape: str, require: Require) -> None:
    require("tshark", shutil.which("tshark"), "tshark is not installed")
    exchanges = SHAPES[shape](tmp_path / "traffic.pcap", 1_000_000)
    fields = ["-T", "fields", "-e", "kafka.correlation_id", "-e", "_ws.malformed"]
    command = ["tshark", "-r", str(tmp_path / "traffic.pcap"), "-Y", "kafka", *fields]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    frames = [number for line in lines for number in line.split("\t")[0].split(",")]
    assert len(frames) == 2 * exchanges
    assert not any(line.split("\t")[1] for line in lines)


def test_a_ratio_has_both_sides_and_its_spread() -> None:
    ratio = paired(lambda: sum(range(10)), lambda: sum(range(10)), rounds=3, seconds=0.001)
    assert ratio.ours > 0 and len(ratio.ratios) == 3
    assert " x" in ratio.line("ours", "theirs")


def test_bodies_are_of_the_sizes_that_are_quoted() -> None:
    assert len(metadata_response_v12()) == 28_492
    assert len(fetch_response_v13()) == 21_172


def test_varints_are_those_of_the_protocol() -> None:
    # The examples of the Protocol Buffers encoding guide, whose base-128 varints KIP-482 took over.
    assert uvarint(1) == b"\x01"
    assert uvarint(150) == b"\x96\x01"
    assert compact(None) == b"\0"
    assert compact(b"a") == b"\x02a"


def test_the_first_step_is_the_first_command_of_the_readme() -> None:
    first, *_ = steps(ROOT)
    assert first.command.startswith("python3 -m venv .venv && .venv/bin/pip install -e . ")


def test_cpu_of_all_processes_of_a_command_counts(tmp_path: Path) -> None:
    cost = cost_of("(i=0; while ((i < 100000)); do ((++i)); done) & wait", tmp_path)
    assert cost.cpu > 0 and cost.seconds > 0


def test_a_command_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        cost_of("false | true", tmp_path)


@pytest.mark.slow
def test_twenty_times_the_capture_takes_the_same_memory() -> None:
    few, small = peak_of(8 << 20)
    many, large = peak_of(160 << 20)
    assert many > 15 * few
    assert large < small + (12 << 20)
