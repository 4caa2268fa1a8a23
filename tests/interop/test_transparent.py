"""Transparent mode as it is used: clients keep the brokers' addresses, netfilter brings them to `kproxy run`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Require
from tests.support import namespaces
from tests.support.redirected import RESPONSE

ROOT = Path(__file__).parents[2]
CONFIG = """
admin: null
workers: {workers}
analysis: {{enabled: false}}
clusters:
  - listen: "[::]:19092"
    addresses: {{mode: transparent}}
"""
TO_KPROXY = ["-p", "tcp", "--dport", "9092", "-j", "REDIRECT", "--to-ports", "19092"]
EXCEPT_KPROXY = {"iptables": ["-s", namespaces.CLIENT], "ip6tables": ["-s", namespaces.CLIENT_6]}


def redirected(
    folder: Path, program: str, rule: list[str], broker: str, client: str, workers: int = 1
) -> dict[str, Any]:
    (folder / "kproxy.yaml").write_text(CONFIG.format(workers=workers), encoding="utf-8")
    with namespaces.namespace("kproxy-run", [program, "-t", "nat", "-A", "OUTPUT", *rule, *TO_KPROXY]) as inside:
        words = [*inside, sys.executable, "-m", "tests.support.redirected", str(folder / "kproxy.yaml"), broker, client]
        run = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout)
    return result


@pytest.mark.parametrize(
    ("program", "broker", "client"),
    [("iptables", namespaces.BROKER, namespaces.CLIENT), ("ip6tables", namespaces.BROKER_6, namespaces.CLIENT_6)],
)
def test_a_client_reaches_the_broker_it_asked_for(
    require: Require, tmp_path: Path, program: str, broker: str, client: str
) -> None:
    require("netns", namespaces.can_make_networks(), "network namespaces with NAT cannot be made here")
    result = redirected(tmp_path, program, EXCEPT_KPROXY[program], broker, client)
    assert bytes.fromhex(result["answer"]) == RESPONSE
    assert (result["connections"], result["exit"]) == (1, 0)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_rule_that_catches_kproxy_itself_ends_in_a_closed_connection_and_says_why(
    require: Require, tmp_path: Path, workers: int
) -> None:
    require("netns", namespaces.can_make_networks(), "network namespaces with NAT cannot be made here")
    result = redirected(tmp_path, "iptables", [], namespaces.BROKER, namespaces.CLIENT, workers)
    assert (result["answer"], result["connections"], result["exit"]) == ("", 0, 0)
    assert [event["reason"] for event in result["log"] if event["level"] == "error"] == []
    loops = [event for event in result["log"] if event.get("cause") == "loop"]
    assert [event["reason"] for event in loops] == ["kproxy's own connection to a broker was redirected back to it"]
