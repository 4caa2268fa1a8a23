"""Where the events of a decode go; here, lines of text or JSON. capture_again.py and parquet.py are the others."""

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from kproxy.capture import Closed, Ended
from kproxy.output.bodies import Bodies, read_bodies
from kproxy.output.jsonl import event_line
from kproxy.output.opening import Opener
from kproxy.output.text.lines import TextLines
from kproxy.output.text.styles import PLAIN, style_for
from kproxy.output.text.tree import Tree
from kproxy.pipeline.sink import Sink
from kproxy.session import Event, Exchange

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

    def take_line(self, line: bytes, event: Event, bodies: Bodies | None) -> None:
        """Take an event of a decoded log and its line, which is what it is already where lines of that log are wanted."""
        self._sink.write(line if self._render is event_line else self._render(event, bodies))

    def ended(self, number: int, item: Ended | Closed) -> None:
        """See Output: no line is about it."""


def open_sink(output: Path | None, files: list[Path]) -> AbstractContextManager[Sink]:
    """What bytes are written to; at once where somebody waits for them."""
    return Sink(output, live=output is None and (sys.stdout.isatty() or Path("-") in files))


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
