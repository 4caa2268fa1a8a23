"""The journals of one worker."""

import subprocess
import sys
from pathlib import Path

from kproxy.filters.options import Rotated
from kproxy.proxy.journals import Journals
from kproxy.proxy.messages import JournalState


def test_journals_are_opened_once_and_by_worker(tmp_path: Path) -> None:
    journals = Journals(2)
    file = Rotated(path=str(tmp_path / "audit.jsonl"))
    assert journals.open(file, print) is journals.open(file, print)
    journals.close()
    assert (tmp_path / "audit-2.jsonl.counts").exists()


def test_a_worker_without_journals_imports_no_files() -> None:
    words = "import sys, kproxy.proxy.worker; print(*({'difflib', 'pathlib', 'kproxy.pipeline'} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", words], capture_output=True, check=True, text=True)
    assert found.stdout.split() == []


def test_required_journals_are_looked_at(tmp_path: Path) -> None:
    """What is told is what has changed; a journal that no filter requires any more is well."""
    journals, folder = Journals(0), tmp_path / "not-there"
    file = Rotated(path=str(folder / "audit.jsonl"))
    journals.open(file, lambda reason: None)
    assert journals.changes() == []
    journals.require(file.path, True)
    journals.require(file.path, True)
    assert journals.changes() == [JournalState(file.path, "No such file or directory")]
    assert journals.changes() == []
    journals.require(file.path, False)
    assert journals.changes() == []
    journals.require(file.path, False)
    assert journals.changes() == [JournalState(file.path, "")]
    journals.close()
