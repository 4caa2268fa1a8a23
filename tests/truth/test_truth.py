"""What kproxy report says about workloads whose truth was chosen."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.support.command import report_json
from tests.support.corpus import CAPTURES
from tests.support.kafka import jars
from tests.truth.__main__ import STORED
from tests.truth.draws import Draws
from tests.truth.lab import WORKLOADS
from tests.truth.manifest import read_manifests
from tests.truth.network import PROGRAMS
from tests.truth.score import CONTRARY, Report, Result, contradictions, explained, judge, score


@pytest.fixture(scope="module")
def made() -> Report:
    """All stored captures in one report, in which each capture and its cluster is one of its own."""
    return report_json("--all", "--separate", *read_manifests(STORED))


def test_promise_33_what_is_said_about_stored_captures_is_true(made: Report) -> None:
    manifests = read_manifests(STORED)
    result = Result()
    for manifest in manifests.values():
        judge(manifest, made, result)
    assert result.workloads == len(manifests) >= 3
    assert not result.wrong(), result.wrong()


@pytest.mark.slow
def test_promise_33_what_explain_says_of_settings_holds_their_values() -> None:
    answers = [
        answer
        for capture, manifest in read_manifests(STORED).items()
        for answer in explained(manifest, report_json("--only", "explain", capture)["analyses"]["explain"]["rows"])
    ]
    wrong = [what for holds, what in answers if not holds]
    assert len(answers) >= 50
    assert len(wrong) * 20 <= len(answers), wrong


def test_promise_33_no_two_statements_contradict_each_other(made: Report) -> None:
    assert {name for one, other, *_ in CONTRARY for name in (one, other)} <= made["analyses"].keys()
    assert not list(contradictions(made))
    # what falls behind cannot be throttled by its own doing: the pair is found
    client = {"client_id": "app", "first_at": "2026-11-28T01:00:00Z"}
    rows = {"throttled": [client], "falling_behind": [{**client, "cause": "consumer"}]}
    assert list(contradictions({"analyses": {name: {"rows": each} for name, each in rows.items()}}))


@pytest.mark.slow
def test_promise_33_nor_do_two_about_the_public_captures() -> None:
    assert not list(contradictions(report_json("--all", "--separate", *CAPTURES.glob("*.pcap*"))))


def test_promise_33_a_seed_draws_what_a_workload_leaves_open_and_nothing_else() -> None:
    work = WORKLOADS["slow-consumer"]
    words = {"topic": "orders", "group": "billing", "pause": 0.1, "library": "librdkafka"}
    assert Draws(None, work).client("billing", "consume", words) == words
    drawn: dict[str, set[str]] = {"billing": set(), "audit": set(), "named": set()}
    for seed in range(40):
        draws, again = Draws(seed, work), Draws(seed, work)
        assert draws.client("billing", "consume", words) == again.client("billing", "consume", words)
        assert draws.made == again.made
        group = {
            draws.client(f"audit-{n}", "consume", {"topic": "orders", "group": "audit"})["library"] for n in (1, 2)
        }
        assert len(group) == 1  # members of a group have an assignor in common
        named = draws.client("named", "consume", {**words, "group": "named", "library": "aiokafka"})
        for name, libraries in (
            ("billing", {draws.made[1].split()[1]}),
            ("audit", group),
            ("named", {named["library"]}),
        ):
            drawn[name] |= libraries
    assert drawn["named"] == {"aiokafka"}
    assert "sarama" in drawn["audit"] - drawn["billing"]  # it does not pause
    assert {"java", "kafka-python", "aiokafka"} <= drawn["billing"]


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
