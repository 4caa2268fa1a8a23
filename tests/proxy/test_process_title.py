"""What `ps` and `top` show, of a real process."""

import subprocess
import sys

CODE = """
import os, sys
from pathlib import Path
from kproxy.proxy.process_title import set_process_title
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
