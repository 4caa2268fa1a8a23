"""Which files a person's names stand for, and which of them are read together.

    inputs = find_inputs(names)             files, folders, patterns
    for files in inputs.files:              one capture in many files; one log in many files; a pipe
        with files.open() as source:
            for _ in run.read(source): ...
    inputs.notes, inputs.damages            sentences: files that are copies, files that could not be read

All captures are one capture (kproxy.capture.merging), and all decoded logs one log. With ``separate`` each name stands for a
capture of its own, so that the files of a folder are still read together: for clusters that have the same private addresses.
Standard input and pipes are always read alone, as their beginning cannot be read twice.
"""

import filecmp
import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from kproxy.capture import Capture
from kproxy.capture.merging import SMALLEST_BUFFER, CaptureFile, MergedCapture, begin_of
from kproxy.capture.reader import STANDARD_INPUT, name_of, open_raw, see_through
from kproxy.errors import CaptureError, UsageError
from kproxy.pipeline.decoded_log import (
    LONGEST_FIRST,
    DecodedLog,
    LogFile,
    MergedLog,
    open_named,
    open_stream,
    time_of_line,
)

Input: TypeAlias = Capture | MergedCapture | DecodedLog | MergedLog

WILDCARDS = re.compile(r"[*?\[]")
# In a folder, other files are left out without a word if they are none of kproxy's inputs
USUAL_NAME = re.compile(r"\.(pcap|pcapng|cap|dmp|ntar|jsonl|ndjson)\d*([._-]|$)", re.IGNORECASE)
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # gzip, zstd: the size after decompression is not known


class Files(Struct, frozen=True):
    """Files that are read as one source: all of them captures, or all of them logs, in the order of their beginnings."""

    parts: list[CaptureFile] | list[LogFile] | list[Path]  # one path: it is opened as it is

    @property
    def paths(self) -> list[Path]:
        return [part if isinstance(part, Path) else part.path for part in self.parts]

    @property
    def path(self) -> Path:
        """The first file that has packets, if any has: what is not known to begin is read first, for secrets of TLS."""
        known = (part.path for part in self.parts if not isinstance(part, Path) and not part.is_empty)
        return next(known, self.paths[0])

    @property
    def are_logs(self) -> bool:
        return isinstance(self.parts[0], LogFile)

    @property
    def are_captures(self) -> bool:
        return isinstance(self.parts[0], CaptureFile)

    @property
    def name(self) -> str:
        """What a person may call them."""
        more = len(self.parts) - 1
        return self.path.name if not more else f"{self.path.name} and {more} more"

    @property
    def first_ns(self) -> int | None:
        """When the first packet was captured; None for logs, pipes, and captures without packets."""
        times = [part.first_ns for part in self.parts if isinstance(part, CaptureFile) and not part.is_empty]
        return min(times, default=None)

    @property
    def plain_size(self) -> int | None:
        """Their size; None for a pipe and where a file is compressed, as its size is not known."""
        sizes = [plain_size(path) for path in self.paths]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def open(self) -> Input:
        """Open them. Raises UsageError where a file that is read alone is no input, CaptureError where it is gone."""
        if len(self.parts) == 1:
            return open_named(self.path)
        captures = [part for part in self.parts if isinstance(part, CaptureFile)]
        return MergedCapture(captures) if captures else MergedLog([p for p in self.parts if isinstance(p, LogFile)])


class Inputs(Struct):
    """The files of a command. notes: what was left out on purpose. damages: what could not be read at all."""

    files: list[Files] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    damages: list[str] = field(default_factory=list)


def find_inputs(names: Iterable[Path], *, separate: bool = False) -> Inputs:
    """Find the files that names stand for, and read the beginning of each.

    Raises UsageError for a name that stands for nothing, and where no file is a capture or a decoded log.
    """
    inputs = Inputs()
    for together in [[name] for name in names] if separate else [list(names)]:
        found = _Found(inputs)
        for name in together:
            added = [found.add(path, is_named=path == name) for path in files_of(name)]
            if not any(added):
                inputs.damages.append(f"no file of {name} is a capture or a decoded log")
        inputs.files += found.files()
    if not inputs.files:
        raise UsageError("\n".join(inputs.damages))
    return inputs


def check_standard_input(names: Sequence[Path]) -> None:
    """Raise UsageError if standard input is named more than once."""
    if list(map(str, names)).count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once: use one -")


