"""``kproxy-spark ingest``: decode captures and logs into Parquet, by cluster and day. catalog.py describes the output.

    ingest(context, ["captures/*.pcapng"], "tables")  -> Report

Files with packets of the same connections are one capture (grouping.py). Small captures, compressed files and logs are read in
one piece, each by one task, many at a time. A capture of SPLIT_FROM bytes or more is divided among all executors (divided.py), on
the cores of one machine only if it is more than a core's share of the bytes.
Unchanged files that are in the output already are not read. A damaged file gives its rows before the damage, gets an entry in
the quarantine, and does not affect other files.
"""

import re
import shutil
import tempfile
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from kproxy.capture.splitting import begin
from kproxy.errors import CaptureError, UsageError
from kproxy.output.tables.parquet import check_available
from kproxy.spark.catalog import Catalog, FilesOnDisk, Report, Target, mark_of, tables_of
from kproxy.spark.divided import PARTITION_SIZE, Result, Undividable, decode_divided, open_writer, persisted
from kproxy.spark.files import (
    MOST_IN_MEMORY,
    InputFile,
    copy_from_hadoop,
    find_files,
    find_in_hadoop,
    grouped,
    is_hadoop,
    open_raw,
    read_by_hadoop,
)
from kproxy.spark.folders import LocalFolder, open_folder
from kproxy.spark.grouping import group_files
from kproxy.spark.local import LocalContext, TasksKilled, spark_of
from kproxy.spark.rows import Chunk, FileRows, Options, PartWriter, Share, collect_rarely, day_of

if TYPE_CHECKING:
    from kproxy.spark.local import Context

Note = Callable[[str], None]
BUNDLE = 4 << 20
CAPTURE_ERROR = re.compile(r"^kproxy\.errors\.CaptureError: (.*)$", re.MULTILINE)  # in the text of a task's failure
CONTINUED = (
    "{} connections go on from files that were read earlier, and each has a second row in the table connections;"
    " --again reads all files as one capture"
)
SPLIT_FROM = 256 << 20  # bytes of a capture
FILES_AT_A_TIME = 1_000  # files read in one piece are put into the output in groups, of at most so many files
BYTES_AT_A_TIME = 1 << 30  # and bytes for each core: what a killed job loses


class Reading:
    """Decodes input files and passes their rows to the target."""

    def __init__(self, context: "Context", options: Options, target: Target, staging: str, note: Note) -> None:
        self._context = context
        self._options = options
        self._target = target
        self._staging = staging
        self._note = note

    def divide(self, file: InputFile, parts: int | None) -> bool:
        """Read a capture with all executors. Returns False if it has to be read in one piece."""
        if is_hadoop(file.path):
            if not self._staging:
                return False
            copied = f"{self._staging}/{file.key}"
            copy_from_hadoop(spark_of(self._context), file, copied)
            file = replace(file, copied_to=copied)
        try:
            return (bool(file.others) or _is_plain(file)) and self._divide(file, parts)
        finally:
            if file.copied_to:
                Path(file.copied_to).unlink()

    def _divide(self, file: InputFile, parts: int | None) -> bool:
        """Decode a large capture on all executors; return False if it cannot be divided."""
        try:
            result = decode_divided(
                self._context,
                file,
                self._options,
                self._staging,
                parts,
                sorted_by_spark=not self._staging,
                as_chunks=self._target.as_chunks,
            )
        except Undividable as error:
            self._note(f"{file.path}: it is read in one piece: {error}")
            return False
        except Exception as error:  # a task's CaptureError, or Spark's of it, with its text
            reason = _not_read(file, error) if isinstance(error, TasksKilled) else _reason(error)
            if reason is None:
                raise
            if file.others:
                return False  # only one of its files changed, or is gone
            result = Result(damages=[reason])
        self._tell(result)
        self._target.put([(file, result)], result.rows)
        return True

    def _tell(self, result: Result) -> None:
        for sentence in result.notes:
            self._note(sentence)

    def read_whole(self, files: list[InputFile]) -> None:
        """Read files side by side: each task reads one, or several small ones."""
        elsewhere = [file for file in files if is_hadoop(file.path)]
        too_large = [file for file in elsewhere if file.size > MOST_IN_MEMORY]
        for file in too_large:
            reason = f"{file.path}: larger than {MOST_IN_MEMORY >> 20} MiB, and it cannot be divided"
            self._target.put([(file, Result(damages=[reason]))], None)
        given: list[Any] = []
        if here := list(bundles(file for file in files if not is_hadoop(file.path))):
            tasks = [task for bundle in here for task in tasks_of(bundle, self._context.defaultParallelism)]
            if isinstance(self._context, LocalContext):  # whose tasks start at once: a file that kills one is known
                tasks = [[each] for task in tasks for each in task]
            given.append(self._context.parallelize(tasks, len(tasks)).flatMap(iter))
        if some := [file for file in elsewhere if file not in set(too_large)]:
            given.append(read_by_hadoop(spark_of(self._context), some).map(lambda pair: Task(*pair)))
        staging = None if self._target.as_chunks else self._staging
        for rows in given:
            made = rows.flatMap(partial(decode_whole, self._options, staging))
            kept = made if staging is not None else persisted(made)
            done = merged(_collected(kept.filter(is_done)))
            for _, result in done:
                self._tell(result)
            self._target.put(done, None if staging is not None else kept)


