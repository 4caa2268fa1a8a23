"""Input files of a job: find them by names with wildcards, and open them, on local disks and in object stores.

A name without a scheme, or with ``file:``, is a path that every executor can open (a shared disk, or local mode). Any other
scheme that pyarrow.fs knows (s3://, gs://, abfss://) goes through it, with the credentials of the executor's environment; for
the schemes of Hadoop (s3a://, hdfs://) see hadoop_files.py.
"""

import glob
import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

from msgspec import Struct

from kproxy.capture import Capture
from kproxy.capture.reader import RawFile, see_through
from kproxy.errors import CaptureError, UsageError
from kproxy.pipeline.decoded_log import DecodedLog, open_stream

WILDCARDS = "*?["


def grouped(
    files: "Iterable[InputFile]", most_bytes: int, most_files: int | None = None
) -> "Iterator[list[InputFile]]":
    """Yield the files in order, in groups of limited bytes and number; a larger file is a group of its own."""
    group: list[InputFile] = []
    size = 0
    for file in files:
        if group and (len(group) == most_files or size + file.size > most_bytes):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


class InputFile(Struct, frozen=True, order=True):
    """A file as it was found; plain values, so that it can be sent to an executor."""

    path: str
    size: int
    modified_ns: int
    copied_to: str = ""  # a copy that is read instead, if Python cannot reach the file

    @property
    def place(self) -> str:
        """The path to open."""
        return self.copied_to or self.path

    @property
    def name(self) -> str:
        """Its base name."""
        return self.path.rpartition("/")[2]

    @property
    def identity(self) -> str:
        """A hash of path, size and time of change: names this file with this content."""
        text = f"{self.path}\0{self.size}\0{self.modified_ns}"
        return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()

    @property
    def key(self) -> str:
        """A hash of the path: names this file, whatever its content."""
        return blake2b(self.path.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()


def find_files(names: Iterable[str]) -> list[InputFile]:
    """Find the files that *names* stand for, sorted by path. A name is a file, a folder (all its files) or a pattern (``*?[``).

    Files whose names begin with ``_`` or ``.`` are left out of folders, as Spark does. Raises UsageError for a name without
    files.
    """
    files: set[InputFile] = set()
    for name in names:
        some = (
            _find_remote(name) if is_remote(name) else _find_local(name.removeprefix("file://").removeprefix("file:"))
        )
        if not some:
            raise UsageError(f"{name}: no such file")
        files.update(some)
    return sorted(files)


def open_file(path: str, data: bytes | None = None) -> Capture | DecodedLog:
    """Open a capture or a decoded log, compressed or not; *data*: its bytes, if they were read already.

    Raises CaptureError for anything else, or if it cannot be opened.
    """
    return open_stream(see_through(open_raw(path) if data is None else BytesIO(data), path), path)


def open_raw(path: str) -> Any:
    """Open a file without decompressing it: readinto(), seek() and close(). Raises CaptureError."""
    try:
        if is_remote(path):
            system, inside = _file_system(path)
            return _Remote(system.open_input_file(inside))
        return open(path, "rb", buffering=0)  # noqa: PTH123 - the caller closes it
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from error


class _Remote:
    """A file of pyarrow.fs; its errors are OSErrors already."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readinto(self, buffer: memoryview, /) -> int:
        return int(self._file.readinto(buffer))

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return int(self._file.seek(position, whence))

    def close(self) -> None:
        self._file.close()


_: type[RawFile] = _Remote


def is_remote(name: str) -> bool:
    """Whether a name has a scheme other than ``file:``."""
    return "://" in name and not name.startswith("file://")


def _find_local(name: str) -> list[InputFile]:
    if Path(name).exists():
        paths = [name]
    elif any(letter in name for letter in WILDCARDS):
        paths = glob.glob(name, recursive=True)  # noqa: PTH207 - patterns are absolute, too
    else:
        return []
    return [_local(path) for each in paths for path in (_inside(each) if Path(each).is_dir() else [each])]


def _inside(folder: str) -> list[str]:
    return [str(path) for path in sorted(Path(folder).iterdir()) if path.is_file() and path.name[0] not in "_."]


def _local(path: str) -> InputFile:
    path = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
    state = os.stat(path)  # noqa: PTH116
    return InputFile(path, state.st_size, state.st_mtime_ns)


def _file_system(name: str) -> tuple[Any, str]:
    from pyarrow import fs  # noqa: PLC0415

    system, inside = fs.FileSystem.from_uri(name)
    return system, inside


def _find_remote(name: str) -> list[InputFile]:
    from pyarrow import fs  # noqa: PLC0415

    fixed = name[: min((at for at in map(name.find, WILDCARDS) if at >= 0), default=len(name))]
    system, inside = _file_system(fixed if fixed == name else fixed.rpartition("/")[0])
    base = name[: len(name) - len(inside)] if fixed == name else fixed.rpartition("/")[0].removesuffix(inside)
    here = system.get_file_info(inside)
    if fixed == name and here.type == fs.FileType.File:
        infos = [here]
    else:
        infos = system.get_file_info(fs.FileSelector(inside, recursive=fixed != name, allow_not_found=True))
    files = [info for info in infos if info.type == fs.FileType.File and info.base_name[0] not in "_."]
    found = [InputFile(f"{base}{info.path}", info.size or 0, info.mtime_ns or 0) for info in files]
    return found if fixed == name else [file for file in found if fnmatchcase(file.path, name)]
