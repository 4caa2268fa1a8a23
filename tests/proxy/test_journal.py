"""The journal: every number is in the file or counted as dropped. tests/chaos/test_audit.py kills, and fills the disk."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kproxy.errors import UsageError
from kproxy.options import Rotated
from kproxy.proxy.filter_runtime import Journals
from kproxy.proxy.journal import (
    ATTRIBUTE,
    COUNTS,
    MOST_WAIT_S,
    SHORT_S,
    DiskThread,
    FileJournal,
    JournalCounts,
    Pending,
)
from kproxy.proxy.messages import JournalState
from kproxy.proxy.shared_state import SharedCounts
from tests.support.loops import Clock
from tests.support.namespaces import can_mount, fill, fill_inodes, small_disk


def journal(folder: Path, clock: Clock | None = None, **values: Any) -> FileJournal:
    file = Rotated(path=str(folder / "audit.jsonl"), **values)
    return FileJournal(file, 0, lambda reason: None, clock or Clock(), lambda: 5.0)


def lines(folder: Path) -> list[dict[str, Any]]:
    """All lines of all parts, in order."""
    parts = sorted(path for path in folder.glob("audit-0*jsonl") if path.name != "audit-0.jsonl")
    return [json.loads(line) for part in [*parts, folder / "audit-0.jsonl"] for line in part.read_text().splitlines()]


def numbers(folder: Path) -> list[int]:
    return [line["sequence"] for line in lines(folder) if "sequence" in line]


def totals(kept: FileJournal) -> tuple[int, int, int]:
    return kept.seen, kept.written, kept.dropped


def test_numbered_lines(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    for word in ("one", "two"):
        assert kept.write(kept.take(), json.dumps({"word": word}).encode())
    kept.close()
    assert lines(tmp_path) == [
        {"event": "begin", "worker": 0, "at": 5.0, "seen": 1, "written": 0, "dropped": 0},
        {"sequence": 1, "word": "one"},
        {"sequence": 2, "word": "two"},
    ]
    assert totals(kept) == (2, 2, 0)


def test_a_number_is_written_once(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    number = kept.take()
    assert kept.write(number, b'{"a":1}')
    assert not kept.write(number, b'{"a":1}')
    kept.drop(number)
    assert not kept.write(number + 1, b'{"a":1}')
    assert totals(kept) == (1, 1, 0)
    assert numbers(tmp_path) == [1]
    kept.close()


def test_dropped_numbers_are_told_before_the_next_line(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    for number in [kept.take() for _ in range(5)]:
        if number != 3:
            kept.drop(number)
    assert kept.write(3, b'{"a":1}')
    kept.close()
    assert [line for line in lines(tmp_path) if line.get("event") != "begin"] == [
        {"event": "dropped", "worker": 0, "at": 5.0, "count": 4, "numbers": [[1, 2], [4, 5]]},
        {"sequence": 3, "a": 1},
    ]
    assert totals(kept) == (5, 1, 4)


def test_the_next_process_goes_on(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.write(first.take(), b'{"a":1}')
    first.take()
    first.close()
    second = journal(tmp_path)
    assert second.take() == 3
    assert second.write(3, b'{"a":1}')
    second.close()
    assert numbers(tmp_path) == [1, 3]
    assert totals(second) == (3, 2, 1)
    begins = [line for line in lines(tmp_path) if line.get("event") == "begin"]
    assert [(line["seen"], line["written"], line["dropped"]) for line in begins] == [(1, 0, 0), (3, 1, 1)]


def test_a_line_that_was_written_in_part_is_cut_off(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.write(first.take(), b'{"a":1}')
    killed_at(first, first.take(), tmp_path, b'{"sequence":2,"a":1}\n')
    with (tmp_path / "audit-0.jsonl").open("ab") as file:
        file.write(b'{"sequence":2,"a"')
    second = journal(tmp_path)
    assert totals(second) == (2, 1, 1)
    second.write(second.take(), b'{"a":1}')
    second.close()
    assert numbers(tmp_path) == [1, 3]


def test_a_line_whose_count_was_not_reached_counts(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.write(first.take(), b'{"a":1}')
    killed_at(first, first.take(), tmp_path, b'{"sequence":2,"a":1}\n')
    with (tmp_path / "audit-0.jsonl").open("ab") as file:
        file.write(b'{"sequence":2,"a":1}\n')
    assert totals(journal(tmp_path)) == (2, 2, 0)


def test_a_line_that_tells_of_drops_and_whose_count_was_not_reached_tells_of_them(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.write(first.take(), b'{"a":1}')
    first.drop(first.take())
    line = b'{"event":"dropped","count":1,"numbers":[[2,2]]}\n'
    killed_at(first, 0, tmp_path, line, reported=1)
    with (tmp_path / "audit-0.jsonl").open("ab") as file:
        file.write(line)
    second = journal(tmp_path)
    second.write(second.take(), b'{"a":1}')
    second.close()
    assert said_to_be_missing(tmp_path) == second.dropped == 1


def test_a_kill_before_a_line_tells_of_drops(tmp_path: Path) -> None:
    """The next process says how many."""
    first = journal(tmp_path)
    first.write(first.take(), b'{"a":1}')
    first.drop(first.take())
    first.drop(first.take())
    killed_at(first, 0, tmp_path, b"")
    second = journal(tmp_path)
    assert second.write(second.take(), b'{"a":1}')
    second.close()
    assert said_to_be_missing(tmp_path) == second.dropped == 2


def killed_at(kept: FileJournal, number: int, folder: Path, line: bytes, reported: int = 0) -> None:
    """As if the process were killed when it was about to write a line."""
    part = (folder / "audit-0.jsonl").stat()
    kept._counts.pending = Pending(number, reported, part.st_ino, part.st_size, len(line))
    kept._counts.close()


def said_to_be_missing(folder: Path) -> int:
    return sum(line["count"] for line in lines(folder) if line.get("event") in ("dropped", "lost"))


def test_another_program_rotates_the_file(tmp_path: Path) -> None:
    """As logrotate: renamed, renamed with an empty one in its place, copied and truncated, removed. No number is twice."""
    kept, path = journal(tmp_path), tmp_path / "audit-0.jsonl"

    def write(count: int) -> None:
        for _ in range(count):
            assert kept.write(kept.take(), b'{"a":1}')

    write(3)
    path.rename(tmp_path / "renamed")
    write(3)
    path.rename(tmp_path / "renamed-2")
    path.touch()
    write(3)
    (tmp_path / "copied").write_bytes(path.read_bytes())
    os.truncate(path, 0)
    write(3)
    path.unlink()
    write(3)
    kept.close()
    files = ["renamed", "renamed-2", "copied", "audit-0.jsonl"]
    found = [
        [json.loads(line).get("sequence") for line in (tmp_path / name).read_text().splitlines()] for name in files
    ]
    assert found == [[None, 1, 2, 3], [None, 4, 5, 6], [None, 7, 8, 9], [None, 13, 14, 15]]
    assert totals(kept) == (15, 15, 0)


def test_counts_that_are_removed_are_made_again(tmp_path: Path) -> None:
    """Also with nobody at work: then from the newest part. Numbers go on."""
    kept, counts = journal(tmp_path), tmp_path / "audit-0.jsonl.counts"
    kept.write(kept.take(), b'{"a":1}')
    counts.unlink()
    kept.drop(kept.take())
    kept.write(kept.take(), b'{"a":1}')
    kept.close()
    assert totals(journal(tmp_path)) == (3, 2, 1)
    counts.unlink()
    again = journal(tmp_path)
    assert totals(again) == (3, 2, 1)
    assert again.write(again.take(), b'{"a":1}')
    assert numbers(tmp_path) == [1, 3, 4]


def test_counts_that_are_truncated_do_not_end_the_process(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    kept.write(kept.take(), b'{"a":1}')
    os.truncate(tmp_path / "audit-0.jsonl.counts", 0)
    assert kept.write(kept.take(), b'{"a":1}')
    kept.close()
    assert totals(journal(tmp_path)) == (2, 2, 0)


def test_the_memory_of_the_supervisor_has_the_counts_without_a_disk(tmp_path: Path) -> None:
    shared, folder = SharedCounts.create(), tmp_path / "not-there"
    file = Rotated(path=str(folder / "audit.jsonl"))
    for killed in range(3):
        kept = FileJournal(file, 0, lambda reason: None, memory=shared.memory)
        assert totals(kept) == (4 * killed, 0, 4 * killed)
        for _ in range(2):
            assert not kept.write(kept.take(), b'{"a":1}')
            kept.drop(kept.take())
    folder.mkdir()
    last = FileJournal(file, 0, lambda reason: None, memory=shared.memory)
    assert last.write(last.take(), b'{"a":1}')
    last.close()
    assert numbers(folder) == [13]
    assert said_to_be_missing(folder) == 12


def test_the_counts_are_one_process_s(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    with pytest.raises(UsageError, match="is used by another process"):
        journal(tmp_path)
    kept.close()


@pytest.mark.skipif(not can_mount(), reason="file systems cannot be mounted here")
@pytest.mark.parametrize("full", ["blocks", "inodes"])
def test_a_disk_that_is_full_from_the_start(tmp_path: Path, full: str) -> None:
    """The counts are exact after a kill, by the supervisor's memory, and without it where an attribute has room."""
    with small_disk(tmp_path / "disk", 262_144, inodes=10) as disk:
        fillers = [fill(disk)] if full == "blocks" else fill_inodes(disk)
        shared = SharedCounts.create()
        for killed in range(3):
            memory = shared.memory if killed < 2 or full == "inodes" else None
            kept = FileJournal(Rotated(path=str(disk / "audit.jsonl")), 0, lambda reason: None, memory=memory)
            assert totals(kept) == (2 * killed, 0, 2 * killed)
            assert not kept.write(kept.take(), b'{"a":1}')
            kept.drop(kept.take())
            os.close(kept._counts._fd) if kept._counts._fd >= 0 else None  # as a kill does
        for filler in fillers:
            filler.unlink()
        last = FileJournal(Rotated(path=str(disk / "audit.jsonl")), 0, lambda reason: None, memory=shared.memory)
        assert last.write(last.take(), b'{"a":1}')
        last.close()
        assert (numbers(disk), said_to_be_missing(disk)) == ([7], 6)


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


