"""The output directory of ingest: which input file is in it, with what rows; a file's rows appear and go together.

    OUT/<table>/cluster=<name>/day=<YYYY-MM-DD>/<key of the input file>-<number>.parquet
    OUT/_kproxy/files/<key of the input file>.json           an Entry: written last, so that it tells what is whole
    OUT/_kproxy/quarantine/<key of the input file>.json      of files that could not be read to their end: path, reasons
    OUT/_kproxy/staging/                                     rows of jobs that run; removed when a job ends

A file is put into place in three steps: an Entry in the state COMMITTING names all its parts, old and new; the parts are moved;
the Entry becomes DONE. A job that finds COMMITTING removes those parts and reads the file again. Names begin with the key, so
that a second run writes the same names and adds nothing. Folders with ``_`` are not seen by readers of Parquet.
"""

import json
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from kproxy.output.tables import TABLES
from kproxy.output.tables.parquet import GROUP_ROWS, LEVEL
from kproxy.spark.files import InputFile
from kproxy.spark.parts import PartFile

COMMITTING, DONE = "committing", "done"
UNKNOWN = "unknown"  # cluster
SAFE = re.compile(r"[^A-Za-z0-9_.-]")
LONGEST = 100  # of a cluster's name in a path
MOST_REASONS = 20


class Entry(Struct):
    """What the catalog knows of an input file."""

    path: str
    size: int
    modified_ns: int
    identity: str
    options: str  # what its rows were made with: another makes it read again
    state: str
    parts: list[str] = field(default_factory=list)  # below OUT
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Catalog:
    """See above.

    Args:
        folder: OUT, on a disk that the driver and all executors see.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._files = self.folder / "_kproxy" / "files"
        self._quarantine = self.folder / "_kproxy" / "quarantine"
        for path in (self._files, self._quarantine):
            path.mkdir(parents=True, exist_ok=True)

    def staging(self, job: str) -> str:
        """An empty folder for the rows of a job."""
        folder = self.folder / "_kproxy" / "staging" / job
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return str(folder)

    def remove_staging(self, job: str) -> None:
        """Remove it."""
        shutil.rmtree(self.folder / "_kproxy" / "staging" / job, ignore_errors=True)

    def has(self, file: InputFile, options: str) -> bool:
        """Whether a file, as it is now, has its rows here already, made with these options."""
        entry = self.entry(file)
        return (
            entry is not None and entry.state == DONE and entry.identity == file.identity and entry.options == options
        )

    def entry(self, file: InputFile) -> Entry | None:
        """What is known of a file."""
        try:
            return msgspec.json.decode((self._files / f"{file.key}.json").read_bytes(), type=Entry)
        except (OSError, msgspec.MsgspecError):
            return None

    def entries(self) -> list[Entry]:
        """Of all files, in the order of their paths."""
        found = [msgspec.json.decode(path.read_bytes(), type=Entry) for path in self._files.glob("*.json")]
        return sorted(found, key=lambda entry: entry.path)

    def commit(
        self,
        file: InputFile,
        options: str,
        cluster: str,
        parts: Iterable[PartFile],
        problems: list[str],
        numbers: list[int] | None = None,
    ) -> Entry:
        """Put the rows of a file into place, instead of those of an earlier run.

        Args:
            file: the input.
            options: what the rows were made with.
            cluster: whose traffic it is.
            parts: in a staging folder.
            problems: why the file could not be read to its end.
            numbers: first packets of all flows, in order, where connections have those for numbers.
        """
        before = self.entry(file)
        moves, rows = [], dict.fromkeys(TABLES, 0)
        counts: dict[tuple[str, str], int] = {}
        for part in sorted(parts, key=lambda each: (each.table, each.day, each.path)):
            number = counts[part.table, part.day] = counts.get((part.table, part.day), -1) + 1
            place = f"{part.table}/cluster={safe(cluster)}/day={part.day}/{file.key}-{number:05d}.parquet"
            moves.append((part, place))
            rows[part.table] = rows.get(part.table, 0) + part.rows
        places = [place for _, place in moves]
        old = [] if before is None else before.parts
        entry = Entry(file.path, file.size, file.modified_ns, file.identity, options, COMMITTING)
        entry.parts, entry.problems = sorted({*old, *places}), problems[:MOST_REASONS]
        entry.rows = {name: count for name, count in rows.items() if count}
        self._write(self._files / f"{file.key}.json", entry)
        for place in set(old) - set(places):
            self._remove(place)
        for part, place in moves:
            target = self.folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            if part.table == "connections" and numbers is not None:
                number_connections(Path(part.path), numbers)
            Path(part.path).replace(target)
        self._note_problems(file, entry)
        entry.state, entry.parts = DONE, places
        self._write(self._files / f"{file.key}.json", entry)
        return entry

    def recover(self) -> list[str]:
        """Remove what a killed job left half in place; the paths of its input files."""
        recovered = []
        for entry in self.entries():
            if entry.state == COMMITTING:
                for place in entry.parts:
                    self._remove(place)
                (self._files / f"{InputFile(entry.path, 0, 0).key}.json").unlink(missing_ok=True)
                recovered.append(entry.path)
        return recovered

    def _note_problems(self, file: InputFile, entry: Entry) -> None:
        path = self._quarantine / f"{file.key}.json"
        if not entry.problems:
            path.unlink(missing_ok=True)
            return
        text = {"path": file.path, "reasons": entry.problems, "rows": sum(entry.rows.values())}
        path.write_text(json.dumps(text) + "\n", encoding="utf-8")

    def _remove(self, place: str) -> None:
        path = self.folder / place
        path.unlink(missing_ok=True)
        for folder in (path.parent, path.parent.parent):
            with suppress(OSError):
                folder.rmdir()

    @staticmethod
    def _write(path: Path, entry: Entry) -> None:
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(entry))
        temporary.replace(path)


def safe(cluster: str) -> str:
    """A cluster's name as part of a path; it may come from traffic."""
    return SAFE.sub(lambda odd: "".join(f"%{byte:02X}" for byte in odd[0].encode()), cluster)[:LONGEST] or UNKNOWN


def number_connections(path: Path, numbers: list[int]) -> None:
    """Give the connections of a file their numbers: the place of their first packet among *numbers*, from 1."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
    from pyarrow import compute  # noqa: PLC0415
    from pyarrow import parquet as pq  # noqa: PLC0415

    temporary, ordered = path.with_suffix(".numbered"), pa.array(numbers, pa.int64())
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        index = schema.get_field_index("connection")
        with pq.ParquetWriter(temporary, schema, compression="zstd", compression_level=LEVEL) as writer:
            for batch in file.iter_batches(GROUP_ROWS):
                places = compute.index_in(batch.column(index), value_set=ordered)
                numbered = compute.add(places.cast(pa.int64()), 1)
                writer.write_batch(batch.set_column(index, schema.field(index), numbered))
    temporary.replace(path)
