"""Export a selection as a file, or as a command for a terminal.

Lines of the decoded log are sent from the store. Packets and tables of captures and logs are written by ``kproxy decode`` in a
process of its own, from the same sources with the same condition; tables are filtered by DuckDB. A running proxy has no source
that could be read again, so its packets and tables are made of the exchanges that are kept (live/exporting.py).
"""

import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kproxy.capture.reader import STANDARD_INPUT
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.output.tables import TABLES
from kproxy.output.tables.parquet import ParquetDirectory
from kproxy.output.times import render_instant
from kproxy.page.filtering.filter import Filter
from kproxy.page.filtering.free_text import as_cel
from kproxy.page.live.exporting import NOT_IN_PACKETS, write_rows, write_tables
from kproxy.page.live.exporting import packets as live_packets
from kproxy.page.live.store import Live
from kproxy.page.recorded import Recorded
from kproxy.page.store import Store
from kproxy.page.tables import Tabled
from kproxy.page.work import Work
from kproxy.pipeline.decoded_log import DecodedLog, open_input

FORMATS = {  # format -> options of kproxy decode, name of the file
    "jsonl": (("--format", "jsonl"), "exchanges.jsonl"),
    "pcapng": (("--format", "pcapng"), "exchanges.pcapng"),
    "pcapng-anonymized": (("--format", "pcapng", "--anonymize"), "anonymized.pcapng"),
    "parquet": (("--format", "parquet"), "tables"),
}
WITH_RECORDS = {"jsonl", "parquet"}  # formats for which kproxy decode takes --records; packets have them anyway
MOST_SECONDS = 3600.0
NUMBERS = 2_000  # lines at a time
EXPORTED = Path("exchanges.pcapng")  # the name under which a browser saves packets of a running proxy
GONE = b"{}"  # the line of an exchange that has left meanwhile


def command(store: Store, form: str, condition: str, start: int | None = None, end: int | None = None) -> str:
    """Return the command that gives a selection: one printable line for POSIX shells.

    Raises UsageError where there is no such format or command; FilterError.
    """
    options, name = _options(form)
    if isinstance(store, Tabled):
        directories = " ".join(_quoted(_given(path)) for path in store.sources)
        return f"kproxy sql {directories} 'FROM exchanges'"
    where, sources = _selection(store, condition, start, end)
    name = f"selected-{name}" if isinstance(store, Live) else name
    output = [] if form == "jsonl" else ["-o", name]
    options = (*options, *_as_read(store, form))
    words = ["kproxy", "decode", *options, *(["--where", where] if where else []), *output, *map(_given, sources)]
    line = " ".join(map(_quoted, words))
    return f"{line} > {name}" if form == "jsonl" else line


def replay_command(store: Store, condition: str, start: int | None = None, end: int | None = None) -> str | None:
    """Return what to type to replay a selection; None where the sources have no bytes to send.

    Raises UsageError, FilterError as ``command`` does.
    """
    options = replay_options(store, condition, start, end)
    return None if options is None else " ".join(map(_quoted, ["kproxy", "replay", "--to", "HOST:PORT", *options]))


def replay_options(store: Store, condition: str, start: int | None, end: int | None) -> list[str] | None:
    """Return the options and sources with which kproxy replay sends a selection; None where there are no bytes to send.

    Raises UsageError, FilterError as ``command`` does.
    """
    if not isinstance(store, Live) and (isinstance(store, Tabled) or not all(map(_is_capture, store.sources))):
        return None
    where, sources = _selection(store, condition, start, end)
    return [*_keys(store), *(["--where", where] if where else []), *map(_given, sources)]


def command_note(store: Store, condition: str, start: int | None = None, end: int | None = None) -> str:
    """Return a sentence on how to get the selection where the command cannot have the condition; else ""."""
    if not isinstance(store, Tabled) or not _condition(condition, start, end):
        return ""
    return (
        "It gives all exchanges, as kproxy sql takes no such filter: for these only, export them as Parquet, "
        "unpack the file, and name its directory tables in the command."
    )


def _as_read(store: Store, form: str) -> list[str]:
    """Return the options with which kproxy decode reads the sources as the page has read them."""
    if not isinstance(store, Recorded) or not all(map(_is_capture, store.sources)):  # a log has its records, or none
        return _keys(store)
    if store.options.records:
        return [*_keys(store), *(["--records"] if form in WITH_RECORDS else [])]
    return [*_keys(store), *(["--withhold-records"] if form == "pcapng" else [])]


def _keys(store: Store) -> list[str]:
    """Return the option with the TLS session keys that the page was given, if any."""
    keylog = store.options.keylog if isinstance(store, Recorded) else None
    return [] if keylog is None else ["--keylog", _given(keylog)]


def _selection(store: Store, condition: str, start: int | None, end: int | None) -> tuple[str, Sequence[Path]]:
    """Return the condition and the files that a command names; for a running proxy, the file of an export of everything."""
    where = _condition(condition.strip(), start, end)
    if not isinstance(store, Live):
        return where, store.sources
    _check_packets_tell(where)
    return where, [EXPORTED]


def _is_capture(path: Path) -> bool:
    """Return whether a source is a capture file, which can be read again and has bytes of frames."""
    if not path.is_file():
        return False
    with open_input(path) as source:
        return not isinstance(source, DecodedLog)


def _check_packets_tell(where: str) -> None:
    """Raise UsageError for a condition that would select other exchanges from exported packets."""
    lost = sorted(set(Filter(where).names) & NOT_IN_PACKETS) if where else []
    if lost:
        raise UsageError(
            f"no command gives the same: exported packets have no {lost[0]}, or another. Export with this filter"
        )


