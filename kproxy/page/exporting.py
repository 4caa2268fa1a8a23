"""Export a selection as a file, or as a command for a terminal.

Lines of the decoded log are sent from the store. Packets and tables of captures and logs are written by ``kproxy decode`` in a
process of its own, from the same sources with the same condition. Tables of tables are filtered by DuckDB. A running proxy has no
source that could be read again: its packets are made of the frames that are kept, and ordered by their times in temporary files
(kproxy.pipeline.pcapng_output), from which they are sent; its tables are the rows that are kept, written a part at a time.
"""

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from kproxy.capture.reader import STANDARD_INPUT
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.output.rewriting.anonymize import KEY_SIZE, Anonymizer, Pseudonyms
from kproxy.output.rewriting.rewriter import Rewriter, WithoutRecords
from kproxy.output.tables import TABLES, schema_of
from kproxy.output.tables.parquet import ParquetDirectory
from kproxy.output.times import render_instant
from kproxy.page.filtering.filter import Filter, batches_of
from kproxy.page.filtering.parts import as_cel
from kproxy.page.live.store import Live
from kproxy.page.recorded import Recorded
from kproxy.page.store import GONE, Store
from kproxy.page.tables import Tabled
from kproxy.page.work import Work
from kproxy.pipeline.decoded_log import DecodedLog, open_input
from kproxy.pipeline.pcapng_output import OrderedPackets
from kproxy.protocol.expressions import first_sentence

FORMATS = {  # format -> options of kproxy decode, name of the file
    "jsonl": (("--format", "jsonl"), "exchanges.jsonl"),
    "pcapng": (("--format", "pcapng"), "exchanges.pcapng"),
    "pcapng-anonymized": (("--format", "pcapng", "--anonymize"), "anonymized.pcapng"),
    "parquet": (("--format", "parquet"), "tables"),
}
WITH_RECORDS = {"jsonl", "parquet"}  # formats for which kproxy decode takes --records; packets have them anyway
MOST_SECONDS = 3600.0
NUMBERS = 2_000  # lines at a time
CHECK_EVERY = 256  # exchanges
ROWS = 65_536  # written at a time
AT_ONCE = 1 << 20  # about how many bytes are sent at a time
EXPORTED = Path("exchanges.pcapng")  # the name under which a browser saves packets of a running proxy
# Fields that packets lack, or number anew: conditions on these select other exchanges in a file
NOT_IN_PACKETS = {"connection", "principal", "brokerMs", "requestInProxyMs", "responseInProxyMs", "unanswered"}
SQL_GIVES_ALL = (
    "It gives all exchanges, as kproxy sql takes no such filter: for these only, export them as Parquet, "
    "unpack the file, and name its directory tables in the command."
)


