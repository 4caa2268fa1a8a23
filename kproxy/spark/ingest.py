"""``kproxy-spark ingest``: captures and decoded logs to Parquet, partitioned by cluster and day. See catalog.py for what it
leaves.

    ingest(context, ["captures/*.pcapng"], "tables")  -> Report

Small files, compressed ones and logs are read whole, one a task, many at a time. A capture of SPLIT_FROM bytes or more is divided
(divided.py) over all executors. A file that is in the output already, unchanged, is not read. One that cannot be read, or not to
its end, gives what comes before the damage, has its reason in the quarantine, and costs no other file anything.
"""

import uuid
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from kproxy.capture.splitting import begin
from kproxy.errors import CaptureError
from kproxy.output.tables import TABLES
from kproxy.pipeline.decoded_log import DecodedLog
from kproxy.pipeline.run import Run
from kproxy.session import Event
from kproxy.spark.catalog import UNKNOWN, Catalog, Entry
from kproxy.spark.divided import Result, Undividable, decode_divided, prefix_of, write_rows
from kproxy.spark.facts import View
from kproxy.spark.files import InputFile, find_files, open_file, open_raw
from kproxy.spark.parts import PartWriter, day_of
from kproxy.spark.whole import Options, Rows

if TYPE_CHECKING:
    from pyspark import SparkContext

SPLIT_FROM = 256 << 20  # bytes of a capture
FILES_AT_A_TIME = 1_000  # of those read whole: they are put into place after each such group
Note = Callable[[str], None]


class Report(Struct):
    """What a job did."""

    read: int = 0
    skipped: int = 0  # in the output already
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Count a file that is in place."""
        self.read += 1
        self.problems += entry.problems
        for table, count in entry.rows.items():
            self.rows[table] = self.rows.get(table, 0) + count


def ingest(
    context: "SparkContext",
    inputs: Iterable[str],
    output: str,
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    cluster: str | None = None,
    split_from: int = SPLIT_FROM,
    parts: int | None = None,
    again: bool = False,
    note: Note = lambda sentence: None,
) -> Report:
    """Read files into the tables of a directory; run it again, and only what is new is read.

    Args:
        context: Spark's; no session is needed.
        inputs: files, folders, patterns.
        output: a directory on a disk that the driver and all executors see.
        options: what rows.
        cluster: whose traffic it is; None: the cluster id that the traffic shows, else "unknown".
        split_from: bytes from which a capture is divided.
        parts: into how many a capture is divided; None: by its size.
        again: read files that are in the output, too.
        note: called with a sentence about each file that is not read as asked for.

    Raises UsageError for an input that is not there.
    """
    catalog, report = Catalog(output), Report()
    for path in catalog.recover():
        note(f"{path}: an earlier job ended while its rows were put into place; it is read again")
    mark = _mark(options, cluster)
    found = find_files(inputs)
    wanted = [file for file in found if again or not catalog.has(file, mark)]
    report.skipped = len(found) - len(wanted)
    job = uuid.uuid4().hex
    staging = catalog.staging(job)

    def put(file: InputFile, result: Result) -> None:
        name = cluster or min(result.cluster_ids, default=UNKNOWN)
        report.add(catalog.commit(file, mark, name, result.files, result.damages, result.numbers))

    try:
        whole = []
        for file in wanted:
            if file.size < split_from or not _is_plain(file):
                whole.append(file)
                continue
            try:
                put(file, decode_divided(context, file, options, staging, parts))
            except Undividable as reason:
                note(f"{file.path}: it is read in one piece: {reason}")
                whole.append(file)
            except CaptureError as error:
                put(file, Result(damages=[str(error)]))
        for at in range(0, len(whole), FILES_AT_A_TIME):
            some = whole[at : at + FILES_AT_A_TIME]
            results = context.parallelize(some, len(some)).map(partial(decode_whole, options, staging))
            for file, result in zip(some, results.toLocalIterator(), strict=True):
                put(file, result)
    finally:
        catalog.remove_staging(job)
    return report


def decode_whole(options: Options, staging: str, file: InputFile) -> Result:
    """A task: one file to rows in *staging*. Whatever is in the file, it only costs that file."""
    try:
        return _decode_whole(options, staging, file)
    except Exception as error:
        return Result(damages=[f"{file.path}: not read, because of a bug of kproxy: {type(error).__name__}: {error}"])


def _decode_whole(options: Options, staging: str, file: InputFile) -> Result:
    writer: PartWriter | None = None
    result = Result()
    view = View(lambda: 0)
    try:
        source = open_file(file.path)
    except CaptureError as error:
        return Result(damages=[str(error)])

    def write(table: object, rows: object) -> None:
        nonlocal writer
        if writer is None:
            writer = PartWriter(staging, prefix_of(file, 0), day_of(output.first_at))
        write_rows(writer, output, table, rows)

    output = _FirstTime(write, options)
    with source, Run(options.run_options()) as run:
        run.add_output(output)
        is_log = isinstance(source, DecodedLog)
        for _ in run.read(source, name=file.name, cluster=None if is_log else view):
            pass
        output.tables.flush()
        result.damages += run.damages
        result.damages += [
            f"{file.path}: {count} connections could not be decoded ({fault}), which is a bug of kproxy"
            for fault, count in run.faults.items()
        ]
    view.read_all()
    result.cluster_ids = view.cluster_ids
    result.files = writer.close() if writer is not None else []
    return result


class _FirstTime(Rows):
    """Rows that remembers when the source begins."""

    first_at = 0

    def write(self, event: Event, bodies: object, *, shown: bool = True, line: bytes | None = None) -> None:
        """See Output."""
        if not self.first_at:
            self.first_at = event.at
        super().write(event, bodies, shown=shown, line=line)  # type: ignore[arg-type]


def _is_plain(file: InputFile) -> bool:
    """Whether a file is a capture that can be divided, as far as its first bytes tell."""
    try:
        raw = open_raw(file.path)
    except CaptureError:
        return False
    try:
        return begin(raw) is not None
    finally:
        raw.close()


def _mark(options: Options, cluster: str | None) -> str:
    """Names what rows are made: options, and the versions of the tables."""
    versions = {name: (table.version, len(table.columns)) for name, table in TABLES.items()}
    text = msgspec.json.encode([options, cluster, versions])
    return blake2b(text, digest_size=8).hexdigest()
