"""Counts of filters over several processes."""

import os
import signal
import subprocess
import sys

import pytest

from kproxy.errors import UsageError
from kproxy.proxy.shared_counts import SLOTS, FilterCount, SharedCounts
from kproxy.proxy.tap.sealed import create_sealed
from tests.support.traffic import ROOT

ADD = """
import sys
from kproxy.proxy.shared_counts import SharedCounts
count = SharedCounts(int(sys.argv[1])).count("orders", "faults", "calls", "f")
print(*[count.add() for _ in range(2000)])
"""
HOLD = """
import fcntl, sys, time
from kproxy.proxy.shared_counts import SharedCounts
counts = SharedCounts(int(sys.argv[1]))
fcntl.lockf(counts.fd, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def process(code: str, counts: SharedCounts) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", code, str(counts.fd)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, pass_fds=[counts.fd], env=environment)


def test_each_number_is_given_once_over_all_processes() -> None:
    counts = SharedCounts.create()
    processes = [process(ADD, counts) for _ in range(2)]
    given = [int(number) for each in processes for number in each.communicate()[0].split()]
    assert sorted(given) == list(range(1, 4001))
    assert counts.rows() == [FilterCount("orders", "faults", "calls", "f", 4000)]


def test_a_process_that_dies_while_it_counts_holds_up_nobody() -> None:
    counts = SharedCounts.create()
    with process(HOLD, counts) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGKILL)
    assert counts.count("c", "f", "e", "n").add(3) == 3


def test_a_name_has_one_count_also_if_it_is_hostile() -> None:
    counts = SharedCounts.create()
    other = SharedCounts(counts.fd)
    for name in ('"\n\0\u202e', "", "x" * 200):
        assert counts.count("c", "f", "e", name).add() == 1
        assert other.count("c", "f", "e", name).add() == 2
        assert counts.count("c", "f", "e", name).value == 2
    assert [row.name for row in other.rows()] == ['"\n\0\u202e', "", "x" * 200]


def test_there_is_room_for_so_many_and_for_names_of_some_length() -> None:
    counts = SharedCounts.create()
    for number in range(SLOTS):
        counts.count("c", "f", "e", str(number))
    with pytest.raises(UsageError, match="more than 4,096 things"):
        counts.count("c", "f", "e", "one more")
    assert counts.count("c", "f", "e", "7").add() == 1
    with pytest.raises(UsageError, match="too long"):
        counts.count("c", "f", "e", "x" * 1_100)


def test_another_file_holds_no_counts() -> None:
    with pytest.raises(ValueError, match="holds no counts"):
        SharedCounts(create_sealed("other", 100))