class Kept:
    """A Memory."""

    def __init__(self) -> None:
        self.data = b""

    def read(self) -> bytes:
        return self.data

    def write(self, data: bytes) -> None:
        self.data = data


def words(counts: JournalCounts) -> tuple[int, ...]:
    return counts.seen, counts.written, counts.dropped, counts.reported


def set_to(counts: JournalCounts, *values: int) -> JournalCounts:
    counts.seen, counts.written, counts.dropped, counts.reported = values
    return counts


def test_they_are_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    counts = JournalCounts(path)
    assert counts.are_new
    set_to(counts, 5, 3, 2, 1).pending = Pending(5, 0, 7, 100, 10)
    counts.save()
    counts._release()
    again = JournalCounts(path)
    assert (words(again), again.pending, again.are_new) == ((5, 3, 2, 1), (5, 0, 7, 100, 10), False)
    assert path.stat().st_size == COUNTS.size
    again.close()


def test_the_newest_of_all_places_are_taken(tmp_path: Path) -> None:
    path, memory = tmp_path / "counts", Kept()
    counts = set_to(JournalCounts(path, memory), 5, 3, 2, 1)
    counts.close()
    newer = set_to(JournalCounts(path, memory), 6, 3, 2, 1)
    newer.remember()
    newer._release()  # as a kill does
    assert words(loaded(path, memory)) == (6, 3, 2, 1)
    assert words(loaded(path)) == (5, 3, 2, 1)
    if can_have_attributes(path):
        newest = COUNTS.pack(b"kpcount3", 7, 3, 2, 1, 0, 0, 0, 0, 0)
        os.setxattr(path, ATTRIBUTE, newest)
        assert words(loaded(path, memory)) == (7, 3, 2, 1)


