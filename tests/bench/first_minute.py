"""The first minute of a newcomer, in seconds of wall clock and of CPU, beside the goals.

    python -m tests.bench.first_minute [--root .]

From a clone in a temporary directory: README.md's first command (environment, downloads, compilation, the first decoded
line), then `kproxy --version` and a decode of a small capture. The package index is the machine's; close everything else.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.bench.measuring import Cost, cost, options_of

ROOT = Path(__file__).parents[2]
CAPTURE = "captures/01-java-produce-consume-group.pcap"


class Step(NamedTuple):
    name: str
    command: str
    wall: float  # seconds, the goal
    cpu: float


def first_command(root: Path) -> str:
    """README.md's first line that begins with a prompt."""
    found = re.search(r"^\$ (.+)$", (root / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert found, "README.md has no command"
    return found[1]


def steps(root: Path) -> list[Step]:
    return [
        Step("empty directory to the first decoded line", first_command(root), 90, 160),
        Step("kproxy --version", ".venv/bin/kproxy --version", 0.1, 0.1),
        Step("decode of a small capture", f".venv/bin/kproxy decode {CAPTURE}", 0.25, 0.25),
    ]


def cost_of(command: str, folder: Path) -> Cost:
    """Run a command; raises CalledProcessError when it fails. The CPU is that of all its processes."""
    return cost(["bash", "-euo", "pipefail", "-c", command], cwd=folder)


def main() -> None:
    root = options_of(__doc__, root=str(ROOT)).root
    with tempfile.TemporaryDirectory(prefix="kproxy-first-minute-") as temporary:
        clone = Path(temporary) / "kproxy"
        subprocess.run(["git", "clone", "--quiet", root, clone], check=True)
        for step in steps(clone):
            found = cost_of(step.command, clone)
            goal = f"goal {step.wall:g} s, CPU {step.cpu:g} s"
            print(f"{step.name:<44} {found.seconds:7.2f} s  CPU {found.cpu:7.2f} s  ({goal})", flush=True)


if __name__ == "__main__":
    main()
