"""captures/decoded: the decoded log of each sample capture, for who writes a reader of it, and so that no change goes unseen.

    python -m tests.captures.test_decoded      writes them anew; look at the difference before it is committed

That what is in them is true is shown elsewhere: test_captures.py compares with the brokers' own logs and the workloads' counts.
"""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.corpus import CAPTURES, ROOT

FOLDER = CAPTURES / "decoded"
FILES = sorted(CAPTURES.glob("*.pcap*"))


def decoded(file: Path) -> bytes:
    """The decoded log of a capture."""
    command = [
        sys.executable,
        "-c",
        "from kproxy.cli import main; main()",
        "decode",
        "-q",
        "--format",
        "jsonl",
        str(file),
    ]
    return subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout


def kept(file: Path) -> Path:
    """Where it is kept."""
    return FOLDER / f"{file.stem}.jsonl.gz"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_decoded_log_is_the_one_that_is_kept(file: Path) -> None:
    assert decoded(file).splitlines() == gzip.decompress(kept(file).read_bytes()).splitlines()


def test_nothing_else_is_kept() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(kept(file).name for file in FILES)


if __name__ == "__main__":
    for each in FILES:
        kept(each).write_bytes(gzip.compress(decoded(each), 9, mtime=0))
