"""One large capture on all executors: survey, scan, shuffle, decode. What each stage does is in the package's docstring.

With ``sorted_by_spark`` the shuffle is Spark's own, which takes twice the CPU, for clusters whose staging folder is slower than
the executors' disks, or that have none: of RDDs, because the shuffle's order (by connection, then by packet) is
what bounds memory: a task reads one connection after the other, block by block. A second round reuses the shuffle's files:
Spark does not scan again.
"""

import filecmp
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from msgspec import Struct, field
from pyspark import StorageLevel, TaskContext

from kproxy.capture.segments import BlockWriter, fill
from kproxy.capture.splitting import (
    Part,
    PartReader,
    PartSurvey,
    SeekableFile,
    Start,
    begin,
    divide,
    settle,
    survey_part,
)
from kproxy.errors import CaptureError
from kproxy.pipeline.run import Run
from kproxy.spark.connections import END, HEAD, ConnectionReader, Head, Learned, answers, gather, merge, read_head
from kproxy.spark.files import InputFile, Unpacked, is_remote, open_packets, open_raw
from kproxy.spark.rows import Chunk, ChunkWriter, Options, PartFile, PartWriter, Rows, day_of, faults_of

if TYPE_CHECKING:
    from pyspark import SparkContext

PARTITION_SIZE = 128 << 20  # bytes of the capture that a partition is made of
DISORDER_NS = 100_000_000  # by so much a capture tool may write packets out of order, also across rotated files
FRAGMENTS = b""  # in place of a key: the part has IP fragments
SHARE_OF_MEMORY = 0.5  # that a capture may take to stay in place
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
LARGE = 0.02  # connections with more than this share of a partition are assigned by their size
Key: TypeAlias = tuple[bytes, int]
Block: TypeAlias = tuple[bytes, int, bytes]
SLOT = struct.Struct("<QQ")
ENTRY = struct.Struct("<B36sQQI")
MOST_OPEN = 256


class BlockFiles:
    """The shuffle through files in the staging folder: written by part, read by connection; plain values, for executors.

        FOLDER/<part>.blocks     the blocks of a part of the capture, as they became full
        FOLDER/<part>.index      for each partition where its entries are and how many; then the entries: key, first packet, place

    A task writes both under temporary names and renames them, so a second attempt of the task does no harm. Reading takes the
    entries of a partition from all indexes, sorts them, and reads block by block: memory holds one block, and 57 bytes for
    each entry.

    If a capture stays in place, blocks hold the places of payloads instead of payloads: 44 bytes are written for each packet,
    and reading a block reads its payloads from the capture.

    Args:
        folder: that all tasks see.
        parts: of the capture.
        partitions: of the connections.
        captures: for each part the path of the file that has the payloads; empty: blocks have them.
    """

    def __init__(self, folder: str, parts: int, partitions: int, captures: Sequence[str] = ()) -> None:
        self.folder = folder
        self.parts = parts
        self.partitions = partitions
        self.captures = captures

    def write(self, part: int, blocks: Iterable[Block], partition_of: Callable[[Key], int], attempt: str) -> None:
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        entries: list[list[bytes]] = [[] for _ in range(self.partitions)]
        temporary = folder / f"{part}.{attempt}"
        at = 0
        with temporary.open("wb") as file:
            for key, first, block in blocks:
                file.write(block)
                entries[partition_of((key, first))].append(ENTRY.pack(len(key), key, first, at, len(block)))
                at += len(block)
        temporary.replace(folder / f"{part}.blocks")
        at = SLOT.size * self.partitions
        with temporary.open("wb") as file:
            for own in entries:
                file.write(SLOT.pack(at, len(own)))
                at += ENTRY.size * len(own)
            for own in entries:
                file.write(b"".join(own))
        temporary.replace(folder / f"{part}.index")

    def read(self, partition: int) -> Iterator[tuple[Key, bytes]]:
        """Yield the blocks of a partition, connection by connection, in the order of packets.

        Raises CaptureError if payloads stayed in the capture, and it has changed.
        """
        with ExitStack() as stack:
            opened: dict[str, Any] = {}
            for key, block, part in self._read(partition):
                if not self.captures:
                    yield key, block
                    continue
                path = self.captures[part]
                if path not in opened:
                    _make_room(opened, stack)
                    opened[path] = stack.enter_context(closing(open_raw(path)))
                try:
                    yield key, fill(block, opened[path].fileno())
                except (OSError, EOFError) as error:
                    raise CaptureError(f"{path}: it changed while it was being read") from error

    def _read(self, partition: int) -> Iterator[tuple[Key, bytes, int]]:
        places: list[tuple[bytes, int, int, int, int]] = []
        for part in range(self.parts):
            with (Path(self.folder) / f"{part}.index").open("rb") as index:
                index.seek(SLOT.size * partition)
                begin, count = SLOT.unpack(index.read(SLOT.size))
                index.seek(begin)
                for size, key, first, at, length in ENTRY.iter_unpack(index.read(ENTRY.size * count)):
                    places.append((key[:size], first, part, at, length))
        places.sort()
        with ExitStack() as stack:
            opened: dict[int, BinaryIO] = {}
            for key, first, part, at, length in places:
                if part not in opened:
                    _make_room(opened, stack)
                    opened[part] = stack.enter_context((Path(self.folder) / f"{part}.blocks").open("rb", buffering=0))
                yield (key, first), os.pread(opened[part].fileno(), length, at), part