class Selection:
    """The exchanges of a store that meet a condition, and whose requests came in a span of time.

    Its methods raise UsageError where there is no such format or command, FilterError for a wrong condition, and Cancelled.

    Args:
        store: the exchanges that are open.
        condition: a filter; "": all.
        start, end: of the span, in nanoseconds; None: without that end.
    """

    def __init__(self, store: Store, condition: str = "", start: int | None = None, end: int | None = None) -> None:
        self._store = store
        self._where = _condition(condition.strip(), start, end)

    # Commands

    def commands(self, form: str) -> dict[str, Any]:
        """Return the answer of /page/api/command."""
        return {
            "command": self.command(form),
            "note": SQL_GIVES_ALL if isinstance(self._store, Tabled) and self._where else "",
            "replay": self.replay_command(),
            "of": str(EXPORTED) if isinstance(self._store, Live) else None,
            "impossible": self.impossible(),
        }

    def command(self, form: str) -> str:
        """Return the command that gives the selection: one printable line for POSIX shells."""
        options, name = _options(form)
        if isinstance(self._store, Tabled):
            directories = " ".join(_quoted(_as_argument(path)) for path in self._store.sources)
            return f"kproxy sql {directories} 'FROM exchanges'"
        name = f"selected-{name}" if isinstance(self._store, Live) else name
        output = [] if form == "jsonl" else ["-o", name]
        line = _line(["kproxy", "decode", *options, *self._as_read(form), *self._condition(), *output, *self._files()])
        return f"{line} > {name}" if form == "jsonl" else line

    def replay_command(self) -> str | None:
        """Return what to type to replay the selection; None where the sources have no bytes to send."""
        options = self.replay_options()
        return None if options is None else _line(["kproxy", "replay", "--to", "HOST:PORT", *options])

    def replay_options(self) -> list[str] | None:
        """Return the options and sources with which kproxy replay sends the selection; None where there are no bytes to send."""
        if isinstance(self._store, Tabled) or (not isinstance(self._store, Live) and self._no_capture is not None):
            return None
        return [*self._keys(), *self._condition(), *self._files()]

    def impossible(self) -> dict[str, str]:
        """Return the formats in which the store cannot be exported, each with the reason as a sentence."""
        if isinstance(self._store, Live):
            return {}
        if isinstance(self._store, Tabled):
            lines, packets = (f"tables have no {what}: take parquet" for what in ("lines of the decoded log", "bytes"))
            return {"jsonl": lines, "pcapng": packets, "pcapng-anonymized": packets}
        other = self._no_capture
        if other is None:
            return {}
        named = printable(str(other), 200)
        if other.is_file():
            reason = f"{named} is a decoded log, which has no bytes of frames: take jsonl or parquet"
            return dict.fromkeys(("pcapng", "pcapng-anonymized"), reason)
        reason = f"{named} is not there any more, and would be read again: take jsonl"
        if other.exists() or str(other) == STANDARD_INPUT:
            reason = "a pipe was read, which cannot be read again: take jsonl"
        return dict.fromkeys(("pcapng", "pcapng-anonymized", "parquet"), reason)

    @cached_property
    def _no_capture(self) -> Path | None:
        """The first source that cannot be read again, else the first decoded log, which has no bytes; None: all are captures."""
        for path in sorted(self._store.sources, key=Path.is_file):
            if not path.is_file():
                return path
            with open_input(path) as source:
                if isinstance(source, DecodedLog):
                    return path
        return None

    def _as_read(self, form: str) -> list[str]:
        """Return the options with which kproxy decode reads the sources as the page has read them."""
        if not isinstance(self._store, Recorded) or self._no_capture is not None:  # a log has its records, or none
            return self._keys()
        if self._store.options.records:
            return [*self._keys(), *(["--records"] if form in WITH_RECORDS else [])]
        return [*self._keys(), *(["--withhold-records"] if form == "pcapng" else [])]

    def _keys(self) -> list[str]:
        """Return the option with the TLS session keys that the page was given, if any."""
        keylog = self._store.options.keylog if isinstance(self._store, Recorded) else None
        return [] if keylog is None else ["--keylog", _as_argument(keylog)]

    def _condition(self) -> list[str]:
        return ["--where", self._where] if self._where else []

    def _files(self) -> list[str]:
        """Return the files that a command names; for a running proxy, the file of an export of everything."""
        if not isinstance(self._store, Live):
            return list(map(_as_argument, self._store.sources))
        lost = sorted(set(Filter(self._where).names) & NOT_IN_PACKETS) if self._where else []
        if lost:
            raise UsageError(
                f"no command gives the same: exported packets have no {lost[0]}, or another. Export with this filter"
            )
        return [str(EXPORTED)]

    # Files

    def lines(self, work: Work) -> Iterator[bytes]:
        """Return the lines of the decoded log. Raises when it is called, not while they are read."""
        self._check_possible("jsonl")
        parts = self._numbers(work)
        lines = (line for numbers in parts for line in self._store.lines(numbers, []) if line != GONE)
        return (line if line.endswith(b"\n") else line + b"\n" for line in lines)

    def packets(self, work: Work, form: str) -> tuple[str, Iterator[bytes]]:
        """Return a name for the file, and a pcapng file in pieces; of a running proxy only.

        Exchanges that are removed meanwhile to make room are left out. Raises when it is called, not while the bytes are read.
        """
        _, name = _options(form)
        store = self._store
        assert isinstance(store, Live)
        rewriter = Rewriter() if store.records else WithoutRecords(keeps_size=False)
        if "anonymized" in form:
            rewriter = Anonymizer(Pseudonyms(os.urandom(KEY_SIZE)), store.record_schemas)
        made = OrderedPackets(rewriter)
        try:
            numbers = (number for some in self._numbers(work) for number in some)
            for count, exchange in enumerate(store.events(numbers)):
                if count % CHECK_EVERY == 0:
                    work.check()
                made.write(exchange, None)
        except BaseException as error:
            made.close()
            if isinstance(error, OSError):
                why = f"the packets could not be put in order in a temporary file: {error.strerror}"
                raise UsageError(why) from error
            raise
        return name, _sent(made)

    def write(self, work: Work, form: str, folder: Path) -> Path:
        """Write the selection into a folder, and return the file; tables as one zip file."""
        options, name = _options(form)
        self._check_possible(form)
        target = folder / name
        if isinstance(self._store, Live | Tabled):
            self._write_tables(work, target)
            return _packed(target)
        if self._where:
            Filter(self._where)
        words = ["decode", "-q", *options, *self._as_read(form), *self._condition(), "-o", str(target)]
        process = subprocess.Popen(
            [sys.executable, "-m", "kproxy", *words, *map(str, self._store.sources)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with process, work.ended_by(process.kill):
            _, stderr = process.communicate()
            work.check()
        if process.returncode not in (0, 3) or not target.exists():  # 3: a source is damaged, as the page says
            raise UsageError(f"it could not be written: {stderr.decode('utf-8', 'replace').strip()[:300]}")
        return _packed(target) if target.is_dir() else target

    def _check_possible(self, form: str) -> None:
        """Raise UsageError for a format in which the store cannot be exported."""
        if form in (reasons := self.impossible()):
            raise UsageError(reasons[form])

    def _numbers(self, work: Work) -> Iterator[list[int]]:
        """Return the numbers of the exchanges, some at a time. The condition is evaluated when it is called."""
        chosen = self._store.selected(work, self._where)
        numbers: Any = range(self._store.first, self._store.last + 1) if chosen is None else chosen.numbers
        parts = (numbers[at : at + NUMBERS] for at in range(0, len(numbers), NUMBERS))
        return (list(part) if isinstance(part, range) else part.to_pylist() for part in parts)

    def _write_tables(self, work: Work, target: Path) -> None:
        """Write the rows of the chosen exchanges from all tables; the table of connections completely."""
        store = self._store
        chosen = store.selected(work, self._where)
        tables = [table for table in TABLES.values() if not table.optional]
        try:
            with (
                store.database.connection.cursor() as cursor,
                store.held(work) as parts,
                ParquetDirectory(target, tables) as directory,
                work.ended_by(cursor.interrupt),
            ):
                for part in parts:
                    if chosen is not None:
                        cursor.register("page_exported", store.keys(chosen, part("exchanges")))
                    for table in tables:
                        names = [column.name for column in table.columns]
                        is_chosen = chosen is not None and {"connection_id", "exchange"} <= set(names)
                        only = " SEMI JOIN page_exported USING (connection_id, exchange)" if is_chosen else ""
                        columns = ", ".join(f'"{name}"' for name in names)
                        query = f"SELECT {columns} FROM {part(table.name)}{only}"
                        # however many there are, few are in memory
                        for batch in cursor.sql(query).to_arrow_reader(ROWS):
                            directory.write(table, batch.cast(schema_of(table)))
        except OSError as error:
            reason = error.strerror or first_sentence(error)  # DuckDB's errors come as OSError too, through Arrow
            raise UsageError(f"the tables could not be written to {target.parent}: {reason}") from error


def in_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer pieces, of at least AT_ONCE: two processes pass each on, from a thread to a loop."""
    return map(b"".join, batches_of(parts, AT_ONCE))


def _sent(made: OrderedPackets) -> Iterator[bytes]:
    try:
        yield from in_pieces(made.blocks())
    finally:
        made.close()


def _options(form: str) -> tuple[tuple[str, ...], str]:
    if form not in FORMATS:
        raise UsageError(f"format is one of {', '.join(FORMATS)}")
    return FORMATS[form]


def _as_argument(path: Path) -> str:
    """Return the path as an argument that no program takes for an option."""
    return f"./{path}" if str(path).startswith("-") and str(path) != STANDARD_INPUT else str(path)


def _line(words: Iterable[str]) -> str:
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Return a word quoted for a shell. Raises UsageError for text that no word can hold.

    The line is pasted into terminals, which obey control characters even inside quotes, and show some other characters elsewhere
    or not at all. So printf(1) makes these characters.
    """
    if "\0" in word:
        raise UsageError("no command can hold the character NUL: write it as \\u0000 in the filter")
    if word.endswith("\n"):
        raise UsageError("no command can hold a file name that ends with a line break")
    if word.isprintable():
        return shlex.quote(word)
    return f"\"$(printf %b '{''.join(map(_escaped, word))}')\""


def _escaped(character: str) -> str:
    """Return a character as ``%b`` of printf writes it, without quotes and backslashes of another meaning."""
    if character.isprintable() and character not in "\\'":
        return character
    return "".join(f"\\0{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _condition(condition: str, start: int | None, end: int | None) -> str:
    """Return the condition, as CEL, joined with one on the span of requestAt."""
    condition = as_cel(condition)
    parts = [f"({condition})"] if condition.strip() else []
    parts += [] if start is None else [f'requestAt >= "{render_instant(start)}"']
    parts += [] if end is None else [f'requestAt <= "{render_instant(end)}"']
    return condition if len(parts) == 1 and condition.strip() else " && ".join(parts)


def _packed(directory: Path) -> Path:
    """Put a directory into one zip file, uncompressed, as Parquet is compressed already."""
    packed = directory.with_suffix(".zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(directory.parent))
                path.unlink()  # free its room on the disk before the next one is packed
    return packed