def packets(
    store: Live, work: Work, form: str, condition: str, start: int | None, end: int | None
) -> tuple[str, Iterator[bytes]]:
    """Return a name for the file, and the bytes of a pcapng file with a selection of a running proxy.

    Raises UsageError, FilterError, Cancelled when it is called, not while the bytes are read.
    """
    _, name = _options(form)
    chosen = store.selected(work, _condition(condition, start, end))
    every: Any = range(store.first, store.last + 1) if chosen is None else chosen.numbers
    return name, live_packets(store, work, _each(every), anonymized="anonymized" in form)


def lines(store: Store, work: Work, condition: str, start: int | None, end: int | None) -> Iterator[bytes]:
    """Return the lines of a selection. Raises UsageError, FilterError, Cancelled when it is called, not while they are read."""
    _check_possible(store, "jsonl")
    where = _condition(condition, start, end)
    chosen = store.selected(work, where)
    numbers: Any = range(store.first, store.last + 1) if chosen is None else chosen.numbers

    def read() -> Iterator[bytes]:
        for at in range(0, len(numbers), NUMBERS):
            some = numbers[at : at + NUMBERS]
            for line in store.lines(list(some) if isinstance(some, range) else some.to_pylist(), []):
                if line != GONE:
                    yield line if line.endswith(b"\n") else line + b"\n"

    return read()


def _each(numbers: Any) -> Iterator[int]:
    """Yield the numbers of a range or of an Arrow array."""
    for at in range(0, len(numbers), NUMBERS):
        some = numbers[at : at + NUMBERS]
        yield from some if isinstance(some, range) else some.to_pylist()


def write(
    store: Store, work: Work, form: str, condition: str, start: int | None, end: int | None, folder: Path
) -> Path:
    """Write a selection into a folder, and return the file. Raises UsageError, FilterError, Cancelled."""
    options, name = _options(form)
    _check_possible(store, form)
    where = _condition(condition, start, end)
    target = folder / name
    if isinstance(store, Live):
        write_tables(store, work, store.selected(work, where), target)
        return _packed(target)
    if isinstance(store, Tabled):
        _write_tables(store, work, where, target)
        return _packed(target)
    if where:
        Filter(where)
    words = [
        "decode",
        "-q",
        *options,
        *_as_read(store, form),
        *(["--where", where] if where else []),
        "-o",
        str(target),
        *map(str, store.sources),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "kproxy", *words],
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


def impossible(store: Store) -> dict[str, str]:
    """Return the formats in which this store cannot be exported, each with the reason as a sentence."""
    if isinstance(store, Live):
        return {}
    if isinstance(store, Tabled):
        lines, packets = "tables have no lines of the decoded log: take parquet", "tables have no bytes: take parquet"
        return {"jsonl": lines, "pcapng": packets, "pcapng-anonymized": packets}
    lost = next((path for path in store.sources if not path.is_file()), None)
    if lost is None:
        return _impossible_of_logs(store)
    gone = f"{printable(str(lost), 200)} is not there any more, and would be read again: take jsonl"
    is_pipe = lost.exists() or str(lost) == STANDARD_INPUT
    reason = "a pipe was read, which cannot be read again: take jsonl" if is_pipe else gone
    return dict.fromkeys(("pcapng", "pcapng-anonymized", "parquet"), reason)


def _impossible_of_logs(store: Store) -> dict[str, str]:
    """As ``impossible``, for sources that are all files and still exist."""
    log = next((path for path in store.sources if not _is_capture(path)), None)
    if log is None:
        return {}
    reason = f"{printable(str(log), 200)} is a decoded log, which has no bytes of frames: take jsonl or parquet"
    return dict.fromkeys(("pcapng", "pcapng-anonymized"), reason)


def _check_possible(store: Store, form: str) -> None:
    """Raise UsageError for a format in which this store cannot be exported."""
    if form in (reasons := impossible(store)):
        raise UsageError(reasons[form])


def _options(form: str) -> tuple[tuple[str, ...], str]:
    if form not in FORMATS:
        raise UsageError(f"format is one of {', '.join(FORMATS)}")
    return FORMATS[form]


def _given(path: Path) -> str:
    """Return the path as an argument that no program takes for an option."""
    return f"./{path}" if str(path).startswith("-") and str(path) != STANDARD_INPUT else str(path)


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


def _write_tables(store: Tabled, work: Work, where: str, target: Path) -> None:
    """Write the rows of the chosen exchanges from all tables; the table of connections completely."""
    chosen = store.selected(work, where)
    tables = [table for table in TABLES.values() if not table.optional]
    connection = store.database.connection.cursor()
    with connection, ParquetDirectory(target, tables) as directory, work.ended_by(connection.interrupt):
        if chosen is not None:
            connection.register("page_exported", store.keys(chosen))
        for table in tables:
            of_exchange = {"connection_id", "exchange"} <= {column.name for column in table.columns}
            only = (
                " SEMI JOIN page_exported USING (connection_id, exchange)" if of_exchange and chosen is not None else ""
            )
            write_rows(connection, f"FROM {table.name}{only}", table, directory)


def _packed(directory: Path) -> Path:
    """Put a directory into one zip file, uncompressed, as Parquet is compressed already."""
    packed = directory.with_suffix(".zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(directory.parent))
                path.unlink()  # free its room on the disk before the next one is packed
    return packed