def _make_room(opened: dict[Any, Any], stack: ExitStack) -> None:
    if len(opened) >= MOST_OPEN:
        stack.close()
        opened.clear()


class Undividable(Exception):
    """Raised for a capture that has to be read in one piece."""


class Decoded(Struct):
    """What a task reports to the driver."""

    partition: int
    files: list[PartFile]
    learned: Learned
    damages: list[str]
    undividable: str | None = None


class Result(Struct):
    """The decoded capture: files, or with ``as_chunks`` an RDD ``rows`` that holds its chunks, which the caller frees.

    In the table connections, ``connection`` is still the number of the first packet: see ``numbers``.
    """

    files: list[PartFile] = field(default_factory=list)
    damages: list[str] = field(default_factory=list)
    cluster_ids: set[str] = field(default_factory=set)
    numbers: list[int] | None = None  # first packets of all flows, in order; None: connections are numbered already
    rows: Any = None
    notes: list[str] = field(default_factory=list)  # which files are copies


def decode_divided(
    context: "SparkContext",
    file: InputFile,
    options: Options,
    staging: str,
    parts: int | None = None,
    *,
    head: int = HEAD,
    sorted_by_spark: bool = False,
    as_chunks: bool = False,
) -> Result:
    """Decode a capture on all executors, into files in *staging* or into an RDD.

    Args:
        context: Spark's.
        file: a plain pcap or pcapng.
        options: which rows to make.
        staging: a folder that the driver and all executors see.
        parts: how many tasks share the file, and its connections; by default one for each PARTITION_SIZE.
        head: see HEAD.
        sorted_by_spark: shuffle through Spark instead of the staging folder.
        as_chunks: the rows become chunks of an RDD, kept on the executors' disks; see kproxy.spark.rows.

    Raises Undividable, if the capture has to be read in one piece.
    """
    plan = plan_capture(context, file, parts)
    default_day = day_of(min((survey.minima[0][1] for survey in plan.surveys if survey.minima), default=0))
    shared = gather(plan.surveys)
    read_beginning = partial(_head, file, plan.starts, options, shared.secrets, head)
    [beginning] = context.parallelize([None], 1).map(read_beginning).collect()
    shared.names, shared.waits = beginning.names, beginning.waits
    places = [file.files[survey.part.file].place for survey in plan.surveys]
    in_place = places if not plan.is_packed and stays_in_place(context.master or "", file) else []
    files = BlockFiles(f"{staging}/blocks-{file.key}", len(plan.surveys), plan.partitions, in_place)
    try:
        blocks = _by_spark(context, file, plan) if sorted_by_spark else _by_files(context, file, plan, files)
        while True:
            task = partial(
                decode,
                file,
                options,
                None if as_chunks else staging,
                default_day,
                context.broadcast(shared),
                None if sorted_by_spark else files,
            )
            results = blocks.mapPartitionsWithIndex(task)
            if as_chunks:
                results = results.persist(StorageLevel.DISK_ONLY)
            decoded: list[Decoded] = results.filter(lambda item: isinstance(item, Decoded)).collect()
            for each in decoded:
                if each.undividable is not None:
                    raise Undividable(each.undividable)
            learned = merge(each.learned.names for each in decoded)
            if not any(answers(shared.names, learned, each.learned.missed) for each in decoded):
                result = _result(file, plan, decoded)
                result.rows = results if as_chunks else None
                return result
            if as_chunks:
                results.unpersist()
            shared.names = merge([learned, shared.names])
    finally:
        shutil.rmtree(files.folder, ignore_errors=True)


def _by_spark(context: "SparkContext", file: InputFile, plan: "Plan") -> Any:
    return (
        context.parallelize(plan.surveys, min(len(plan.surveys), plan.partitions))
        .flatMap(partial(scan_pairs, file))
        .repartitionAndSortWithinPartitions(plan.partitions, partial(partition_of, plan.owners, plan.partitions))
    )


