"""The output directory of ingest: which input files it has, and their rows, which appear and disappear together.

    OUT/<table>/cluster=<name>/day=<YYYY-MM-DD>/<key of the input file>-<number>.parquet
    OUT/<table>/cluster=.../day=.../empty.parquet            without rows, of a table that had none when a job ended
    OUT/_kproxy.json                                         who wrote the tables, and the versions of their contracts
    OUT/_kproxy/files/<key of the input file>.json           an Entry, written last: the file is complete
    OUT/_kproxy/quarantine/<key of the input file>.json      path and reasons, of files that could not be read to their end
    OUT/_kproxy/staging/                                     rows of running jobs; removed when a job ends

A file is put into place in three steps: an Entry in the state COMMITTING names all its parts, old and new; the parts are moved;
the Entry becomes DONE. A job that finds COMMITTING removes those parts and reads the file again. Names begin with the key, so a
second run writes the same names and adds nothing. Only one job at a time may write into a directory. Readers of Parquet ignore
folders that begin with ``_``.
"""

import filecmp
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from kproxy.output.tables import TABLES, Table, Tables, schema_of
from kproxy.output.tables.parquet import GROUP_ROWS, LEVEL, MARKER, check_directory, check_marker, marker_text
from kproxy.spark.divided import Result
from kproxy.spark.files import InputFile, find_files
from kproxy.spark.folders import Folder, LocalFolder, open_folder
from kproxy.spark.rows import Options, PartFile, numbered

if TYPE_CHECKING:
    from pyspark import RDD

COMMITTING, DONE = "committing", "done"
UNKNOWN = "unknown"  # cluster
SAFE = re.compile(r"[^A-Za-z0-9_.-]")
LONGEST = 100  # of a cluster's name in a path
MOST_REASONS = 20
FILES, QUARANTINE, STAGING = "_kproxy/files", "_kproxy/quarantine", "_kproxy/staging"
EMPTY = "empty.parquet"
WRITER = "kproxy-spark ingest"


class Entry(Struct):
    """The catalog's entry for an input file."""

    path: str
    size: int
    modified_ns: int
    identity: str
    options: str  # hash of the options of its rows; with another one it is read again
    state: str
    parts: list[str] = field(default_factory=list)  # below OUT
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    first: str = ""  # path of the file that has the rows, if this one is not the first of its capture
    others: list[InputFile] = field(default_factory=list)  # files that are one capture with it

    @property
    def is_unread(self) -> bool:
        """Whether nothing of it could be read."""
        return bool(self.problems) and not self.first and not any(self.rows.values())


