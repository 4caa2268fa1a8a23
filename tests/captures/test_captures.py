"""Real captures (captures/README.md): decoded, and compared with the brokers' own request logs by captures/check.py."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CAPTURES = Path(__file__).parents[2] / "captures"
MANIFEST = [json.loads(line) for line in (CAPTURES / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines()]
ENCRYPTED = "07-tls13-dsb.pcapng"  # what is inside TLS needs decryption, which kproxy decode does not do

# check.py counts the records of Produce requests from ``embedded``, which does not look into record batches.
RECORDS_NOT_COUNTED = re.compile(r"topic \S+: 0 records produced on the wire, \d+ were acknowledged")


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_the_capture_is_the_one_the_manifest_describes(entry: dict[str, str]) -> None:
    data = (CAPTURES / entry["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == entry["sha256"]


@pytest.mark.parametrize("entry", [e for e in MANIFEST if e["file"] != ENCRYPTED], ids=lambda entry: entry["file"])
def test_every_exchange_is_what_the_broker_logged(entry: dict[str, str]) -> None:
    command = f"{sys.executable} -c 'from kproxy.cli import main; main()' decode --format jsonl {{file}}"
    words = [sys.executable, str(CAPTURES / "check.py"), "--command", command, "--only", entry["file"], "--show", "20"]
    run = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})
    verdict, *problems = run.stdout.splitlines()[:-2]
    unexpected = [line.strip() for line in problems if not RECORDS_NOT_COUNTED.fullmatch(line.strip())]
    assert not unexpected, run.stdout + run.stderr
    requests = sum(entry["requests_by_api_and_version"].values())  # type: ignore[attr-defined]
    assert f" {entry['file']}: {requests}/{requests} requests, " in verdict
    assert re.search(r", bodies \d+ equal 0 not, 0 rows of the log not seen, exit 0$", verdict), verdict
