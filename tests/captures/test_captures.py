"""Real captures (captures/README.md): decoded, and compared with the brokers' own request logs by captures/check.py."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
MANIFEST = [json.loads(line) for line in (CAPTURES / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines()]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
# Requests that the broker logged as answered during the recording, but that were sent before it began.
SENT_BEFORE = {"10-kraft-interbroker.pcap": 7}


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_the_capture_is_the_one_the_manifest_describes(entry: dict[str, str]) -> None:
    data = (CAPTURES / entry["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == entry["sha256"]


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_every_exchange_is_what_the_broker_logged(entry: dict[str, str]) -> None:
    command = f"{sys.executable} -c 'from kproxy.cli import main; main()' decode --format jsonl {{file}}"
    words = [sys.executable, str(CAPTURES / "check.py"), "--command", command, "--only", entry["file"], "--show", "20"]
    run = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    verdict, *problems = run.stdout.splitlines()[:-2]
    assert not problems, run.stdout + run.stderr
    known = entry.get("requests_by_api_and_version", entry.get("broker_log_requests_by_api_and_version"))
    requests = sum(known.values())  # type: ignore[union-attr]
    assert f" {entry['file']}: {requests}/{requests} requests, " in verdict
    not_seen = SENT_BEFORE.get(entry["file"], 0)
    assert re.search(rf", bodies \d+ equal 0 not, {not_seen} rows of the log not seen, exit 0$", verdict), verdict


def test_an_incremental_fetch_is_shown_in_full() -> None:
    """The consumer of file 01 has read all records when it fetches again: its session stands at the producer's counts."""
    entry = next(e for e in MANIFEST if e["file"].startswith("01"))
    produced = entry["workload_report"]["produce"][0]["per_partition"]
    command = [
        sys.executable,
        "-c",
        "from kproxy.cli import main; main()",
        "decode",
        "-v",
        str(CAPTURES / entry["file"]),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    after = run.stdout.partition("epoch 1: 3 partitions\n")[2].splitlines()[:3]
    assert [line.split("─ ")[1] for line in after] == [f"{name} from offset {n}" for name, n in produced.items()]
