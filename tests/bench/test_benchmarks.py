"""The benchmarks' captures are real Kafka traffic to others, too; failures are no measurements; memory stays bounded."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.measuring import KPROXY, cost
from tests.bench.traffic import FIRST_AT, SHAPES, Connection, conversations, file_header, send
from tests.conftest import Require


@pytest.mark.slow
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


def test_cpu_of_all_processes_of_a_command_counts() -> None:
    assert cost(["bash", "-c", "(i=0; while ((i < 100000)); do ((++i)); done) & wait"]).cpu > 0.01


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        cost([sys.executable, "-c", "raise SystemExit(1)"])


def peak_of(size: int) -> int:
    """The most memory in bytes that decoding *size* bytes of a capture took; connections come and go without FIN."""
    command = [*KPROXY, "decode", "--format", "jsonl", "-q", "-o", os.devnull, "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(file_header())
        connections: dict[int, Connection] = {}
        sent = 0
        for at, (number, exchange) in enumerate(conversations(random.Random(9092))):
            if sent >= size:
                break
            if at % 200 == number or number not in connections:
                connections[number] = Connection(process.stdin, at % 25_000, 8_948)  # type: ignore[arg-type]
                connections[number].open(FIRST_AT + at * 1_500)
            send(connections[number], exchange, FIRST_AT + at * 1_500)
            sent += sum(map(len, exchange))
        process.stdin.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss * 1024


@pytest.mark.slow
def test_twenty_times_the_capture_takes_the_same_memory() -> None:
    assert peak_of(160 << 20) < peak_of(8 << 20) + (12 << 20)
