"""Credentials of real logins are in no output: SCRAM's tokens, and salts and passwords that a broker wrote into its own log."""

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from tests.captures.test_canaries import run
from tests.support.corpus import CAPTURES

OUTPUTS = {
    "jsonl": ["--format", "jsonl"],
    "text": ["--format", "text"],
    "tree": ["--format", "text", "-v"],
    "pcapng": ["--format", "pcapng"],
    "anonymous": ["--format", "pcapng", "--anonymize"],
}
SCRAM_TOKEN = re.compile(rb"(?:n,,n=|c=biws,r=|r=|v=)[!-~]{8,}")  # RFC 5802: the four messages of an exchange


def scram_tokens() -> set[bytes]:
    return set(SCRAM_TOKEN.findall((CAPTURES / "06-sasl-scram.pcap").read_bytes()))


def salts_and_passwords() -> set[bytes]:
    with gzip.open(CAPTURES / "broker-log" / "05-admin.jsonl.gz", "rt", encoding="utf-8") as lines:
        changed = [row["request"].get("upsertions", []) for row in map(json.loads, lines)]
    return {base64.b64decode(each[name]) for rows in changed for each in rows for name in ("salt", "saltedPassword")}


@pytest.mark.parametrize("options", OUTPUTS.values(), ids=OUTPUTS)
def test_credentials_are_withheld(options: list[str], tmp_path: Path) -> None:
    for file, secrets, count, name in (
        ("06-sasl-scram.pcap", scram_tokens(), 20, b"SaslAuthenticate"),  # five connections, four messages each
        ("05-admin.pcap", salts_and_passwords(), 2, b"AlterUserScramCredentials"),
    ):
        assert len(secrets) == count
        written = tmp_path / file
        run("decode", *options, "-o", written, CAPTURES / file)
        shown = written.read_bytes()
        assert name in shown or "pcapng" in options
        for secret in secrets:
            spelled = secret, secret.hex()[:24].encode(), base64.b64encode(secret[:18])  # 18 bytes: no padding
            assert [each for each in spelled if each in shown] == []
