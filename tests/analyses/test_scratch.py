"""Directories of killed processes go when the next one begins; those of living ones, and what only looks like one, stay."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.analyses.duck import Database
from kproxy.analyses.scratch import LOCK, PREFIX, ScratchDirectory

OPENED = """
import sys
from kproxy.analyses.duck import Database
with Database([]) as database:
    database.connection.execute("CREATE TABLE large AS SELECT range AS n FROM range(100000)")
    print("there", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, of this process and of those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def other(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process with a database that is open."""
    process = subprocess.Popen([sys.executable, "-c", OPENED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        yield process
        process.kill()


def test_a_killed_process_leaves_nothing_for_long(folder: Path, other: subprocess.Popen[bytes]) -> None:
    (left,) = folder.iterdir()
    with Database([]):
        assert left.is_dir(), "it lives, and so does its directory"
    other.kill()
    other.wait(30)
    assert left.is_dir()
    with Database([]):
        assert not left.exists()
    assert list(folder.iterdir()) == []


def test_what_is_not_ours_stays(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (folder / f"{PREFIX}link").symlink_to(elsewhere)
    (folder / f"{PREFIX}file").touch()
    (folder / f"{PREFIX}begun").mkdir()  # by a process that has not come to its lock yet
    (folder / f"{PREFIX}linked").mkdir()
    (folder / f"{PREFIX}linked" / LOCK).symlink_to(elsewhere / LOCK)
    before = sorted(folder.rglob("*"))
    ScratchDirectory().cleanup()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
def test_another_users_stays(folder: Path) -> None:
    theirs = folder / f"{PREFIX}theirs"
    theirs.mkdir()
    (theirs / LOCK).touch()
    os.chown(theirs, 65_534, 65_534)
    ScratchDirectory().cleanup()
    assert theirs.is_dir()
