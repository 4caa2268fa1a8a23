"""The process of the live page: what it opens, and that it ends with its input."""

import subprocess
import sys

import msgspec
import pytest

from kproxy.page.live.process import FEED, HTTP


@pytest.mark.long
def test_the_process_ends_with_its_input(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("live")  # short enough for the path of a socket
    words = [sys.executable, "-m", "kproxy.page.live"]
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
