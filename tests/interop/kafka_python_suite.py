"""kafka-python's own integration tests, out of its sdist, against an address.

`python -m tests.interop.kafka_python_suite HOST:PORT [--release 4.3.1] [-- pytest options]` runs them and prints outcomes;
``run`` does so for a test. The sdist leaves one module out that its tests import, ``test/service.py``: with a broker that runs
already all it has to hold is two names.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests.support.kafka.jars import NEWEST

VERSION = "3.0.12"
PATIENCE = 900
_SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port
    def open(self): ...
    def stop(self): ...
    def dump_logs(self): ...

class SpawnedService(ExternalService): ...
"""


def suite(folder: Path) -> Path:
    """Fetch and unpack the sdist into *folder*; returns where its tests are run from."""
    words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, f"kafka-python=={VERSION}"]
    subprocess.run(command, check=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    (archive,) = folder.glob("kafka_python-*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, filter="data")
    (root,) = (each for each in folder.glob("kafka_python-*") if each.is_dir())
    (root / "test" / "__init__.py").touch()
    (root / "test" / "service.py").write_text(_SERVICE, encoding="utf-8")
    (root / "kafka-bin").mkdir()
    return root


def run(root: Path, bootstrap: str, release: str, *, options: Sequence[str] = ()) -> dict[str, str]:
    """Outcome ("passed", "failed", "skipped") by test, of the suite in *root* against *bootstrap*."""
    report = root / "report.xml"
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": release,
        "KAFKA_ROOT": str(root / "kafka-bin"),
        "PYTHONPATH": str(root),
    }
    plugins = ["-p", "no:cacheprovider", "-p", "no:randomly", "-q", f"--junit-xml={report}", "--ignore-glob=*ssl*"]
    words = [
        sys.executable,
        "-m",
        "pytest",
        *plugins,
        "--timeout=90",
        "--timeout-method=signal",
        *options,
        "test/integration",
    ]
    done = subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if not report.is_file():
        raise RuntimeError(f"no report: {done.stdout[-3_000:]}{done.stderr[-3_000:]}")
    outcomes = dict(map(_outcome, ET.parse(report).iter("testcase")))
    report.unlink()
    return outcomes


def _outcome(case: ET.Element) -> tuple[str, str]:
    kinds = {child.tag for child in case}
    outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return f"{case.get('classname')}::{case.get('name')}", outcome


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("--release", default=NEWEST)
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(suite(Path(folder)), given.bootstrap, given.release, options=given.options)
    for name, outcome in sorted(outcomes.items()):
        print(f"{outcome:8} {name}")
    print({outcome: list(outcomes.values()).count(outcome) for outcome in sorted(set(outcomes.values()))})


if __name__ == "__main__":
    main()
