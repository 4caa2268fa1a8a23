"""The analyzer as a process: what `kproxy decode` says of a capture it says of the same bytes in its tap."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.config import Analysis, Rotated
from tests.support.tap import AnalyzerProcess, tap_items
from tests.support.traffic import CAPTURES

WHOLE = ["01-java-produce-consume-group.pcap", "02-librdkafka-codecs-kip848.pcap", "04-transactions.pcap"]


def decode(capture: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "kproxy", "decode", "--format", "jsonl", *options, str(capture)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("name", WHOLE)
def test_the_log_is_that_of_kproxy_decode(tmp_path: Path, name: str) -> None:
    log = tmp_path / "kafka.jsonl"
    with AnalyzerProcess(Analysis(log=Rotated(path=str(log)))) as analyzer:
        analyzer.tap(tap_items(CAPTURES / name))
        counts = analyzer.drain()
    expected = decode(CAPTURES / name)
    assert log.read_text().splitlines() == expected
    assert counts["exchanges"] == sum('"event":"exchange"' in line for line in expected)
    assert counts["faults"] == {} and counts["ring_faults"] == 0
