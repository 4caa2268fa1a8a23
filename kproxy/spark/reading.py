"""Read the input files of ``ingest``: large captures with all executors; small files, compressed ones and logs many at a time."""

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException

from kproxy.capture.splitting import begin
from kproxy.errors import CaptureError
from kproxy.pipeline.decoded_log import DecodedLog
from kproxy.pipeline.run import Run
from kproxy.session import Event
from kproxy.spark import hadoop_files
from kproxy.spark.chunks import Chunk, ChunkWriter
from kproxy.spark.divided import Result, Undividable, decode_divided, open_writer, write_rows
from kproxy.spark.facts import View
from kproxy.spark.file_rows import Options, Rows
from kproxy.spark.files import InputFile, grouped, open_file, open_raw
from kproxy.spark.parts import PartWriter, day_of
from kproxy.spark.targets import Target

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

Note = Callable[[str], None]
BUNDLE = 4 << 20
CAPTURE_ERROR = re.compile(r"^kproxy\.errors\.CaptureError: (.*)$", re.MULTILINE)  # in the text of a task's failure


class Reading:
    """Decodes input files and passes their rows to the target."""

    def __init__(self, context: "SparkContext", options: Options, target: Target, staging: str, note: Note) -> None:
        self._context = context
        self._options = options
        self._target = target
        self._staging = staging
        self._note = note

    def divide(self, file: InputFile, parts: int | None) -> bool:
        """Read a capture with all executors. Returns False if it has to be read in one piece."""
        if hadoop_files.is_hadoop(file.path):
            if not self._staging:
                return False
            copied = f"{self._staging}/{file.key}"
            hadoop_files.copy(self._context, file, copied)
            file = replace(file, copied_to=copied)
        try:
            return _is_plain(file) and self._divide(file, parts)
        finally:
            if file.copied_to:
                Path(file.copied_to).unlink()

    def _divide(self, file: InputFile, parts: int | None) -> bool:
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
        except CaptureError as error:
            result = Result(damages=[str(error)])
        except (Py4JJavaError, PySparkException) as error:  # a session translates the first into the second
            reason = _reason(error)
            if reason is None:
                raise
            result = Result(damages=[reason])
        self._target.put([(file, result)], result.rows)
        return True

    def read_whole(self, files: list[InputFile]) -> None:
        """Read files side by side: each task reads one, or several small ones."""
        elsewhere = [file for file in files if hadoop_files.is_hadoop(file.path)]
        too_large = [file for file in elsewhere if file.size > hadoop_files.MOST_IN_MEMORY]
        for file in too_large:
            reason = f"{file.path}: larger than {hadoop_files.MOST_IN_MEMORY >> 20} MiB, and it cannot be divided"
            self._target.put([(file, Result(damages=[reason]))], None)
        given: list[RDD[Any]] = []
        if here := list(bundles(file for file in files if not hadoop_files.is_hadoop(file.path))):
            given.append(self._context.parallelize(here, len(here)).flatMap(_one_by_one))
        if some := [file for file in elsewhere if file not in set(too_large)]:
            given.append(hadoop_files.read_whole(self._context, some))
        staging = None if self._target.as_chunks else self._staging
        for rows in given:
            made = rows.flatMap(partial(decode_whole, self._options, staging))
            if staging is not None:
                self._target.put(made.collect(), None)  # type: ignore[arg-type]
                continue
            kept = made.persist(StorageLevel.DISK_ONLY)
            self._target.put(kept.filter(_is_done).collect(), kept)  # type: ignore[arg-type]


def bundles(files: Iterable[InputFile]) -> Iterator[list[InputFile]]:
    """Group files for tasks: BUNDLE bytes each, at least one file, since starting a task takes longer than decoding 1 MiB."""
    return grouped(files, BUNDLE)


def _one_by_one(bundle: list[InputFile]) -> Iterator[tuple[InputFile, None]]:
    return ((file, None) for file in bundle)


def decode_whole(
    options: Options, staging: str | None, given: tuple[InputFile, bytes | None]
) -> Iterator[Chunk | tuple[InputFile, Result]]:
    """Run as a task: decode one file into *staging*, or into chunks. A failure concerns this file only.

    Yields the chunks, then the file and its Result.
    """
    file, data = given
    result = Result()
    try:
        yield from _decode_whole(options, staging, file, data, result)
    except Exception as error:  # its text may contain a record
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        result = Result(damages=[f"{file.path}: not read, because of a bug of kproxy: {where}"])
    yield file, result


def _is_done(item: object) -> bool:
    return isinstance(item, tuple)


def _decode_whole(
    options: Options, staging: str | None, file: InputFile, data: bytes | None, result: Result
) -> Iterator[Chunk]:
    writer: PartWriter | None = None
    view = View(lambda: 0)
    try:
        source = open_file(file.path, data)
    except CaptureError as error:
        result.damages = [str(error)]
        return

    def write(table: object, rows: object) -> None:
        nonlocal writer
        if writer is None:
            writer = open_writer(staging, file, 0, day_of(output.first_at))
        write_rows(writer, output, table, rows)

    output = _FirstTime(write, options)
    with source, Run(options.run_options()) as run:
        run.add_output(output)
        is_log = isinstance(source, DecodedLog)
        for _ in run.read(source, name=file.name, cluster=None if is_log else view):
            if isinstance(writer, ChunkWriter):
                yield from writer.take()
        output.tables.flush()
        result.damages += run.damages
        result.damages += [
            f"{file.path}: {count} connections could not be decoded ({fault}), which is a bug of kproxy"
            for fault, count in run.faults.items()
        ]
    view.read_all()
    result.cluster_ids = view.cluster_ids
    if writer is not None:
        result.files = writer.close()
    if isinstance(writer, ChunkWriter):
        yield from writer.take()


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
        raw = open_raw(file.place)
    except CaptureError:
        return False
    try:
        return begin(raw) is not None
    finally:
        raw.close()


def _reason(error: Exception) -> str | None:
    """The sentence of the CaptureError that ended a task; None if something else did."""
    match = CAPTURE_ERROR.search(str(error))
    return None if match is None else match[1]