def loaded(path: Path, memory: Kept | None = None) -> JournalCounts:
    counts = JournalCounts(path, memory)
    counts._release()
    return counts


def can_have_attributes(path: Path) -> bool:
    try:
        os.setxattr(path, "user.kproxy.test", b"")
    except OSError as error:
        assert error.errno == errno.ENOTSUP
        return False
    return True


def test_what_is_removed_or_truncated_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    counts = set_to(JournalCounts(path), 1, 1, 0, 0)
    counts.save()
    path.unlink()
    counts.save()
    os.truncate(path, 3)
    counts.save()
    counts._release()
    assert words(loaded(path)) == (1, 1, 0, 0)


def test_counts_of_another_run_are_not_overwritten(tmp_path: Path) -> None:
    """A file that could not be opened at the start, and holds more."""
    folder = tmp_path / "later"
    counts = set_to(JournalCounts(folder / "counts"), 1, 0, 1, 0)
    with pytest.raises(FileNotFoundError):
        counts.save()
    folder.mkdir()
    set_to(JournalCounts(folder / "counts"), 9, 9, 0, 0).close()
    with pytest.raises(OSError, match="the counts of another run"):
        counts.save()
    assert words(loaded(folder / "counts")) == (9, 9, 0, 0)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("untouched")
    (tmp_path / "counts").symlink_to(tmp_path / "precious")
    counts = JournalCounts(tmp_path / "counts")
    with pytest.raises(OSError, match="symbolic links"):
        counts.save()
    assert (tmp_path / "precious").read_text() == "untouched"


