"""`python -m tests.bench.first_minute` measures; here: what it would run, and that it counts the CPU of children."""

import subprocess
from pathlib import Path

import pytest

from tests.bench.first_minute import ROOT, cost_of, steps


def test_the_first_step_is_the_first_command_of_the_readme() -> None:
    first, *_ = steps(ROOT)
    assert first.command.startswith("python3 -m venv .venv && .venv/bin/pip install -e . ")


def test_cpu_of_all_processes_of_a_command_counts(tmp_path: Path) -> None:
    cost = cost_of("(i=0; while ((i < 100000)); do ((++i)); done) & wait", tmp_path)
    assert cost.cpu > 0 and cost.wall > 0


def test_a_command_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        cost_of("false | true", tmp_path)
