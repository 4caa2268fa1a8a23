"""A file system that is soon full: a tmpfs of a few hundred KiB, for as long as a block lasts."""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def available() -> bool:
    """May file systems be mounted here? Needs root, and a container that allows it."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    words = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def small_disk(folder: Path, size: int, inodes: int = 0) -> Iterator[Path]:
    """A tmpfs of *size* bytes at *folder*, with at most so many files if *inodes* is not 0."""
    folder.mkdir()
    options = f"size={size},nr_inodes={inodes}" if inodes else f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all room that is left, by a file that is returned: remove it to have room again."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for block in (65_536, 4_096, 1):
            try:
                while True:
                    file.write(b"x" * block)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler


def fill_inodes(folder: Path) -> list[Path]:
    """Make empty files until no more can be made; remove one to have room again."""
    made: list[Path] = []
    while True:
        filler = folder / f"filler-{len(made)}"
        try:
            filler.touch()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return made
        made.append(filler)