def _collected(rows: Any) -> list[tuple[InputFile, Result]]:
    """Collect the results of files; one whose task was killed has no rows, nor any of other shares of its connections."""
    try:
        done: list[tuple[InputFile, Result]] = rows.collect()
        return done
    except TasksKilled as error:
        lost = dict.fromkeys(task.file for [task] in error.lost)
        return [each for each in error.done if each[0] not in lost] + [
            (file, Result(damages=[_not_read(file, error)])) for file in lost
        ]


def _not_read(file: InputFile, error: TasksKilled) -> str:
    return f"{file.path}: not read: {error}"


def is_done(item: Chunk | tuple[InputFile, Result]) -> bool:
    return isinstance(item, tuple)


def bundles(files: Iterable[InputFile]) -> Iterator[list[InputFile]]:
    """Group files for tasks: BUNDLE bytes each, at least one file, since starting a task takes longer than decoding 1 MiB."""
    return grouped(files, BUNDLE)


class Task(Struct, frozen=True):
    """What a task decodes: a file with those that are one capture with it, or a share of their connections. data: its bytes."""

    file: InputFile
    data: bytes | None = None
    share: Share = Share()


def tasks_of(bundle: list[InputFile], most: int) -> Iterator[list[Task]]:
    """Yield what each Spark task decodes: many small files, or a share of a large capture that is in many files."""
    [first, *more] = bundle
    number = 1 if more or not first.others else min(most, -(-first.total // PARTITION_SIZE))
    if number == 1:
        yield [Task(file) for file in bundle]
    else:
        yield from ([Task(first, share=Share(each, number))] for each in range(number))


def merged(done: Iterable[tuple[InputFile, Result]]) -> list[tuple[InputFile, Result]]:
    """Put the results of all shares of a capture together; each share has read all of it, so that they say the same of it."""
    results: dict[InputFile, Result] = {}
    for file, result in done:
        if file in results:
            results[file].files += result.files
            results[file].damages += [each for each in result.damages if each not in results[file].damages]
        else:
            results[file] = result
    return list(results.items())


def decode_whole(options: Options, staging: str | None, task: Task) -> Iterator[Chunk | tuple[InputFile, Result]]:
    """Run as a task: decode one capture or log into *staging*, or into chunks. A failure concerns its files only.

    Yields the chunks, then the file and its Result.
    """
    collect_rarely()
    file, result = task.file, Result()
    try:
        yield from _decode_whole(options, staging, task, result)
    except Exception as error:  # its text may contain a record
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        result = Result(damages=[f"{file.path}: not read, because of a bug of kproxy: {where}"])
    yield file, result


def _decode_whole(options: Options, staging: str | None, task: Task, result: Result) -> Iterator[Chunk]:
    file = task.file
    reader = FileRows(file.path, options.capture or file.name, options, task.share, task.data, file.paths[1:])
    writer: PartWriter | None = None
    for table, rows in reader.read():
        if writer is None:
            writer = open_writer(staging, file, task.share.number, day_of(reader.first_at))
        writer.day = day_of(reader.at)
        writer.write(table, rows)
        yield from writer.take()
    result.damages, result.notes, result.cluster_ids = reader.damages, reader.notes, reader.cluster_ids
    if writer is not None:
        result.files = writer.close()
        yield from writer.take()


def _is_plain(file: InputFile) -> bool:
    """Whether a file is a capture that can be divided, as far as its first bytes tell."""
    try:
        raw = open_raw(file.place)
    except CaptureError:
        return False
    try:
        return begin(raw) is not None
    finally:
        raw.close()


def _reason(error: Exception) -> str | None:
    """The sentence of the CaptureError that ended a task; None if something else did."""
    if isinstance(error, CaptureError):
        return str(error)
    match = CAPTURE_ERROR.search(str(error))
    return None if match is None else match[1]


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
    context: "Context",
    inputs: Iterable[str],
    output: str | Output,
    *,
    options: Options = Options(),  # noqa: B008 - frozen
    cluster: str | None = None,
    split_from: int = SPLIT_FROM,
    parts: int | None = None,
    again: bool = False,
    separate: bool = False,
    together: bool = True,
    note: Note = lambda sentence: None,
) -> Report:
    """Read files into the tables of a directory. Run again, it reads only new and changed files.

    Args:
        context: Spark's, or a LocalContext for files on a disk; Spark's session is only needed for outputs that are no Parquet
            files on a disk.
        inputs: files, folders, patterns.
        output: a directory, as Output has it.
        options: which rows to make.
        cluster: whose traffic it is; None: the cluster id that the traffic shows, else "unknown".
        split_from: bytes from which a capture is divided.
        parts: into how many a capture is divided; None: by its size.
        again: also read files that are in the output already.
        separate: files of different folders are different captures, even if they have connections of the same addresses.
        together: files with packets of the same connections are one capture; otherwise each file is one.
        note: called with a sentence about each file that is read in another way than requested.

    Raises UsageError for an input that is not there, and for an output that the session cannot write.
    """
    output = Output(output) if isinstance(output, str) else output
    check_available()  # imported once, before processes are forked
    catalog, report = catalog_of(context, output), Report()
    found = _find(context, inputs)
    job = uuid.uuid4().hex
    is_on_disk = output.format == "parquet" and isinstance(catalog.folder, LocalFolder)
    target = (
        FilesOnDisk(catalog, options, cluster, report)
        if is_on_disk
        else _spark_target(context, output, catalog, options, cluster, report, job)
    )
    catalog.claim()
    for path in catalog.recover():
        note(f"{path}: an earlier job ended while its rows were put into place; it is read again")
    mark = mark_of(options, cluster)
    wanted = [file for file in found if again or not catalog.has(file, mark)]
    skipped = set(found) - set(wanted)
    if together:
        new = catalog.leave_out_copies(wanted, mark, note)
        with_others = catalog.with_others(new, note)
        skipped -= set(with_others)
        wanted = group_files(context, with_others, separate=separate)
    report.unread = catalog.unread(skipped)
    report.skipped = len(skipped) - report.unread
    report.problems += catalog.problems(skipped)
    with ExitStack() as stack:
        staging = catalog.staging(job)
        stack.callback(catalog.remove_staging, job)
        if not is_on_disk:
            local = (context.master or "").startswith("local")
            below = None if output.staging is None else Path(output.staging).absolute()
            staging = tempfile.mkdtemp(dir=below) if below is not None or local else ""
            stack.callback(shutil.rmtree, staging, ignore_errors=True)
        reading = Reading(context, options, target, staging, note)
        undivided = []
        least = split_from
        if isinstance(context, LocalContext) and least:
            # Smaller ones keep all cores busy in one piece, which costs less
            least = max(least, sum(file.total for file in wanted) // context.defaultParallelism + 1)
        for file in wanted:
            if file.total < least or not reading.divide(file, parts):
                undivided.append(file)
        for group in groups(undivided, BYTES_AT_A_TIME * context.defaultParallelism):
            reading.read_whole(group)
        if output.format == "parquet":
            catalog.complete(tables_of(options))
            if count := catalog.continued(wanted):
                note(CONTINUED.format(count))
    return report


def catalog_of(context: "Context", output: Output) -> Catalog:
    return Catalog(open_folder(None if isinstance(context, LocalContext) else context, output.state or output.place))


def standing_problems(context: "Context", output: Output) -> list[str]:
    """The reasons why files that are still there could not be read to their end, by this ingest or an earlier one."""

    def is_there(path: str) -> bool:
        try:
            return bool(_find(context, [path]))
        except UsageError:
            return False

    entries = catalog_of(context, output).entries()
    return [problem for entry in entries if entry.problems and is_there(entry.path) for problem in entry.problems]


def groups(files: Iterable[InputFile], most_bytes: int) -> Iterator[list[InputFile]]:
    """Group files that are read side by side and then put into the output together."""
    return grouped(files, most_bytes, FILES_AT_A_TIME)


def _find(context: "Context", inputs: Iterable[str]) -> list[InputFile]:
    names = list(inputs)
    found = set(find_files(name for name in names if not is_hadoop(name)))
    for name in filter(is_hadoop, names):
        some = find_in_hadoop(spark_of(context), name)
        if not some:
            raise UsageError(f"{name}: no such file")
        found.update(some)
    return sorted(found)


def _spark_target(
    context: "Context",
    output: Output,
    catalog: Catalog,
    options: Options,
    cluster: str | None,
    report: Report,
    job: str,
) -> Target:
    from kproxy.spark.writers import TablesBySpark  # noqa: PLC0415 - needs a session

    return TablesBySpark(spark_of(context), output.place, output.format, catalog, options, cluster, report, job)
