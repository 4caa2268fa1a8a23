"""``kproxy decode``: captures to readable text or JSON lines."""

import os
import shutil
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol

import typer

from kproxy.capture import Capture, open_capture, read_flows
from kproxy.cli.pipeline import Pipeline
from kproxy.cli.progress import progress
from kproxy.cli.sink import Sink, check_output
from kproxy.cli.summary import Summary
from kproxy.errors import UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.jsonl import event_line
from kproxy.output.styles import PLAIN, style_for
from kproxy.output.text import TextLines
from kproxy.output.tree import Tree
from kproxy.output.where import Where, read_for
from kproxy.session.events import Event, Exchange

STDIN = Path("-")


class Format(StrEnum):
    """How events are written."""

    TEXT = "text"
    JSONL = "jsonl"


class Render(Protocol):
    """Makes the line or lines of an event, newline included."""

    def __call__(self, event: Event, bodies: Bodies | None) -> bytes:
        """The event as UTF-8."""


def decode(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Captures to read; - is standard input.")],
    output_format: Annotated[
        Format, typer.Option("--format", help="text: a line an exchange. jsonl: a JSON object an exchange.")
    ] = Format.TEXT,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Text: below each line the whole exchange, field by field.")
    ] = False,
    where: Annotated[
        str | None, typer.Option(metavar="CEL", help="Show only what this is true for, over the names of jsonl.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary.")] = False,
) -> int:
    """Decode captures of Kafka traffic.

    Reads pcap and pcapng, plain, gzip or zstd. Kafka is found by content, on any port.
    Credentials are withheld from every output. The summary goes to standard error.

    \b
    kproxy decode trace.pcapng
    kproxy decode -v trace.pcap.gz
    kproxy decode --where 'apiName == "Fetch" && latencyMs > 500.0' trace.pcapng
    kproxy decode --where 'errors.exists(e, e.name == "NOT_COORDINATOR")' trace.pcapng
    tcpdump -i any -U -w - tcp port 9092 | kproxy decode --format jsonl -

    Exit status: 0 decoded; 1 the output cannot be written; 2 wrong usage; 3 a capture is damaged
    (what comes before the damage was decoded).
    """
    condition = None if where is None else Where(where)
    for file in files:
        _check_input(file)
    check_output(output, files)
    if verbose and output_format is Format.JSONL:
        raise UsageError("-v is for --format text; jsonl always has everything")
    on_terminal = output is None and sys.stdout.isatty()
    live = on_terminal or (output is None and STDIN in files)
    summary = Summary()
    damages: list[str] = []
    passed_over: dict[str, int] = {}
    with Sink(output, live=live) as sink:
        render = _renderer(output_format, verbose, on_terminal)
        numbers_from = 0
        for file in files:
            with open_capture(file) as capture, progress(file, capture, wanted=not (on_terminal or quiet)) as advance:
                pipeline = Pipeline(read_flows(capture), numbers_from=numbers_from)
                _decode_one(pipeline, condition, render, sink, summary, advance)
                numbers_from += pipeline.flows
                _note_end(capture, damages, passed_over)
    if not quiet:
        _say_all(summary, condition, passed_over)
    for damage in damages:
        print(f"kproxy: {damage}", file=sys.stderr)
    return 3 if damages else 0


def _decode_one(
    pipeline: Pipeline,
    condition: Where | None,
    render: Render,
    sink: Sink,
    summary: Summary,
    advance: Callable[[], None] | None,
) -> None:
    """Write the events of one capture."""
    for event in pipeline:
        summary.count(event)
        bodies = read_for(condition, event)
        if condition is None or condition(event, bodies):
            summary.shown += isinstance(event, Exchange)
            sink.write(render(event, bodies))
        if advance is not None:
            advance()


def _renderer(output_format: Format, verbose: bool, on_terminal: bool) -> Render:
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


def _check_input(file: Path) -> None:
    """Raise UsageError for what cannot be read, before any output is touched."""
    if file == STDIN:
        return
    if file.is_dir():
        raise UsageError(f"{file} is a directory; give captures, for instance {file}/*.pcap")
    if not file.exists():
        raise UsageError(f"{file}: there is no such file")
    if not os.access(file, os.R_OK):
        raise UsageError(f"{file} cannot be read: no permission")


def _note_end(capture: Capture, damages: list[str], passed_over: dict[str, int]) -> None:
    if capture.damage is not None:
        damages.append(str(capture.damage))
    if capture.flows is not None:
        for name, count in capture.flows.passed_over.items():
            passed_over[name] = passed_over.get(name, 0) + count


def _say_all(summary: Summary, condition: Where | None, passed_over: dict[str, int]) -> None:
    for line in summary.lines(passed_over):
        print(line, file=sys.stderr)
    for note in condition.notes if condition is not None else ():
        print(note, file=sys.stderr)
