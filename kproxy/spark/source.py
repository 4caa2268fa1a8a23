"""``spark.read.format("kproxy")``: captures and decoded logs as a data source, one table at a time.

    register(spark)
    spark.read.format("kproxy").option("table", "exchanges").load("captures/*.pcapng.zst")
    spark.readStream.format("kproxy").option("table", "errors").load("/var/log/kproxy/kafka.*.jsonl*")

Options: table, records, bodies, where, keylog as `kproxy decode` has them; partitions: tasks that share the connections of each
file; mode: permissive, or failfast for damaged files; of streams maxFilesPerTrigger, and settled: seconds without a change after
which a file is complete (2).

A partition is a file, or with the option ``partitions`` a share of its connections (see file_rows.py). A data source has no
shuffle, so every share reads the whole file: use ``kproxy-spark ingest`` for a capture of many gigabytes.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kproxy.spark.file_rows import Share
from kproxy.spark.files import find_files
from kproxy.spark.folder_reader import FolderReader
from kproxy.spark.partitions import FilePartition, Settings, read_partition
from kproxy.spark.schemas import FILES, spark_schema

FORMAT = "kproxy"


def register(spark: SparkSession) -> None:
    """Register the format with a session."""
    spark.dataSource.register(KproxyDataSource)


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

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """See DataSource."""
        return FolderReader(self.settings, schema)


class FilesReader(DataSourceReader):
    """Reads all files that the path matches when the query begins."""

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
