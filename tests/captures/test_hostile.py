"""Hostile captures through every output, by their numbers: 18, names that would forge lines; 21, secrets; 30, wrong keys."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captures.test_captures import CAPTURES, ENVIRONMENT
from tests.pipeline.test_flow_reader import write
from tests.support.frames import (
    heartbeat,
    heartbeat_answer,
    response,
    sasl_authenticate,
    sasl_handshake,
    sasl_handshake_answer,
)

FORGED = "a\n04:49:57 forged\x1b[2J\x00\u202eevil\r" + "x" * 300
CANARY = b"canary-5f0e"


def decode(*words: str) -> str:
    command = [sys.executable, "-c", "from kproxy.cli import main; main()", "decode", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout


@pytest.mark.parametrize("options", [(), ("--format", "jsonl")])
def test_18_one_exchange_is_one_line_whatever_its_names_are(options: tuple[str, ...], tmp_path: Path) -> None:
    segments = [(True, heartbeat(1, group=FORGED)), (False, heartbeat_answer(1))]
    text = decode(*options, str(write(tmp_path / "a.pcap", segments, syn=True)))
    (line,) = text.splitlines()
    assert line.isprintable()
    assert "\u202e" not in line


@pytest.mark.parametrize("options", [(), ("-v", "--records"), ("--format", "jsonl", "--records")])
def test_21_a_password_is_in_no_output_in_no_spelling(options: tuple[str, ...], tmp_path: Path) -> None:
    token = b"\0alice\0" + CANARY
    segments = [
        (True, sasl_handshake(1, 1)),
        (False, sasl_handshake_answer(1)),
        (True, sasl_authenticate(2, token)),
        (False, response(2, b"\0\0\xff\xff\0\0\0\0")),
    ]
    text = decode(*options, str(write(tmp_path / "a.pcap", segments, syn=True)))
    assert "SaslAuthenticate" in text
    for shift in range(3):  # base64 of it wherever it stands in the token
        spelled = base64.b64encode(bytes(shift) + CANARY).decode()[4:-4]
        assert spelled not in text
    assert CANARY.decode() not in text and CANARY.hex() not in text


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
