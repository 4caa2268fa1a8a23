"""Hostile captures: 30, wrong keys. 18: tests/output/test_hostile_names.py; 21: test_canaries.py; the others: tests/capture."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captures.test_captures import CAPTURES, ENVIRONMENT


def decode(*words: str) -> str:
    command = [sys.executable, "-c", "from kproxy.cli import main; main()", "decode", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout


@pytest.mark.parametrize("wrong", ["nothing", "noise", "shifted"])
def test_30_wrong_secrets_are_no_worse_than_none(wrong: str, tmp_path: Path) -> None:
    """A key log that fits nothing, or not a line of it, changes nothing: the capture's own block still decrypts."""
    lines = {
        "nothing": "",
        "noise": "\x00\xff" * 5000 + "\n" + "CLIENT_RANDOM zz zz\n" * 1000,
        "shifted": f"CLIENT_TRAFFIC_SECRET_0 {'00' * 32} {'11' * 48}\n" * 3,
    }
    keys = tmp_path / "keys.log"
    keys.write_text(lines[wrong], encoding="latin-1")
    file = str(CAPTURES / "07-tls13-dsb.pcapng")
    found = decode("--format", "jsonl", "--keylog", str(keys), file)
    assert found == decode("--format", "jsonl", file)
    assert sum(json.loads(line)["event"] == "exchange" for line in found.splitlines()) == 24
