"""``spark.read.format("kproxy")``: captures and decoded logs as a data source, one table at a time.

    register(spark)
    spark.read.format("kproxy").option("table", "exchanges").load("captures/*.pcapng.zst")
    spark.readStream.format("kproxy").option("table", "errors").load("/var/log/kproxy/kafka.*.jsonl*")

Options: table, records, bodies, where, keylog as `kproxy decode` has them; partitions: tasks that share the connections of each
file; mode: permissive, or failfast for damaged files; of streams maxFilesPerTrigger, and settled: seconds without a change after
which a file is complete (2).

A partition is a file, or with the option ``partitions`` a share of the connections of one (see whole.py). There is no shuffle
inside a data source, so that every share reads the whole file: a capture of many gigabytes is for ``kproxy-spark ingest``.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.types import is_timestamp
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from kproxy.errors import CaptureError, UsageError
from kproxy.output.tables import TABLES, Column, Table, Tables, schema_of
from kproxy.spark.files import InputFile, find_files
from kproxy.spark.whole import Options, Share, read_rows

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader

FORMAT = "kproxy"
DEFAULT_TABLE = "exchanges"
FILES = "files"
FILES_TABLE = Table(FILES, 1, "an input file", (Column("path", "string", "where it is", nullable=False),))
DECODING = {"table", "partitions", "bodies", "records", "where", "keylog", "mode"}
KNOWN = DECODING | {"path", "paths", "maxfilespertrigger", "settled"}
SETTLED = 2
MODES = PERMISSIVE, FAILFAST = "permissive", "failfast"
log = logging.getLogger(__name__)


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(KproxyDataSource)


def contract(name: str, options: Options = Options()) -> Table:  # noqa: B008 - frozen
    """The table of that name, with the columns that the options ask for. Raises UsageError."""
    if name == FILES:
        return FILES_TABLE
    if name not in TABLES:
        raise UsageError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    made = {table.name: table for table in Tables(lambda table, rows: None, bodies=options.bodies, records=True).tables}
    return made[name]


def spark_schema(table: Table) -> StructType:
    """The columns of a table as Spark's."""
    return from_arrow_schema(_micros(schema_of(table)))


def for_spark(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in Spark's types: its only unit of time is the microsecond."""
    arrays = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _micros(schema: pa.Schema) -> pa.Schema:
    micros = pa.timestamp("us", "UTC")
    return pa.schema([field.with_type(micros) if is_timestamp(field.type) else field for field in schema])


class KproxyDataSource(DataSource):
    """Options: ``table`` (one of kproxy.output.tables, or ``files``: the paths of the input), ``partitions`` (shares of each
    file), ``bodies``, ``records``, ``where``, ``keylog`` as those of ``kproxy decode``, ``mode``: permissive (a damaged file
    gives what comes before the damage, and a warning in the executor's log) or failfast (it ends the query); of streams
    ``maxFilesPerTrigger`` and ``settled`` (stream.py).
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.settings = Settings.read(options)

    @classmethod
    def name(cls) -> str:
        """See DataSource."""
        return FORMAT

    def schema(self) -> StructType:
        """See DataSource."""
        return spark_schema(self.settings.contract)

    def reader(self, schema: StructType) -> DataSourceReader:
        """See DataSource."""
        return FilesReader(self.settings, schema)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":
        """See DataSource."""
        from kproxy.spark.stream import FolderReader  # noqa: PLC0415 - it imports this module

        return FolderReader(self.settings, schema)


@dataclass(frozen=True)
class Settings:
    """The options of a data source, checked."""

    paths: tuple[str, ...]
    table: str
    shares: int
    rows: Options
    strict: bool
    most_files: int | None = None  # of a micro-batch
    settled: int = SETTLED  # seconds without a change after which a streamed file is taken

    @staticmethod
    def read(options: Mapping[str, str]) -> "Settings":
        """Raises UsageError for an option that is not known, or has a value that cannot be."""
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
        options_of_rows = Options(_flag(given, "bodies"), records, given.get("where"), given.get("keylog"))
        contract(table, options_of_rows)
        most = _number(given, "maxfilespertrigger", 0)
        shares = _number(given, "partitions", 1) or 1
        settled = _number(given, "settled", SETTLED)
        return Settings(tuple(paths), table, shares, options_of_rows, mode == FAILFAST, most or None, settled)

    @property
    def contract(self) -> Table:
        """The table that is asked for."""
        return contract(self.table, self.rows)


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


class FilePartition(InputPartition):
    """A share of the connections of a file."""

    def __init__(self, file: InputFile | None, share: Share) -> None:
        super().__init__(None)
        self.file = file
        self.share = share


class FilesReader(DataSourceReader):
    """Reads all files that the path stands for when the query begins."""

    def __init__(self, settings: Settings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """See DataSourceReader."""
        shares = [Share(number, self._settings.shares) for number in range(self._settings.shares)]
        shares = shares[:1] if self._settings.table == FILES else shares
        return [FilePartition(file, share) for file in find_files(self._settings.paths) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceReader."""
        assert isinstance(partition, FilePartition)
        return read_partition(self._settings, self._schema, partition)


def read_partition(settings: Settings, schema: StructType, partition: FilePartition) -> Iterator[pa.RecordBatch]:
    """The rows of one table of one partition."""
    if partition.file is None:
        return
    arrow: Any = to_arrow_schema(schema, timezone="UTC")
    if settings.table == FILES:
        yield pa.RecordBatch.from_pylist([{"path": partition.file.path}], arrow)
        return
    damages: list[str] = []
    for table, rows in read_rows(
        partition.file.path, partition.file.name, settings.rows, partition.share, damages.append
    ):
        if table.name == settings.table:
            yield for_spark(rows, arrow)
    for damage in damages:
        if settings.strict:
            raise CaptureError(damage)
        log.warning("%s", damage)