def _by_files(context: "SparkContext", file: InputFile, plan: "Plan", files: BlockFiles) -> Any:
    surveys = list(enumerate(plan.surveys))
    tasks = min(len(surveys), plan.partitions)
    context.parallelize(surveys, tasks).foreach(partial(scan_to_files, file, plan.owners, files))
    return context.parallelize(range(plan.partitions), plan.partitions)


def _result(file: InputFile, plan: "Plan", decoded: list[Decoded]) -> Result:
    paths, broken = file.paths, [survey for survey in plan.surveys if survey.problem is not None]
    damages = [f"{paths[survey.part.file]}: byte {survey.end}: {survey.problem}" for survey in broken]
    return Result(
        [part for each in decoded for part in each.files],
        [*damages, *(damage for each in decoded for damage in each.damages)],
        {cluster_id for each in decoded for cluster_id in each.learned.cluster_ids},
        sorted(number for each in decoded for number in each.learned.flows),
        notes=plan.notes,
    )


class Plan(Struct):
    """How a capture is divided. is_packed: some of its files are compressed. notes: which of them are copies, and left out."""

    starts: list[Start | None]
    surveys: list[PartSurvey]
    partitions: int  # of the shuffle
    owners: dict[bytes, int]  # the partitions of large connections; the others go by a hash of their key
    is_packed: bool
    notes: list[str]