class Catalog:
    """See above.

    Args:
        folder: OUT; a disk that the driver and all executors see, or any Folder where Spark writes the rows itself.
    """

    def __init__(self, folder: str | Folder) -> None:
        self.folder = open_folder(None, folder) if isinstance(folder, str) else folder

    def claim(self) -> None:
        """Mark the directory as one of this writer. Raises UsageError if it has other things, also tables of another writer."""
        content = self.folder.read(MARKER)
        if content is not None:
            check_marker(self.folder.root, content, writer=WRITER)
        else:
            if isinstance(self.folder, LocalFolder):
                check_directory(self.folder.path)
            self.folder.write(MARKER, marker_text(WRITER, {}).encode())

    def staging(self, job: str) -> str:
        """Create an empty folder for the rows of a job."""
        self.remove_staging(job)
        folder = f"{self.folder.root}/{STAGING}/{job}"
        if isinstance(self.folder, LocalFolder):
            Path(folder).mkdir(parents=True)
        return folder

    def remove_staging(self, job: str) -> None:
        self.folder.remove_tree(f"{STAGING}/{job}")

    def has(self, file: InputFile, options: str) -> bool:
        """Whether the output already has the rows of this file, unchanged since, made with these options."""
        entry = self.entry(file)
        return (
            entry is not None and entry.state == DONE and entry.identity == file.identity and entry.options == options
        )

    def entry(self, file: InputFile) -> Entry | None:
        return self._read(f"{FILES}/{file.key}.json")

    def problems(self, files: Iterable[InputFile]) -> list[str]:
        """The reasons why files in the output could not be read to their end, in the order of their paths."""
        return [problem for file in sorted(files) for problem in self._of(file).problems]

    def unread(self, files: Iterable[InputFile]) -> int:
        """Return how many of the files could not be read at all."""
        return sum(self._of(file).is_unread for file in files)

    def with_others(self, files: list[InputFile], note: Callable[[str], None]) -> list[InputFile]:
        """Return files, and those that were read as one capture with them: their rows are replaced together.

        *note*: called with a sentence about each file that is gone by now.
        """
        wanted = {file.path: file for file in files}
        for file in files:
            entry = self._of(file)
            first = self._of(InputFile(entry.first or file.path, 0, 0))
            for path in (first.path, *(other.path for other in first.others)):
                if path in wanted:
                    continue
                if Path(path).exists():
                    wanted[path] = find_files([path])[0]
                else:
                    note(f"{path}: it is gone, and so are its rows: a file of the same capture is read again")
        return sorted(wanted.values())

    def leave_out_copies(self, files: list[InputFile], options: str, note: Callable[[str], None]) -> list[InputFile]:
        """Return the files without new ones whose content another file has, which is in the output already.

        *note*: called with a sentence about each copy.
        """
        of_size: dict[int, list[Entry]] = {}
        for entry in self.entries() if files else ():
            if entry.state == DONE and entry.options == options:
                of_size.setdefault(entry.size, []).append(entry)
        left = []
        for file in files:
            is_new = Path(file.path).is_file() and self.entry(file) is None
            alike = (entry for entry in of_size.get(file.size, []) if is_new and Path(entry.path).is_file())
            original = next((entry for entry in alike if filecmp.cmp(file.path, entry.path, shallow=False)), None)
            if original is None:
                left.append(file)
                continue
            note(f"{file.path} has the same content as {original.path}: it counts once")
            first = self._of(InputFile(original.first or original.path, 0, 0))
            self._write(replace(first, others=[*first.others, file]))
            self._write(Entry(file.path, file.size, file.modified_ns, file.identity, options, DONE, first=first.path))
        return left

    def continued(self, files: Iterable[InputFile]) -> int:
        """Count the connections of files whose beginnings were read earlier: between the same endpoints, and open at the end."""
        keys = {one.key for file in files for one in (file, *file.others)}
        paths = [path for path in self.folder.files("connections", depth=2) if not path.endswith(EMPTY)]
        own = [path for path in paths if path.rpartition("/")[2].partition("-")[0] in keys]
        days = {_day(path) for path in own}
        days |= {(date.fromisoformat(day) - timedelta(days=1)).isoformat() for day in days}
        ended = {}
        for path in sorted(set(paths) - set(own)):
            if _day(path) in days:
                ended.update(
                    {ends: last for ends, _, last, closed, _ in self._ends(path) if closed == "end of capture" and last}
                )
        if not ended:
            return 0
        first = [(ends, first) for path in own for ends, first, *_, syn in self._ends(path) if syn is None]
        return sum(ended.get(ends, at) < at for ends, at in first if at is not None)

    def _ends(self, path: str) -> Iterator[tuple[frozenset[tuple[str, int]], Any, Any, str, Any]]:
        """Yield the endpoints of each connection in a file, its first and last time, how it was closed, and its SYN's time."""
        from pyarrow import parquet as pq  # noqa: PLC0415 - heavy, and an extra

        names = ["client_address", "client_port", "broker_address", "broker_port"]
        names += ["first_seen_at", "last_seen_at", "closed", "syn_at"]
        table = pq.read_table(BytesIO(self.folder.read(path) or b""), columns=names)
        for client, port, broker, broker_port, *rest in zip(
            *(column.to_pylist() for column in table.columns), strict=True
        ):
            yield frozenset(((client, port), (broker, broker_port))), *rest

    def _of(self, file: InputFile) -> Entry:
        return self.entry(file) or Entry(file.path, file.size, file.modified_ns, file.identity, "", "")

    def entries(self) -> list[Entry]:
        """The entries of all files, sorted by path."""
        read = [self._read(path) for path in self.folder.files(FILES)]
        return sorted((entry for entry in read if entry is not None), key=lambda entry: entry.path)

    def commit(
        self,
        file: InputFile,
        options: str,
        cluster: str,
        parts: Iterable[PartFile],
        problems: list[str],
        numbers: list[int] | None = None,
    ) -> Entry:
        """Put the rows of a file into the output, in place of those of an earlier run.

        Args:
            file: the input.
            options: what the rows were made with.
            cluster: whose traffic it is.
            parts: in a staging folder.
            problems: why the file could not be read to its end.
            numbers: first packets of all flows, in order, if connections still have these for numbers.
        """
        moves, rows = [], dict.fromkeys(TABLES, 0)
        counts: dict[tuple[str, str], int] = {}
        for part in sorted(parts, key=lambda each: (each.table, each.day, each.path)):
            number = counts[part.table, part.day] = counts.get((part.table, part.day), -1) + 1
            place = f"{part.table}/cluster={safe(cluster)}/day={part.day}/{file.key}-{number:05d}.parquet"
            moves.append((part, place))
            rows[part.table] = rows.get(part.table, 0) + part.rows
        places = [place for _, place in moves]
        entry = self.begin(file, options, rows, problems, places)
        for place in set(entry.parts) - set(places):
            self.folder.remove(place)
        for part, place in moves:
            if part.table == "connections" and numbers is not None:
                number_connections(Path(part.path), numbers)
            self.folder.move(part.path.removeprefix(f"{self.folder.root}/"), place)
        self.finish(entry, places)
        return entry

    def begin(
        self, file: InputFile, options: str, rows: dict[str, int], problems: list[str], places: Iterable[str] = ()
    ) -> Entry:
        """Write an Entry in the state COMMITTING, with all parts of the file, old and new."""
        before = [entry for one in (file, *file.others) if (entry := self.entry(one)) is not None]
        entry = Entry(file.path, file.size, file.modified_ns, file.identity, options, COMMITTING)
        entry.parts = sorted({*places, *(place for each in before for place in each.parts)})
        entry.problems, entry.others = problems, list(file.others)
        entry.rows = {name: count for name, count in rows.items() if count}
        self._write(entry)
        return entry

    def finish(self, entry: Entry, places: Iterable[str] = ()) -> None:
        """Write the Entry in the state DONE, and those of the files that are one capture with it."""
        own = entry.problems
        for file in entry.others:
            of_file = [problem for problem in own if problem.startswith(f"{file.path}: ")]
            own = [problem for problem in own if problem not in of_file]
            other = Entry(file.path, file.size, file.modified_ns, file.identity, entry.options, DONE, first=entry.path)
            self._finish(other, of_file)
        entry.state, entry.parts = DONE, list(places)
        self._finish(entry, own)

    def _finish(self, entry: Entry, problems: list[str]) -> None:
        path = f"{QUARANTINE}/{_key(entry)}.json"
        if problems:
            text = {"path": entry.path, "reasons": problems[:MOST_REASONS], "rows": sum(entry.rows.values())}
            self.folder.write(path, (json.dumps(text) + "\n").encode())
        else:
            self.folder.remove(path)
        self._write(replace(entry, problems=problems[:MOST_REASONS]))

    def recover(self) -> list[str]:
        """Remove files that a killed job was putting into place, and staging folders. Returns the paths of its input files."""
        self.folder.remove_tree(STAGING)
        recovered = []
        for entry in self.entries():
            if entry.state == COMMITTING:
                for place in entry.parts:
                    self.folder.remove(place)
                self.folder.remove(f"{FILES}/{_key(entry)}.json")
                recovered.append(entry.path)
        return recovered

    def complete(self, tables: Iterable[Table]) -> None:
        """Give each table without rows an empty Parquet file, so that all tables can be read."""
        missing = []
        partition = f"cluster={UNKNOWN}/day=1970-01-01"
        for table in tables:
            if (files := self.folder.files(table.name, depth=2)) and files[0].endswith(".parquet"):
                partition = files[0].removeprefix(f"{table.name}/").rpartition("/")[0]
            else:
                missing.append(table)
        for table in missing:
            self.folder.write(f"{table.name}/{partition}/{EMPTY}", empty_file(table))

    def _read(self, path: str) -> Entry | None:
        data = self.folder.read(path)
        try:
            return None if data is None else msgspec.json.decode(data, type=Entry)
        except msgspec.MsgspecError:
            return None

    def _write(self, entry: Entry) -> None:
        self.folder.write(f"{FILES}/{_key(entry)}.json", msgspec.json.encode(entry))


