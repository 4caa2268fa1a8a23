"""What kproxy report says about workloads whose truth was chosen."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.support.command import report_json
from tests.support.kafka import jars
from tests.truth.__main__ import STORED
from tests.truth.lab import WORKLOADS
from tests.truth.manifest import read_manifests
from tests.truth.network import PROGRAMS
from tests.truth.score import Result, judge, score


def test_promise_33_what_is_said_about_stored_captures_is_true() -> None:
    """All in one report, in which each capture and its cluster is one of its own."""
    manifests = read_manifests(STORED)
    made = report_json("--all", "--separate", *manifests)
    result = Result()
    for manifest in manifests.values():
        judge(manifest, made, result)
    assert result.workloads == len(manifests) >= 3
    assert not result.wrong(), result.wrong()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in {"member-killed"} else pytest.mark.long)
        for name in WORKLOADS
    ],
)
def test_promise_33_what_is_said_about_a_new_run_is_true(name: str, tmp_path: Path, require: Require) -> None:
    require("kafka", jars.missing() is None, jars.missing() or "")
    require("netns", os.geteuid() == 0 and all(map(shutil.which, PROGRAMS)), f"needs root, {', '.join(PROGRAMS)}")
    # in a network of its own: Chromium, in a test next to this one, ends all connections when the machine gets another bridge
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    subprocess.run([*alone, sys.executable, "-m", "tests.truth", "make", name, "-o", str(tmp_path)], check=True)
    result: Result = score(tmp_path)
    assert not result.wrong(), result.wrong()
