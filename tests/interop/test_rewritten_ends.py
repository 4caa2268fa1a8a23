"""Ends of responses that were rewritten as they passed, read by Kafka's own classes."""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.filters.test_parts import TAILS, body_with, looked_at, name_of
from tests.support.filtering import Served
from tests.support.kafka import jars

READER = Path(__file__).parent / "ReadEnds.java"
GONE_IN_4 = {(78, 0), (79, 0)}  # early access, KIP-932
PROXYS_NAME = 13  # bytes: proxy.example


@pytest.mark.slow
def test_kafka_reads_our_addresses_or_none_and_every_byte(require: Require) -> None:
    require("kafka", jars.missing() is None, jars.missing() or "")
    lines, expected = [], []
    for api_key, version in (pair for pair in TAILS if pair not in GONE_IN_4):
        rack = "" if api_key == 59 else ", rack='r1'"
        for size in [*range(1, 300), 1_000, 20_000]:
            body, start = body_with(api_key, version, "x" * size)
            told = body[:start] + looked_at(api_key, version, body[start:], Served())
            lines.append(f"{name_of(api_key)} {version} {told.hex()}")
            ours = f"NodeEndpoint(nodeId=7, host='proxy.example', port=20007{rack})" if size >= PROXYS_NAME else ""
            expected.append(f"[{ours}] 0")
    command = ["java", "-cp", f"{jars.jars(jars.NEWEST)}/*", str(READER)]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == expected, run.stderr
