"""ScratchDirectory: where DuckDB keeps tables until a command ends; the next command removes those that killed ones left."""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "kproxy-tables-"
LOCK = "in-use"
UNLOCKED_S = (
    60  # without a lock for longer: its process was killed before it had one, or while it removed the directory
)


class ScratchDirectory:
    """The directory where DuckDB keeps tables until ``cleanup``. Raises OSError where it cannot be made.

    *folder*: where it is made; None: where temporary files are.

    A killed process cannot remove its directory, so the next kproxy does. Each process holds a lock (flock) on a file in its
    directory; the kernel releases the lock when the process ends, so a directory whose lock is free is abandoned. Process ids
    would not do: containers that share a directory for temporary files may use the same ids.
    """

    def __init__(self, folder: Path | None = None) -> None:
        within = Path(tempfile.gettempdir()) if folder is None else folder
        remove_abandoned(within)
        self._directory = tempfile.TemporaryDirectory(prefix=PREFIX, dir=within)
        self.name = self._directory.name
        try:
            self._lock = _lock(Path(self.name))
        except BaseException:
            self._directory.cleanup()
            raise

    def cleanup(self) -> None:
        self._directory.cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_abandoned(folder: Path) -> None:
    """Remove the directories of ended processes of this user in *folder*. What cannot be removed stays."""
    with suppress(OSError), os.scandir(folder) as entries:
        directories = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX)]
        for directory in directories:
            with suppress(OSError):
                _remove_if_abandoned(directory)


def _lock(directory: Path) -> int:
    """Lock a new file before it gets its final name, so that a file with that name is always locked."""
    unnamed = directory / "new"
    descriptor = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        unnamed.rename(directory / LOCK)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_if_abandoned(directory: Path) -> None:
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - status.st_mtime > UNLOCKED_S:
            shutil.rmtree(directory)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory)
    finally:
        os.close(descriptor)
