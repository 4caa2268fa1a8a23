"""One large capture on all executors: survey, shuffle, decode. What each stage does is in the package's docstring.

With ``sorted_by_spark`` the shuffle is Spark's own, which takes twice the CPU, for clusters whose staging folder is slower than
the executors' disks, or that have none: of RDDs, because the shuffle's order (by connection, then by packet) is
what bounds memory: a task reads one connection after the other, block by block. A second round reuses the shuffle's files:
Spark does not scan again.
"""

import filecmp
import os
import shutil
import struct
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial, reduce
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from msgspec import Struct, field

from kproxy.capture import Doubts
from kproxy.capture.segments import BlockWriter, Payloads
from kproxy.capture.splitting import (
    FRAGMENTS_INSIDE,
    Block,
    Part,
    PartReader,
    PartSurvey,
    SeekableFile,
    Start,
    WriteBlocks,
    begin,
    divide,
    settle,
    survey_part,
)
from kproxy.errors import CaptureError
from kproxy.pipeline.run import Run, doubtful
from kproxy.spark.connections import (
    END,
    HEAD,
    ConnectionReader,
    Head,
    Learned,
    Segments,
    answers,
    gather,
    merge,
    read_head,
)
from kproxy.spark.files import InputFile, Unpacked, is_remote, open_packets, open_raw
from kproxy.spark.rows import Chunk, ChunkWriter, Options, PartFile, PartWriter, Rows, collect_rarely, day_of, faults_of

if TYPE_CHECKING:
    from kproxy.spark.local import Context

PARTITION_SIZE = 128 << 20  # bytes of the capture that a partition is made of
DISORDER_NS = 100_000_000  # by so much a capture tool may write packets out of order, also across rotated files
FRAGMENTS = b""  # in place of a key: the part has IP fragments
SHARE_OF_MEMORY = 0.5  # that a capture may take to stay in place
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
LARGE = 0.02  # connections with more than this share of a partition are assigned by their size
Key: TypeAlias = tuple[bytes, int]
SLOT = struct.Struct("<QQ")
ENTRY = struct.Struct("<B36sQQI")
MOST_OPEN = 256


class BlockPart(Struct, frozen=True):
    """A part of the capture: how the files of its blocks are named, the packets before it, its file if payloads stay there."""

    name: str
    before: int = 0
    capture: str = ""