def plan_capture(context: "SparkContext", file: InputFile, parts: int | None) -> Plan:
    """Find the packet boundaries of a capture, and survey its parts. Raises Undividable, CaptureError."""
    number = parts or max(context.defaultParallelism, -(-file.total // PARTITION_SIZE))
    starts: list[Start | None] = []
    divided: list[Part] = []
    notes: list[str] = []
    is_packed = False
    for index, one in enumerate(file.files):
        if index and _is_copy(one, file.files[index - 1]):
            notes.append(f"{one.path} has the same content as {file.files[index - 1].path}: it counts once")
            starts.append(None)
            continue
        with closing(open_packets(one.place)) as raw:
            start = begin(raw)
            if start is None or (isinstance(raw, Unpacked) and not file.others):
                raise Undividable("it is compressed, or damaged at its beginning")
            if isinstance(raw, Unpacked):
                is_packed = True
                divided.append(Part(start.first, END, start.preamble, known=True, file=index))
            else:
                divided += divide(start, one.size, max(1, number * one.size // file.total), index)
            starts.append(start)
    look = partial(survey, file, starts)
    given: list[PartSurvey] = context.parallelize(divided, min(len(divided), number)).map(look).collect()
    settled = settle(given, look)
    reason = next((each.unsplittable for each in settled if each.unsplittable is not None), None)
    if reason is not None:
        raise Undividable(reason)
    _check_order(settled)
    return Plan(starts, settled, number, _owners(settled, number), is_packed, notes)


def _is_copy(file: InputFile, other: InputFile) -> bool:
    return file.size == other.size and filecmp.cmp(file.place, other.place, shallow=False)


def _check_order(surveys: list[PartSurvey]) -> None:
    """Raise Undividable if packets of a file are earlier than some of the files before it: numbers give the order of packets."""
    latest = before = 0
    for last, each in pairwise([surveys[0], *surveys]):
        before = latest if each.part.file != last.part.file else before
        if any(time < before - DISORDER_NS for _, time in each.minima):
            raise Undividable("its files overlap in time")
        latest = max(latest, each.latest_ns)


def _owners(surveys: list[PartSurvey], partitions: int) -> dict[bytes, int]:
    """Give the largest connections to different partitions, so that all partitions become about equally large."""
    sizes: dict[bytes, int] = {}
    for survey_ in surveys:
        for key, (_, _, size) in survey_.connections.items():
            sizes[key] = sizes.get(key, 0) + size
    least = LARGE * sum(sizes.values()) / partitions
    rest = sum(size for size in sizes.values() if size < least)
    loads = [rest // partitions] * partitions
    owners = {}
    for key, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if size < least:
            break
        owners[key] = loads.index(min(loads))
        loads[owners[key]] += size
    return owners


def stays_in_place(master: str, file: InputFile) -> bool:
    """Whether the decode reads payloads from the capture itself, instead of from copies in the staging folder.

    Each task reads small pieces from all over the capture. That is fast only from memory, where the system keeps files that
    were just read: so all tasks have to run on this machine, and its memory has to have room for the capture.
    """
    return master.startswith("local") and not is_remote(file.place) and file.total <= SHARE_OF_MEMORY * memory()


def memory() -> int:
    """Bytes of memory that this process may use, including the system's cache of its files."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):  # no limit there, or "max"
        sizes.append(int(CGROUP_LIMIT.read_text(encoding="ascii")))
    return min(sizes)


def survey(file: InputFile, starts: list[Start | None], part: Part) -> PartSurvey:
    """Run as a task: read the packet headers of a part."""
    start = starts[part.file]
    assert start is not None
    with closing(open_packets(file.files[part.file].place)) as raw:
        surveyed = survey_part(raw, part, start)
        if isinstance(raw, Unpacked) and raw.problem is not None:
            surveyed.problem = raw.problem
        return surveyed


def scan(file: InputFile, surveyed: PartSurvey, *, in_place: bool = False) -> Iterator[Block]:
    """Yield the blocks of a part; *in_place*: with the places of payloads in the file instead of payloads."""
    if surveyed.start is None:
        return
    one = file.files[surveyed.part.file]
    with closing(open_packets(one.place)) as raw:
        reader, writer = PartReader(raw, surveyed.start, surveyed.part.stop, surveyed.part.preamble), BlockWriter()
        number = surveyed.first_number
        for batch in reader.batches():
            yield from writer.receive(batch, number, reader.buffer_position if in_place else -1)
            number += batch.count
        yield from writer.flush()
        if number != surveyed.first_number + surveyed.packets:
            raise CaptureError(f"{one.path}: it changed while it was being read")
        if writer.fragments:
            yield FRAGMENTS, 0, b""


def scan_pairs(file: InputFile, surveyed: PartSurvey) -> Iterator[tuple[Key, bytes]]:
    """Run as a task: yield the blocks of a part, with their keys for Spark's shuffle."""
    for key, first, block in scan(file, surveyed):
        yield (key, first), block


def scan_to_files(
    file: InputFile, owners: dict[bytes, int], files: BlockFiles, numbered: tuple[int, PartSurvey]
) -> None:
    """Run as a task: write the blocks of a part into files."""
    part, surveyed = numbered
    where = partial(partition_of, owners, files.partitions)
    files.write(part, scan(file, surveyed, in_place=bool(files.captures)), where, prefix_of(file, part))


def partition_of(owners: dict[bytes, int], partitions: int, key: Key) -> int:
    """The partition of a block."""
    owner = owners.get(key[0])
    return zlib.crc32(key[0]) % partitions if owner is None else owner


def decode(
    file: InputFile,
    options: Options,
    staging: str | None,
    default_day: str,
    shared: Any,
    files: BlockFiles | None,
    partition: int,
    given: Iterator[Any],
) -> Iterator[Decoded | Chunk]:
    """Run as a task: decode the connections of a partition, one after the other, into files; without *staging*, into chunks."""
    blocks: Iterator[tuple[Key, bytes]] = given if files is None else files.read(partition)
    writer = open_writer(staging, file, partition, default_day)
    output = Rows(lambda table, rows: _write_rows(writer, output, table, rows), options)
    with Run(options.run_options(), [output]) as run:
        reader = ConnectionReader(run, file.name, shared.value)
        for key, some in groupby(blocks, key=lambda item: item[0][0]):
            if key == FRAGMENTS:
                yield Decoded(partition, [], Learned(), [], "IP fragments inside a tunnel")
                return
            for _ in reader.read(key, (block for _, block in some)):
                yield from writer.take()
        output.tables.flush()
        faults = faults_of(file.path, run)
    written = writer.close()
    yield from writer.take()
    yield Decoded(partition, written, reader.learned, faults)


def open_writer(staging: str | None, file: InputFile, partition: int, default_day: str) -> PartWriter:
    """Open the writer of a task's rows: files in *staging*, or chunks."""
    if staging is None:
        return ChunkWriter(file.key, default_day)
    return PartWriter(staging, prefix_of(file, partition), default_day)


def prefix_of(file: InputFile, partition: int) -> str:
    """The prefix of a task's file names; each attempt has its own, because Spark may run two at a time."""
    context = TaskContext.get()
    return f"{file.key}-{partition:05d}-{0 if context is None else context.taskAttemptId()}"


def _write_rows(writer: PartWriter, output: Rows, table: Any, rows: Any) -> None:
    """Write rows under the day of the event that they come from."""
    writer.day = day_of(output.at)
    writer.write(table, rows)


def _head(
    file: InputFile,
    starts: list[Start | None],
    options: Options,
    secrets: list[tuple[int, bytes]],
    head: int,
    _: object,
) -> Head:
    with Run(options.run_options()) as run, closing(_opened(file, starts)) as files:
        return read_head(files, run, secrets, head=head)


def _opened(file: InputFile, starts: list[Start | None]) -> Generator[tuple[SeekableFile, Start, int]]:
    """Open one file of a capture after the other; each is closed before the next."""
    for one, start in zip(file.files, starts, strict=True):
        if start is not None:
            with closing(open_packets(one.place)) as raw:
                yield raw, start, END if isinstance(raw, Unpacked) else one.size
