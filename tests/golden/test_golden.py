"""What Kafka's own classes wrote (README.md here): kproxy reads it, renders it and writes it back, byte for byte."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sampled import sampled

HERE = Path(__file__).parent

# Lines of each file, as README.md lists them: a corpus that was cut short would otherwise pass.
LINES = {
    "messages": 8988,
    "structs": 1580,
    "conflicts": 161,
    "frames": 1446,
    "variants": 555,
    "records": 300,
    "embedded": 544,
}


@pytest.mark.parametrize("group", sampled(LINES, ["structs", "frames", "records", "embedded"]))
def test_every_line_is_read_and_written_as_kafka_does(group: str) -> None:
    command = [sys.executable, str(HERE / "check.py"), "--adapter", str(HERE / "adapter.py"), "--only", group]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stdout[-8_000:] + run.stderr[-8_000:]
    assert f"{group}: {LINES[group]} lines" in run.stdout
    assert run.stdout.rstrip().endswith(" 0 failed")


def test_readme_lists_the_lines_of_each_file() -> None:
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    for group, count in LINES.items():
        assert f"| {group}.jsonl.gz | {count} |" in readme
        with gzip.open(HERE / f"{group}.jsonl.gz") as lines:
            assert sum(1 for _ in lines) == count
