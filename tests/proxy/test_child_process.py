"""The first steps of a child process: its arguments, signals, parent and title."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.proxy.child_process import ChildArguments, parse_child_arguments


@pytest.mark.parametrize(
    "arguments",
    [ChildArguments(1, 2), ChildArguments(1, 2, 3, (4,), 5, 7, 8), ChildArguments(1, 2, taps=(4, 5, 6))],
)
def test_a_childs_arguments_come_back_from_its_command_line(arguments: ChildArguments) -> None:
    assert parse_child_arguments(["kproxy-analyzer", *arguments.words()]) == arguments


def test_a_child_inherits_what_it_is_told_of() -> None:
    assert ChildArguments(1, 2, 3, (4, 5), 6, counts=8, stack=7).fds() == [2, 3, 4, 5, 6, 8, 7]
    assert ChildArguments(1, 2).fds() == [2]


CHILD = """
import os, signal, sys, time
from kproxy.proxy.child_process import ChildArguments, begin_child
begin_child(ChildArguments(int(sys.argv[1]) or os.getppid(), -1, worker=12))
print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_a_child_takes_its_title_and_leaves_the_signals_of_the_group_to_its_parent() -> None:
    command = [sys.executable, "-c", CHILD, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) == child.pid
        assert Path(f"/proc/{child.pid}/cmdline").read_text(encoding="ascii").rstrip("\0") == "kproxy: worker 12"
        assert Path(f"/proc/{child.pid}/comm").read_text(encoding="ascii") == "kproxy:worker12\n"
        status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
        ignored = int(re.findall(r"SigIgn:\t(\w+)", status)[0], 16)
        child.kill()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        assert ignored >> (number - 1) & 1


def test_a_child_whose_parent_is_gone_already_ends() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, "1"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")


CODE = """
import os, sys
from pathlib import Path
from kproxy.proxy.child_process import set_process_title
os.environ["LATER"] = "1"
set_process_title("kproxy: worker 10 " + "x" * 300, "kproxy:worker10 and more")
print(Path("/proc/self/cmdline").read_text().rstrip("\\0"), Path("/proc/self/comm").read_text(), sep="|", end="")
print(os.environ["EARLIER"], os.environ["LATER"])
"""


def test_the_title_replaces_the_command_line_and_the_name() -> None:
    """A title longer than the command line fits, too: it takes the place of the environment, which is moved."""
    command = [sys.executable, "-c", CODE, '{"secret": 1}']
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"EARLIER": "2" * 300})
    title, rest = done.stdout.split("|")
    assert title == "kproxy: worker 10 " + "x" * 300
    assert rest == f"kproxy:worker10\n{'2' * 300} 1\n"
