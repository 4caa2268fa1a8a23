"""FileWatch: notices changed files by polling, as inotify misses a mounted secret, which changes by a distant symbolic link."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

EVERY = 0.25  # seconds between two looks; a change counts if the next look finds the same, as files are rarely written at once

Stamp = tuple[int, int, int, int] | None  # None: not there


def stamp(file: str) -> Stamp:
    """Return device, inode, size and time of change of a file, by which its states differ."""
    try:
        status = Path(file).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class FileWatch:
    """Polls the files that ``watch()`` sets."""

    def __init__(self) -> None:
        self._returned: dict[str, Stamp] = {}
        self._before: dict[str, Stamp] = {}

    def watch(self, files: Iterable[str]) -> None:
        """Watch these files from now on. A file that was watched before keeps its state, so no change is missed."""
        self._returned = {file: self._returned[file] if file in self._returned else stamp(file) for file in files}
        self._before = dict(self._returned)

    def look(self) -> list[str]:
        """Return the files that have changed since they were last returned and are the same as at the previous look."""
        now = {file: stamp(file) for file in self._returned}
        changed = [file for file in now if now[file] != self._returned[file] and now[file] == self._before[file]]
        self._returned.update((file, now[file]) for file in changed)
        self._before = now
        return changed

    async def follow(self, changed: Callable[[list[str]], None]) -> None:
        """Call *changed* with the changed files until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            files = self.look()
            if files:
                changed(files)
