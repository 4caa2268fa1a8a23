"""The partitions of ``spark.read.format("kproxy")``: the options that a query gives, and the rows of one partition."""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kproxy.errors import CaptureError, UsageError
from kproxy.output.tables import Table
from kproxy.spark.file_rows import Options, Share, read_rows
from kproxy.spark.files import InputFile
from kproxy.spark.schemas import FILES, contract, for_spark

DEFAULT_TABLE = "exchanges"
DECODING = {"table", "partitions", "bodies", "records", "where", "keylog", "mode"}
KNOWN = DECODING | {"path", "paths", "maxfilespertrigger", "settled"}
SETTLED = 2
MODES = PERMISSIVE, FAILFAST = "permissive", "failfast"
log = logging.getLogger(__name__)


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
        options_of_rows = Options(_flag(given, "bodies"), records, given.get("where"), given.get("keylog"))
        contract(table, options_of_rows)
        most = _number(given, "maxfilespertrigger", 0)
        shares = _number(given, "partitions", 1) or 1
        settled = _number(given, "settled", SETTLED)
        return Settings(tuple(paths), table, shares, options_of_rows, mode == FAILFAST, most or None, settled)

    @property
    def contract(self) -> Table:
        """The table that the query reads."""
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


def read_partition(settings: Settings, schema: StructType, partition: FilePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table in one partition."""
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