class BlockFiles:
    """The shuffle through files in the staging folder: written by part, read by connection; plain values, for executors.

        FOLDER/<part>.blocks     the blocks of a part of the capture, as they became full
        FOLDER/<part>.index      for each hash of a connection where its entries are and how many; then the entries: key, first
                                 packet, place

    A part is written while it is surveyed, in the same read, when neither the packets before it nor the partitions of large
    connections are known: so packets are numbered through the part, and entries are by hash. A task writes both files under
    temporary names and renames them, so a second attempt of the task does no harm. Reading takes the entries of a partition from
    all indexes, sorts them, and reads block by block: memory holds one block, and 57 bytes for each entry.

    If a capture stays in place, blocks hold the places of payloads instead of payloads: 44 bytes are written for each packet, and
    payloads are read from the capture.

    Args:
        folder: that all tasks see.
        partitions: of the connections.
    """

    def __init__(self, folder: str, partitions: int) -> None:
        self.folder = folder
        self.partitions = partitions

    @contextmanager
    def writer(self, name: str, attempt: str) -> Iterator[WriteBlocks]:
        """Return a function that adds blocks to the files of a part."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        entries: list[list[bytes]] = [[] for _ in range(self.partitions)]
        temporary = folder / f"{name}.{attempt}"
        with temporary.open("wb") as file:

            def write(blocks: Iterable[Block]) -> None:
                for key, first, block in blocks:
                    entries[hash_of(key, self.partitions)].append(
                        ENTRY.pack(len(key), key, first, file.tell(), len(block))
                    )
                    file.write(block)

            yield write
        temporary.replace(folder / f"{name}.blocks")
        at = SLOT.size * self.partitions
        with temporary.open("wb") as file:
            for own in entries:
                file.write(SLOT.pack(at, len(own)))
                at += ENTRY.size * len(own)
            for own in entries:
                file.write(b"".join(own))
        temporary.replace(folder / f"{name}.index")

    def read(
        self, partition: int, parts: Sequence[BlockPart], owners: Mapping[bytes, int]
    ) -> Iterator[tuple[Key, Segments]]:
        """Yield the blocks of a partition, connection by connection, in the order of packets.

        *owners*: the partitions of large connections. Raises CaptureError if a capture in which payloads stayed is gone.
        """
        with ExitStack() as stack:
            opened: dict[str, Payloads] = {}
            for key, block, part in self._read(partition, parts, owners):
                path = part.capture
                if path and path not in opened:
                    _make_room(opened, stack)
                    opened[path] = stack.enter_context(closing(Payloads(open_raw(path), path)))
                yield key, Segments(block, part.before, opened.get(path))

    def _read(
        self, partition: int, parts: Sequence[BlockPart], owners: Mapping[bytes, int]
    ) -> Iterator[tuple[Key, bytes, BlockPart]]:
        places: list[tuple[bytes, int, int, int, int]] = []
        hashes = {partition} | {hash_of(key, self.partitions) for key, owner in owners.items() if owner == partition}
        for number, part in enumerate(parts):
            with (Path(self.folder) / f"{part.name}.index").open("rb") as index:
                for each in sorted(hashes):
                    index.seek(SLOT.size * each)
                    begin, count = SLOT.unpack(index.read(SLOT.size))
                    index.seek(begin)
                    for size, key, first, at, length in ENTRY.iter_unpack(index.read(ENTRY.size * count)):
                        if owners.get(key[:size], each) == partition:
                            places.append((key[:size], part.before + first, number, at, length))
        places.sort()
        with ExitStack() as stack:
            opened: dict[int, BinaryIO] = {}
            for key, first, number, at, length in places:
                if number not in opened:
                    _make_room(opened, stack)
                    path = Path(self.folder) / f"{parts[number].name}.blocks"
                    opened[number] = stack.enter_context(path.open("rb", buffering=0))
                yield (key, first), os.pread(opened[number].fileno(), length, at), parts[number]


def hash_of(key: bytes, partitions: int) -> int:
    return zlib.crc32(key) % partitions


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
    context: "Context",
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
    blocks_at = None if sorted_by_spark else f"{staging}/blocks-{file.key}"
    try:
        plan = plan_capture(context, file, parts, blocks_at)
        default_day = day_of(min((survey.minima[0][1] for survey in plan.surveys if survey.minima), default=0))
        shared = gather(plan.surveys)
        beginning = _head(file, plan.starts, options, shared.secrets, head)
        shared.names, shared.waits = beginning.names, beginning.waits
        read = None if blocks_at is None else plan.reader(file, blocks_at)
        blocks: Any = (
            _by_spark(context, file, plan)
            if read is None
            else context.parallelize(range(plan.partitions), plan.partitions)
        )
        while True:
            task = partial(
                decode,
                file,
                options,
                None if as_chunks else staging,
                default_day,
                context.broadcast(shared),
                read,
            )
            results = blocks.mapPartitionsWithIndex(task)
            if as_chunks:
                results = persisted(results)
            decoded: list[Decoded] = results.filter(is_decoded).collect()
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
        if blocks_at is not None:
            shutil.rmtree(blocks_at, ignore_errors=True)


def is_decoded(item: Decoded | Chunk) -> bool:
    return isinstance(item, Decoded)


def persisted(rows: Any) -> Any:
    """Keep the rows of an RDD on the executors' disks."""
    from pyspark import StorageLevel  # noqa: PLC0415 - the caller has it

    return rows.persist(StorageLevel.DISK_ONLY)


def _by_spark(context: Any, file: InputFile, plan: "Plan") -> Any:
    return (
        context.parallelize(plan.surveys, min(len(plan.surveys), plan.partitions))
        .flatMap(partial(scan_pairs, file))
        .repartitionAndSortWithinPartitions(plan.partitions, partial(partition_of, plan.owners, plan.partitions))
    )


def _result(file: InputFile, plan: "Plan", decoded: list[Decoded]) -> Result:
    paths, broken = file.paths, [survey for survey in plan.surveys if survey.problem is not None]
    damages = [f"{paths[survey.part.file]}: byte {survey.end}: {survey.problem}" for survey in broken]
    damages += doubtful(file.path, reduce(Doubts.plus, (each.learned.doubts for each in decoded), Doubts()))
    return Result(
        [part for each in decoded for part in each.files],
        [*damages, *(damage for each in decoded for damage in each.damages)],
        {cluster_id for each in decoded for cluster_id in each.learned.cluster_ids},
        sorted(number for each in decoded for number in each.learned.flows),
        notes=plan.notes,
    )


class Plan(Struct):
    """How a capture is divided. stays: payloads stay in its files. notes: which of them are copies, and left out."""

    starts: list[Start | None]
    surveys: list[PartSurvey]
    partitions: int  # of the shuffle
    owners: dict[bytes, int]  # the partitions of large connections; the others go by a hash of their key
    stays: bool
    notes: list[str]

    def reader(self, file: InputFile, folder: str) -> "Read":
        """Return how a task reads the blocks of its partition, which the survey wrote in *folder*."""
        parts = [
            BlockPart(_name_of(one.part), one.first_number - 1, file.files[one.part.file].place if self.stays else "")
            for one in self.surveys
            if one.start is not None
        ]
        return partial(BlockFiles(folder, self.partitions).read, parts=parts, owners=self.owners)


Read: TypeAlias = Callable[[int], Iterator[tuple[Key, Segments]]]


