"""Times that several processes move on together."""

import os
import signal
import subprocess
import sys

import pytest

from kproxy.proxy.shared_counts import TIMES_START, SharedCounts
from kproxy.proxy.shared_times import GROUPS, WAYS, SharedTimes
from tests.support.traffic import ROOT

MOVE = """
import sys
from kproxy.proxy.shared_counts import SharedCounts
times = SharedCounts(int(sys.argv[1])).times("throttle")
for _ in range(2000):
    times.move_on("n", 0.5, 100.0)
"""
HOLD = """
import fcntl, sys, time
from kproxy.proxy.shared_counts import SharedCounts
fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def process(code: str, counts: SharedCounts) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", code, str(counts.fd)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, pass_fds=[counts.fd], env=environment)


@pytest.fixture
def counts() -> SharedCounts:
    return SharedCounts.create()


def test_a_time_moves_on_from_now_or_from_where_it_is(counts: SharedCounts) -> None:
    times = counts.times("throttle")
    assert times.move_on("a", 2, 10) == 12
    assert times.move_on("a", 3, 11) == 15
    assert times.move_on("a", 0, 11) == 15
    assert times.move_on("b", 1, 11) == 12
    assert times.move_on("a", 1, 20) == 21
    assert counts.times("other").move_on("a", 1, 11) == 12
    assert SharedCounts(counts.fd).times("throttle").move_on("a", 1, 11) == 22


def test_nothing_is_lost_between_processes(counts: SharedCounts) -> None:
    processes = [process(MOVE, counts) for _ in range(2)]
    assert [each.wait() for each in processes] == [0, 0]
    for each in processes:
        each.communicate()
    assert counts.times("throttle").move_on("n", 0, 100.0) == 100.0 + 2 * 2_000 * 0.5


def test_a_process_that_dies_meanwhile_holds_up_no_other(counts: SharedCounts) -> None:
    with process(HOLD, counts) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGKILL)
    assert counts.times("t").move_on("a", 1, 0) == 1


def test_of_too_many_names_those_are_forgotten_whose_time_is_past(
    counts: SharedCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kproxy.proxy.shared_times.GROUPS", 4)
    times = counts.times("t")
    for number in range(3):
        times.move_on(f"busy {number}", 1_000, 0)
    for number in range(GROUPS // 64):
        times.move_on(f"idle {number}", 1, number)
    assert [times.move_on(f"busy {number}", 0, 600) for number in range(3)] == [1_000] * 3
    assert WAYS > 3


def test_times_are_no_counts(counts: SharedCounts) -> None:
    counts.times("t").move_on("a", 1, 0)
    counts.count("c", "f", "e", "n").add(3)
    assert [row.count for row in counts.rows()] == [3]
    assert SharedTimes(counts.fd, TIMES_START, "t").move_on("a", 0, 0) == 1


@pytest.mark.parametrize("name", ["", "\udcff", "x" * 100_000, "\0"])
def test_any_name(counts: SharedCounts, name: str) -> None:
    assert counts.times("t").move_on(name, 1, 0) == 1
    assert counts.times("t").move_on(name, 1, 0) == 2
