"""Which of some files have changed: by looking, as a mounted secret changes by a link far from it, which inotify misses."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

EVERY = 0.25  # seconds; a change is told when it has stayed so for one more look, as files are seldom written in one go

Stamp = tuple[int, int, int, int] | None  # None: not there


def stamp(file: str) -> Stamp:
    """What tells one state of a file from another: device, inode, size and time of change."""
    try:
        status = Path(file).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class FileWatch:
    """Looks at some files; ``watch()`` sets which."""

    def __init__(self) -> None:
        self._told: dict[str, Stamp] = {}
        self._before: dict[str, Stamp] = {}

    def watch(self, files: Iterable[str]) -> None:
        """From now on these; a file that was watched before keeps its state, so no change falls in between."""
        self._told = {file: self._told[file] if file in self._told else stamp(file) for file in files}
        self._before = dict(self._told)

    def look(self) -> list[str]:
        """Files that are other than told before, and the same as at the last look."""
        now = {file: stamp(file) for file in self._told}
        changed = [file for file in now if now[file] != self._told[file] and now[file] == self._before[file]]
        self._told.update((file, now[file]) for file in changed)
        self._before = now
        return changed

    async def follow(self, changed: Callable[[list[str]], None]) -> None:
        """Call *changed* with the files, again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            files = self.look()
            if files:
                changed(files)
