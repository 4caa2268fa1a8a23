"""README.md to the letter, as a newcomer: a fresh checkout and environment, then every block of commands in its order."""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from kproxy.manual import text
from tests.conftest import Require

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST = re.findall(r"^\$ (.+)$", README, re.MULTILINE)[0]
BLOCKS = [
    block for block in re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL) if " --fault " not in block
]  # with a fault: tests/test_readme_commands.py
SPARK = ["pip install -e '.[spark]'", *re.findall(r"^    (kproxy-spark .+)$", text("spark"), re.MULTILINE)]
PORTS = (9092, 19092, 9644)
PATIENCE_S = 3_000  # compilation and downloads on a busy machine
# A cluster at localhost:9092 of the newcomer's own: the mock brokers of the extra `demo`, until its standard input ends.
CLUSTER = """
import sys
from confluent_kafka import Producer

settings = {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0}
owner = Producer(settings)
(broker,) = owner.list_topics(timeout=60).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""
PRODUCE = """
import sys
from confluent_kafka import Producer

client = Producer({"bootstrap.servers": sys.argv[1], "log_level": 0})
client.produce("walk", b"x")
sys.exit(client.flush(120))
"""


def script(folder: Path) -> str:
    """All of it as one shell script; `kproxy run` goes on beside the block after it until that has ended."""
    lines = ["set -euo pipefail", FIRST]
    for block in [*BLOCKS, "\n".join(SPARK)]:
        if not block.startswith("kproxy run "):
            lines.append(block)
            continue
        lines.append(
            f"coproc CLUSTER {{ exec python {folder / 'cluster.py'}; }}\n"
            "read -r broker <&${CLUSTER[0]}\n"
            f"{block.strip().replace('localhost:9092', '$broker')} &\n"
            "proxy=$!\n"
            "until curl -sf http://localhost:9644/readyz; do kill -0 $proxy; sleep 1; done\n"
            f"python {folder / 'produce.py'} localhost:19092\n"
            "until grep -q Produce kafka.jsonl; do sleep 1; done"
        )
    after = next(number for number, line in enumerate(lines) if line.startswith("kproxy doctor"))
    lines[after] = lines[after].replace("localhost:9092", "$broker")
    lines.insert(after + 1, "kill $proxy; wait $proxy; exec {CLUSTER[1]}>&-; wait")
    return "\n".join(lines)


@pytest.mark.long
def test_the_readme_to_the_letter(require: Require, tmp_path: Path) -> None:
    require("java", shutil.which("java"), "no Java runtime")
    for port in PORTS:
        with socket.socket() as tried:
            if not tried.connect_ex(("127.0.0.1", port)):
                pytest.skip(f"something else listens on port {port}")
    checkout = tmp_path / "kproxy"
    subprocess.run(["git", "-c", "safe.directory=*", "clone", "-q", ROOT, checkout], check=True)
    (tmp_path / "cluster.py").write_text(CLUSTER, encoding="utf-8")
    (tmp_path / "produce.py").write_text(PRODUCE, encoding="utf-8")
    environment = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = ["bash", "-c", script(tmp_path)]
    run = subprocess.run(
        words, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stdout[-4_000:] + run.stderr[-4_000:]
    assert re.search(r" Produce v\d+ .*  walk-\d", run.stdout), (
        "the decoded log has what was produced through the proxy"
    )
    assert " problem" not in run.stdout.partition("ok       kproxy at")[2].partition("no problems")[0]
    assert {"report.html", "for-a-bug-report.pcapng", "tables"} <= {path.name for path in checkout.iterdir()}
    assert "What made groups rebalance" in run.stdout