def _day(path: str) -> str:
    return path.partition("/day=")[2].partition("/")[0]


def _key(entry: Entry) -> str:
    return InputFile(entry.path, 0, 0).key


def empty_file(table: Table) -> bytes:
    """A Parquet file of a table without rows."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
    from pyarrow import parquet as pq  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    pq.write_table(schema_of(table).empty_table(), sink)
    return bytes(sink.getvalue().to_pybytes())


def safe(cluster: str) -> str:
    """Make a cluster's name, which may come from traffic, safe as a part of a path."""
    return SAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), cluster)[:LONGEST] or UNKNOWN


def number_connections(path: Path, numbers: list[int]) -> None:
    """Number the connections of a file; see ``numbered``."""
    from pyarrow import parquet as pq  # noqa: PLC0415 - heavy, and an extra

    temporary = path.with_suffix(".numbered")
    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(temporary, file.schema_arrow, compression="zstd", compression_level=LEVEL) as writer,
    ):
        for batch in file.iter_batches(GROUP_ROWS):
            writer.write_batch(numbered(batch, numbers))
    temporary.replace(path)


class Report(Struct):
    """What a job of ``ingest`` did."""

    read: int = 0
    unread: int = 0  # nothing of them could be read, now or earlier
    skipped: int = 0  # in the output already
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Count an ingested file, and those that are one capture with it."""
        count = 1 + len(entry.others)
        if entry.is_unread:
            self.unread += count
        else:
            self.read += count
        self.problems += entry.problems
        for table, rows in entry.rows.items():
            self.rows[table] = self.rows.get(table, 0) + rows


class Target(ABC):
    """Puts rows into the output. as_chunks: it takes an RDD of chunks, not the files of each Result."""

    as_chunks = False

    def __init__(self, catalog: Catalog, options: Options, cluster: str | None, report: Report) -> None:
        self.catalog = catalog
        self.options = options
        self.report = report
        self.mark = mark_of(options, cluster)
        self._cluster = cluster

    @abstractmethod
    def put(self, done: list[tuple[InputFile, Result]], rows: "RDD[Any] | None") -> None:
        """Put the rows of files into the output, in place of those of an earlier run."""

    def cluster_of(self, result: Result) -> str:
        """The cluster whose traffic a file holds."""
        return self._cluster or min(result.cluster_ids, default=UNKNOWN)


class FilesOnDisk(Target):
    """Parquet files on a disk, which tasks have written already."""

    def put(self, done: list[tuple[InputFile, Result]], rows: "RDD[Any] | None") -> None:
        """See Target."""
        for file, result in done:
            name = self.cluster_of(result)
            self.report.add(self.catalog.commit(file, self.mark, name, result.files, result.damages, result.numbers))


def tables_of(options: Options) -> list[Table]:
    """The tables that get rows with these options."""
    return list(Tables(lambda table, rows: None, bodies=options.bodies, records=options.records).tables)


def mark_of(options: Options, cluster: str | None) -> str:
    """A hash of what decides which rows are made: options, and versions of the tables."""
    versions = {name: (table.version, len(table.columns)) for name, table in TABLES.items()}
    own = asdict(options)
    del own["capture"]  # it names the rows of a report, which are read once
    text = msgspec.json.encode([own, cluster, versions], enc_hook=str)  # folders of schemas are paths
    return blake2b(text, digest_size=8).hexdigest()