def files_of(name: Path) -> list[Path]:
    """Return the files that a name stands for: a file or pipe, all files of a folder, or those that match a pattern.

    Raises UsageError if there are none, or the folder cannot be read.
    """
    try:
        if str(name) == STANDARD_INPUT or (name.exists() and not name.is_dir()):
            return [name]
        if name.is_dir():
            found = sorted(path for path in name.iterdir() if path.is_file() and path.name[0] not in "._")
            if not found:
                from kproxy.output.tables.parquet import MARKER  # noqa: PLC0415 - decode to text needs no tables

                if (name / MARKER).exists():
                    raise UsageError(f"{name} has tables: kproxy report, sql and open read them")
                raise UsageError(f"{name}: there is no file in this folder")
            return found
    except PermissionError as error:
        raise UsageError(f"{name}: the folder cannot be read: {error.strerror}") from error
    if WILDCARDS.search(str(name)):
        matched = sorted(Path(path) for path in glob.glob(str(name), recursive=True))  # noqa: PTH207 - it may be absolute
        found = [file for path in matched for file in (files_of(path) if path.is_dir() else [path])]
        if found:
            return found
    raise UsageError(f"{name}: no such file")


class _Found:
    """The files that are read together."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._captures: list[CaptureFile] = []
        self._logs: list[LogFile] = []
        self._pipes: list[Path] = []
        self._known: dict[tuple[int, object], list[Path]] = {}  # files by what copies have in common

    def add(self, path: Path, *, is_named: bool) -> bool:
        """Read the beginning of a file; return False if it is passed over. *is_named*: a person named it, not its folder."""
        if _is_pipe(path):
            self._pipes.append(path)
            return True
        try:
            begun = _begin(path)
        except CaptureError as error:
            is_expected = is_named or (USUAL_NAME.search(path.name) is not None and not _is_other_json(path))
            self._inputs.damages += [str(error)] if is_expected else []
            return is_expected
        original = self._original(path, begun)
        if original is None:
            self._captures += [begun] if isinstance(begun, CaptureFile) else []
            self._logs += [begun] if isinstance(begun, LogFile) else []
        elif original == path:
            self._inputs.notes.append(f"{path} was given twice: it counts once")
        elif not begun.is_empty:
            self._inputs.notes.append(f"{path} has the same content as {original}: it counts once")
        return True

    def _original(self, path: Path, begun: CaptureFile | LogFile) -> Path | None:
        """Return the file that this one is a copy of."""
        size = path.stat().st_size
        alike = self._known.setdefault((size, begun.first_ns if isinstance(begun, CaptureFile) else begun.first_at), [])
        original = next((other for other in alike if other == path or filecmp.cmp(other, path, shallow=False)), None)
        if original is None:
            alike.append(path)
        return original

    def files(self) -> list[Files]:
        both: list[list[CaptureFile] | list[LogFile]] = [sorted(self._captures), sorted(self._logs)]
        return [*(Files(parts) for parts in both if parts), *(Files([pipe]) for pipe in self._pipes)]


def _is_pipe(path: Path) -> bool:
    """Whether a file can be opened only once, and may be written while it is read."""
    return str(path) == STANDARD_INPUT or not (path.is_file() or path.samefile(os.devnull))


def _begin(path: Path) -> CaptureFile | LogFile:
    """Read the beginning of a file. Raises CaptureError if it is no input."""
    name = name_of(path)
    with open_stream(see_through(open_raw(path), name), name, SMALLEST_BUFFER) as source:
        if isinstance(source, Capture):
            return begin_of(path, source)
        return LogFile(time_of_line(next(iter(source), b"")), path)


def _is_other_json(path: Path) -> bool:
    """Whether the first line is JSON, though not of a decoded log: such a file is not damaged."""
    if not os.access(path, os.R_OK):
        return False
    with path.open("rb") as file:
        line = file.readline(LONGEST_FIRST)
    try:
        msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return False
    return bool(line)


def plain_size(file: Path) -> int | None:
    """Return the size of a file that is not compressed. Pipes, compressed files and unreadable files give None."""
    if not (file.is_file() and os.access(file, os.R_OK)):
        return None
    with file.open("rb") as start:
        magic = start.read(4)
    return None if magic.startswith(COMPRESSED) else file.stat().st_size
