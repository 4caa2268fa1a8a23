"""``kproxy-spark ingest``: decode captures and logs into Parquet, by cluster and day. catalog.py describes the output.

    ingest(context, ["captures/*.pcapng"], "tables")  -> Report

Small files, compressed ones and logs are read in one piece, each by one task, many at a time. A capture of SPLIT_FROM bytes or
more is divided among all executors (divided.py). Unchanged files that are in the output already are not read. A damaged file
gives its rows before the damage, gets an entry in the quarantine, and does not affect other files.
"""

import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec import Struct

from kproxy.errors import UsageError
from kproxy.spark import hadoop_files
from kproxy.spark.catalog import Catalog
from kproxy.spark.file_rows import Options
from kproxy.spark.files import InputFile, find_files, grouped
from kproxy.spark.folders import LocalFolder, open_folder
from kproxy.spark.reading import Note, Reading
from kproxy.spark.targets import FilesOnDisk, Report, Target, mark_of, tables_of

if TYPE_CHECKING:
    from pyspark import SparkContext

SPLIT_FROM = 256 << 20  # bytes of a capture
FILES_AT_A_TIME = 1_000  # files read in one piece are put into the output in groups, of at most so many files
BYTES_AT_A_TIME = 1 << 30  # and bytes for each core: what a killed job loses


class Output(Struct, frozen=True):
    """The output of ingest.

    format: parquet, delta or iceberg. place: a directory on a disk that the driver and all executors see, or in any file
    system of Spark's Hadoop; of Iceberg a namespace. state: the directory with the catalog, if it is not *place*, as it is of
    parquet. staging: a folder that the driver and all executors see, for outputs that are on no such disk; without one, and
    with executors on other machines, the bytes of divided captures go through Spark's shuffle.
    """

    place: str
    format: str = "parquet"
    state: str | None = None
    staging: str | None = None


def ingest(
    context: "SparkContext",
    inputs: Iterable[str],
    output: str | Output,
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    cluster: str | None = None,
    split_from: int = SPLIT_FROM,
    parts: int | None = None,
    again: bool = False,
    note: Note = lambda sentence: None,
) -> Report:
    """Read files into the tables of a directory. Run again, it reads only new and changed files.

    Args:
        context: Spark's; a session is only needed for outputs that are no Parquet files on a disk.
        inputs: files, folders, patterns.
        output: a directory, as Output has it.
        options: which rows to make.
        cluster: whose traffic it is; None: the cluster id that the traffic shows, else "unknown".
        split_from: bytes from which a capture is divided.
        parts: into how many a capture is divided; None: by its size.
        again: also read files that are in the output already.
        note: called with a sentence about each file that is read in another way than requested.

    Raises UsageError for an input that is not there, and for an output that the session cannot write.
    """
    output = Output(output) if isinstance(output, str) else output
    catalog, report = Catalog(open_folder(context, output.state or output.place)), Report()
    for path in catalog.recover():
        note(f"{path}: an earlier job ended while its rows were put into place; it is read again")
    mark = mark_of(options, cluster)
    found = _find(context, inputs)
    wanted = [file for file in found if again or not catalog.has(file, mark)]
    report.skipped = len(found) - len(wanted)
    job = uuid.uuid4().hex
    with ExitStack() as stack:
        staging = catalog.staging(job)
        stack.callback(catalog.remove_staging, job)
        if output.format == "parquet" and isinstance(catalog.folder, LocalFolder):
            target: Target = FilesOnDisk(catalog, options, cluster, report)
        else:
            target = _spark_target(context, output, catalog, options, cluster, report, job)
            local = (context.master or "").startswith("local")
            staging = tempfile.mkdtemp(dir=output.staging) if output.staging is not None or local else ""
            stack.callback(shutil.rmtree, staging, ignore_errors=True)
        reading = Reading(context, options, target, staging, note)
        undivided = []
        for file in wanted:
            if file.size < split_from or not reading.divide(file, parts):
                undivided.append(file)
        for group in groups(undivided, BYTES_AT_A_TIME * context.defaultParallelism):
            reading.read_whole(group)
        if output.format == "parquet":
            catalog.complete(tables_of(options))
    return report


def groups(files: Iterable[InputFile], most_bytes: int) -> Iterator[list[InputFile]]:
    """Group files that are read side by side and then put into the output together."""
    return grouped(files, most_bytes, FILES_AT_A_TIME)


def _find(context: "SparkContext", inputs: Iterable[str]) -> list[InputFile]:
    names = list(inputs)
    found = set(find_files(name for name in names if not hadoop_files.is_hadoop(name)))
    for name in filter(hadoop_files.is_hadoop, names):
        some = hadoop_files.find(context, name)
        if not some:
            raise UsageError(f"{name}: no such file")
        found.update(some)
    return sorted(found)


def _spark_target(
    context: "SparkContext",
    output: Output,
    catalog: Catalog,
    options: Options,
    cluster: str | None,
    report: Report,
    job: str,
) -> Target:
    from kproxy.spark.by_spark import TablesBySpark  # noqa: PLC0415 - needs a session

    return TablesBySpark(context, output.place, output.format, catalog, options, cluster, report, job)
