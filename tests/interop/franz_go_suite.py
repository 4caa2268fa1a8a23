"""franz-go's own tests, out of its Go module, against an address.

`python -m tests.interop.franz_go_suite HOST:PORT [-- options of a Go test binary]` runs them and prints outcomes; ``run`` does so
for a test. They need Go, and topics and groups of their own, which they make and remove: groups of each protocol that the broker
has (classic, KIP-848, share), transactions, regular expressions.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

VERSION = "v1.22.2"
MODULE = "github.com/twmb/franz-go"
PATIENCE = 1_800  # seconds
RECORDS = 5_000  # of its pipelines (ETL); its own default is 500,000
ENDED = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+) ", re.MULTILINE)
OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def suite(folder: Path) -> Path:
    """Fetch the module and build its tests into *folder*; returns the program."""
    (folder / "go.mod").write_text("module suite\n", encoding="utf-8")
    words = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    fetched = subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=PATIENCE)
    sources = Path(json.loads(fetched.stdout)["Dir"])
    program = folder / "kgo.test"
    subprocess.run(["go", "test", "-c", "-o", str(program), "./pkg/kgo"], cwd=sources, check=True, timeout=PATIENCE)
    return program


def run(program: Path, bootstrap: str, *, options: Sequence[str] = ()) -> dict[str, str]:
    """Outcome ("passed", "failed", "skipped") by test. A test that was not reached when the program ended is missing."""
    environment = {**os.environ, "KGO_SEEDS": bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS)}
    words = [str(program), "-test.v", f"-test.timeout={PATIENCE}s", "-test.count=1", *options]
    done = subprocess.run(
        words,
        cwd=program.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=PATIENCE + 60,
        check=False,
    )
    program.with_suffix(".log").write_text(done.stdout, encoding="utf-8")
    found = {name: OUTCOMES[outcome] for outcome, name in ENDED.findall(done.stdout)}
    if not found:
        raise RuntimeError(f"no outcome: {done.stdout[-3_000:]}")
    return found


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(suite(Path(folder)), given.bootstrap, options=given.options)
    for name, outcome in sorted(outcomes.items()):
        print(f"{outcome:8} {name}")
    print({outcome: list(outcomes.values()).count(outcome) for outcome in sorted(set(outcomes.values()))})


if __name__ == "__main__":
    main()
