"""The formats of ``kproxy decode``: the output that each makes, with its checks. To add one, see kproxy.pipeline.output.

``format_of`` chooses the format of every command that has -o.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec import Struct, field

from kproxy.errors import UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.jsonl import event_line
from kproxy.output.text.styles import PLAIN, is_terminal, style_for
from kproxy.output.times import Clock
from kproxy.pipeline.line_output import Lines, ListedLines, Render
from kproxy.pipeline.output import Output
from kproxy.pipeline.sink import Sink, check_output
from kproxy.schemas.settings import SchemaSources
from kproxy.session import Event, Exchange

STANDARD_INPUT = Path("-")
SMALLEST_KEY, LARGEST_KEY = 16, 4096  # bytes, of --anonymize-key
Chosen = TypeVar("Chosen", bound=StrEnum)
Open: TypeAlias = Callable[[], Output]  # creates files; what can be checked before was checked


def format_of(path: Path | None, given: str | None, suffixes: Mapping[str, Chosen], default: Chosen) -> Chosen:
    """Return the format of an output: *given* (--format) if there is one, else by the suffix of *path* (-o), else *default*.

    An explicit --format wins over any suffix, as it does in pandoc and ffmpeg. Raises UsageError for a suffix of no format.
    """
    if given is not None:
        return type(default)(given)
    if path is None or not path.suffix:
        return default
    chosen = suffixes.get(path.suffix.lower())
    if chosen is None:
        raise UsageError(
            f"-o {path}: no format has the suffix {path.suffix}; use {', '.join(suffixes)}, or add --format"
        )
    return chosen


class Format(StrEnum):
    """The formats of the output."""

    TEXT = "text"
    JSONL = "jsonl"
    PCAPNG = "pcapng"
    PARQUET = "parquet"

    @property
    def needs_frames(self) -> bool:
        """Whether it needs the bytes of frames, which a decoded log does not have."""
        return self is Format.PCAPNG


SUFFIXES = {
    ".txt": Format.TEXT,
    ".log": Format.TEXT,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".pcapng": Format.PCAPNG,
    ".pcap": Format.PCAPNG,
    ".parquet": Format.PARQUET,
}


class OutputOptions(Struct, frozen=True):
    """The options of the output."""

    output_format: Format
    path: Path | None  # None: standard output
    inputs: list[Path]
    verbose: bool = False
    bodies: bool = False
    records: bool = False
    anonymize: bool = False
    anonymize_key: Path | None = None
    schemas: SchemaSources = SchemaSources()
    withholds_records: bool = False
    quiet: bool = False
    wide: bool = False
    live: bool = False  # lines are read while they are written
    most: int | None = None  # lines that are written; None: all
    clock: Clock = field(default_factory=Clock)

    @property
    def anonymizes(self) -> bool:
        """Whether names, addresses and records are replaced."""
        return self.anonymize or self.anonymize_key is not None

    @property
    def on_terminal(self) -> bool:
        return self.path is None and is_terminal(sys.stdout)

    def open_sink(self) -> Sink:
        """Open the file or pipe to write to; line by line if the output is read while it is written."""
        return Sink(self.path, live=self.on_terminal or (self.path is None and self.live))

    def say_zone(self, at: int) -> None:
        """Print date and time zone once, before the first line."""
        self.clock.start(at)
        if not self.quiet:
            print(f"{self.clock.first_date}, times in {self.clock.zone(at)}", file=sys.stderr, flush=True)


# What only one format or option needs is imported by its function: a decode of a small capture takes as long as its imports.


def _text(options: OutputOptions) -> Open:
    check_output(options.path, options.inputs)
    from kproxy.output.text.exchange_words import time_of  # noqa: PLC0415

    render = text_renderer(
        verbose=options.verbose, on_terminal=options.on_terminal, wide=options.wide, clock=options.clock
    )
    return lambda: ListedLines(
        render,
        options.open_sink(),
        time_of=None if options.live else time_of,
        most=options.most,
        on_first=options.say_zone,
    )


def text_renderer(*, verbose: bool, on_terminal: bool, wide: bool = False, clock: Clock | None = None) -> Render:
    """Return the function that renders events as text.

    On a terminal it has colours, and lines are cut to the width unless they may be *wide*.
    """
    from kproxy.output.text.lines import TextLines  # noqa: PLC0415

    width = shutil.get_terminal_size((100, 24)).columns if on_terminal else None
    style = style_for(sys.stdout, os.environ) if on_terminal else PLAIN
    lines = TextLines(style, None if wide else width, clock)
    if not verbose:
        return lines.line
    from kproxy.output.text.tree import Tree  # noqa: PLC0415

    tree = Tree(style, width)

    def with_tree(event: Event, bodies: Bodies | None) -> bytes:
        fields = [*(tree.render(event, bodies) if isinstance(event, Exchange) else ()), "\n"]
        return lines.line(event, bodies) + "\n".join(fields).encode("utf-8", "backslashreplace")

    return with_tree


def _jsonl(options: OutputOptions) -> Open:
    check_output(options.path, options.inputs)
    if options.most is None:
        return lambda: Lines(event_line, options.open_sink())
    return lambda: ListedLines(event_line, options.open_sink(), most=options.most)


def _pcapng(options: OutputOptions) -> Open:
    from kproxy.output.rewriting.anonymize import Anonymizer, Pseudonyms  # noqa: PLC0415
    from kproxy.output.rewriting.rewriter import Rewriter, WithoutRecords  # noqa: PLC0415
    from kproxy.pipeline.pcapng_output import OrderedPcapng  # noqa: PLC0415

    check_output(options.path, options.inputs)
    rewriter = WithoutRecords(keeps_size=False) if options.withholds_records else Rewriter()
    if options.anonymizes:
        rewriter = Anonymizer(Pseudonyms(_anonymize_key(options.anonymize_key)), options.schemas.open())
    return lambda: OrderedPcapng(options.open_sink(), rewriter)


def _anonymize_key(file: Path | None) -> bytes:
    """Return the key of the pseudonyms in the file, or a new one. Raises UsageError if the file holds no key."""
    if file is None:
        return os.urandom(SMALLEST_KEY)
    try:
        with file.open("rb") as opened:
            key = opened.read(LARGEST_KEY)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if len(key) < SMALLEST_KEY:
        raise UsageError(f"{file} has {len(key)} bytes; a key has at least {SMALLEST_KEY}")
    return key


def _parquet(options: OutputOptions) -> Open:
    from kproxy.pipeline.table_output import ParquetOutput, check_parquet  # noqa: PLC0415

    directory = check_parquet(options.path)
    return lambda: ParquetOutput(directory, bodies=options.bodies, records=options.records)


OUTPUTS: dict[Format, Callable[[OutputOptions], Open]] = {
    Format.TEXT: _text,
    Format.JSONL: _jsonl,
    Format.PCAPNG: _pcapng,
    Format.PARQUET: _parquet,
}