def test_settling_counts_once() -> None:
    counts = JournalCounts(Path("/nowhere/counts"))
    counts.pending = Pending(1, 0, 7, 0, 10)
    counts.settle(True)
    counts.settle(True)
    assert words(counts) == (0, 1, 0, 0)
    counts.pending = Pending(0, 4, 7, 0, 10)
    counts.settle(True)
    assert words(counts) == (0, 1, 0, 4)
    counts.pending = Pending(0, 4, 7, 0, 10)
    counts.settle(False)
    assert words(counts) == (0, 1, 0, 4)


def test_a_call_that_hangs_is_left_to_go_on() -> None:
    answering = threading.Event()
    disk = DiskThread("test")
    assert disk.call(answering.wait, 0.0) is None
    assert disk.is_busy
    assert not disk.settle(0.0)
    answering.set()
    assert disk.settle(60.0)
    assert disk.call(lambda: True) is True
    disk.end()


def test_slow_calls_are_waited_for_less_and_less() -> None:
    """By a clock of the test's: each call has taken 50 ms when it was waited for. What is waited is a tenth of the time."""

    class Timed(DiskThread):
        waits: list[float]

        def _wait(self, seconds: float) -> None:
            self.waits.append(seconds)
            clock[0] += 0.05
            super()._wait(60.0)

    clock = [0.0]
    disk = Timed("test", lambda: clock[0])
    disk.waits = []
    for _ in range(10):
        disk.call(lambda: True)
    assert disk.waits[0] == SHORT_S + MOST_WAIT_S
    assert disk.waits[-1] == SHORT_S
    clock[0] += 100.0
    disk.call(lambda: True)
    assert disk.waits[-1] == SHORT_S + MOST_WAIT_S
    disk.end()


def test_hanging_is_said_after_a_second() -> None:
    clock, answering = [0.0], threading.Event()
    disk = DiskThread("test", lambda: clock[0])
    disk.call(answering.wait, 0.0)
    assert disk.is_busy and not disk.hangs
    clock[0] = 1.5
    assert disk.hangs
    answering.set()
    disk.settle(60.0)
    assert not disk.hangs
    disk.end()
