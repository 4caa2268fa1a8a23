"""The process of the live page: what it opens, and that it ends with its input."""

import subprocess
import sys

import msgspec
import pytest

from kproxy.page.live.process import FEED, HTTP

MODULE = ["-m", "kproxy.page.live"]
STARVED = ["-c", "import kproxy.page.live.__main__ as made; made.PATIENCE_S = 0; made.main()"]
FAULT = """
from kproxy.page.live.process import _end
try:
    {}["what traffic says"]
except KeyError as fault:
    _end(fault)
"""


def test_a_fault_is_told_by_its_kind_and_place() -> None:
    ended = subprocess.run([sys.executable, "-c", FAULT], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "\nkproxy page: KeyError in <string>, line 4\n")


@pytest.mark.long
@pytest.mark.parametrize("how", [MODULE, STARVED], ids=["as ever", "without CPU for its imports"])
def test_the_process_ends_with_its_input(how: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("live")  # short enough for the path of a socket
    words = [sys.executable, *how]
    arguments = {"folder": str(folder), "name": "a proxy", "token": "t", "hosts": []}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(arguments) + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        assert {path.name for path in folder.iterdir()} == {FEED, HTTP}
        process.stdin.close()
        assert process.wait(60) == 0
