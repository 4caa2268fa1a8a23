"""The first minute of a newcomer, in seconds of wall clock and of CPU, beside the goals.

    python -m tests.bench.first_minute [--root .]

From a clone in a temporary directory: README.md's first command (environment, downloads, compilation, the first decoded
line), then `kproxy --version` and a decode of a small capture. The package index is the machine's; close everything else.
"""

import argparse
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CAPTURE = "captures/01-java-produce-consume-group.pcap"


class Cost(NamedTuple):
    wall: float
    cpu: float


class Step(NamedTuple):
    name: str
    command: str
    goal: Cost


def first_command(root: Path) -> str:
    """README.md's first line that begins with a prompt."""
    found = re.search(r"^\$ (.+)$", (root / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert found, "README.md has no command"
    return found[1]


def steps(root: Path) -> list[Step]:
    return [
        Step("empty directory to the first decoded line", first_command(root), Cost(90, 160)),
        Step("kproxy --version", ".venv/bin/kproxy --version", Cost(0.1, 0.1)),
        Step("decode of a small capture", f".venv/bin/kproxy decode {CAPTURE}", Cost(0.25, 0.25)),
    ]


def cost_of(command: str, folder: Path) -> Cost:
    """Run a command; raises CalledProcessError when it fails. The CPU is that of all its processes."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description="The first minute of a newcomer, beside the goals.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository that is cloned")
    root = parser.parse_args().root
    with tempfile.TemporaryDirectory(prefix="kproxy-first-minute-") as temporary:
        clone = Path(temporary) / "kproxy"
        subprocess.run(["git", "clone", "--quiet", root, clone], check=True)
        for step in steps(clone):
            cost = cost_of(step.command, clone)
            goal = f"goal {step.goal.wall:g} s, CPU {step.goal.cpu:g} s"
            print(f"{step.name:<44} {cost.wall:7.2f} s  CPU {cost.cpu:7.2f} s  ({goal})", flush=True)


if __name__ == "__main__":
    main()
