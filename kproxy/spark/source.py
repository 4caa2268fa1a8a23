"""``spark.read.format("kproxy")``: captures and decoded logs as a data source, one table at a time.

    register(spark)
    spark.read.format("kproxy").option("table", "exchanges").load("captures/*.pcapng.zst")
    spark.readStream.format("kproxy").option("table", "errors").load("/var/log/kproxy/kafka.*.jsonl*")

Options: table, records, bodies, where, keylog, registry, schemas, schema as `kproxy decode` has them; partitions: tasks that
share the connections of each file; mode: permissive, or failfast for damaged files; of streams maxFilesPerTrigger, and settled:
seconds without a change after which a file is complete (2).

A partition is a file, or with the option ``partitions`` a share of its connections (see rows.py). A data source has no
shuffle, so every share reads the whole file: use ``kproxy-spark ingest`` for a capture of many gigabytes.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kproxy.config.reading import read_key_settings
from kproxy.errors import CaptureError, UsageError
from kproxy.output.tables import Table
from kproxy.schemas.settings import SchemaSources
from kproxy.spark.catalog import Report
from kproxy.spark.files import InputFile, find_files, is_remote
from kproxy.spark.ingest import Output, ingest
from kproxy.spark.rows import FILES, FileRows, Options, Share, contract, for_spark, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.streaming.query import StreamingQuery

FORMAT = "kproxy"
DEFAULT_TABLE = "exchanges"
SCHEMAS = ("registry", "schemas", "schema")  # several of one are separated by commas
DECODING = {"table", "partitions", "bodies", "records", "where", "keylog", "keys", "mode", *SCHEMAS}
KNOWN = DECODING | {"path", "paths", "maxfilespertrigger", "settled"}
SETTLED = 2
MODES = PERMISSIVE, FAILFAST = "permissive", "failfast"
log = logging.getLogger(__name__)
NUMBERED = re.compile(r"(.+)\.\d{6}((?:\.[A-Za-z0-9]+)+)")
PACKED = re.compile(r"\.(gz|zst)$")
MARKED = "\0"  # separates identity and path; no path contains it
NOT_READY, MOST_STARTS = "Python worker failed to connect back", 3  # what Spark says of a process that starts late
Files = Sequence[InputFile]


def register(spark: SparkSession) -> None:
    spark.dataSource.register(KproxyDataSource)


class KproxyDataSource(DataSource):
    """Options: ``table`` (one of kproxy.output.tables, or ``files``: the paths of the input), ``partitions`` (shares of each
    file), ``bodies``, ``records``, ``where``, ``keylog``, ``registry``, ``schemas``, ``schema`` as those of ``kproxy decode``,
    ``mode``: permissive (a damaged file gives what comes before the damage, and a warning in the executor's log) or failfast (it
    ends the query); of streams ``maxFilesPerTrigger`` and ``settled``.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.settings = Settings.read(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(self.settings.contract)

    def reader(self, schema: StructType) -> DataSourceReader:
        return FilesReader(self.settings, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FolderReader(self.settings, schema)


@dataclass(frozen=True)
class Settings:
    """The options of a data source, checked."""

    paths: tuple[str, ...]
    table: str
    shares: int
    rows: Options
    strict: bool
    most_files: int | None = None  # in a micro-batch
    settled: int = SETTLED  # seconds without a change after which a streamed file is taken

    @staticmethod
    def read(options: Mapping[str, str]) -> "Settings":
        """Check the options of a query. Raises UsageError for an unknown option or a wrong value."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(given.keys() - KNOWN)
        if unknown:
            raise UsageError(f"format kproxy has no option {unknown[0]}; it has {', '.join(sorted(KNOWN - {'paths'}))}")
        paths = json.loads(given["paths"]) if "paths" in given else [given["path"]] if "path" in given else []
        table, mode = given.get("table", DEFAULT_TABLE), given.get("mode", PERMISSIVE).lower()
        if mode not in MODES:
            raise UsageError(f"mode is {' or '.join(MODES)}, not {mode}")
        if not paths:
            raise UsageError("format kproxy needs a path: load(PATH)")
        records = _flag(given, "records") or table == "records"
        keylog = str(Path(given["keylog"]).absolute()) if "keylog" in given else None
        schemas = SchemaSources.of_options(
            *(filter(None, given.get(name, "").split(",")) for name in SCHEMAS),
            keys=read_key_settings(given["keys"]) if "keys" in given else None,
        ).absolute()
        options_of_rows = Options(_flag(given, "bodies"), records, given.get("where"), keylog, schemas)
        contract(table, options_of_rows)
        most = _number(given, "maxfilespertrigger", 0)
        shares = _number(given, "partitions", 1) or 1
        settled = _number(given, "settled", SETTLED)
        return Settings(tuple(paths), table, shares, options_of_rows, mode == FAILFAST, most or None, settled)

    @property
    def contract(self) -> Table:
        return contract(self.table, self.rows)


class FilePartition(InputPartition):
    """A share of the connections of a file."""

    def __init__(self, file: InputFile | None, share: Share) -> None:
        super().__init__(None)
        self.file = file
        self.share = share


class FilesReader(DataSourceReader):
    """Reads all files that the path matches when the query begins."""

    def __init__(self, settings: Settings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        shares = [Share(number, self._settings.shares) for number in range(self._settings.shares)]
        shares = shares[:1] if self._settings.table == FILES else shares
        return [FilePartition(file, share) for file in find_files(self._settings.paths) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilePartition)
        return read_partition(self._settings, self._schema, partition)


def _flag(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise UsageError(f"{name} is true or false, not {value}")
    return value == "true"


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{name} is a number, not {text}")
    return int(text)


def read_partition(settings: Settings, schema: StructType, partition: FilePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table in one partition."""
    if partition.file is None:
        return
    arrow: Any = to_arrow_schema(schema, timezone="UTC")
    if settings.table == FILES:
        yield pa.RecordBatch.from_pylist([{"path": partition.file.path}], arrow)
        return
    reader = FileRows(partition.file.path, partition.file.name, settings.rows, partition.share)
    for table, rows in reader.read():
        if table.name == settings.table:
            yield for_spark(rows, arrow)
    for damage in reader.damages:
        if settings.strict:
            raise CaptureError(damage)
        log.warning("%s", damage)


class FolderReader(DataSourceStreamReader):
    """The files of a folder or pattern as a stream of rows of one table: each file that appears, once.

    The offset of a stream holds the paths that were read. A batch is the files in its end offset that are not in its start
    offset, so it is the same whenever Spark asks again. With a checkpoint each file goes exactly once into a sink that takes
    each batch once (Parquet, Delta, ``follow``). When a file is gone its path is dropped, so the offset stays short if old
    parts are removed.

    A file is taken when it is complete. For rotated logs and captures the name tells: ``kafka.000007.jsonl`` is complete,
    ``kafka.jsonl`` next to such parts is not. Other files must not have changed for *settled* seconds: move files into the
    folder by renaming them, or give a pattern that only complete files match (``kafka.*.jsonl*``).

    With ``availableNow`` a query reads the files that were present when it began. Spark before 4.2 does not say where a batch
    starts: there a batch is all new files, whatever ``maxFilesPerTrigger`` says.

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
        before = set(marks_of(start))
        self._taken |= set(marks_of(end))
        fresh = [InputFile(each.rpartition(MARKED)[2], 0, 0) for each in marks_of(end) if each not in before]
        return [FilePartition(file, Share(number, self._settings.shares)) for file in fresh for number in self._shares]

    @property
    def _shares(self) -> range:
        return range(1 if self._settings.table == FILES else self._settings.shares)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
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


def follow(
    spark: "SparkSession",
    inputs: Sequence[str],
    output: str | Output,
    checkpoint: str,
    *,
    once: bool = False,
    every: str = "10 seconds",
    on_batch: Callable[[Report], None] = lambda report: None,
    **options: Any,
) -> "StreamingQuery":
    """Read files into the tables of a directory as they appear. Returns the query, which runs until it is stopped.

    If a file has grown since, it is read again and its rows are replaced: the stream's offset (of the table ``files``) holds
    sizes and times of files. Other sinks get each file once, since they cannot take rows back.

    Args:
        spark: the session.
        inputs: folders and patterns; they may still be empty.
        output: as that of ``ingest``.
        checkpoint: a folder where Spark keeps which files were read.
        once: end when all present files were read.
        every: how long a batch gathers files.
        on_batch: called with what each batch did.
        **options: of ``ingest``.
    """
    register(spark)
    reader = spark.readStream.format(FORMAT).option("table", FILES).option("paths", json.dumps(list(inputs)))
    frame = reader.option("maxFilesPerTrigger", "1000").load()
    batch = partial(_ingest_batch, output, options, on_batch)
    writer = frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(batch)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)).start()


def run(start: Callable[[], "StreamingQuery"]) -> None:
    """Start a query of this source and await its end; start it again, from its checkpoint, if its process was not ready in time.

    Spark waits 10 s for the process with the source, which no setting changes; on a busy machine it may need more to start.
    Raises StreamingQueryException for what else ends the query.
    """
    for left in reversed(range(MOST_STARTS)):
        try:
            start().awaitTermination()
        except StreamingQueryException as error:
            if not left or NOT_READY not in str(error):
                raise
        else:
            return


def _ingest_batch(
    output: str | Output, options: dict[str, Any], on_batch: Callable[[Report], None], frame: "DataFrame", number: int
) -> None:
    paths = [row["path"] for row in frame.collect() if is_remote(row["path"]) or Path(row["path"]).exists()]
    if paths:
        on_batch(ingest(frame.sparkSession.sparkContext, paths, output, together=False, **options))
