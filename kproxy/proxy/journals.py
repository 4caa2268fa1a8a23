"""Journals: the journals of a worker process. Workers without journals never import kproxy.proxy.journal."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from kproxy.filters.options import Rotated
from kproxy.proxy.messages import JournalState
from kproxy.proxy.shared_counts import SharedCounts

if TYPE_CHECKING:
    from kproxy.proxy.journal import FileJournal


class Journals:
    """All journals of a worker process, opened when they are first asked for.

    Args:
        worker: its number.
        counts: where the counts of journals are kept while a disk cannot.
    """

    def __init__(self, worker: int = 0, counts: SharedCounts | None = None) -> None:
        self.worker = worker
        self._counts = counts
        self._opened: dict[str, FileJournal] = {}
        self._required: Counter[str] = Counter()  # path -> how many filters refuse requests while it cannot be written
        self._reasons: dict[str, str] = {}  # path -> why it cannot be written, as last reported

    def open(self, file: Rotated, report: Callable[[str], None]) -> "FileJournal":
        """Return the journal at a path, opened with the first *file* given. Raises UsageError if another process has it."""
        from kproxy.proxy.journal import FileJournal  # noqa: PLC0415 - a megabyte that few workers need

        if file.path not in self._opened:
            memory = self._counts.memory if self._counts is not None else None
            self._opened[file.path] = FileJournal(file, self.worker, report, memory=memory)
        return self._opened[file.path]

    def require(self, path: str, is_required: bool) -> None:
        """Note that one filter more (or less) refuses requests while the journal at a path cannot be written."""
        self._required[path] += 1 if is_required else -1

    def changes(self) -> list[JournalState]:
        """Look at the required journals; return the states that have changed since the last call."""
        required = {path for path, filters in self._required.items() if filters > 0 and path in self._opened}
        states = {path: self._opened[path].look() if path in required else "" for path in {*required, *self._reasons}}
        changed = [JournalState(path, why) for path, why in states.items() if why != self._reasons.get(path, "")]
        self._reasons = {path: why for path, why in states.items() if why}
        return changed

    def close(self) -> None:
        """Close all."""
        for journal in self._opened.values():
            journal.close()
        self._opened.clear()
