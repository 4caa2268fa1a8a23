"""Where the events of a decode go: lines of text or JSON, a capture again, or tables."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from kproxy.capture import Closed, Ended
from kproxy.cli.pcapng_output import PcapngOutput
from kproxy.cli.sink import Sink
from kproxy.cli.time_order import TimeOrder
from kproxy.errors import UsageError
from kproxy.output.anonymize import Anonymizer
from kproxy.output.bodies import Bodies, read_bodies
from kproxy.output.jsonl import event_line
from kproxy.output.opening import Opener
from kproxy.output.pseudonyms import Pseudonyms
from kproxy.output.rewriting import Rewriter
from kproxy.output.styles import PLAIN, style_for
from kproxy.output.text import TextLines
from kproxy.output.tree import Tree
from kproxy.session import Event, Exchange

LEAST_KEY, MOST_KEY = 16, 4096  # bytes

Render: TypeAlias = Callable[[Event, Bodies | None], bytes]  # the line or lines of an event, newline included


class Format(StrEnum):
    """How events are written."""

    TEXT = "text"
    JSONL = "jsonl"
    PCAPNG = "pcapng"
    PARQUET = "parquet"


class Output(Protocol):
    """Where events go."""

    def begin(self, file: Path) -> None:
        """Learn which capture the events from now on are of."""

    def take(self, event: Event, bodies: Bodies | None, *, shown: bool) -> None:
        """Take an event, with its bodies if they were read; whether --where shows it."""

    def ended(self, number: int, item: Ended | Closed) -> None:
        """Learn that a side of a connection, or all of it, has ended."""


class Lines:
    """Output as lines."""

    def __init__(self, render: Render, sink: Sink, opener: Opener) -> None:
        self._render = render
        self._sink = sink
        self._opener = opener

    def begin(self, file: Path) -> None:
        """See Output: lines do not say the file."""

    def take(self, event: Event, bodies: Bodies | None, *, shown: bool) -> None:
        """See Output."""
        if not shown:
            return
        if bodies is None and isinstance(event, Exchange):
            bodies = read_bodies(event, self._opener)
        self._sink.write(self._render(event, bodies))

    def ended(self, number: int, item: Ended | Closed) -> None:
        """See Output: no line is about it."""


class CaptureAgain:
    """Output as a capture; nothing is written before all is read, as packets stand in the order of their times."""

    def __init__(self, pcapng: PcapngOutput) -> None:
        self._pcapng = pcapng

    def begin(self, file: Path) -> None:
        """See Output: the captures become one."""

    def take(self, event: Event, bodies: Bodies | None, *, shown: bool) -> None:
        """See Output."""
        if shown:
            self._pcapng.take(event, bodies)

    def ended(self, number: int, item: Ended | Closed) -> None:
        """See Output: the connections of the capture end in their own way."""


@contextmanager
def capture_again(sink: Sink, rewriter: Rewriter) -> Iterator[Output]:
    """Write a capture to *sink* when the block ends well."""
    with TimeOrder() as order:
        pcapng = PcapngOutput(sink, order, rewriter)
        yield CaptureAgain(pcapng)
        pcapng.finish()


def open_sink(output: Path | None, files: list[Path]) -> AbstractContextManager[Sink]:
    """What bytes are written to; at once where somebody waits for them."""
    return Sink(output, live=output is None and (sys.stdout.isatty() or Path("-") in files))


def anonymizer(key_file: Path | None) -> Anonymizer:
    """Pseudonyms by the key in the file, or by one made now. Raises UsageError for a file that holds none."""
    if key_file is None:
        return Anonymizer(Pseudonyms(os.urandom(LEAST_KEY)))
    try:
        with key_file.open("rb") as file:
            key = file.read(MOST_KEY)
    except OSError as error:
        raise UsageError(f"{key_file} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_KEY:
        raise UsageError(f"{key_file} has {len(key)} bytes; a key has at least {LEAST_KEY}")
    return Anonymizer(Pseudonyms(key))


def renderer(output_format: Format, *, verbose: bool, on_terminal: bool) -> Render:
    """What makes lines of events; as wide and as coloured as the terminal, where there is one."""
    if output_format is Format.JSONL:
        return event_line
    width = shutil.get_terminal_size((100, 24)).columns if on_terminal else None
    style = style_for(sys.stdout, dict(os.environ)) if on_terminal else PLAIN
    lines = TextLines(style, width)
    if not verbose:
        return lambda event, bodies: f"{lines.render(event, bodies)}\n".encode("utf-8", "backslashreplace")
    tree = Tree(style, width)

    def with_tree(event: Event, bodies: Bodies | None) -> bytes:
        text = [lines.render(event, bodies)]
        if isinstance(event, Exchange):
            text += tree.render(event, bodies)
        return "".join(f"{line}\n" for line in [*text, ""]).encode("utf-8", "backslashreplace")

    return with_tree
