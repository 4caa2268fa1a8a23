"""The address of the page, which holds the token: on a terminal in the log, elsewhere in a file that only its owner may read."""

import os
import pty
import subprocess
import sys
from pathlib import Path

SCRIPT = """
from kproxy.proxy.logs import start_logging
from kproxy.proxy.supervisor.page_address import PageAddress
start_logging("json")
address = PageAddress()
address.tell("the page", "http://127.0.0.1:9644/?token=SECRET")
address.tell("the page", "http://127.0.0.1:9644/?token=SECRET")
input()
address.remove()
"""


def started(folder: Path, stderr: int) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stderr=stderr, env=environment)


def test_the_log_names_a_file_that_only_its_owner_may_read(tmp_path: Path) -> None:
    process = started(tmp_path, subprocess.PIPE)
    assert process.stdin is not None and process.stderr is not None
    line = process.stderr.readline()
    (file,) = tmp_path.iterdir()
    assert str(file).encode() in line and b"SECRET" not in line
    assert file.read_text(encoding="ascii") == "http://127.0.0.1:9644/?token=SECRET\n"
    assert file.stat().st_mode & 0o777 == 0o600
    _, rest = process.communicate(b"\n", timeout=60)
    assert (process.returncode, rest, list(tmp_path.iterdir())) == (0, b"", [])


def test_on_a_terminal_the_log_has_the_address(tmp_path: Path) -> None:
    here, there = pty.openpty()
    process = started(tmp_path, there)
    line = os.read(here, 4_096)
    process.communicate(b"\n", timeout=60)
    os.close(here)
    os.close(there)
    assert b"http://127.0.0.1:9644/?token=SECRET" in line
    assert list(tmp_path.iterdir()) == []


def test_no_file_can_be_written(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": "", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    script = SCRIPT.replace("address = ", "import tempfile; tempfile.tempdir = '/proc/nowhere'\naddress = ")
    done = subprocess.run([sys.executable, "-c", script], input=b"\n", capture_output=True, env=environment, check=True)
    assert b"could not be written" in done.stderr and b"SECRET" not in done.stderr