def _name_of(part: Part) -> str:
    """Return the name of a part. It stays the same if the part is surveyed again from another first packet."""
    return f"{part.file}-{part.stop}"


def plan_capture(context: "Context", file: InputFile, parts: int | None, blocks: str | None = None) -> Plan:
    """Find the packet boundaries of a capture, and survey its parts. Raises Undividable, CaptureError.

    *blocks*: the folder for their blocks, which are written in the same read; None: they are not written.
    """
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
    stays = not is_packed and stays_in_place(context.master or "", file)
    files = None if blocks is None else BlockFiles(blocks, number)
    look = partial(survey, file, starts, files, stays)
    given: list[PartSurvey] = context.parallelize(divided, min(len(divided), number)).map(look).collect()
    settled = settle(given, look)
    reason = next((each.unsplittable for each in settled if each.unsplittable is not None), None)
    if reason is not None:
        raise Undividable(reason)
    _check_order(settled)
    return Plan(starts, settled, number, _owners(settled, number), stays, notes)


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


def survey(
    file: InputFile, starts: list[Start | None], files: BlockFiles | None, stays: bool, part: Part
) -> PartSurvey:
    """Run as a task: read the packet headers of a part, and write its blocks."""
    start = starts[part.file]
    assert start is not None
    with ExitStack() as stack:
        raw = stack.enter_context(closing(open_packets(file.files[part.file].place)))
        written = nullcontext() if files is None else files.writer(_name_of(part), prefix_of(file, part.file))
        write = stack.enter_context(written)
        surveyed = survey_part(raw, part, start, write, stays=stays)
        if isinstance(raw, Unpacked) and raw.problem is not None:
            surveyed.problem = raw.problem
        return surveyed


def scan_pairs(file: InputFile, surveyed: PartSurvey) -> Iterator[tuple[Key, bytes]]:
    """Run as a task: yield the blocks of a part, with their keys for Spark's shuffle."""
    if surveyed.start is None:
        return
    one = file.files[surveyed.part.file]
    with closing(open_packets(one.place)) as raw:
        reader, writer = PartReader(raw, surveyed.start, surveyed.part.stop, surveyed.part.preamble), BlockWriter()
        number = surveyed.first_number
        for batch in reader.batches():
            yield from _paired(writer.receive(batch, number))
            number += batch.count
        yield from _paired(writer.flush())
        if number != surveyed.first_number + surveyed.packets:
            raise CaptureError(f"{one.path}: it changed while it was being read")
        if writer.fragments:
            yield (FRAGMENTS, 0), b""


def _paired(blocks: Iterable[Block]) -> Iterator[tuple[Key, bytes]]:
    return (((key, first), block) for key, first, block in blocks)


def partition_of(owners: dict[bytes, int], partitions: int, key: Key) -> int:
    """The partition of a block."""
    return owners.get(key[0], hash_of(key[0], partitions))


def decode(
    file: InputFile,
    options: Options,
    staging: str | None,
    default_day: str,
    shared: Any,
    read: Read | None,
    partition: int,
    given: Iterator[Any],
) -> Iterator[Decoded | Chunk]:
    """Run as a task: decode the connections of a partition, one after the other, into files; without *staging*, into chunks."""
    collect_rarely()
    blocks = ((key, Segments(block)) for key, block in given) if read is None else read(partition)
    writer = open_writer(staging, file, partition, default_day)
    output = Rows(lambda table, rows: _write_rows(writer, output, table, rows), options)
    with Run(options.run_options(), [output]) as run:
        reader = ConnectionReader(run, options.capture or file.name, shared.value)
        for key, some in groupby(blocks, key=lambda item: item[0][0]):
            if key == FRAGMENTS:
                yield Decoded(partition, [], Learned(), [], FRAGMENTS_INSIDE)
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
    spark = sys.modules.get("pyspark")
    context = spark and spark.TaskContext.get()
    return f"{file.key}-{partition:05d}-{context.taskAttemptId() if context else 0}"


def _write_rows(writer: PartWriter, output: Rows, table: Any, rows: Any) -> None:
    """Write rows under the day of the event that they come from."""
    writer.day = day_of(output.at)
    writer.write(table, rows)


def _head(
    file: InputFile, starts: list[Start | None], options: Options, secrets: list[tuple[int, bytes]], head: int
) -> Head:
    with Run(options.run_options()) as run, closing(_opened(file, starts)) as files:
        return read_head(files, run, secrets, head=head)


def _opened(file: InputFile, starts: list[Start | None]) -> Generator[tuple[SeekableFile, Start, int]]:
    """Open one file of a capture after the other; each is closed before the next."""
    for one, start in zip(file.files, starts, strict=True):
        if start is not None:
            with closing(open_packets(one.place)) as raw:
                yield raw, start, END if isinstance(raw, Unpacked) else one.size
