"""Credentials that are in captures are in no output: those on the wire, and those that a broker wrote into its own log."""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
OUTPUTS = [["--format", "jsonl"], ["--format", "text"], ["--format", "text", "-v"]]
SCRAM_TOKEN = re.compile(rb"(?:n,,n=|c=biws,r=|r=|v=)[!-~]{8,}")  # RFC 5802: the four messages of an exchange


def decoded(file: str, options: list[str]) -> str:
    command = [sys.executable, "-c", "from kproxy.cli import main; main()", "decode", *options, str(CAPTURES / file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True)
    return run.stdout + run.stderr


@pytest.mark.parametrize("options", OUTPUTS, ids=" ".join)
def test_scram_tokens_are_withheld(options: list[str]) -> None:
    tokens = set(SCRAM_TOKEN.findall((CAPTURES / "06-sasl-scram.pcap").read_bytes()))
    assert len(tokens) == 20  # five connections, four messages each
    shown = decoded("06-sasl-scram.pcap", options)
    assert "SaslAuthenticate" in shown
    for token in tokens:
        assert token.decode() not in shown
        assert token.hex()[:24] not in shown
        assert base64.b64encode(token[:18]).decode() not in shown  # 18 bytes: no padding, so a prefix of the whole


@pytest.mark.parametrize("options", OUTPUTS, ids=" ".join)
def test_salts_and_salted_passwords_are_withheld(options: list[str]) -> None:
    with gzip.open(CAPTURES / "broker-log" / "05-admin.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    changes = [
        row["request"] for row in rows if row["requestHeader"]["requestApiKeyName"] == "ALTER_USER_SCRAM_CREDENTIALS"
    ]
    secrets = [
        upsertion[name]
        for change in changes
        for upsertion in change["upsertions"]
        for name in ("salt", "saltedPassword")
    ]
    assert len(secrets) == 2
    shown = decoded("05-admin.pcap", options)
    assert "AlterUserScramCredentials" in shown
    for secret in secrets:
        assert secret not in shown
        assert base64.b64decode(secret).hex()[:24] not in shown


@pytest.mark.parametrize("options", [[], ["--anonymize"]], ids=["clear", "anonymous"])
@pytest.mark.parametrize("file", ["06-sasl-scram.pcap", "05-admin.pcap"])
def test_a_capture_that_is_written_holds_none(file: str, options: list[str], tmp_path: Path) -> None:
    target = tmp_path / "written.pcapng"
    decoded(file, ["--format", "pcapng", "-o", str(target), *options])
    data = target.read_bytes()
    original = (CAPTURES / file).read_bytes()
    with gzip.open(CAPTURES / "broker-log" / "05-admin.jsonl.gz", "rt", encoding="utf-8") as lines:
        changed = [row["request"].get("upsertions", []) for row in map(json.loads, lines)]
    salts = {base64.b64decode(each[name]) for rows in changed for each in rows for name in ("salt", "saltedPassword")}
    secrets = {secret for secret in {*SCRAM_TOKEN.findall(original), *salts} if secret in original}
    assert len(secrets) >= 2
    assert [secret for secret in secrets if secret in data] == []
