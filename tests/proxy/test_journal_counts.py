"""The counts of a journal in their file, its attribute and the memory."""

import errno
import os
from pathlib import Path

import pytest

from kproxy.errors import UsageError
from kproxy.proxy.journal_counts import ATTRIBUTE, COUNTS, JournalCounts, Pending


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


def test_they_are_one_process_s(tmp_path: Path) -> None:
    counts = JournalCounts(tmp_path / "counts")
    with pytest.raises(UsageError, match="used by another process"):
        JournalCounts(tmp_path / "counts")
    counts.close()
    JournalCounts(tmp_path / "counts").close()


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
