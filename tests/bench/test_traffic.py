"""The capture that the decode benchmark times is real Kafka traffic to others, too."""

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.bench.traffic import SEGMENT, crc32c, record_batch, write_capture
from tests.conftest import Require


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


@pytest.mark.parametrize("kind", SEGMENT)
def test_the_capture_is_the_same_every_time(tmp_path: Path, kind: str) -> None:
    exchanges = [write_capture(tmp_path / name, 1_000_000, kind) for name in ("a.pcap", "b.pcap")]
    assert exchanges[0] == exchanges[1] > 10
    assert (tmp_path / "a.pcap").read_bytes() == (tmp_path / "b.pcap").read_bytes()


@pytest.mark.parametrize("kind", SEGMENT)
def test_tshark_reads_every_frame_of_it(tmp_path: Path, kind: str, require: Require) -> None:
    require("tshark", shutil.which("tshark"), "tshark is not installed")
    exchanges = write_capture(tmp_path / "traffic.pcap", 2_000_000, kind)
    fields = ["-T", "fields", "-e", "kafka.correlation_id", "-e", "_ws.malformed"]
    command = ["tshark", "-r", str(tmp_path / "traffic.pcap"), "-Y", "kafka", *fields]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    frames = [number for line in lines for number in line.split("\t")[0].split(",")]
    assert len(frames) == 2 * exchanges
    assert not any(line.split("\t")[1] for line in lines)
