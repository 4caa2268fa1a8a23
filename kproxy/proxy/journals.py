"""Journals: the journals of a worker process. A worker whose filters have none does without what they import."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kproxy.filters.options import Rotated

if TYPE_CHECKING:
    from kproxy.proxy.journal import FileJournal


class Journals:
    """All journals of a worker process, opened when they are first asked for."""

    def __init__(self, worker: int = 0) -> None:
        self.worker = worker
        self._opened: dict[str, FileJournal] = {}

    def open(self, file: Rotated, report: Callable[[str], None]) -> "FileJournal":
        """The journal at a path; its size and age are those it was opened with. Raises UsageError if another process has it."""
        from kproxy.proxy.journal import FileJournal  # noqa: PLC0415 - a megabyte that few workers need

        if file.path not in self._opened:
            self._opened[file.path] = FileJournal(file, self.worker, report)
        return self._opened[file.path]

    def close(self) -> None:
        """Close all."""
        for journal in self._opened.values():
            journal.close()
        self._opened.clear()
