"""FolderReader: each file that appears in a folder, once, for ``spark.readStream.format("kproxy")``.

The offset of a stream holds the paths that were read. A batch is the files in its end offset that are not in its start offset,
so it is the same whenever Spark asks again. With a checkpoint each file goes exactly once into a sink that takes each batch
once (Parquet, Delta, ``follow``). When a file is gone its path is dropped, so the offset stays short if old parts are removed.

A file is taken when it is complete. For rotated logs and captures the name tells: ``kafka.000007.jsonl`` is complete,
``kafka.jsonl`` next to such parts is not. Other files must not have changed for *settled* seconds: move files into the folder
by renaming them, or give a pattern that only complete files match (``kafka.*.jsonl*``).

With ``availableNow`` a query reads the files that were present when it began. Spark before 4.2 does not say where a batch
starts: there a batch is all new files, whatever ``maxFilesPerTrigger`` says.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kproxy.errors import UsageError
from kproxy.spark.file_rows import Share
from kproxy.spark.files import InputFile, find_files
from kproxy.spark.partitions import FilePartition, Settings, read_partition
from kproxy.spark.schemas import FILES

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

NUMBERED = re.compile(r"(.+)\.\d{6}((?:\.[A-Za-z0-9]+)+)")
PACKED = re.compile(r"\.(gz|zst)$")
MARKED = "\0"  # separates identity and path; no path contains it
Files = Sequence[InputFile]


class FolderReader(DataSourceStreamReader):
    """The files of a folder or pattern as a stream of rows of one table.

    Args:
        settings: the options; ``maxFilesPerTrigger`` limits a batch, unless Spark asks for all present files.
        schema: of the rows.
    """

    def __init__(self, settings: Settings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema
        self._mark = mark if settings.table == FILES else path_of
        self._taken: set[str] = set()  # for Spark before 4.2, which does not pass the start of a batch
        self._available: set[str] | None = None  # with availableNow: the files that were complete when the query began

    def initialOffset(self) -> dict[str, Any]:
        """See DataSourceStreamReader."""
        return offset([])

    def getDefaultReadLimit(self) -> "ReadLimit":
        """See DataSourceStreamReader; since Spark 4.2."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles  # noqa: PLC0415 - Spark 4.2

        most = self._settings.most_files
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """See SupportsTriggerAvailableNow; since Spark 4.2."""
        self._available = {self._mark(file) for file in complete(self._find(set()), self._settings.settled)}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:
        """See DataSourceStreamReader. Waits until files that are new have settled, or changed again."""
        taken = self._taken if start is None else set(marks_of(start))
        there = _find(self._settings.paths) if self._available is not None else self._find(taken)
        fresh = [file for file in complete(there, self._settings.settled) if self._mark(file) not in taken]
        if self._available is not None:
            fresh = [file for file in fresh if self._mark(file) in self._available]
        fresh.sort(key=lambda file: (file.modified_ns, file.path))
        if fresh:
            gone = taken - {self._mark(file) for file in there}
            taken = (taken - gone) | {self._mark(file) for file in fresh[: getattr(limit, "max_files", None)]}
        self._taken = taken
        return offset(taken)

    def _find(self, taken: set[str]) -> list[InputFile]:
        there = _find(self._settings.paths)
        if any(_is_young(file, self._settings.settled) for file in there if self._mark(file) not in taken):
            time.sleep(self._settings.settled)
            there = _find(self._settings.paths)
        return there

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See DataSourceStreamReader."""
        before = set(marks_of(start))
        self._taken |= set(marks_of(end))
        fresh = [InputFile(each.rpartition(MARKED)[2], 0, 0) for each in marks_of(end) if each not in before]
        return [FilePartition(file, Share(number, self._settings.shares)) for file in fresh for number in self._shares]

    @property
    def _shares(self) -> range:
        return range(1 if self._settings.table == FILES else self._settings.shares)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceStreamReader."""
        assert isinstance(partition, FilePartition)
        return read_partition(self._settings, self._schema, partition)


try:  # a base class that Spark before 4.2 does not have
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:
    pass
else:
    SupportsTriggerAvailableNow.register(FolderReader)


def path_of(file: InputFile) -> str:
    """The mark of a file in the offset of a stream of rows: its path, so each file comes once, even if it changes."""
    return file.path


def mark(file: InputFile) -> str:
    """The mark of a file in the offset of ``follow``: it differs once the file has changed."""
    return f"{file.identity}{MARKED}{file.path}"


def offset(marks: Iterable[str]) -> dict[str, Any]:
    """Make an offset with these files; Spark wants plain values."""
    return {FILES: json.dumps(sorted(marks))}


def marks_of(given: dict[str, Any]) -> list[str]:
    """The marks of the files in an offset."""
    return list(json.loads(given[FILES]))


def complete(files: Files, settled: float) -> list[InputFile]:
    """The complete files, to which nothing more is written."""
    rotated = {_written_as(file) for file in files} - {None}
    return [
        file
        for file in files
        if _written_as(file) is not None or (file.path not in rotated and not _is_young(file, settled))
    ]


def _written_as(file: InputFile) -> str | None:
    """The path that a rotated part had while it was being written; None for other files."""
    match = NUMBERED.fullmatch(file.path)
    return None if match is None else match[1] + PACKED.sub("", match[2])


def _is_young(file: InputFile, settled: float) -> bool:
    return _written_as(file) is None and file.modified_ns > (time.time() - settled) * 1_000_000_000


def _find(names: Iterable[str]) -> list[InputFile]:
    """Find the present files; there may be none yet."""
    try:
        return find_files(names)
    except UsageError:
        return []
