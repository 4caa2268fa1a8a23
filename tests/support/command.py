"""The command line, run in this process: no start of an interpreter for each call. Reports are made in one of their own."""

import json
import subprocess
import sys
from typing import Any

import pytest

from kproxy.cli import main


def kproxy(*words: object) -> int:
    """Run `kproxy WORDS`; the exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def decode(*words: object) -> int:
    """Run `kproxy decode WORDS`; the exit status."""
    return kproxy("decode", *words)


def report_json(*words: object) -> dict[str, Any]:
    """Run `kproxy report WORDS` in a process of its own; what it says as JSON."""
    command = [sys.executable, "-m", "kproxy", "report", "-q", "--format", "json", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
