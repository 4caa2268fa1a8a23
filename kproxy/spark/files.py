"""Input files of a job: find them by names with wildcards, and open them, on local disks and in object stores.

A name without a scheme, or with ``file:``, is a path that every executor can open (a shared disk, or local mode). Any other
scheme that pyarrow.fs knows (s3://, gs://, abfss://) goes through it, with the credentials of the executor's environment; for
the schemes of Hadoop (s3a://, hdfs://) it is Spark: that passes a task its file completely, in memory (``read_by_hadoop``),
and the driver copies a capture that is to be divided to a folder that all tasks see (``copy_from_hadoop``).
"""

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kproxy.capture import Capture
from kproxy.capture.reader import GZIP_MAGIC, ZSTD_MAGICS, ByteSource, RawFile, see_through
from kproxy.capture.splitting import SeekableFile, read_at
from kproxy.errors import CaptureError, UsageError
from kproxy.pipeline.decoded_log import DecodedLog, open_stream
from kproxy.pipeline.inputs import USUAL_NAME, files_of

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

WILDCARDS = "*?["
SCHEMES_OF_PYARROW = ("s3", "gs", "gcs", "abfs", "abfss", "file")
MOST_IN_MEMORY = 512 << 20  # bytes of a file that is passed to a task in memory
SPECIAL = "\\{}[]*?,^"
NAMESPACE = re.compile(r"[\w-]+(\.[\w-]+)+", re.ASCII)


def grouped(
    files: "Iterable[InputFile]", most_bytes: int, most_files: int | None = None
) -> "Iterator[list[InputFile]]":
    """Yield the files in order, in groups of limited bytes and number; a larger file is a group of its own."""
    group: list[InputFile] = []
    size = 0
    for file in files:
        if group and (len(group) == most_files or size + file.total > most_bytes):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.total
    if group:
        yield group


class InputFile(Struct, frozen=True, order=True):
    """A file as it was found; plain values, so that it can be sent to an executor."""

    path: str
    size: int
    modified_ns: int
    copied_to: str = ""  # a copy that is read instead, if Python cannot reach the file
    others: "tuple[InputFile, ...]" = ()  # files that are one capture with it

    @property
    def total(self) -> int:
        """Bytes of all files of the capture."""
        return sum(file.size for file in self.files)

    @property
    def files(self) -> "list[InputFile]":
        """All files of the capture, in the order of their packets."""
        return [self, *self.others]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    @property
    def place(self) -> str:
        """The path to open."""
        return self.copied_to or self.path

    @property
    def name(self) -> str:
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
        if is_remote(name):
            some = _find_remote(name)
        else:
            some = list(map(_local, files_of(Path(name.removeprefix("file://").removeprefix("file:")))))
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


def open_packets(path: str) -> "SeekableFile":
    """Open a capture: a file as it is, or what is in a compressed one. Raises CaptureError."""
    raw = open_raw(path)
    is_packed = read_at(raw, 0, 4).startswith((GZIP_MAGIC, *ZSTD_MAGICS))
    raw.seek(0)
    return Unpacked(see_through(raw, path), path) if is_packed else raw


class Unpacked:
    """The content of a compressed file, read forward only, up to the damage (*problem*) if there is any."""

    def __init__(self, source: ByteSource, path: str) -> None:
        self.problem: str | None = None
        self._source = source
        self._path = path
        self._position = 0

    def readinto(self, buffer: memoryview, /) -> int:
        try:
            count = 0 if self.problem is not None else self._source.readinto(buffer)
        except CaptureError as error:
            self.problem, count = str(error).removeprefix(f"{self._path}: "), 0
        self._position += count
        return count

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        """See SeekableFile. Raises ValueError for a position behind which it is already."""
        if position < self._position or whence != os.SEEK_SET:
            raise ValueError("a compressed file is read once, from its beginning")
        while position > self._position and self.readinto(memoryview(bytearray(position - self._position))):
            pass
        return self._position

    def close(self) -> None:
        self._source.close()


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


def may_be_namespace(name: str) -> bool:
    """Whether a name is that of a namespace if the session has its catalog: lake.kafka, and there is no such file."""
    return bool(NAMESPACE.fullmatch(name)) and not USUAL_NAME.search(name) and not Path(name).exists()


def _local(path: Path) -> InputFile:
    state = path.stat()
    return InputFile(os.path.abspath(path), state.st_size, state.st_mtime_ns)  # noqa: PTH100 - links stay as they are


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


def is_hadoop(name: str) -> bool:
    """Whether a name belongs to a file system of Hadoop, not to a disk or pyarrow."""
    scheme, colon, _ = name.partition("://")
    return bool(colon) and scheme not in SCHEMES_OF_PYARROW


def find_in_hadoop(context: "SparkContext", name: str) -> list[InputFile]:
    """The files that a name stands for: a file, a folder or a pattern, as in find_files."""
    system, place = _system(context, name)
    if any(letter in name for letter in WILDCARDS) and not system.exists(place):
        statuses = list(system.globStatus(place) or ())
    else:
        statuses = [system.getFileStatus(place)] if system.exists(place) else []
    below = [list(system.listStatus(each.getPath())) if each.isDirectory() else [each] for each in statuses]
    files = [status for some in below for status in some if status.isFile()]
    return [
        InputFile(status.getPath().toString(), status.getLen(), status.getModificationTime() * 1_000_000)
        for status in files
        if len(files) == 1 == len(statuses) or status.getPath().getName()[0] not in "_."
    ]


def read_by_hadoop(context: "SparkContext", files: list[InputFile]) -> "RDD[tuple[InputFile, bytes]]":
    by_path = {file.path: file for file in files}
    empty = context.parallelize([(file, b"") for file in files if not file.size], 1)
    paths = [_pattern(file.path) for file in files if file.size]
    if not paths:
        return empty
    given = context.binaryFiles(",".join(paths), len(paths)).filter(lambda pair: pair[0] in by_path)
    return given.map(lambda pair: (by_path[pair[0]], bytes(pair[1]))).union(empty)


def copy_from_hadoop(context: "SparkContext", file: InputFile, target: str) -> None:
    """Copy a file to a path of the driver's disk."""
    system, place = _system(context, file.path)
    jvm: Any = context._jvm
    system.copyToLocalFile(False, place, jvm.org.apache.hadoop.fs.Path(f"file://{target}"), True)


def _system(context: "SparkContext", name: str) -> tuple[Any, Any]:
    jvm: Any = context._jvm
    place = jvm.org.apache.hadoop.fs.Path(name)
    return place.getFileSystem(context._jsc.hadoopConfiguration()), place


def _pattern(path: str) -> str:
    """Return a pattern for a path, since Hadoop splits names at commas, even quoted. The caller drops what else it matches."""
    return "".join("?" if letter in SPECIAL else letter for letter in path)
