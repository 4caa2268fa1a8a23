"""The output directory as the driver sees it: on a disk, or in any file system that Spark's Hadoop knows (s3a://, hdfs://, gs://).

    open_folder(context, "tables")            -> LocalFolder
    open_folder(context, "s3a://bucket/t")    -> HadoopFolder

Paths are relative to the directory, with ``/``. A written file appears completely or not at all.
"""

from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Protocol

from kproxy.errors import UsageError
from kproxy.spark.session import reason_of

if TYPE_CHECKING:
    from pyspark import SparkContext

TEMPORARY = ".tmp"


class Folder(Protocol):
    """See above. *root* is its name, as Spark takes it."""

    root: str

    def has_folder(self, path: str) -> bool:
        """Whether the directory has this folder."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is none."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file, replacing an existing one."""

    def move(self, source: str, target: str) -> None:
        """Rename a file of the directory, replacing an existing one."""

    def remove(self, path: str) -> None:
        """Remove a file if it exists, and the two folders around it if they are empty."""

    def remove_tree(self, path: str) -> None:
        """Remove a folder and everything in it."""

    def files(self, path: str, depth: int = 0) -> list[str]:
        """Paths of the files *depth* levels below a folder, sorted; none if the folder does not exist."""


def open_folder(context: "SparkContext | None", name: str) -> Folder:
    """Open a directory. Only file systems of Hadoop need a context. Raises UsageError for what Hadoop cannot open."""
    if "://" not in name or name.startswith("file://"):
        return LocalFolder(Path(name.removeprefix("file://")).absolute())  # executors work in folders of their own
    assert context is not None
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - an extra

    try:
        folder = HadoopFolder(context, name)
        folder.has_folder("")
    except Py4JJavaError as error:
        raise UsageError(f"{name}: Spark's Hadoop cannot open it: {reason_of(error)}") from None
    return folder


class LocalFolder:
    """A directory on a disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = str(path)

    def has_folder(self, path: str) -> bool:
        return (self.path / path).is_dir()

    def read(self, path: str) -> bytes | None:
        try:
            return (self.path / path).read_bytes()
        except OSError:
            return None

    def write(self, path: str, data: bytes) -> None:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(target.name + TEMPORARY)
        temporary.write_bytes(data)
        temporary.replace(target)

    def move(self, source: str, target: str) -> None:
        (self.path / target).parent.mkdir(parents=True, exist_ok=True)
        (self.path / source).replace(self.path / target)

    def remove(self, path: str) -> None:
        file = self.path / path
        file.unlink(missing_ok=True)
        for folder in (file.parent, file.parent.parent):
            with suppress(OSError):
                folder.rmdir()

    def remove_tree(self, path: str) -> None:
        rmtree(self.path / path, ignore_errors=True)

    def files(self, path: str, depth: int = 0) -> list[str]:
        found = (self.path / path).glob("*/" * depth + "*")
        return sorted(each.relative_to(self.path).as_posix() for each in found if each.is_file() and _counts(each.name))


class HadoopFolder:
    """A directory of a Hadoop FileSystem, reached through the driver's JVM, with Spark's settings (spark.hadoop.*)."""

    def __init__(self, context: "SparkContext", uri: str) -> None:
        self.root = uri.rstrip("/")
        jvm: Any = context._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._system = self._path(self.root).getFileSystem(context._jsc.hadoopConfiguration())

    def has_folder(self, path: str) -> bool:
        place = self._at(path)
        return bool(self._system.exists(place) and self._system.getFileStatus(place).isDirectory())

    def read(self, path: str) -> bytes | None:
        """See Folder. If the driver ended while it replaced a file, the new content is still under the temporary name."""
        for name in (path, path + TEMPORARY):
            place = self._at(name)
            if self._system.exists(place):
                stream = self._system.open(place)
                try:
                    return bytes(stream.readAllBytes())
                finally:
                    stream.close()
        return None

    def write(self, path: str, data: bytes) -> None:
        stream = self._system.create(self._at(path + TEMPORARY), True)
        stream.write(data)
        stream.close()
        self.move(path + TEMPORARY, path)

    def move(self, source: str, target: str) -> None:
        """See Folder. Raises OSError where the file system refuses."""
        place = self._at(target)
        self._system.mkdirs(place.getParent())
        self._system.delete(place, False)
        if not self._system.rename(self._at(source), place):
            raise OSError(f"{self.root}/{target}: its file system refuses to rename {source} to this")

    def remove(self, path: str) -> None:
        place = self._at(path)
        self._system.delete(place, False)
        for folder in (place.getParent(), place.getParent().getParent()):
            if self._system.exists(folder) and not list(self._system.listStatus(folder)):
                self._system.delete(folder, False)

    def remove_tree(self, path: str) -> None:
        self._system.delete(self._at(path), True)

    def files(self, path: str, depth: int = 0) -> list[str]:
        folders = [path]
        for _ in range(depth):
            folders = [
                f"{each}/{status.getPath().getName()}" for each in folders for status in self._list(each, folders=True)
            ]
        found = [
            f"{each}/{status.getPath().getName()}" for each in folders for status in self._list(each, folders=False)
        ]
        return sorted(each for each in found if _counts(each.rpartition("/")[2]))

    def _list(self, path: str, *, folders: bool) -> list[Any]:
        place = self._at(path)
        if not self._system.exists(place):
            return []
        return [status for status in self._system.listStatus(place) if status.isDirectory() == folders]

    def _at(self, path: str) -> Any:
        return self._path(f"{self.root}/{path}" if path else self.root)


def _counts(name: str) -> bool:
    return name[0] not in "._" and not name.endswith(TEMPORARY)
